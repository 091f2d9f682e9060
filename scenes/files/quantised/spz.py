"""SPZ files: Gaussians of 19 bytes and a byte per coefficient, compressed by gzip (versions 2, 3) or zstd (version 4).

Specification: the documentation of Niantic's library spz (MIT). A header is followed by six arrays: centres in fixed
point of 24 bits, opacities, colours, scales, rotations, spherical harmonics. In versions 2 and 3 all of it is one gzip
stream; a file of version 4 has the header, a table of sizes, and a zstd frame for each array that is not empty. Where a
flag says so, extensions follow the header of version 4 and the arrays of earlier ones: a type, a length, as many bytes.
"""

from __future__ import annotations

import math
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
import zstandard

from luxel.render.primitives import Gaussians
from luxel.render.storage.reading import LARGE, available_memory
from luxel.scenes.errors import CaptureError
from luxel.scenes.files.ply import write_atomically
from luxel.scenes.files.quantised.clipping import Clipping
from luxel.scenes.files.quantised.quantisation import (
    LOGITS,
    SMALLEST,
    blocks,
    finite,
    from_smallest_three,
    opacity_levels,
    smallest_three,
    to_levels,
    unit_quats,
)
from luxel.scenes.files.reading import check_file, open_file, read_bytes, reading
from luxel.scenes.files.scene_format import SceneFacts, SceneFormat
from luxel.scenes.files.scenes.primitive_ply import as_arrays
from luxel.scenes.unused import LOST, OTHER, Unused

HEADER = struct.Struct(
    "<4s2I4B"
)  # magic, version, count, SH degree, fraction bits, flags, arrays (version 4)
TABLE_AT = struct.Struct("<I12x")  # of version 4 after it: offset of the table of sizes
MAGIC, GZIP = b"NGSP", b"\x1f\x8b"
ANTIALIASED, EXTENDED = 1, 2  # flags
RECORD = struct.Struct("<2I")  # before an extension: its type, and its bytes
COORDINATES = 0xADBE0003  # extension SPZ_ADOBE_coordinate_system: a number, whose meaning is an index of AXES
AXES = (
    *("RUB", "LDB", "RDB", "LUB", "RUB", "LDF", "RDF", "LUF", "RUF"),
    *("LFD", "RFD", "LFU", "RFU", "LBD", "RBD", "LBU", "RBU"),
)
EXTENSIONS = {  # others that are known: what they hold, and the harm of leaving it out
    0xADBE0001: ("how coefficients were rounded", None),
    0xADBE0002: ("limits of the camera's orbit (SPZ_ADOBE_safe_orbit_camera)", OTHER),
    0x4E530001: ("where the scene stands on the earth (SPZ_NIANTIC_georeference)", LOST),
}
MAX_EXTENSIONS = 1 << 20  # bytes of all of them that are read
MAX_DEGREE = 4  # of the format; luxel has 3
FRACTION_BITS, LARGEST = 30, (1 << 23) - 1  # of fixed point: most that readers shift by, largest number
SCALE_STEPS, MIN_SCALE = 16, -10.0  # logarithms of scales: steps of 1 / 16 from -10
MAX_SCALE, HALF_STEP = MIN_SCALE + 255 / SCALE_STEPS, 0.5 / SCALE_STEPS
# What is clipped, for messages.
POSITIONS = "positions (24 bits)"
SCALES = f"scales ({np.exp(MIN_SCALE):.2g} to {np.exp(MAX_SCALE):.3g})"
COLOURS, COEFFICIENTS = "colours", "spherical harmonics (-1 to 1)"
COLOUR = 0.15  # colours are 0.5 + 0.15 dc: a wider range than with the constant of degree 0
COLOUR_LIMIT = (0.5 + 0.5 / 255) / COLOUR
ROTATION_STEPS = 511  # a component of a rotation has 9 bits and a sign
# Bytes that a compressed byte stands for at most, and that any file may stand for beside.
RATIO, SLACK = 1032, 1 << 24
HEAD = 1 << 12  # bytes of a file that hold the header also after gzip
# Of compression; 6 and 9 save 0.5 % of a trained scene, and take 1.6 and 3.3 times the time.
LEVEL, ZSTD_LEVEL = 3, 3
AGAIN = "Copy or export the file again."


