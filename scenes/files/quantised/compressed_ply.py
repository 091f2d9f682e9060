"""Compressed PLY (PlayCanvas, SuperSplat): 16 bytes per Gaussian, in chunks with bounds, and one per coefficient.

Layout: the documentation and tools of PlayCanvas (MIT). The element ``chunk`` has the bounds of the centres and of the
logarithms of scales, in later files also of colours; ``vertex`` has positions and scales as 11, 10 and 11 bits between
them, rotations as 2 + 3 x 10 bits, colours and opacities as 4 x 8 bits; ``sh`` has the coefficients above degree 0.
"""

from __future__ import annotations

import re
from itertools import product
from pathlib import Path

import numpy as np
import torch

from luxel.render.primitives import Gaussians
from luxel.render.primitives.gaussians import SH_C0
from luxel.scenes.errors import CaptureError
from luxel.scenes.files.ply import HEADER_LIMIT, TYPES, write_atomically
from luxel.scenes.files.quantised.clipping import Clipping
from luxel.scenes.files.quantised.quantisation import (
    FAR,
    LOGITS,
    ROWS,
    SMALLEST,
    blocks,
    finite,
    from_smallest_three,
    morton_order,
    opacity_levels,
    smallest_three,
    to_levels,
    unit_quats,
)
from luxel.scenes.files.reading import open_file, read_bytes, reading
from luxel.scenes.files.scene_facts import facts_in
from luxel.scenes.files.scene_format import SceneFacts, SceneFormat
from luxel.scenes.files.scenes.ply_columns import unused_columns, unused_comments, unused_elements
from luxel.scenes.files.scenes.primitive_ply import REST, as_arrays
from luxel.scenes.unused import Unused

CHUNK = 256  # Gaussians
_BOUNDS = tuple(
    tuple(f"{end}_{part}{axis}" for end, axis in product(("min", "max"), axes))
    for part, axes in (("", "xyz"), ("scale_", "xyz"), ("", "rgb"))
)  # of centres, scales, colours: three lower ones, three upper ones
PACKED = ("packed_position", "packed_rotation", "packed_scale", "packed_color")
READ = {"chunk": {name for part in _BOUNDS for name in part}, "vertex": set(PACKED), "sh": set[str]()}
THIRDS = (21, 11, 0), (2047, 1023, 2047)  # shifts and masks of three numbers in 32 bits
BYTES = (24, 16, 8, 0), (255, 255, 255, 255)  # of four
TENTHS = (20, 10, 0), (1023, 1023, 1023)  # of the components of a rotation
MAX_SCALE = 20.0  # logarithms of scales are stored from -20 to 20
REST_RANGE, REST_LEVELS = 8.0, 256  # coefficients are stored from -4 to 4
HALF_STEP = REST_RANGE / REST_LEVELS / 2
# What is clipped, for messages.
SCALES = f"scales ({np.exp(-MAX_SCALE):.2g} to {np.exp(MAX_SCALE):.2g})"
COEFFICIENTS = f"spherical harmonics ({-REST_RANGE / 2:g} to {REST_RANGE / 2:g})"
AGAIN = "Copy or export the file again."


def is_compressed_ply(path: Path) -> bool:
    """Whether a file is PLY with an element ``chunk``, before the vertices."""
    try:
        if not path.name.lower().endswith(".ply") or not path.is_file():  # a pipe would wait
            return False
        with open_file(path) as file:
            head = file.read(HEADER_LIMIT)
    except (CaptureError, OSError):  # the reader raises the error
        return False
    lines = [line.split() for line in _lines(head)]
    elements = [line[1:2] for line in lines if line[:1] == [b"element"]]
    return lines[:1] == [[b"ply"]] and elements[:1] == [[b"chunk"]]


def _lines(head: bytes) -> list[bytes]:
    """The lines of a header, without the last."""
    return head[: max(0, head.find(b"end_header"))].splitlines()


def read_compressed_ply_facts(path: str | Path) -> SceneFacts:
    """What the comments of a header say, see `luxel.scenes.files.scene_facts.facts_in`.

    Raises:
        CaptureError: the file cannot be read.
    """
    return facts_in(_comments(Path(path)))


