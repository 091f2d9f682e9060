"""Reading of SOG scenes, versions 1 and 2."""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt
from pathlib import Path
from typing import Any

import numpy as np
import torch

from luxel.render.primitives.gaussians import Gaussians
from luxel.scenes.errors import CaptureError
from luxel.scenes.files.images.image_decoding import webp_size
from luxel.scenes.files.quantised.quantisation import from_smallest_three
from luxel.scenes.files.reading import reading
from luxel.scenes.files.scene_format import SceneFacts
from luxel.scenes.files.sog.containers import (
    EXPORT_AGAIN,
    Files,
    check_count,
    damaged,
    open_scene,
    other_entries,
    read_pixels,
)
from luxel.scenes.unused import LOST, WRONG, Unused, things_are

COEFFICIENTS = (0, 3, 8, 15)  # of spherical harmonics above degree 0, by degree
PER_ROW = 64  # entries of the palette in a row of its image
LARGEST_PALETTE = 1 << 16
MODELS = {"antialiased": True, "default": False}  # entry of meta.json, and what it says of antialiasing
KEYS = {"version", "asset", "count", "antialias", "model"}
_LOOKUP = {"codebook", "mins", "maxs", "files", "shape", "dtype"}
SECTIONS = {
    "means": _LOOKUP,
    "scales": _LOOKUP,
    "quats": {*_LOOKUP, "encoding"},
    "sh0": _LOOKUP,
    "shN": {*_LOOKUP, "count", "bands", "quantization"},
}
LARGEST_FIRST = 252  # alpha of quaternions whose largest component is w; 253: x; 254: y; 255: z


def load_sog(path: str | Path) -> Gaussians:
    """Gaussians from a bundle, a folder with meta.json, or its meta.json.

    Raises:
        CaptureError: a file cannot be read, or the scene is damaged or of a later version.
    """
    path = Path(path)
    with reading(path, "a SOG scene", EXPORT_AGAIN):
        return _Reader.of(path).gaussians()


def read_sog_facts(path: Path) -> SceneFacts:
    """Whether the scene was trained with antialiasing, where its meta.json says so: "antialias" (luxel), or "model"
    (splat-transform).

    Raises:
        CaptureError: it cannot be read.
    """
    with reading(path, "a SOG scene", EXPORT_AGAIN):
        meta = open_scene(path)[0]
    antialias, model = meta.get("antialias"), meta.get("model")
    known = MODELS.get(model) if isinstance(model, str) else None
    return SceneFacts(antialiased=antialias if isinstance(antialias, bool) else known)


def read_sog_unused(path: Path) -> list[Unused]:
    """Entries of meta.json, and files of a bundle, that luxel does not read.

    Raises:
        CaptureError: the scene cannot be read.
    """
    with reading(path, "a SOG scene", EXPORT_AGAIN):
        meta = open_scene(path)[0]
        files = other_entries(path, meta)
    out, model = [], meta.get("model")
    if model is not None and not (isinstance(model, str) and model in MODELS):
        out.append(
            Unused(
                "model",
                1,
                str(model)[:60],
                f"The scene is of the model {str(model)[:60]!r}, and is drawn as plain Gaussians.",
                "Give it as .ply: luxel reads the surfels of 2DGS there." if model == "2dgs" else "",
                WRONG,
            )
        )
    quats = meta.get("quats")
    encoding = quats.get("encoding") if isinstance(quats, dict) else None
    if encoding not in (None, "quaternion_packed"):
        said = f"Rotations have the encoding {str(encoding)[:60]!r}, and are read as quaternion_packed."
        out.append(Unused("encoding", 1, str(encoding)[:60], said, "Convert the scene to version 2.", WRONG))
    left = [key for key in meta if key not in SECTIONS and key not in KEYS]
    left += [
        f"{name}.{key}"
        for name, keys in SECTIONS.items()
        for key in (meta[name] if isinstance(meta.get(name), dict) else ())
        if key not in keys
    ]
    if left:
        said = f"{things_are(left, 'entry', 'entries', ' of meta.json')} not read."
        out.append(Unused("entries of meta.json", len(left), left[0], said, harm=LOST))
    if files:
        said = f"{things_are(files, 'file', of=' of the archive')} not read."
        out.append(Unused("files of the archive", len(files), files[0], said))
    return out