class _Header(NamedTuple):
    version: int
    count: int
    degree: int
    fraction_bits: int
    flags: int
    arrays: int

    @property
    def widths(self) -> tuple[int, ...]:
        """Bytes per Gaussian of the six arrays."""
        return 9, 1, 3, 3, 3 if self.version == 2 else 4, 3 * ((self.degree + 1) ** 2 - 1)


def load_spz(path: str | Path) -> Gaussians:
    """Gaussians of an SPZ file of version 2, 3 or 4, in its own axes, see `read_spz_axes`.

    Coefficients of degree 4 are left out, see `read_spz_unused`.

    Raises:
        CaptureError: the file cannot be read, is of another version, or is cut short.
    """
    path = Path(path)
    with reading(path, "an SPZ file", AGAIN):
        data = read_bytes(path)
        header, stream = _header(path, data)
        _check_size(path, header, len(data))
        if header.version == 4:
            return _gaussians(header, _zstd_arrays(path, data, header))
        return _gaussians(header, _gzip_arrays(path, data, header, stream))


def read_spz_facts(path: str | Path) -> SceneFacts:
    """Whether the scene of an SPZ file was trained with antialiasing.

    Raises:
        CaptureError: the file cannot be read, or is not SPZ.
    """
    path = Path(path)
    check_file(path)
    with reading(path, "an SPZ file", AGAIN), open_file(path) as file:
        header, _ = _header(path, file.read(HEAD))
        return SceneFacts(antialiased=bool(header.flags & ANTIALIASED))


def read_spz_axes(path: str | Path) -> str:
    """The axes of a file: RUB, or those of its extension SPZ_ADOBE_coordinate_system.

    Raises:
        CaptureError: the file cannot be read, or the extension names none that are defined.
    """
    path = Path(path)
    for kind, payload in _extensions(path)[1]:
        if kind == COORDINATES:
            number = int.from_bytes(payload[:4], "little") if len(payload) >= 4 else len(AXES)
            if number >= len(AXES):
                raise CaptureError(
                    f"{path}: its extension of the coordinate system has the value {number}, and {len(AXES) - 1} is "
                    "the highest that is defined.",
                    "Give the axes yourself: --scene-axes RUB, or others.",
                )
            return AXES[number]
    return AXES[0]


def read_spz_unused(path: str | Path) -> list[Unused]:
    """Coefficients above degree 3, and flags and extensions that luxel does not know.

    Raises:
        CaptureError: the file cannot be read.
    """
    header, extensions = _extensions(Path(path))
    out = []
    if header.degree > 3:
        out.append(
            Unused(
                "spherical harmonics",
                header.degree - 3,
                f"degree {header.degree}",
                f"Spherical harmonics of degree {header.degree} are left out: luxel has degree 3, so colours change "
                "less with the direction.",
                harm=LOST,
            )
        )
    if flags := header.flags & ~(ANTIALIASED | EXTENDED):
        out.append(
            Unused(
                "flags", flags.bit_count(), hex(flags), f"The flags {flags:#x} of its header are not known."
            )
        )
    unread = [kind for kind, _ in extensions if kind != COORDINATES]
    for kind in dict.fromkeys(unread):
        about, harm = EXTENSIONS.get(kind, ("what luxel does not know", LOST))
        if harm is not None:
            said = f"The extension {kind:#010x} is not read; it holds {about}."
            out.append(Unused(f"extension {kind:#010x}", unread.count(kind), hex(kind), said, harm=harm))
    return out


def _extensions(path: Path) -> tuple[_Header, list[tuple[int, bytes]]]:
    """The header and the extensions of a file: type and content."""
    check_file(path)
    with reading(path, "an SPZ file", AGAIN):
        with open_file(path) as file:
            head = file.read(HEAD)
        header, _ = _header(path, head)
        if not header.flags & EXTENDED:
            return header, []
        data = read_bytes(path)
        if header.version == 4:
            (end,) = TABLE_AT.unpack_from(data, HEADER.size)
            block = data[HEADER.size + TABLE_AT.size : end][:MAX_EXTENSIONS]
        else:
            header, stream = _header(path, data)
            _check_size(path, header, len(data))
            block = _after_arrays(data, stream, header.count * sum(header.widths))
    out, at = [], 0
    while at + RECORD.size <= len(block):
        kind, size = RECORD.unpack_from(block, at)
        out.append((kind, block[at + RECORD.size : at + RECORD.size + size]))
        at += RECORD.size + size
    return header, out


