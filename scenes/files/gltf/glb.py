""".glb files: Gaussians in binary glTF 2.0 with the ratified extension KHR_gaussian_splatting.

Values are activated: linear scales, opacity in [0, 1], unit quaternions xyzw. Coefficients of spherical
harmonics have the order and signs of 3DGS. Source: the README of the extension in the repository KhronosGroup/glTF.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from luxel.render.primitives.gaussians import SH_C0, Gaussians
from luxel.render.primitives.similarity import Similarity
from luxel.scenes.errors import CaptureError
from luxel.scenes.files.axes import mirrored
from luxel.scenes.files.gltf.document import (
    COPY_AGAIN,
    FLOAT,
    UNSIGNED_BYTE,
    Document,
    Primitive,
    placed_meshes,
    read_document,
    read_glb,
    read_parts,
    unsupported,
    values,
)
from luxel.scenes.files.gltf.facts import facts_of
from luxel.scenes.files.gltf.unused_parts import DRAWN, EXTENSION, KERNEL, unused_parts
from luxel.scenes.files.gltf.writing import LARGEST, about_asset, as_text, glb_chunks, glb_size
from luxel.scenes.files.ply import write_atomically
from luxel.scenes.files.quantised.clipping import Clipping
from luxel.scenes.files.reading import reading
from luxel.scenes.files.scene_format import FACTS, SceneFacts, SceneFormat
from luxel.scenes.files.scenes.primitive_ply import as_arrays
from luxel.scenes.geometry import quaternion_from_rotation
from luxel.scenes.unused import Unused

COEFFICIENT = re.compile(rf"{EXTENSION}:SH_DEGREE_([123])_COEF_(\d)")
POINTS = 0  # mode of a mesh primitive
GROWTH = 16  # bytes of parameters per byte of a file, at most: nodes may repeat a mesh
MAX_INSTANCES = 4096  # of mesh primitives in a scene
UNEVEN = 1e-3  # of a node's matrix from a rotation with uniform scale
TINY = float(np.finfo(np.float32).tiny)
MAX_LOG = float(np.log(np.finfo(np.float32).max))  # of scales that floats hold
NEAR_1 = 1 - 2.0**-25  # what an opacity of 1 is read as, so that its logit is finite


@dataclass
class Splats:
    """A mesh primitive of Gaussians, where it stands in the scene, and the degree of its spherical harmonics."""

    primitive: Primitive
    matrix: np.ndarray
    degree: int
    count: int


def load_glb(path: str | Path) -> Gaussians:
    """The Gaussians of all nodes of a file's scene, in the axes of glTF.

    Rotations, translations, uniform scales and reflections of nodes are applied.

    Raises:
        CaptureError: the file cannot be read, has no Gaussians, or compresses or stores them in a way that luxel does
            not read.
    """
    path = Path(path)
    with reading(path, "a .glb scene", COPY_AGAIN):
        document, binary = read_glb(path)
        placed = [
            _splats(path, document, primitive, matrix)
            for mesh, matrix in placed_meshes(path, document)
            for primitive in mesh.primitives
            if EXTENSION in primitive.extensions
        ]
        if not placed:
            raise CaptureError(
                f"{path}: there are no Gaussians in it ({EXTENSION}).", "Give a .glb file of a splat scene."
            )
        degree, count = max(part.degree for part in placed), sum(part.count for part in placed)
        parameters = 4 * (11 + 3 * (degree + 1) ** 2) * count  # bytes
        if parameters > GROWTH * path.stat().st_size or len(placed) > MAX_INSTANCES:
            raise CaptureError(
                f"{path}: its nodes put {count} Gaussians at {len(placed)} positions, too many for its size.",
                "Export each Gaussian once.",
            )
        parts = [_gaussians(path, document, binary, part, degree) for part in placed]
    if len(parts) == 1:
        return parts[0]
    names = Gaussians.names
    return Gaussians(**{name: torch.cat([getattr(part, name) for part in parts]) for name in names})


def _splats(path: Path, document: Document, primitive: Primitive, matrix: np.ndarray) -> Splats:
    """A mesh primitive that has what the extension requires."""
    about = primitive.extensions[EXTENSION]
    about = about if isinstance(about, dict) else {}
    if (kernel := about.get("kernel", KERNEL)) != KERNEL:
        raise unsupported(path, f"its primitives have the kernel {str(kernel)[:40]!r}")
    compressed = ", ".join(about.get("extensions", {}))
    needed = ["POSITION", *(f"{EXTENSION}:{name}" for name in ("ROTATION", "SCALE", "OPACITY"))]
    needed.append(_coefficient(0, 0))
    numbers = [primitive.attributes.get(name) for name in needed]
    empty = [n is None or document.accessors[n].buffer_view is None for n in numbers]
    if compressed and any(empty):
        raise unsupported(path, f"its Gaussians are compressed ({compressed[:200]})")
    if primitive.mode != POINTS or primitive.indices is not None:
        raise unsupported(path, "its Gaussians are not plain points")
    orders = [match.groups() for name in primitive.attributes if (match := COEFFICIENT.fullmatch(name))]
    degree = max((int(degree) for degree, _ in orders), default=0)
    needed += [_coefficient(d, n) for d in range(1, degree + 1) for n in range(2 * d + 1)]
    missing = [name for name in needed if name not in primitive.attributes]
    if missing:
        raise CaptureError(f"{path}: Gaussians need the attributes {', '.join(missing)}.", COPY_AGAIN)
    counts = {document.accessors[primitive.attributes[name]].count for name in needed}
    if len(counts) > 1:
        raise CaptureError(
            f"{path}: the attributes of Gaussians have different counts ({', '.join(map(str, sorted(counts)))}).",
            COPY_AGAIN,
        )
    return Splats(primitive, matrix, degree, counts.pop())


def _coefficient(degree: int, number: int) -> str:
    return f"{EXTENSION}:SH_DEGREE_{degree}_COEF_{number}"


def _gaussians(path: Path, document: Document, binary: memoryview, part: Splats, degree: int) -> Gaussians:
    """Gaussians in the coordinates of the scene; coefficients up to ``degree``, 0 where the file has none."""

    def column(name: str, width: int) -> np.ndarray:
        column_values = values(path, document, binary, part.primitive.attributes[name])
        if column_values.shape[1] != width:
            raise CaptureError(
                f"{path}: {name} has {column_values.shape[1]} numbers per Gaussian, not {width}.", COPY_AGAIN
            )
        return column_values

    rest = np.zeros((part.count, (degree + 1) ** 2 - 1, 3), np.float32)
    for d in range(1, part.degree + 1):
        for number in range(2 * d + 1):
            rest[:, d * d - 1 + number] = column(_coefficient(d, number), 3)
    scales = np.maximum(column(f"{EXTENSION}:SCALE", 3), np.float32(TINY))
    opacity = np.clip(column(f"{EXTENSION}:OPACITY", 1)[:, 0].astype(np.float64), TINY, NEAR_1)
    arrays = {
        "means": np.array(column("POSITION", 3), np.float32),
        "quats": np.ascontiguousarray(column(f"{EXTENSION}:ROTATION", 4)[:, [3, 0, 1, 2]], np.float32),
        "log_scales": np.log(scales, out=scales),
        "opacity_logits": np.log(opacity / (1 - opacity)).astype(np.float32),
        "sh_dc": np.array(column(_coefficient(0, 0), 3), np.float32),
        "sh_rest": rest,
    }
    gaussians = Gaussians(**{name: torch.from_numpy(array) for name, array in arrays.items()})
    return gaussians if np.array_equal(part.matrix, np.eye(4)) else _moved(path, gaussians, part.matrix)


def _moved(path: Path, gaussians: Gaussians, matrix: np.ndarray) -> Gaussians:
    """Gaussians moved by the matrix of a node, [4, 4]: scale * rotation, perhaps with a reflection, and translation."""
    with np.errstate(all="ignore"):
        volume = float(np.linalg.det(matrix[:3, :3])) if np.isfinite(matrix).all() else 0.0
        scale = abs(volume) ** (1 / 3)
        rotation = matrix[:3, :3] / scale if scale else np.zeros((3, 3))
    if not np.abs(rotation @ rotation.T - np.eye(3)).max() < UNEVEN:
        raise unsupported(
            path, "a node stretches its Gaussians, by a matrix that is no rotation with one scale"
        )
    if volume < 0:
        gaussians, rotation = mirrored(gaussians, (-1.0, 1.0, 1.0)), rotation * [-1, 1, 1]
    w, x, y, z = quaternion_from_rotation(rotation).tolist()
    right, up, front = matrix[:3, 3].tolist()
    return gaussians.transformed(Similarity((w, x, y, z), scale, (right, up, front)))


def save_glb(path: str | Path, gaussians: Gaussians, facts: SceneFacts | None = None) -> None:
    """Writes floats, and colours in bytes (COLOR_0) for programs that show the file as points.

    Args:
        path: of the file.
        gaussians: N, at least one, in the axes of glTF.
        facts: written into the extras of the asset.

    Raises:
        CaptureError: there are no Gaussians, they do not fit into the 4 GiB of a file, or it cannot be written.
    """
    path, count = Path(path), gaussians.count
    if not count:
        raise CaptureError(
            f"{path}: there are no Gaussians to write, and glTF has no empty scenes.", "Write .ply."
        )
    columns = _columns(as_arrays(gaussians), gaussians.sh_degree)
    text = as_text(_header(columns, count, facts or SceneFacts()))
    length = count * sum(column.size for column in columns)
    total = glb_size(text, length)
    if total > LARGEST:
        raise CaptureError(
            f"{path}: {count} Gaussians need {total} bytes, and a .glb file has at most {LARGEST}.",
            "Write .ply, or fewer Gaussians.",
        )

    made = (
        np.ascontiguousarray(column.make(), "u1" if column.colour else "<f4").data.cast("B")
        for column in columns
    )
    write_atomically(path, glb_chunks(text, length, made))
    clipping = Clipping(count)
    logs = gaussians.log_scales.detach().cpu().numpy()
    clipping.add("scales (to 3.4e+38)", slice(None), logs, -math.inf, MAX_LOG)
    clipping.report(path)


@dataclass
class Column:
    """An attribute of a file: its numbers per Gaussian, made when they are written, and bounds if it has some."""

    name: str
    width: int
    make: Callable[[], np.ndarray]
    colour: bool = False
    bounds: tuple[list[float], list[float]] | None = None

    @property
    def size(self) -> int:
        """Bytes per Gaussian."""
        return self.width * (1 if self.colour else 4)


def _columns(arrays: dict[str, np.ndarray], degree: int) -> list[Column]:
    means, rest = arrays["means"], arrays["sh_rest"]

    def opacity() -> np.ndarray:
        with np.errstate(over="ignore"):
            return 1 / (1 + np.exp(-arrays["opacity_logits"].astype(np.float64)))

    def colour() -> np.ndarray:
        rgb = 0.5 + np.float32(SH_C0) * arrays["sh_dc"]
        rgba = np.concatenate([rgb, opacity()[:, None].astype(np.float32)], axis=1)
        return np.rint(255 * np.clip(np.nan_to_num(rgba), 0, 1)).astype(np.uint8)

    def rotation() -> np.ndarray:
        quats = arrays["quats"].astype(np.float64)[:, [1, 2, 3, 0]]
        length = np.linalg.norm(quats, axis=1, keepdims=True)
        with np.errstate(invalid="ignore"):
            return np.where(length == 0, [0.0, 0.0, 0.0, 1.0], quats / np.maximum(length, 1e-300))

    def scale() -> np.ndarray:
        with np.errstate(over="ignore"):
            return np.minimum(np.exp(arrays["log_scales"]), np.finfo(np.float32).max)

    usual = np.where(np.isfinite(means), means, np.float32(0))
    bounds = (usual.min(axis=0).tolist(), usual.max(axis=0).tolist())
    columns = [
        Column("POSITION", 3, lambda: means, bounds=bounds),
        Column("COLOR_0", 4, colour, colour=True),
        Column(f"{EXTENSION}:ROTATION", 4, rotation),
        Column(f"{EXTENSION}:SCALE", 3, scale),
        Column(f"{EXTENSION}:OPACITY", 1, opacity),
        Column(_coefficient(0, 0), 3, lambda: arrays["sh_dc"]),
    ]
    for d in range(1, degree + 1):
        for number in range(2 * d + 1):
            place = d * d - 1 + number
            columns.append(Column(_coefficient(d, number), 3, lambda place=place: rest[:, place]))
    return columns


def _header(columns: list[Column], count: int, facts: SceneFacts) -> dict[str, Any]:
    """The document of a file with these columns one after the other."""
    views, accessors, start = [], [], 0
    for number, column in enumerate(columns):
        size = count * column.size
        views.append({"buffer": 0, "byteOffset": start, "byteLength": size, "target": 34962})
        accessor: dict[str, Any] = {
            "bufferView": number,
            "componentType": UNSIGNED_BYTE if column.colour else FLOAT,
            "count": count,
            "type": "SCALAR" if column.width == 1 else f"VEC{column.width}",
        }
        if column.colour:
            accessor["normalized"] = True
        if column.bounds is not None:
            accessor["min"], accessor["max"] = column.bounds
        accessors.append(accessor)
        start += size
    about = {"kernel": KERNEL, **DRAWN}
    attributes = {column.name: number for number, column in enumerate(columns)}
    primitive = {"attributes": attributes, "mode": POINTS, "extensions": {EXTENSION: about}}
    return {
        "asset": about_asset(facts),
        "extensionsUsed": [EXTENSION],
        "scene": 0,
        "scenes": [{"nodes": [0]}],
        "nodes": [{"mesh": 0}],
        "meshes": [{"primitives": [primitive]}],
        "accessors": accessors,
        "bufferViews": views,
        "buffers": [{"byteLength": start}],
    }


def read_glb_facts(path: str | Path) -> SceneFacts:
    """What the extras of a file say, in the axes of glTF; where luxel did not write it: y is up, the unit is a metre.

    Raises:
        CaptureError: the file cannot be read.
    """
    path = Path(path)
    with reading(path, "a .glb scene", COPY_AGAIN):
        return facts_of(read_document(path))


def read_glb_unused(path: str | Path) -> list[Unused]:
    """Parts of the document of a file that luxel does not read, or does not draw as they say.

    Raises:
        CaptureError: the file cannot be read.
    """
    path = Path(path)
    with reading(path, "a .glb scene", COPY_AGAIN):
        return unused_parts(read_parts(path))


GLB = SceneFormat(
    ".glb",
    "Gaussians in glTF 2.0 (KHR_gaussian_splatting)",
    load_glb,
    save_glb,
    primitives=(Gaussians,),
    axes="LUF",
    holds=FACTS,
    read_facts=read_glb_facts,
    read_unused=read_glb_unused,
)
