"""The file that holds the keyframes of a scene: camera-path.json in the folder of its run.

Those of a scene file outside of a run are in a folder of the user's state, under a digest of the positions of its
primitives. Coordinates are those of the capture.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import msgspec
import numpy as np
import torch

from luxel.render.geometry.camera import Camera
from luxel.render.runs.sealed_file import SealedFile, run_identity
from luxel.render.runs.strict_json import JsonError, require_seal, validated
from luxel.render.scene import Scene
from luxel.render.storage.places import state_folder
from luxel.scenes.errors import CaptureError
from luxel.scenes.geometry import invert_rigid, quaternion_from_rotation, rotation_from_quaternion
from luxel.scenes.measuring.measurements_file import scene_identity
from luxel.viewer.web.camera_path.keyframes import (
    MAX_KEYFRAMES,
    MAX_SECONDS,
    MIN_SECONDS,
    Keyframe,
    KeyframePath,
)

FORMAT = 1
FILE = "camera-path.json"
FOLDER = "camera-paths"  # of scenes outside of runs, in that of the user's state
MAX_SIDE = 1 << 16  # pixels

Coordinate = Annotated[float, msgspec.Meta(ge=-1e12, le=1e12)]
Length = Annotated[float, msgspec.Meta(gt=0, le=1e9)]
Side = Annotated[int, msgspec.Meta(ge=1, lt=MAX_SIDE)]


class _Keyframe(msgspec.Struct):
    position: tuple[Coordinate, Coordinate, Coordinate]
    wxyz: tuple[Coordinate, Coordinate, Coordinate, Coordinate]  # of camera axes into the world
    focal: tuple[Length, Length]  # pixels
    centre: tuple[Coordinate, Coordinate]  # pixels
    size: tuple[Side, Side]  # pixels
    time: Coordinate


class _Body(msgspec.Struct):
    format: Annotated[int, msgspec.Meta(ge=1)]
    of: str  # identity of the run or of the scene; empty: of a run without one
    seconds: Annotated[float, msgspec.Meta(ge=MIN_SECONDS, le=MAX_SECONDS)]
    loop: bool
    keyframes: Annotated[list[_Keyframe], msgspec.Meta(max_length=MAX_KEYFRAMES)]


class PathFile(SealedFile[KeyframePath]):
    """Reads and writes the keyframes of one scene; see `SealedFile`.

    Args:
        shift: what was subtracted from the coordinates of the capture, [3].
    """

    what, anew = "the keyframes", "record them anew"

    def __init__(
        self, folder: Path, name: str, identity: str, *, in_run: bool, shift: Sequence[float]
    ) -> None:
        super().__init__(folder, name, identity, in_run=in_run)
        self._shift = np.array(shift, np.float64)

    @staticmethod
    def of_run(folder: Path, shift: Sequence[float] = (0.0, 0.0, 0.0)) -> PathFile:
        """That of the run in a folder."""
        return PathFile(folder, FILE, run_identity(folder), in_run=True, shift=shift)

    @staticmethod
    def of_scene(scene: Scene, shift: Sequence[float] = (0.0, 0.0, 0.0)) -> PathFile | None:
        """That of a scene outside of a run; None: there is no folder for it."""
        state = state_folder()
        if state is None:
            return None
        digest = scene_identity(scene)
        return PathFile(state / FOLDER, f"{digest}.json", digest, in_run=False, shift=shift)

    def empty(self) -> KeyframePath:
        """There are no keyframes."""
        return KeyframePath()

    def body_of(self, value: KeyframePath) -> dict[str, Any]:
        """The keyframes as JSON has them."""
        return {
            "format": FORMAT,
            "of": self._identity,
            "seconds": value.seconds,
            "loop": value.loop,
            "keyframes": [self._entry_of(keyframe) for keyframe in value.keyframes],
        }

    def _entry_of(self, keyframe: Keyframe) -> dict[str, Any]:
        camera = keyframe.camera
        pose = camera.cam_to_world.detach().cpu().double().numpy()
        lens = [float(value) for value in camera.intrinsics.tolist()]
        return {
            "position": (pose[:3, 3] + self._shift).tolist(),
            "wxyz": quaternion_from_rotation(pose[:3, :3]).tolist(),
            "focal": lens[:2],
            "centre": lens[2:],
            "size": [camera.width, camera.height],
            "time": float(keyframe.time),
        }

    def parsed(self, raw: dict[str, Any]) -> KeyframePath:
        """The reverse of `body_of`, checked."""
        body = validated(raw, _Body)
        if body.format > FORMAT:
            raise JsonError(f"format {body.format} is of a newer version of luxel")
        require_seal(raw)
        if body.of and self._identity and body.of != self._identity:
            raise JsonError("they are of another run or scene")
        keyframes = tuple(self._keyframe(entry, i + 1) for i, entry in enumerate(body.keyframes))
        return KeyframePath(keyframes, body.seconds, body.loop)

    def _keyframe(self, entry: _Keyframe, number: int) -> Keyframe:
        pose = np.eye(4)
        try:
            pose[:3, :3] = rotation_from_quaternion(entry.wxyz, f"keyframe {number}")
        except CaptureError as error:
            raise JsonError(error.problem) from None
        pose[:3, 3] = np.array(entry.position) - self._shift
        world_to_cam = torch.tensor(invert_rigid(pose), dtype=torch.float32)
        lens = torch.tensor([*entry.focal, *entry.centre], dtype=torch.float32)
        return Keyframe(Camera(world_to_cam, lens, *entry.size), entry.time)
