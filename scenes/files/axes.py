"""Axes of scene files, by three letters: right or left, up or down, front or back for x, y and z (RDF: luxel, 3DGS)."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np
import torch

from luxel.render.primitives import Gaussians, Parameters
from luxel.render.primitives.similarity import Similarity
from luxel.scenes.errors import CaptureError
from luxel.scenes.geometry import quaternion_from_rotation

OWN = "RDF"
AXES = tuple("".join(letters) for letters in product("RL", "DU", "FB"))
LINES = ("RL", "UD", "FB")  # letters of opposite directions
# Which axes a coefficient of the spherical harmonics above degree 0 is odd in.
ODD = ("y", "z", "x", "xy", "yz", "", "xz", "", "y", "xyz", "y", "z", "x", "z", "x")


def signs_between(source: str, target: str) -> tuple[float, float, float]:
    """Factors of x, y and z from one of AXES to another."""
    x, y, z = (1.0 if a == b else -1.0 for a, b in zip(source, target, strict=True))
    return x, y, z


def matrix_between(source: str, target: str) -> np.ndarray:
    """The matrix from coordinates in the axes of ``source`` to those of ``target``, of 0, 1 and -1, [3, 3].

    Both are three letters, one of each pair of `LINES` in any order, such as RFU where y points to the front.
    """
    out = np.zeros((3, 3))
    for column, letter in enumerate(source):
        line = next(pair for pair in LINES if letter in pair)
        row = next(row for row, other in enumerate(target) if other in line)
        out[row, column] = 1.0 if target[row] == letter else -1.0
    return out


def known_axes(name: str) -> str:
    """The name in capitals.

    Raises:
        CaptureError: it is none of AXES.
    """
    if name.upper() not in AXES:
        raise CaptureError(
            f"{name[:20]}: there are no such axes.",
            f"Give what x, y and z point at, one of {', '.join(AXES)}.",
        )
    return name.upper()


def mirrored(gaussians: Gaussians, signs: tuple[float, float, float]) -> Gaussians:
    """The same Gaussians where the axes x, y and z are multiplied by 1 or -1; an odd number of -1 mirrors the scene.

    A Gaussian is the same along its own axes and against them, so that rotations stay rotations.
    """
    if signs == (1.0, 1.0, 1.0):
        return gaussians
    x, y, z = signs
    odd = {"x": x, "y": y, "z": z}
    harmonics = [float(np.prod([odd[axis] for axis in axes])) for axes in ODD]
    means, rest = gaussians.means, gaussians.sh_rest
    return replace(
        gaussians,
        means=means * means.new_tensor(signs),
        quats=gaussians.quats * gaussians.quats.new_tensor([1.0, y * z, x * z, x * y]),
        sh_rest=rest * rest.new_tensor(harmonics[: rest.shape[1]])[None, :, None],
    )


def between(path: Path, scene: Parameters, source: str, target: str) -> Parameters:
    """A scene of a file from some axes to others, see `matrix_between`.

    Raises:
        CaptureError: they differ, and the scene is not of Gaussians.
    """
    if source == target:
        return scene
    if not isinstance(scene, Gaussians):
        raise CaptureError(
            f"{path}: only Gaussians change their axes, but the primitives of this scene are {scene.noun}.",
            "Leave the axes out.",
        )
    matrix = matrix_between(source, target)
    with torch.no_grad():
        if np.count_nonzero(np.diag(matrix)) == 3:
            x, y, z = np.diag(matrix).tolist()
            return mirrored(scene, (x, y, z))
        if np.linalg.det(matrix) < 0:
            scene, matrix = mirrored(scene, (-1.0, 1.0, 1.0)), matrix * [-1, 1, 1]
        w, x, y, z = quaternion_from_rotation(matrix).tolist()
        return scene.transformed(Similarity((w, x, y, z)))
