"""Bundles for the tests of SOG, changed in parts, and how much of a scene is lost."""

from __future__ import annotations

import io
import json
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image
from scipy.spatial import cKDTree

from luxel.render.primitives.gaussians import Gaussians

KNOT = Path(__file__).with_name("data") / "knot2k.sog"  # by splat-transform 2.7.1, of `knot_scene.knot`


def losses(source: Gaussians, actual: Gaussians) -> dict[str, tuple[float, float]]:
    """Root of the mean square and maximum of the differences, after each Gaussian has been found by its centre.

    Rotations as angles in degrees, opacities as alpha.
    """
    expected = {name: tensor.double().numpy() for name, tensor in source.tensors().items()}
    arrays = {name: tensor.double().numpy() for name, tensor in actual.tensors().items()}
    rows = cKDTree(arrays["means"]).query(expected["means"])[1]
    assert len(np.unique(rows)) == len(rows) == actual.count
    arrays = {name: array[rows] for name, array in arrays.items()}
    turns = []
    for quats in (expected["quats"], arrays["quats"]):
        turns.append(quats / np.linalg.norm(quats, axis=1, keepdims=True))
    cosine = np.abs((turns[0] * turns[1]).sum(1)).clip(0, 1)
    differences = {
        "position": expected["means"] - arrays["means"],
        "log scale": expected["log_scales"] - arrays["log_scales"],
        "rotation": np.degrees(2 * np.arccos(cosine)),
        "alpha": 1 / (1 + np.exp(-expected["opacity_logits"])) - 1 / (1 + np.exp(-arrays["opacity_logits"])),
        "dc": expected["sh_dc"] - arrays["sh_dc"],
        "rest": expected["sh_rest"] - arrays["sh_rest"],
    }
    return {
        name: (
            float(np.sqrt(np.square(values).sum() / max(1, values.size))),
            float(np.abs(values).max(initial=0)),
        )
        for name, values in differences.items()
    }


def entries(data: bytes) -> dict[str, bytes]:
    """The files of a bundle."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def bundle(files: dict[str, bytes]) -> bytes:
    """A bundle of files."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for name, data in files.items():
            archive.writestr(name, data)
    return out.getvalue()


def changed(data: bytes, **fields: Any) -> bytes:
    """A bundle of which entries of meta.json are replaced; those that are None are removed."""
    files = entries(data)
    meta = json.loads(files["meta.json"]) | fields
    files["meta.json"] = json.dumps(
        {name: value for name, value in meta.items() if value is not None}
    ).encode()
    return bundle(files)


def webp(pixels: np.ndarray) -> bytes:
    """A lossless WebP file of uint8 [H, W, 3 or 4]."""
    out = io.BytesIO()
    Image.fromarray(pixels).save(out, "WEBP", lossless=True, exact=True)
    return out.getvalue()
