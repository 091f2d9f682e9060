"""Colours of OpenEXR files: linear, as fields of HDR images take them, and in sRGB, as photographs of captures."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image, ImageFile

from luxel.scenes.errors import CaptureError
from luxel.scenes.files.exr.channels import SRGB, ExrFile, is_exr, library, listed

FORMAT = "EXR"  # its name in Pillow
PIXELS_AT_ONCE = 1 << 20  # whose colours are converted together
BRADFORD = np.array([[0.8951, 0.2664, -0.1614], [-0.7502, 1.7135, 0.0367], [0.0389, -0.0685, 1.0296]])
FIRST_LAYERS = ("", "Composite.Combined")  # that are taken before others; the second is Blender's


def linear_colours(file: ExrFile) -> tuple[np.ndarray, np.ndarray | None]:
    """The linear colours of an image, with the primaries of sRGB, and its alpha.

    Args:
        file: whose colours are multiplied with its alpha (premultiplied), as the format has them.

    Returns:
        float32 [H, W, 3], which may be negative or not finite; float32 [H, W], or None without alpha.

    Raises:
        CaptureError: it has no colours, or several layers of them; or as `ExrFile.read`.
        ValueError: as `ExrFile.read`.
    """
    colours, alpha = chosen_colours(file)
    values = file.read([*colours, *([alpha] if alpha else [])])
    rgb = np.empty((file.height, file.width, 3), np.float32)
    for channel in range(3):
        rgb[..., channel] = values[channel if len(colours) == 3 else 0]
    if np.abs(file.chromaticities - SRGB).max() > 1e-3:
        with np.errstate(invalid="ignore", over="ignore"):
            rgb = rgb @ to_srgb(file.chromaticities).T.astype(np.float32)
    return rgb, values[-1].astype(np.float32) if alpha else None


def chosen_colours(file: ExrFile) -> tuple[list[str], str | None]:
    """Names of the channels of red, green and blue, or of grey alone, and of alpha.

    Taken is the layer without a name, else the only one, else the only one called Combined.

    Raises:
        CaptureError: there are none, or several.
    """
    layers: dict[str, dict[str, str]] = {}
    for name in file.names:
        layer, _, base = name.rpartition(".")
        layers.setdefault(layer, {})[base.upper()] = name
    complete = {layer: have for layer, have in layers.items() if {"R", "G", "B"} <= set(have)}
    grey = {layer: have for layer, have in layers.items() if "Y" in have and not {"X", "RY"} & set(have)}
    usable = complete or grey
    combined = [layer for layer in usable if layer.rpartition(".")[2] == "Combined"]
    first = [layer for layer in FIRST_LAYERS if layer in usable]
    chosen = first[:1] or (list(usable) if len(usable) == 1 else combined)
    if len(chosen) != 1:
        what = "several layers of colours" if usable else "no colours R, G, B"
        raise CaptureError(
            f"the file has {what}; its channels are {listed(file.names)}.",
            "Save the image alone, with channels R, G, B.",
        )
    have = usable[chosen[0]]
    return [have[base] for base in ("RGB" if complete else "Y")], have.get("A")


def to_srgb(chromaticities: np.ndarray) -> np.ndarray:
    """Matrix from linear colours of some primaries to those of sRGB, [3, 3] (SMPTE RP 177-1993).

    White stays white, by the adaptation of Bradford (Lam 1985).

    Args:
        chromaticities: x, y of red, green, blue and white, [4, 2].

    Raises:
        ValueError: they span no colours.
    """
    here, there = _to_xyz(chromaticities), _to_xyz(np.array(SRGB))
    cones = BRADFORD @ np.stack([here.sum(1), there.sum(1)], 1)
    if (np.abs(cones[:, 0]) < 1e-3).any():
        raise ValueError("its chromaticities are no colours")
    adapted = np.linalg.inv(BRADFORD) @ np.diag(cones[:, 1] / cones[:, 0]) @ BRADFORD
    return np.linalg.inv(there) @ adapted @ here


def _to_xyz(chromaticities: np.ndarray) -> np.ndarray:
    x, y = chromaticities.T
    if not np.isfinite(chromaticities).all() or (np.abs(chromaticities) > 10).any() or (y[3:] < 1e-3).any():
        raise ValueError("its chromaticities are no colours")
    xyz = np.stack([x, y, 1 - x - y])
    if abs(np.linalg.det(xyz[:, :3])) < 1e-4:
        raise ValueError("its chromaticities are no colours")
    return xyz[:, :3] * np.linalg.solve(xyz[:, :3], xyz[:, 3] / y[3])


def srgb_bytes(linear: np.ndarray, alpha: np.ndarray | None) -> np.ndarray:
    """Linear, premultiplied colours as a photograph: clipped to [0, 1] and in sRGB (IEC 61966-2-1).

    Args:
        linear: float [H, W, 3]; NaN becomes 0.
        alpha: float [H, W], or None.

    Returns:
        uint8 [H, W, 3], or with straight alpha [H, W, 4].
    """
    height, width = linear.shape[:2]
    out = np.empty((height, width, 3 if alpha is None else 4), np.uint8)
    rows = max(1, PIXELS_AT_ONCE // max(width, 1))
    for top in range(0, height, rows):
        part = slice(top, top + rows)
        out[part] = _srgb_bytes(linear[part], None if alpha is None else alpha[part])
    return out


def _srgb_bytes(linear: np.ndarray, alpha: np.ndarray | None) -> np.ndarray:
    if alpha is not None:
        alpha = np.nan_to_num(alpha, nan=0.0).clip(0, 1)
        with np.errstate(invalid="ignore", over="ignore"):
            linear = linear / np.maximum(alpha, 1e-4)[..., None]
    value = np.nan_to_num(linear, nan=0.0, posinf=1.0, neginf=0.0).clip(0, 1)
    curve = np.where(value <= 0.0031308, 12.92 * value, 1.055 * value ** (1 / 2.4) - 0.055)
    bands = [curve] if alpha is None else [curve, alpha[..., None]]
    return (np.concatenate(bands, -1) * 255 + 0.5).astype(np.uint8)


class ExrImage(ImageFile.ImageFile):
    """An OpenEXR file as an image of Pillow, see `srgb_bytes`."""

    format, format_description = FORMAT, "OpenEXR"
    exr: ExrFile | None

    def _open(self) -> None:
        assert self.fp is not None
        self.exr = ExrFile(Path(str(self.filename or "the image")).name, self.fp)
        self._size = self.exr.width, self.exr.height
        self._mode = "RGB" if chosen_colours(self.exr)[1] is None else "RGBA"
        self.tile = []

    def load(self) -> Any:
        """Decodes the pixels."""
        if self.exr is not None:
            pixels = Image.fromarray(srgb_bytes(*linear_colours(self.exr)))
            self.im, self._mode, self.exr = pixels.im, pixels.mode, None
        return Image.Image.load(self)


def register_exr(path: Path) -> None:
    """Lets Pillow open OpenEXR files.

    Raises:
        CaptureError: the library for them is not installed; the message names ``path``.
    """
    library(path)
    if FORMAT not in Image.OPEN:
        Image.register_open(FORMAT, ExrImage, is_exr)