def _after_arrays(data: bytes, stream: zlib._Decompress | None, total: int) -> bytes:
    """What follows ``total`` bytes of arrays in a file of version 2 or 3."""
    if stream is None:
        return data[HEADER.size + total :][:MAX_EXTENSIONS]
    rest = stream.unconsumed_tail
    while total > 0 and rest and not stream.eof:  # block by block: only what follows them is needed
        total -= len(stream.decompress(rest, min(total, SLACK)))
        rest = stream.unconsumed_tail
    return stream.decompress(rest, MAX_EXTENSIONS)


def _header(path: Path, data: bytes) -> tuple[_Header, zlib._Decompress | None]:
    """The header in the first bytes of a file; with the decompressor that has read it where they are gzip."""
    stream, head = None, data
    if data.startswith(GZIP):
        stream = zlib.decompressobj(16 + zlib.MAX_WBITS)
        head = stream.decompress(data, HEADER.size)
    if len(head) < HEADER.size or not head.startswith(MAGIC):
        raise CaptureError(f"{path}: this is not an SPZ file.", AGAIN)
    header = _Header(*HEADER.unpack_from(head)[1:])
    if header.version not in (2, 3, 4):
        raise CaptureError(
            f"{path}: SPZ of version {header.version} cannot be read.", "Export it as version 2, 3 or 4."
        )
    if header.degree > MAX_DEGREE:
        raise CaptureError(
            f"{path}: SPZ has spherical harmonics up to degree {MAX_DEGREE}, not {header.degree}.", AGAIN
        )
    return header, stream


def _check_size(path: Path, header: _Header, size: int) -> None:
    """Nothing is allocated for more Gaussians than ``size`` bytes of a file can hold, or memory."""
    total = header.count * sum(header.widths)
    if total > size * RATIO + SLACK:
        raise CaptureError(
            f"{path}: cut short: {header.count} Gaussians in the header, which {size} bytes cannot hold.",
            AGAIN,
        )
    needed = 2 * total + 4 * header.count * (14 + 3 * min(header.degree, 3) * (min(header.degree, 3) + 2))
    if needed > LARGE and needed > available_memory():
        raise MemoryError


def _gzip_arrays(
    path: Path, data: bytes, header: _Header, stream: zlib._Decompress | None
) -> list[np.ndarray]:
    """The arrays of version 2 or 3, uint8 [count, width] each."""
    total = header.count * sum(header.widths)
    if stream is None:
        body = data[HEADER.size :]
    else:
        body = stream.decompress(stream.unconsumed_tail, total) if total else b""
        stream.decompress(stream.unconsumed_tail, HEAD)  # compares the check sum, if nothing else follows
    if len(body) < total:
        raise _cut_short(path, header, total, len(body))
    ends = np.cumsum([header.count * width for width in header.widths]).tolist()
    return [
        np.frombuffer(body, np.uint8, header.count * width, end - header.count * width).reshape(-1, width)
        if width
        else np.zeros((header.count, 0), np.uint8)
        for width, end in zip(header.widths, ends, strict=True)
    ]


def _zstd_arrays(path: Path, data: bytes, header: _Header) -> list[np.ndarray]:
    """The arrays of version 4, uint8 [count, width] each."""
    (at,) = TABLE_AT.unpack_from(data, HEADER.size)
    if at + 16 * header.arrays > len(data):
        raise _cut_short(path, header, at + 16 * header.arrays, len(data))
    table = np.frombuffer(data, "<u8", 2 * header.arrays, at).reshape(-1, 2).tolist()
    frames, at = [], at + 16 * header.arrays
    for packed, plain in table:
        frames += [(data[at : at + packed], plain)] if plain else []
        at += packed
    out = []
    for width in header.widths:
        size = header.count * width
        array = _zstd(*frames.pop(0), size) if size and frames else b""
        if len(array) != size:
            raise _cut_short(path, header, size, len(array))
        out.append(np.frombuffer(array, np.uint8).reshape(header.count, width))
    return out


def _zstd(frame: bytes, plain: int, size: int) -> bytes:
    """What a zstd frame stands for; nothing if this is announced not to be ``size`` bytes."""
    if plain != size or zstandard.frame_content_size(frame) not in (-1, size):
        return b""
    return zstandard.ZstdDecompressor().decompress(frame, max_output_size=size)


def _cut_short(path: Path, header: _Header, expected: int, actual: int) -> CaptureError:
    return CaptureError(
        f"{path}: cut short or damaged: {header.count} Gaussians need {expected} bytes where {actual} are.",
        AGAIN,
    )


