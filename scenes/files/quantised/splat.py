""".splat files (antimatter15): 32 bytes per Gaussian, colours without view dependence."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch

from luxel.render.primitives.gaussians import SH_C0, Gaussians
from luxel.scenes.errors import CaptureError
from luxel.scenes.files.ply import write_atomically
from luxel.scenes.files.quantised.clipping import Clipping
from luxel.scenes.files.quantised.quantisation import LOGITS, to_levels, unit_quats
from luxel.scenes.files.reading import read_bytes, reading
from luxel.scenes.files.scene_format import SceneFormat
from luxel.scenes.files.scenes.primitive_ply import as_arrays

LARGEST = float(np.finfo(np.float32).max)
COLOUR_LIMIT = (0.5 + 0.5 / 255) / SH_C0  # of coefficients
LAYOUT = np.dtype([("mean", "<f4", 3), ("scale", "<f4", 3), ("rgba", "u1", 4), ("quat", "u1", 4)])


def load_splat(path: str | Path) -> Gaussians:
    """Gaussians of SH degree 0 from a .splat file.

    A record is position (3 floats), scale (3 floats, linear), colour and opacity (4 bytes), and the
    quaternion wxyz as bytes around 128.

    Raises:
        CaptureError: the file cannot be read, or its size is not a multiple of 32 bytes.
    """
    path = Path(path)
    with reading(path, "a .splat file", "Copy or export the file again."):
        return _gaussians(path, read_bytes(path))


def _gaussians(path: Path, data: bytes) -> Gaussians:
    """The Gaussians of the bytes of a file."""
    if len(data) % LAYOUT.itemsize:
        raise CaptureError(
            f"{path}: cut short, or not a .splat file: {len(data)} bytes are not a multiple of {LAYOUT.itemsize}.",
            "Copy or export the file again.",
        )
    table = np.frombuffer(data, LAYOUT)
    with np.errstate(invalid="ignore", divide="ignore"):
        log_scales = np.log(np.maximum(table["scale"], np.float32(1e-12)))
    return Gaussians(
        means=torch.from_numpy(np.array(table["mean"])),
        quats=torch.from_numpy((table["quat"].astype(np.float32) - 128) / 128),
        log_scales=torch.from_numpy(log_scales),
        opacity_logits=torch.from_numpy(LOGITS[table["rgba"][:, 3]]),
        sh_dc=torch.from_numpy((table["rgba"][:, :3].astype(np.float32) / 255 - 0.5) / SH_C0),
        sh_rest=torch.zeros(len(table), 0, 3),
    )


def save_splat(path: str | Path, gaussians: Gaussians) -> None:
    """Writes a .splat file, the largest and most opaque Gaussians first, as viewers that stream it expect.

    Spherical harmonics above degree 0 are left out; colours, opacities and rotations are rounded to bytes. Colours
    outside of 0 to 1, and scales beyond floats, are clipped, and counted in a warning.

    Raises:
        CaptureError: the file cannot be written.
    """
    arrays = as_arrays(gaussians)
    opacity = 1 / (1 + np.exp(-arrays["opacity_logits"].astype(np.float64)))
    with np.errstate(over="ignore", invalid="ignore"):
        scales = np.exp(arrays["log_scales"])
        order = np.argsort(-opacity * scales.astype(np.float64).prod(axis=1), kind="stable")
    clipping, full = Clipping(gaussians.count), slice(None)
    clipping.add("positions", full, arrays["means"], -LARGEST, LARGEST)
    clipping.add("scales", full, scales, 0.0, LARGEST)
    clipping.add("colours (0 to 1)", full, arrays["sh_dc"], -COLOUR_LIMIT, COLOUR_LIMIT)
    table = np.empty(gaussians.count, LAYOUT)
    table["mean"], table["scale"] = arrays["means"], np.clip(scales, 0, LARGEST)
    table["rgba"][:, :3] = to_levels(255 * (0.5 + SH_C0 * arrays["sh_dc"]))
    table["rgba"][:, 3] = to_levels(255 * opacity)
    table["quat"] = to_levels(128 + 128 * unit_quats(arrays["quats"]))
    write_atomically(Path(path), [table[order].tobytes()])
    clipping.report(Path(path))


SPLAT = SceneFormat(
    ".splat",
    "Gaussians without view dependence",
    load_splat,
    save_splat,
    primitives=(Gaussians,),
    sh_degree=0,
)
