"""The file that holds the measurements of a scene: measurements.json in the folder of its run.

Those of a scene file outside of a run are in a folder of the user's state, under a digest of the positions of its
primitives: a copy of the file, or one under another name, has them too. Coordinates are those of the capture.
"""

from __future__ import annotations

import hashlib
import math
from pathlib import Path
from typing import Annotated, Any

import msgspec
import numpy as np

from luxel.render.errors import LuxelError
from luxel.render.fields.application import Application
from luxel.render.primitives import Parameters
from luxel.render.runs.sealed_file import SealedFile, run_identity
from luxel.render.runs.strict_json import JsonError, require_seal, validated
from luxel.render.scene import Scene
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


class MeasurementsFile(SealedFile[Measurements]):
    """Reads and writes the measurements of one scene; see `SealedFile`."""

    what, anew = "the measurements", "measure anew"

    @staticmethod
    def of_run(folder: Path) -> MeasurementsFile:
        """That of the run in a folder."""
        return MeasurementsFile(folder, FILE, run_identity(folder), in_run=True)

    @staticmethod
    def of_scene(scene: Scene) -> MeasurementsFile | None:
        """That of a scene outside of a run; None: there is no folder for it."""
        state = state_folder()
        if state is None:
            return None
        digest = scene_identity(scene)
        return MeasurementsFile(state / FOLDER, f"{digest}.json", digest, in_run=False)

    def empty(self) -> Measurements:
        """Nothing is measured."""
        return Measurements()

    def body_of(self, value: Measurements) -> dict[str, Any]:
        """The measurements as JSON has them."""
        rulers = [{"name": r.name, "start": r.start, "end": r.end} for r in value.rulers]
        return {
            "format": FORMAT,
            "of": self._identity,
            "up": value.up,
            "metres": value.metres,
            "rulers": rulers,
        }

    def parsed(self, raw: dict[str, Any]) -> Measurements:
        """The reverse of `body_of`, checked."""
        body = validated(raw, _Body)
        if body.format > FORMAT:
            raise JsonError(f"format {body.format} is of a newer version of luxel")
        require_seal(raw)
        if body.of and self._identity and body.of != self._identity:
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