def _gaussians(header: _Header, arrays: list[np.ndarray]) -> Gaussians:
    """The Gaussians of the six arrays of a file."""
    centres, opacities, colours, scales, rotations, harmonics = arrays
    count, retained = header.count, (min(header.degree, 3) + 1) ** 2 - 1
    harmonics = harmonics.reshape(count, (header.degree + 1) ** 2 - 1, 3)[:, :retained]
    means, quats = np.empty((count, 3), np.float32), np.empty((count, 4), np.float32)
    log_scales, sh_dc = np.empty((count, 3), np.float32), np.empty((count, 3), np.float32)
    sh_rest = np.empty((count, retained, 3), np.float32)
    unpacked = _first_three if header.version == 2 else _packed_rotations
    for rows in blocks(count):
        means[rows] = _fixed_point(centres[rows]) * 2.0**-header.fraction_bits
        quats[rows] = unpacked(rotations[rows])
        log_scales[rows] = scales[rows] / np.float32(SCALE_STEPS) + np.float32(MIN_SCALE)
        sh_dc[rows] = (colours[rows] / np.float32(255) - np.float32(0.5)) / np.float32(COLOUR)
        sh_rest[rows] = harmonics[rows] / np.float32(128) - np.float32(1)
    return Gaussians(
        means=torch.from_numpy(means),
        quats=torch.from_numpy(quats),
        log_scales=torch.from_numpy(log_scales),
        opacity_logits=torch.from_numpy(LOGITS[opacities[:, 0]]),
        sh_dc=torch.from_numpy(sh_dc),
        sh_rest=torch.from_numpy(sh_rest),
    )


def _fixed_point(centres: np.ndarray) -> np.ndarray:
    """Signed numbers of three bytes, uint8 [N, 9] -> int32 [N, 3]."""
    padded = np.zeros((len(centres), 3, 4), np.uint8)
    padded[..., 1:] = centres.reshape(-1, 3, 3)
    return padded.view("<i4")[..., 0] >> 8


def _first_three(rotations: np.ndarray) -> np.ndarray:
    """Quaternions wxyz of version 2: x, y and z in bytes, w is not negative."""
    xyz = rotations / np.float32(127.5) - np.float32(1)
    w = np.sqrt(np.maximum(0, 1 - np.square(xyz).sum(axis=1, keepdims=True)))
    return np.concatenate([w, xyz], axis=1)


def _packed_rotations(rotations: np.ndarray) -> np.ndarray:
    """Quaternions wxyz of versions 3 and 4, uint8 [N, 4] -> float32 [N, 4].

    A number of 32 bits has the index of the largest component of xyzw, and of the others, a sign and 9 bits each.
    """
    packed = np.ascontiguousarray(rotations).view("<u4")
    fields = (packed >> np.array([20, 10, 0], np.uint32)) & np.uint32(1023)
    sizes = (fields & np.uint32(511)).astype(np.float32) * np.float32(SMALLEST / ROTATION_STEPS)
    xyzw = from_smallest_three(packed[:, 0] >> np.uint32(30), np.where(fields > 511, -sizes, sizes))
    return np.roll(xyzw, 1, axis=1)


def save_spz(
    path: str | Path, gaussians: Gaussians, version: int = 3, facts: SceneFacts | None = None
) -> None:
    """Writes an SPZ file, with 8 bits for each coefficient.

    Centres have as many fraction bits as leave capacity for the largest of them. Logarithms of scales are from -10 to
    5.94, colours 0.5 + 0.15 dc from 0 to 1, coefficients above degree 0 from -1 to 1: others are clipped, and counted
    in a warning.

    Args:
        path: of the file.
        gaussians: in the axes of the file (RUB).
        version: 3, or 4, which fewer programs read: smaller.
        facts: antialiased is stored.

    Raises:
        CaptureError: the version is another, or the file cannot be written.
    """
    path = Path(path)
    if version not in (3, 4):
        raise CaptureError(f"{path}: luxel writes no SPZ of version {version}.", "Choose version 3 or 4.")
    clipping = Clipping(gaussians.count)
    bits, arrays = _arrays(as_arrays(gaussians), clipping)
    flags = ANTIALIASED if facts and facts.antialiased else 0
    head = MAGIC, version, gaussians.count, gaussians.sh_degree, bits, flags
    filled = [array for array in arrays if array.size]
    if version == 4:
        write_atomically(path, _zstd_chunks(head, filled))
    else:
        write_atomically(path, _gzip_chunks(HEADER.pack(*head, 0), filled))
    clipping.report(path)


