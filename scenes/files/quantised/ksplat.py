""".ksplat files (Kellogg, GaussianSplats3D): sections of Gaussians at one of three levels of compression, read only.

Layout: the loader of GaussianSplats3D (MIT). A header of 4,096 bytes, a header of 1,024 bytes for each section, then
the sections: the number of Gaussians of each bucket that is not full, the centres of the buckets, and the Gaussians.
Level 0 is floats; at levels 1 and 2 centres are 16 bits around that of their bucket and scales and rotations halves,
coefficients halves (1) or bytes (2).
"""

from __future__ import annotations

import struct
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch

from luxel.render.primitives import Gaussians
from luxel.render.primitives.gaussians import SH_C0
from luxel.scenes.errors import CaptureError
from luxel.scenes.files.quantised.quantisation import LOGITS
from luxel.scenes.files.reading import read_bytes, reading
from luxel.scenes.files.scene_format import SceneFormat

HEADER = struct.Struct(
    "<2B2x4IH14x2f"
)  # version, sections, used, most Gaussians, Gaussians, level, range of SH
SECTION = struct.Struct("<4IfH2xI4x2IH")  # see _Section
HEADER_SIZE, SECTION_SIZE, BUCKET_SIZE = 4096, 1024, 12  # bytes
LEVELS = (("<f4", "<f4", "<f4"), ("<u2", "<f2", "<f2"), ("<u2", "<f2", "u1"))  # types of centres, shapes, SH
STEPS = 32767  # of a centre from that of its bucket to its side, unless the section says another number
REST_RANGE = (-1.5, 1.5)  # of coefficients in bytes, unless the header says another
DEGREES = 2
AGAIN = "Copy or export the file again."


class _Section(NamedTuple):
    count: int
    capacity: int
    bucket: int  # Gaussians of a full bucket
    buckets: int
    side: float  # of a bucket
    bucket_bytes: int
    steps: int
    full: int
    partial: int  # buckets that are not full, after those that are
    degree: int


def load_ksplat(path: str | Path) -> Gaussians:
    """Gaussians of a .ksplat file of any level, of SH degree 0 to 2.

    Raises:
        CaptureError: the file cannot be read, is of another version, or is cut short.
    """
    path = Path(path)
    with reading(path, "a .ksplat file", AGAIN):
        data = read_bytes(path)
        if len(data) < HEADER_SIZE + SECTION_SIZE:
            raise CaptureError(f"{path}: cut short, or not a .ksplat file: {len(data)} bytes.", AGAIN)
        major, minor, number, _, _, _, level, *limits = HEADER.unpack_from(data)
        if major != 0 or minor < 1 or level >= len(LEVELS):
            raise CaptureError(
                f"{path}: .ksplat of version {major}.{minor} and compression level {level} cannot be read.",
                "Export it as version 0.1, at level 0, 1 or 2.",
            )
        at = HEADER_SIZE + SECTION_SIZE * number
        if at > len(data):
            raise _cut_short(path, f"{number} sections")
        low, high = (value or default for value, default in zip(limits, REST_RANGE, strict=True))
        parts = []
        for index in range(number):
            section = _Section(*SECTION.unpack_from(data, HEADER_SIZE + SECTION_SIZE * index))
            part, at = _read_section(path, data, at, section, level)
            parts.append(part)
        return _gaussians(parts, (low, high))


def _cut_short(path: Path, what: str) -> CaptureError:
    return CaptureError(
        f"{path}: cut short: its headers announce {what}, which its bytes cannot hold.", AGAIN
    )


class _Part(NamedTuple):
    means: np.ndarray  # float32 [N, 3]
    records: np.ndarray  # of `_layout`, [N]
    degree: int


def _layout(level: int, degree: int) -> np.dtype:
    centre, shape, harmonics = LEVELS[level]
    fields = [("mean", centre, 3), ("scale", shape, 3), ("quat", shape, 4), ("rgba", "u1", 4)]
    return np.dtype([*fields, ("rest", harmonics, (3 * ((degree + 1) ** 2 - 1),))])