@dataclass(frozen=True)
class _Reader:
    """A scene that is being read.

    Args:
        path: of it.
        meta: content of meta.json.
        files: reads one of its files.
        count: N.
        version: 1 or 2.
    """

    path: Path
    meta: dict[str, Any]
    files: Files
    count: int
    version: int

    @staticmethod
    def of(path: Path) -> _Reader:
        meta, files, size = open_scene(path)
        version = meta.get("version", 1)
        if version not in (1, 2):
            raise CaptureError(
                f"{path}: SOG of version {str(version)[:20]}; luxel reads 1 and 2.",
                "Convert the scene to version 2.",
            )
        count = meta.get("count")
        if count is None and isinstance(meta.get("means"), dict):
            shape = meta["means"].get("shape")
            count = shape[0] if isinstance(shape, list) and shape else None
        return _Reader(path, meta, files, check_count(path, count, size), version)

    def gaussians(self) -> Gaussians:
        quats = _quats(self._pixels("quats"))
        scales, colours = self._pixels("scales"), self._pixels("sh0")
        log_scales = self._lookup("scales", 3)
        sh_dc = self._lookup("sh0", 4)
        if self.version == 1:
            logits = sh_dc[3]
        else:  # bytes 0 and 255 are read as half a step from 0 and 1, so that logits stay finite
            opacity = np.clip(np.arange(256) / 255, 0.5 / 255, 1 - 0.5 / 255)
            logits = np.log(opacity / (1 - opacity)).astype(np.float32)
        arrays = {
            "means": self._means(),
            "quats": quats,
            "log_scales": np.stack([log_scales[axis][scales[:, axis]] for axis in range(3)], 1),
            "opacity_logits": logits[colours[:, 3]],
            "sh_dc": np.stack([sh_dc[axis][colours[:, axis]] for axis in range(3)], 1),
            "sh_rest": self._sh_rest(),
        }
        return Gaussians(**{name: torch.from_numpy(array) for name, array in arrays.items()})

    def _means(self) -> np.ndarray:
        """Centres, float32 [N, 3]: 16 bits between the least and the greatest of sign(x) log(1 + |x|)."""
        low, high = (self._pixels("means", which, of=2) for which in (0, 1))
        least, greatest = (self._numbers("means", key, 3) for key in ("mins", "maxs"))
        steps = np.arange(1 << 16) / 65535
        means = np.empty((self.count, 3), np.float32)
        for axis in range(3):
            logs = least[axis] + (greatest[axis] - least[axis]) * steps
            with np.errstate(over="ignore"):
                values = (np.sign(logs) * np.expm1(np.abs(logs))).astype(np.float32)
            means[:, axis] = values[low[:, axis] | high[:, axis].astype(np.uint16) << 8]
        return means

    def _sh_rest(self) -> np.ndarray:
        """Coefficients of the palette's entry of each Gaussian, float32 [N, K - 1, 3]."""
        if self.meta.get("shN") is None:
            return np.zeros((self.count, 0, 3), np.float32)
        section = self._section("shN")
        labels = self._pixels("shN", 1, of=2).astype(np.int32)
        labels = labels[:, 0] | labels[:, 1] << 8
        size = section.get("count", int(labels.max(initial=0)) + 1)
        if not isinstance(size, int) or not int(labels.max(initial=0)) < size <= LARGEST_PALETTE:
            raise damaged(self.path, f"the palette of {str(size)[:40]} entries lacks some that are used")
        degree = section.get("bands")
        if degree is None:  # version 1: known by the width of the image
            name = self._names("shN", 2)[0]
            width = (webp_size(self.files(name)[:30]) or (0, 0))[0]
            degree = next((d for d in (1, 2, 3) if width == PER_ROW * COEFFICIENTS[d]), None)
        if degree not in (1, 2, 3):
            raise damaged(self.path, f"spherical harmonics of degree {str(degree)[:40]}")
        columns = COEFFICIENTS[degree]
        rows = max(1, -(-size // PER_ROW))
        entries = read_pixels(
            self.path, self.files, self._names("shN", 2)[0], PER_ROW * columns * rows, PER_ROW * columns
        )[: size * columns, :3]
        values = self._lookup("shN", 1)[0]
        return values[entries].reshape(size, columns, 3)[labels]

    def _lookup(self, name: str, channels: int) -> list[np.ndarray]:
        """What each byte of each channel stands for, float32 [256] each."""
        if self.version == 2:
            codebook = self._codebook(name)
            return [codebook] * channels
        least, greatest = (self._numbers(name, key, channels) for key in ("mins", "maxs"))
        steps = np.arange(256) / 255
        return [(a + (b - a) * steps).astype(np.float32) for a, b in zip(least, greatest, strict=True)]

    def _codebook(self, name: str) -> np.ndarray:
        """The numbers that bytes stand for, float32 [256]."""
        section = self._section(name)
        numbers = section.get("codebook")
        if isinstance(numbers, list) and len(numbers) == 256 and numbers[0] is None:
            # Early tools wrote no first number; viewers take the mean step of the others.
            section["codebook"] = [numbers[1] - (numbers[255] - numbers[1]) / 255, *numbers[1:]]
        return self._numbers(name, "codebook", 256).astype(np.float32)

    def _numbers(self, name: str, key: str, count: int) -> np.ndarray:
        """Finite numbers of a section, float64 [count]; of one alone no list is needed."""
        numbers = self._section(name).get(key)
        listed = numbers if isinstance(numbers, list) else [numbers]
        if len(listed) == count and all(type(number) in (int, float) for number in listed):
            array = np.array(listed, np.float64)
            if np.abs(array).max() < 1e30:
                return array
        raise damaged(self.path, f"{key} of {name} must be {count} finite numbers")

    def _names(self, name: str, of: int) -> list[str]:
        """The images of a section."""
        names = self._section(name).get("files")
        if isinstance(names, list) and len(names) >= of and all(isinstance(file, str) for file in names):
            return names
        raise damaged(self.path, f"{name} names no {of} files")

    def _section(self, name: str) -> dict[str, Any]:
        section = self.meta.get(name)
        if not isinstance(section, dict):
            raise damaged(self.path, f"meta.json says nothing of {name}")
        return section

    def _pixels(self, name: str, which: int = 0, of: int = 1) -> np.ndarray:
        """The pixels of the Gaussians in an image of a section, uint8 RGBA [N, 4]."""
        file = self._names(name, of)[which]
        return read_pixels(self.path, self.files, file, self.count)[: self.count]


def _quats(pixels: np.ndarray) -> np.ndarray:
    """Unit quaternions wxyz, float32 [N, 4], from the three smallest components and which is the largest.

    Other values of alpha than the four that are defined are read as no rotation.
    """
    largest = pixels[:, 3].astype(np.int64) - LARGEST_FIRST
    known = largest >= 0
    values = ((np.arange(256) / 255 * 2 - 1) / sqrt(2)).astype(np.float32)[pixels[:, :3]]
    quats = from_smallest_three(np.where(known, largest, 0), values)
    quats[~known] = (1, 0, 0, 0)
    return quats