def _gzip_chunks(head: bytes, arrays: list[np.ndarray]) -> Iterator[bytes]:
    stream = zlib.compressobj(LEVEL, zlib.DEFLATED, 16 + zlib.MAX_WBITS)
    yield stream.compress(head)
    for array in arrays:
        for rows in blocks(len(array)):
            yield stream.compress(np.ascontiguousarray(array[rows]).data)
    yield stream.flush()


def _zstd_chunks(head: tuple, arrays: list[np.ndarray]) -> Iterator[bytes]:
    frames = [zstandard.ZstdCompressor(level=ZSTD_LEVEL).compress(array.data) for array in arrays]
    table = [(len(frame), array.nbytes) for frame, array in zip(frames, arrays, strict=True)]
    yield HEADER.pack(*head, len(frames))
    yield TABLE_AT.pack(HEADER.size + TABLE_AT.size)
    yield np.array(table, "<u8").tobytes()
    yield from frames


def _arrays(source: dict[str, np.ndarray], clipping: Clipping) -> tuple[int, list[np.ndarray]]:
    """The fraction bits and the six arrays of a file, uint8."""
    count, means = len(source["means"]), source["means"]
    far = float(np.abs(means[np.isfinite(means)]).max(initial=0))
    bits = FRACTION_BITS if far == 0 else min(FRACTION_BITS, max(0, math.floor(math.log2(LARGEST / far))))
    rest = source["sh_rest"]
    widths = 9, 1, 3, 3, 4, 3 * rest.shape[1]
    out = [np.empty((count, width), np.uint8) for width in widths]
    centres, opacities, colours, scales, rotations, harmonics = out
    for rows in blocks(count):
        clipping.add(POSITIONS, rows, means[rows], -LARGEST / 2.0**bits, LARGEST / 2.0**bits)
        clipping.add(SCALES, rows, source["log_scales"][rows], MIN_SCALE - HALF_STEP, MAX_SCALE + HALF_STEP)
        clipping.add(COLOURS, rows, source["sh_dc"][rows], -COLOUR_LIMIT, COLOUR_LIMIT)
        clipping.add(COEFFICIENTS, rows, rest[rows], -128.5 / 128, 127.5 / 128)
        centres[rows] = _bytes_of_centres(means[rows], bits)
        opacities[rows, 0] = opacity_levels(source["opacity_logits"][rows])
        colours[rows] = to_levels(255 * (0.5 + COLOUR * finite(source["sh_dc"][rows])))
        scales[rows] = to_levels(SCALE_STEPS * (finite(source["log_scales"][rows]) - MIN_SCALE))
        rotations[rows] = _bytes_of_rotations(source["quats"][rows])
        harmonics[rows] = to_levels(128 + 128 * finite(rest[rows])).reshape(harmonics[rows].shape)
    return bits, out


def _bytes_of_centres(means: np.ndarray, bits: int) -> np.ndarray:
    """Numbers of three bytes with ``bits`` fraction bits, float32 [N, 3] -> uint8 [N, 9]."""
    fixed = np.rint(np.nan_to_num(means).astype(np.float64) * 2.0**bits)
    fixed = np.clip(fixed, -LARGEST, LARGEST).astype("<i4")
    return np.ascontiguousarray(fixed).view(np.uint8).reshape(-1, 3, 4)[..., :3].reshape(-1, 9)


def _bytes_of_rotations(quats: np.ndarray) -> np.ndarray:
    """The inverse of `_packed_rotations`."""
    largest, others = smallest_three(np.roll(unit_quats(quats), -1, axis=1))
    fields = to_levels(np.abs(others) * (ROTATION_STEPS / SMALLEST), ROTATION_STEPS)
    fields |= (others < 0).astype(np.uint32) << np.uint32(9)
    packed = largest << np.uint32(30)
    for column, shift in enumerate((20, 10, 0)):
        packed |= fields[:, column] << np.uint32(shift)
    return packed.astype("<u4").view(np.uint8).reshape(-1, 4)


SPZ = SceneFormat(
    ".spz",
    "Gaussians in 8 bits per number, 24 per coordinate (Niantic)",
    load_spz,
    save_spz,
    primitives=(Gaussians,),
    options=("version",),
    axes="RUB",
    holds=("antialiased",),
    read_facts=read_spz_facts,
    read_axes=read_spz_axes,
    read_unused=read_spz_unused,
)