def _read_section(path: Path, data: bytes, at: int, section: _Section, level: int) -> tuple[_Part, int]:
    """The Gaussians of the section that begins at ``at``, and where it ends."""
    if section.degree > DEGREES:
        raise CaptureError(
            f"{path}: .ksplat has spherical harmonics up to degree {DEGREES}, not {section.degree}.", AGAIN
        )
    layout = _layout(level, section.degree)
    centres_at = at + 4 * section.partial
    records_at = centres_at + section.bucket_bytes * section.buckets
    end = records_at + layout.itemsize * section.capacity
    if end > len(data) or section.count > section.capacity:
        raise _cut_short(path, f"a section of {section.count} Gaussians")
    records = np.frombuffer(data, layout, section.count, records_at)
    if level == 0:
        return _Part(records["mean"], records, section.degree), end
    lengths = np.frombuffer(data, "<u4", section.partial, at)
    inside = section.full * section.bucket + int(lengths.sum(dtype=np.uint64))
    if (
        section.full + section.partial > section.buckets
        or section.bucket_bytes < BUCKET_SIZE
        or not section.count <= inside <= section.capacity
    ):
        raise CaptureError(
            f"{path}: damaged: {section.full} full buckets of {section.bucket} Gaussians and {section.partial} others "
            f"are not those of {section.count} Gaussians.",
            AGAIN,
        )
    of_each = np.concatenate([np.full(section.full, section.bucket, np.int64), lengths.astype(np.int64)])
    bucket = np.repeat(np.arange(len(of_each)), of_each)[: section.count]
    starts = np.frombuffer(data, np.uint8, section.bucket_bytes * section.buckets, centres_at)
    corners = np.ascontiguousarray(starts.reshape(section.buckets, -1)[:, :BUCKET_SIZE]).view("<f4")
    steps = section.steps or STEPS
    with np.errstate(over="ignore", invalid="ignore"):  # sides may be any float
        offsets = (records["mean"].astype(np.float32) - np.float32(steps)) * np.float32(
            section.side / 2 / steps
        )
        return _Part(corners[bucket] + offsets, records, section.degree), end


def _gaussians(parts: list[_Part], limits: tuple[float, float]) -> Gaussians:
    """The Gaussians of all sections; those of a lower degree get coefficients of 0."""
    degree = max((part.degree for part in parts), default=0)

    def joined(name: str) -> np.ndarray:
        arrays = [part.records[name] for part in parts]
        return np.concatenate(
            [array if array.dtype == np.uint8 else array.astype(np.float32) for array in arrays]
        )

    rgba = joined("rgba")
    with np.errstate(invalid="ignore"):
        log_scales = np.log(np.maximum(joined("scale"), np.float32(1e-12)))
    harmonics = [_harmonics(part, degree, limits) for part in parts]
    return Gaussians(
        means=torch.from_numpy(np.concatenate([part.means for part in parts]).astype(np.float32)),
        quats=torch.from_numpy(joined("quat")),
        log_scales=torch.from_numpy(log_scales),
        opacity_logits=torch.from_numpy(LOGITS[rgba[:, 3]]),
        sh_dc=torch.from_numpy((rgba[:, :3] / np.float32(255) - np.float32(0.5)) / np.float32(SH_C0)),
        sh_rest=torch.from_numpy(np.concatenate(harmonics)),
    )


def _harmonics(part: _Part, degree: int, limits: tuple[float, float]) -> np.ndarray:
    """Coefficients of a section, which are degree by degree, within these by channel; float32 [N, K - 1, 3]."""
    rest, count = part.records["rest"], len(part.records)
    out = np.zeros((count, (degree + 1) ** 2 - 1, 3), np.float32)
    for band in range(1, part.degree + 1):
        first, after = band**2 - 1, (band + 1) ** 2 - 1
        values = rest[:, 3 * first : 3 * after].reshape(count, 3, after - first).transpose(0, 2, 1)
        if values.dtype == np.uint8:
            low, high = np.array(limits, np.float32)
            with np.errstate(over="ignore", invalid="ignore"):  # limits may be any floats
                out[:, first:after] = low + values / np.float32(255) * (high - low)
        else:
            out[:, first:after] = values
    return out


KSPLAT = SceneFormat(
    ".ksplat",
    "Gaussians at three levels of compression (GaussianSplats3D)",
    load_ksplat,
    primitives=(Gaussians,),
    sh_degree=DEGREES,
)
