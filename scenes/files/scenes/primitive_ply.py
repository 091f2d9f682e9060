"""PLY files of primitives: the properties that the specification of each names."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from luxel.render.primitives import PRIMITIVES, Gaussians, Parameters, PrimitiveSpec
from luxel.render.primitives.spec import Columns
from luxel.render.replay import on_host
from luxel.scenes.errors import CaptureError
from luxel.scenes.files.ply import (
    EXPORT_AGAIN,
    HEADER_LIMIT,
    need_columns,
    read_header,
    read_vertices,
    row_chunks,
    write_atomically,
)
from luxel.scenes.files.reading import check_file, open_file, reading
from luxel.scenes.files.scene_facts import COMMENT, comments_of, facts_from, facts_in
from luxel.scenes.files.scene_format import FACTS, LABEL, SceneFacts, SceneFormat
from luxel.scenes.files.scenes.filter_3d import with_filter
from luxel.scenes.files.scenes.ply_columns import FILTER, FILTERED, header_of, refuse_other_scenes, unused_in
from luxel.scenes.large_coordinates import choose_shift
from luxel.scenes.unused import Unused

CPU_ROWS, GPU_ROWS = 1 << 14, 1 << 16  # that are written at a time
MAX_POINTS = 100_000  # of which the middle is taken
IN_WORLD = (
    "coordinates of the capture:"  # before a comment about the shift: it is added to positions, as double
)
SHIFT = f"{COMMENT} shift"
REST = (0, 9, 24, 45)  # properties of spherical harmonics above degree 0, by degree


def load_primitive_ply(path: str | Path, primitive: str | None = None) -> Parameters:
    """Primitives from the properties that `save_primitive_ply` writes, in any order.

    Args:
        path: of the file.
        primitive: its name; None: the one with a mark in the file, else the one without marks (Gaussians).

    Raises:
        CaptureError: the file cannot be read, lacks properties of the primitive, or has a wrong number of them.
    """
    path = Path(path)
    with reading(path, "a PLY file of primitives", EXPORT_AGAIN):
        return _primitives(path, recognise(path) if primitive is None else PRIMITIVES[primitive])


def _primitives(path: Path, spec: PrimitiveSpec) -> Parameters:
    """The primitives of a file."""
    vertices = read_vertices(path)
    refuse_other_scenes(path, vertices.dtype.names or (), spec)
    shift = _subtracted(header_of(path).comments, vertices)
    if shift.any():
        vertices = vertices.copy()
        for name in vertices.dtype.names or ():
            if (axis := _axis(name)) is not None and vertices.dtype[name] == np.float64:
                vertices[name] -= shift[axis]
    arrays = {
        part.parameter: _coefficients(path, vertices, part, spec)
        if part.parameter == "sh_rest"
        else _read(path, vertices, part, spec)
        for part in sorted(spec.columns, key=lambda part: part.parameter == "sh_rest")
        if part.parameter
    }
    if spec.name == FILTERED and FILTER in (vertices.dtype.names or ()):
        arrays |= with_filter(arrays["log_scales"], arrays["opacity_logits"], vertices[FILTER])
    tensors = {name: torch.from_numpy(np.ascontiguousarray(array)) for name, array in arrays.items()}
    return spec.engine.parameters(**tensors)


def save_primitive_ply(
    path: str | Path,
    scene: Parameters,
    labels: Tensor | None = None,
    facts: SceneFacts | None = None,
    world: bool = False,
) -> None:
    """Writes the raw parameters, float32; binary, through a temporary file.

    Gaussians get the layout of the 3DGS authors (INRIA), with normals of 0 as there.

    Args:
        path: of the file.
        scene: N primitives.
        labels: uint8 [N], written as the property label (uchar); None: no such property.
        facts: written as comments of the header, see `luxel.scenes.files.scene_facts`; None: none.
        world: write positions as double, with the shift of the facts added: the coordinates of the capture.

    Raises:
        CaptureError: the file cannot be written.
    """
    write_atomically(Path(path), primitive_chunks(scene, labels, facts, world))


def primitive_chunks(
    scene: Parameters,
    labels: Tensor | None = None,
    facts: SceneFacts | None = None,
    world: bool = False,
) -> Iterator[bytes | memoryview]:
    """The file that `save_primitive_ply` writes, in parts, each valid until the next one is taken."""
    names: list[str] = []
    columns: list[Tensor] = []
    for part in PRIMITIVES[scene.primitive].columns:
        if not part.parameter:
            names += part.names
            columns.append(torch.zeros(1, len(part.names), device=scene.device).expand(scene.count, -1))
            continue
        tensor = scene.tensors()[part.parameter].detach()
        if part.parameter == "sh_rest":
            tensor = tensor.transpose(1, 2)  # channel by channel
        numbers = math.prod(tensor.shape[1:])
        if own := _names(part, numbers // len(part.names)):
            names += own
            columns.append(tensor)
    marks = None if labels is None else {LABEL: labels.cpu().numpy()}
    facts = facts or SceneFacts()
    added = {}
    if world and facts.shift is not None:
        added = {name: facts.shift[axis] for name in names if (axis := _axis(name)) is not None}
    comments = [f"{IN_WORLD} {c}" if added and c.startswith(SHIFT) else c for c in comments_of(facts)]
    return row_chunks(names, scene.count, _rows(columns, scene.count), marks, comments, added)


def _axis(name: str) -> int | None:
    """The axis of a property that is a coordinate of a position: x, or x_0 of several; None: it is none."""
    axis, _, number = name.partition("_")
    is_position = axis in ("x", "y", "z") and (number.isdecimal() or name == axis)
    return "xyz".index(axis) if is_position else None


def _subtracted(comments: list[str], vertices: np.ndarray) -> np.ndarray:
    """What is subtracted from positions that a file has as double, [3]: what a comment of luxel says, else what
    `choose_shift` chooses; 0 of other files."""
    names = vertices.dtype.names or ()
    columns = [
        [n for n in names if _axis(n) == axis and vertices.dtype[n] == np.float64] for axis in range(3)
    ]
    if not all(columns) or not len(vertices):
        return np.zeros(3)
    stated = facts_in([c.removeprefix(IN_WORLD).strip() for c in comments if c.startswith(IN_WORLD)]).shift
    if stated is not None:
        return np.array(stated)
    xyz = np.stack([vertices[names[0]] for names in columns], axis=-1)
    xyz = xyz[np.isfinite(xyz).all(axis=1)][:: 1 + len(xyz) // MAX_POINTS]
    if not len(xyz):
        return np.zeros(3)
    away = np.linalg.norm(xyz - np.median(xyz, axis=0), axis=1)
    return choose_shift(xyz, float(np.median(away)))


def _rows(columns: list[Tensor], count: int) -> Iterator[np.ndarray]:
    """The rows of tensors side by side, float32, some at a time, each valid until the next is asked for."""
    most = min(max(1, count), GPU_ROWS if columns[0].is_cuda else CPU_ROWS)
    return on_host(_side_by_side(columns, start, most) for start in range(0, count, most))


def _side_by_side(columns: list[Tensor], start: int, most: int) -> Tensor:
    parts = [tensor[start : start + most].float() for tensor in columns]
    return torch.cat([part.reshape(len(part), -1) for part in parts], dim=1)


def read_ply_facts(path: str | Path) -> SceneFacts:
    """What the comments of a header say, see `luxel.scenes.files.scene_facts.facts_in`.

    Raises:
        CaptureError: the file cannot be read.
    """
    path = Path(path)
    with reading(path, "a PLY file of primitives", EXPORT_AGAIN):
        header = header_of(path)
        facts = facts_in(header.comments)
        if not any(_axis(name) is not None and kind == "f8" for name, kind in header.properties):
            return facts
        shift = _subtracted(header.comments, read_vertices(path))
        return replace(facts, shift=facts_from({"shift": shift.tolist()}).shift or facts.shift)


def read_ply_unused(path: str | Path) -> list[Unused]:
    """What the header of a file announces that `load_primitive_ply` and `read_ply_facts` do not use.

    Raises:
        CaptureError: the file cannot be read.
    """
    path = Path(path)
    with reading(path, "a PLY file of primitives", EXPORT_AGAIN):
        return unused_in(header_of(path), recognise(path))


def recognise(path: Path) -> PrimitiveSpec:
    """The primitive of a PLY file, by its properties: the one of a mark, else the first one without marks whose
    properties are all there, else Gaussians."""
    check_file(path)  # a pipe would wait
    try:
        with open_file(path) as file:
            names = {name for name, _ in read_header(path, file.read(HEADER_LIMIT)).properties}
    except (OSError, ValueError):  # the reader raises the error
        names = set()
    marked = (spec for spec in PRIMITIVES.values() if spec.marks & names)
    fitting = (spec for spec in PRIMITIVES.values() if not spec.marks and names.issuperset(_needed(spec)))
    return next(marked, next(fitting, PRIMITIVES[Gaussians.primitive]))


def _needed(spec: PrimitiveSpec) -> list[str]:
    """The properties that every file of a primitive has."""
    return [name for part in spec.columns if part.parameter and not part.repeats for name in part.names]


def load_gaussians(path: str | Path) -> Gaussians:
    """Gaussians from the INRIA layout: x y z, f_dc_*, f_rest_* (channel by channel), opacity, scale_*, rot_*.

    Raises:
        CaptureError: the file cannot be read or holds no Gaussians.
    """
    scene = load_primitive_ply(path, Gaussians.primitive)
    assert isinstance(scene, Gaussians)
    return scene


def as_arrays(scene: Parameters) -> dict[str, np.ndarray]:
    """The parameters by name, float32."""
    return {name: tensor.detach().cpu().float().numpy() for name, tensor in scene.tensors().items()}


def _names(part: Columns, rows: int) -> list[str]:
    """The properties of a parameter with ``rows`` rows."""
    return [name.format(i) for i in range(rows) for name in part.names] if part.repeats else list(part.names)


def _count(vertices: np.ndarray, part: Columns) -> int:
    """How many rows of a parameter a file has."""
    before, after = part.names[0].split("{}")
    middles = (
        name[len(before) : len(name) - len(after)]
        for name in vertices.dtype.names or ()
        if name.startswith(before) and name.endswith(after)
    )
    return sum(1 for middle in middles if middle.isdecimal())


def _read(path: Path, vertices: np.ndarray, part: Columns, spec: PrimitiveSpec) -> np.ndarray:
    """A parameter other than SH coefficients, float32."""
    if part.repeats is None:
        array = need_columns(path, vertices, part.names, spec.noun)
        return array if len(part.names) > 1 else array[:, 0]
    rows, (least, most) = _count(vertices, part), part.repeats
    if rows and not least <= rows <= most:
        raise CaptureError(
            f"{path}: {spec.noun} have {least} to {most} {part.parameter}, these have {rows}.", EXPORT_AGAIN
        )
    names = _names(part, max(rows, least))
    return need_columns(path, vertices, names, spec.noun).reshape(-1, max(rows, least), len(part.names))


def _coefficients(path: Path, vertices: np.ndarray, part: Columns, spec: PrimitiveSpec) -> np.ndarray:
    """Spherical harmonics above degree 0, [N, K - 1, 3], of whatever degree the file has."""
    count = _count(vertices, part)
    if count not in REST:
        known = f"{', '.join(map(str, REST[:-1]))} or {REST[-1]}"
        raise CaptureError(f"{path}: {count} f_rest properties fit no SH degree ({known}).", EXPORT_AGAIN)
    flat = np.zeros((len(vertices), 0), np.float32)
    if count:
        flat = need_columns(path, vertices, _names(part, count), spec.noun)
    return flat.reshape(len(vertices), 3, count // 3).transpose(0, 2, 1)


PLY = SceneFormat(
    ".ply",
    "any primitives, raw parameters; Gaussians as other viewers read them",
    load_primitive_ply,
    save_primitive_ply,
    options=("labels", "world"),
    holds=FACTS,
    read_facts=read_ply_facts,
    read_unused=read_ply_unused,
)
