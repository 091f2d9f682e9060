"""The file that holds the measurements of a scene: measurements.json in the folder of its run.

Those of a scene file outside of a run are in a folder of the user's state, under a digest of the positions of its
primitives: a copy of the file, or one under another name, has them too. Coordinates are those of the capture.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import math
import os
from contextlib import nullcontext
from pathlib import Path
from typing import Annotated

import msgspec
import numpy as np

from luxel.render.errors import LuxelError
from luxel.render.fields.application import Application
from luxel.render.primitives import Parameters
from luxel.render.runs.folder.owner import OwnedError, own
from luxel.render.runs.folder.run_config import FILE as CONFIG
from luxel.render.runs.identity import identity_in
from luxel.render.runs.strict_json import (
    JsonError,
    parse_object,
    read_object,
    require_seal,
    sealed,
    validated,
)
from luxel.render.scene import Scene
from luxel.render.storage.folder import OutputFolder
from luxel.render.storage.places import state_folder
from luxel.render.surfaces.mesh_scene import MeshScene
from luxel.scenes.measuring.measurements import Measurements
from luxel.scenes.measuring.operations import MAX_METRES, MAX_NAME, MAX_RULERS, MIN_METRES, add_ruler

FORMAT = 1
FILE = "measurements.json"
FOLDER = "measurements"  # of scenes outside of runs, in that of the user's state

Coordinates = tuple[float, float, float]


class _Ruler(msgspec.Struct):
    name: Annotated[str, msgspec.Meta(min_length=1, max_length=MAX_NAME)]
    start: Coordinates
    end: Coordinates


class _Body(msgspec.Struct):
    format: Annotated[int, msgspec.Meta(ge=1)]
    of: str  # identity of the run or of the scene; empty: of a run without one
    up: Coordinates | None
    metres: float | None
    rulers: Annotated[list[_Ruler], msgspec.Meta(max_length=MAX_RULERS)]


class MeasurementsFile:
    """Reads and writes the measurements of one scene. Not safe for threads.

    Args:
        folder: that holds the file.
        name: of the file.
        identity: of the run or of the scene; empty: it has none.
        in_run: whether the folder is that of a run, which this process must own to write there.

    Attributes:
        problem: why the measurements that are there could not be read; None: there are none, or they could be.
    """

    def __init__(self, folder: Path, name: str, identity: str, *, in_run: bool) -> None:
        self._folder, self._name, self._identity, self._in_run = folder, name, identity, in_run
        self.problem: LuxelError | None = None
        self._content: bytes | None = None  # of the file, as last read or written
        self._stat: tuple[int, ...] | None = None

    @staticmethod
    def of_run(folder: Path) -> MeasurementsFile:
        """That of the run in a folder."""
        return MeasurementsFile(folder, FILE, _run_identity(folder), in_run=True)

    @staticmethod
    def of_scene(scene: Scene) -> MeasurementsFile | None:
        """That of a scene outside of a run; None: there is no folder for it."""
        state = state_folder()
        if state is None:
            return None
        digest = scene_identity(scene)
        return MeasurementsFile(state / FOLDER, f"{digest}.json", digest, in_run=False)

    @property
    def path(self) -> Path:
        """Of the file."""
        return self._folder / self._name

    def read(self) -> Measurements:
        """The measurements; none where there are none, or there is a `problem`."""
        self.problem, self._stat, self._content = None, self._stat_now(), self._content_now()
        if self._content is None:
            return Measurements()
        try:
            return _parsed(self._content, self._identity)
        except JsonError as error:
            self.problem = LuxelError(
                f"{self.path}: the measurements cannot be used ({error}).",
                "Restore the file from a copy, or measure anew: it then gets another name.",
            )
            return Measurements()

    def write(self, measurements: Measurements) -> None:
        """Writes measurements instead of those that were last read or written.

        A file that could not be read, or that luxel did not write, gets another name and stays.

        Raises:
            LuxelError: another program has changed the file, another process writes into the run folder, or the file
                cannot be written.
        """
        try:
            with own(self._folder) if self._in_run else nullcontext():
                if (there := self._content_now()) is not None and there != self._content:
                    raise LuxelError(
                        f"{self.path}: another program has changed it.",
                        "Make the change again when the page shows the present measurements.",
                    )
                self._replace(measurements)
        except OwnedError as error:
            raise LuxelError(
                f"the measurements are not saved yet: {error.problem}",
                "They are saved with the next change after that process has ended.",
            ) from error
        except OSError as error:
            raise LuxelError(
                f"{self.path}: cannot be written ({error.strerror or error}).",
                "Free some disk space, or check the permissions of the folder.",
            ) from error

    def _replace(self, measurements: Measurements) -> None:
        output = OutputFolder(self._folder)
        if os.path.lexists(self.path) and (self.problem is not None or not output.is_own(self._name)):
            output.set_aside(self._name)
        body = {
            "format": FORMAT,
            "of": self._identity,
            "up": measurements.up,
            "metres": measurements.metres,
            "rulers": [{"name": r.name, "start": r.start, "end": r.end} for r in measurements.rulers],
        }
        content = json.dumps(sealed(json.loads(json.dumps(body))), indent=1).encode()
        output.write(self._name, content)
        self.problem, self._content, self._stat = None, content, self._stat_now()

    @property
    def outdated(self) -> bool:
        """Whether another program has changed the file since it was last read or written."""
        now = self._stat_now()
        if now == self._stat:
            return False
        self._stat = now
        return self._content_now() != self._content

    def _content_now(self) -> bytes | None:
        try:
            return self.path.read_bytes()
        except OSError:
            return None

    def _stat_now(self) -> tuple[int, ...] | None:
        try:
            stat = self.path.stat()
            return stat.st_mtime_ns, stat.st_size, stat.st_ino
        except OSError:
            return None


def scene_identity(scene: Scene) -> str:
    """SHA-256 over what a scene consists of and the positions of its parts; of a field over its parameters."""
    if (primitives := scene.part(Parameters)) is not None:
        tensors = [primitives.centres]
    elif (mesh := scene.part(MeshScene)) is not None:
        tensors = [mesh.mesh.vertices]
    elif (field := scene.part(Application)) is not None:
        tensors = list(field.state_dict().values())
    else:
        tensors = [scene.centres()]
    digest = hashlib.sha256(scene.about.noun.encode())
    for tensor in tensors:
        plain = np.ascontiguousarray(tensor.detach().cpu().float().numpy())
        digest.update(f";{plain.shape}".encode())
        digest.update(plain.reshape(-1).view(np.uint8).data)
    return digest.hexdigest()


def has_measured_scenes() -> bool:
    """Whether a scene outside of a run was ever measured: the digest of a scene takes a while."""
    state = state_folder()
    return state is not None and (state / FOLDER).is_dir()


def _parsed(content: bytes, identity: str) -> Measurements:
    """The measurements in the content of a file.

    Raises:
        JsonError: it is damaged, of a newer version, or of another run or scene.
    """
    raw = parse_object(content)
    body = validated(raw, _Body)
    if body.format > FORMAT:
        raise JsonError(f"format {body.format} is of a newer version of luxel")
    require_seal(raw)
    if body.of and identity and body.of != identity:
        raise JsonError("they are of another run or scene")
    if body.up is not None and not abs(math.hypot(*body.up) - 1) < 1e-6:
        raise JsonError("the up direction does not have the length 1")
    if body.metres is not None and not MIN_METRES <= body.metres <= MAX_METRES:
        raise JsonError(f"a unit of {body.metres:g} m is no scale of a scene")
    measurements = Measurements(body.up, body.metres)
    try:  # with the checks of rulers that are made here
        for ruler in body.rulers:
            measurements = add_ruler(measurements, ruler.start, ruler.end, ruler.name)
    except LuxelError as error:
        raise JsonError(error.problem) from None
    return measurements


def _run_identity(folder: Path) -> str:
    """The identity of a run; empty: it has none, or its config.json cannot be read."""
    with contextlib.suppress(OSError, JsonError):
        identity = identity_in(read_object(folder / CONFIG))
        return "" if identity is None else identity.id
    return ""
