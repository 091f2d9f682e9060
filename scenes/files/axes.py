"""Axes of scene files, by three letters: right or left, up or down, front or back for x, y and z (RDF: luxel, 3DGS)."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np
import torch

from luxel.render.primitives import Gaussians, Parameters
from luxel.scenes.errors import CaptureError

OWN = "RDF"
AXES = tuple("".join(letters) for letters in product("RL", "DU", "FB"))
# Which axes a coefficient of the spherical harmonics above degree 0 is odd in.
ODD = ("y", "z", "x", "xy", "yz", "", "xz", "", "y", "xyz", "y", "z", "x", "z", "x")


def signs_between(source: str, target: str) -> tuple[float, float, float]:
    """Factors of x, y and z from one of AXES to another."""
    x, y, z = (1.0 if a == b else -1.0 for a, b in zip(source, target, strict=True))
    return x, y, z


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
    """A scene of a file from one of AXES to another.

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
    with torch.no_grad():
        return mirrored(scene, signs_between(source, target))