def read_compressed_ply_unused(path: str | Path) -> list[Unused]:
    """Elements, properties and comments of a header that are not read.

    Raises:
        CaptureError: the file cannot be read.
    """
    path, elements, left = Path(path), {}, []
    for words in (line.split() for line in _header_lines(path)):
        match words:
            case ["element", name, number] if number.isdecimal():
                elements[name] = int(number)
            case ["property", *_, name] if elements:
                left += [name] if name not in READ.get(list(elements)[-1], {name}) else []
    others = {name: count for name, count in elements.items() if name not in READ}
    left = [name for name in left if not re.fullmatch(r"f_rest_\d+", name)]
    return [*unused_columns(left), *unused_elements(others), *unused_comments(_comments(path))]


def _header_lines(path: Path) -> list[str]:
    with reading(path, "a compressed PLY file", AGAIN), open_file(path) as file:
        return [line.decode("latin-1") for line in _lines(file.read(HEADER_LIMIT))]


def _comments(path: Path) -> list[str]:
    return [line.strip()[8:].strip() for line in _header_lines(path) if line.split()[:1] == ["comment"]]


def load_compressed_ply(path: str | Path) -> Gaussians:
    """Gaussians of a compressed PLY file, with or without bounds of colours and spherical harmonics.

    Raises:
        CaptureError: the file cannot be read, lacks elements or properties, or is cut short.
    """
    path = Path(path)
    with reading(path, "a compressed PLY file", AGAIN):
        tables = _tables(path, read_bytes(path))
        if not {"chunk", "vertex"} <= tables.keys() or not set(PACKED) <= set(
            tables["vertex"].dtype.names or ()
        ):
            raise CaptureError(
                f"{path}: compressed PLY needs the elements chunk, and vertex with {', '.join(PACKED)}.",
                "Give plain PLY the suffix .ply alone, or export the file again.",
            )
        count = len(tables["vertex"])
        if len(tables["chunk"]) != -(-count // CHUNK):
            raise CaptureError(
                f"{path}: {count} Gaussians are {-(-count // CHUNK)} chunks of {CHUNK}, but the file has "
                f"{len(tables['chunk'])}.",
                AGAIN,
            )
        return _gaussians(tables["chunk"], tables["vertex"], _harmonics(path, tables.get("sh"), count))


def _tables(path: Path, data: bytes) -> dict[str, np.ndarray]:
    """The elements of a file by name, structured arrays on its bytes."""
    end = data.find(b"end_header", 0, HEADER_LIMIT)
    at = data.find(b"\n", max(end, 0), HEADER_LIMIT) + 1
    if not data.startswith(b"ply") or end < 0 or at == 0:
        raise CaptureError(f"{path}: this is not a PLY file, or its header does not end.", AGAIN)
    order, elements = "", []
    for words in (line.split() for line in data[:end].decode("latin-1").splitlines()[1:]):
        match words:
            case ["format", "binary_little_endian" | "binary_big_endian" as kind, *_]:
                order = "<" if "little" in kind else ">"
            case ["element", name, number]:
                elements.append((name, int(number), []))
            case ["property", kind, name]:
                elements[-1][2].append((name, order + TYPES[kind]))
            case ["property" | "format", *_]:
                raise CaptureError(
                    f"{path}: {' '.join(words)[:80]} is not of compressed PLY, which is binary and has no lists.",
                    AGAIN,
                )
    tables = {}
    for name, count, properties in elements:
        layout = np.dtype(properties)
        if not 0 <= count * layout.itemsize <= len(data) - at or not properties:
            raise CaptureError(
                f"{path}: cut short: {count} x {name} in the header, but only {len(data) - at} bytes follow.",
                AGAIN,
            )
        tables[name] = np.frombuffer(data, layout, count, at)
        at += count * layout.itemsize
    return tables


def _harmonics(path: Path, table: np.ndarray | None, count: int) -> np.ndarray:
    """The coefficients of a file, float32 [count, K - 1, 3]."""
    if table is None:
        return np.zeros((count, 0, 3), np.float32)
    names = [f"f_rest_{i}" for i in range(len(table.dtype.names or ()))]
    if len(table) != count or len(names) not in REST or set(names) != set(table.dtype.names or ()):
        raise CaptureError(
            f"{path}: {len(table)} x sh with {len(names)} properties fit no SH degree of {count} Gaussians.",
            AGAIN,
        )
    out = np.empty((count, len(names) // 3, 3), np.float32)
    for i, name in enumerate(names):  # channel by channel
        levels = table[name].astype(np.float32)
        inner = (levels + np.float32(0.5)) / np.float32(REST_LEVELS)
        share = np.where(levels <= 0, 0, np.where(levels >= REST_LEVELS - 1, 1, inner))
        out[:, i % (len(names) // 3), i // (len(names) // 3)] = (share - np.float32(0.5)) * np.float32(
            REST_RANGE
        )
    return out


def _gaussians(chunks: np.ndarray, vertices: np.ndarray, harmonics: np.ndarray) -> Gaussians:
    """The Gaussians of the elements of a file."""
    count = len(vertices)
    means, quats = np.empty((count, 3), np.float32), np.empty((count, 4), np.float32)
    log_scales, colours = np.empty((count, 3), np.float32), np.empty((count, 3), np.float32)
    logits = np.empty(count, np.float32)
    coloured = set(_BOUNDS[2]) <= set(chunks.dtype.names or ())
    positions, scales, rgb = (
        _bounds(chunks, names) for names in (*_BOUNDS[:2], _BOUNDS[2] if coloured else ())
    )
    for rows in blocks(count):
        position, rotation, scale, colour = (vertices[name][rows].astype(np.uint32) for name in PACKED)
        chunk = np.arange(rows.start, rows.stop) // CHUNK
        means[rows] = _between(positions, chunk, _fields(position, *THIRDS))
        log_scales[rows] = _between(scales, chunk, _fields(scale, *THIRDS))
        others = (_fields(rotation, *TENTHS) - 0.5) * np.float32(2 * SMALLEST)
        quats[rows] = from_smallest_three(rotation >> np.uint32(30), others)
        rgba = _fields(colour, *BYTES)
        colours[rows] = _between(rgb, chunk, rgba[:, :3])
        logits[rows] = LOGITS[colour & np.uint32(255)]
    return Gaussians(
        means=torch.from_numpy(means),
        quats=torch.from_numpy(quats),
        log_scales=torch.from_numpy(log_scales),
        opacity_logits=torch.from_numpy(logits),
        sh_dc=torch.from_numpy((colours - np.float32(0.5)) / np.float32(SH_C0)),
        sh_rest=torch.from_numpy(harmonics),
    )


def _bounds(chunks: np.ndarray, names: tuple[str, ...]) -> np.ndarray:
    """Lower and upper bounds of the chunks, float32 [C, 2, 3]; 0 and 1 where there are no ``names``."""
    if not names:
        return np.broadcast_to(np.array([[0], [1]], np.float32), (len(chunks), 2, 3))
    return np.stack([chunks[name] for name in names], axis=-1).astype(np.float32).reshape(-1, 2, 3)


def _between(bounds: np.ndarray, chunk: np.ndarray, share: np.ndarray) -> np.ndarray:
    """Values between the bounds of their chunk."""
    low, high = bounds[chunk, 0], bounds[chunk, 1]
    with np.errstate(over="ignore", invalid="ignore"):  # bounds may be any floats
        return low * (1 - share) + high * share


def _fields(packed: np.ndarray, shifts: tuple[int, ...], masks: tuple[int, ...]) -> np.ndarray:
    """Numbers of several bits, uint32 [N] -> float32 [N, fields], 0 to 1."""
    fields = (packed[:, None] >> np.array(shifts, np.uint32)) & np.array(masks, np.uint32)
    return fields.astype(np.float32) / np.array(masks, np.float32)


def _pack(shares: np.ndarray, shifts: tuple[int, ...], masks: tuple[int, ...]) -> np.ndarray:
    """The inverse of `_fields`."""
    packed = np.zeros(len(shares), np.uint32)
    for column, (shift, mask) in enumerate(zip(shifts, masks, strict=True)):
        packed |= to_levels(shares[:, column] * np.float32(mask), mask).astype(np.uint32) << np.uint32(shift)
    return packed


def save_compressed_ply(path: str | Path, gaussians: Gaussians) -> None:
    """Writes a compressed PLY file, along the Z-order curve, so that the bounds of chunks are narrow.

    Coefficients above degree 0 are in steps of 1 / 32 from -4 to 4, logarithms of scales from -20 to 20: others are
    clipped, and counted in a warning.

    Raises:
        CaptureError: the file cannot be written.
    """
    source = as_arrays(gaussians)
    order, rest = morton_order(source["means"]), source["sh_rest"]
    count, properties = gaussians.count, 3 * rest.shape[1]
    chunks = np.empty((-(-count // CHUNK), 3, 2, 3), "<f4")
    packed, harmonics = np.empty((count, 4), "<u4"), np.empty((count, properties), np.uint8)
    clipping = Clipping(count)
    for rows in blocks(count, ROWS // CHUNK * CHUNK):
        index = order[rows]
        clipping.add("positions", index, source["means"][index], -float(FAR), float(FAR))
        clipping.add(SCALES, index, source["log_scales"][index], -MAX_SCALE, MAX_SCALE)
        clipping.add(
            COEFFICIENTS, index, rest[index], -REST_RANGE / 2 - HALF_STEP, REST_RANGE / 2 + HALF_STEP
        )
        colours = np.float32(0.5) + np.float32(SH_C0) * finite(source["sh_dc"][index])
        values = np.stack(
            [
                finite(source["means"][index]),
                np.clip(finite(source["log_scales"][index]), -MAX_SCALE, MAX_SCALE),
                colours,
            ],
            axis=1,
        )
        bounds, shares = _chunk_bounds(values)
        chunks[rows.start // CHUNK : -(-rows.stop // CHUNK)] = bounds
        largest, others = smallest_three(unit_quats(source["quats"][index]))
        alphas = opacity_levels(source["opacity_logits"][index])
        packed[rows, 0] = _pack(shares[:, 0], *THIRDS)
        packed[rows, 1] = _pack(
            others * np.float32(SMALLEST) + np.float32(0.5), *TENTHS
        ) | largest << np.uint32(30)
        packed[rows, 2] = _pack(shares[:, 1], *THIRDS)
        packed[rows, 3] = _pack(np.column_stack([shares[:, 2], alphas / np.float32(255)]), *BYTES)
        share = rest[index].transpose(0, 2, 1).reshape(len(index), properties) / REST_RANGE + 0.5
        harmonics[rows] = to_levels(np.floor(np.clip(np.nan_to_num(share, nan=0.5), 0, 1) * REST_LEVELS))
    head = _header(len(chunks), count, properties)
    write_atomically(Path(path), [head, chunks.tobytes(), packed.tobytes(), harmonics.tobytes()])
    clipping.report(Path(path))


def _chunk_bounds(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The bounds of the chunks of Gaussians in their order, and where these are between them.

    Args:
        values: float32 [N, V, 3]; the first chunk begins with the first of them.

    Returns:
        Lower and upper bounds, [C, V, 2, 3], and shares from 0 to 1, [N, V, 3].
    """
    starts = np.arange(0, len(values), CHUNK)
    low, high = np.minimum.reduceat(values, starts), np.maximum.reduceat(values, starts)
    chunk = np.arange(len(values)) // CHUNK
    extent = (high - low)[chunk]
    shares = np.divide(values - low[chunk], extent, out=np.zeros_like(values), where=extent > 0)
    return np.stack([low, high], axis=2), shares


def _header(chunks: int, count: int, properties: int) -> bytes:
    lines = ["ply", "format binary_little_endian 1.0", f"element chunk {chunks}"]
    lines += [f"property float {name}" for names in _BOUNDS for name in names]
    lines += [f"element vertex {count}", *(f"property uint {name}" for name in PACKED)]
    if properties:
        lines += [f"element sh {count}", *(f"property uchar f_rest_{i}" for i in range(properties))]
    return ("\n".join([*lines, "end_header"]) + "\n").encode()


COMPRESSED_PLY = SceneFormat(
    ".compressed.ply",
    "Gaussians in chunks, 16 bytes each and 8 bits per coefficient (PlayCanvas)",
    load_compressed_ply,
    save_compressed_ply,
    primitives=(Gaussians,),
    read_facts=read_compressed_ply_facts,
    read_unused=read_compressed_ply_unused,
    recognises=is_compressed_ply,
)
