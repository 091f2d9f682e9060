"""PLY files: reading and writing of properties, and coloured points."""

from __future__ import annotations

import errno
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from luxel.render.geometry.camera import Points
from luxel.render.primitives.gaussians import SH_C0
from luxel.render.storage.single import write_file
from luxel.scenes.errors import CaptureError
from luxel.scenes.files.reading import read_bytes, reading

TYPES = {
    **dict.fromkeys(("char", "int8"), "i1"),
    **dict.fromkeys(("uchar", "uint8"), "u1"),
    **dict.fromkeys(("short", "int16"), "i2"),
    **dict.fromkeys(("ushort", "uint16"), "u2"),
    **dict.fromkeys(("int", "int32"), "i4"),
    **dict.fromkeys(("uint", "uint32"), "u4"),
    **dict.fromkeys(("float", "float32"), "f4"),
    **dict.fromkeys(("double", "float64"), "f8"),
}
HEADER_LIMIT = 1 << 16
EXPORT_AGAIN = "Export the file again, as plain (uncompressed) PLY."


@dataclass
class PlyHeader:
    """Format, number of vertices, their properties (name, numpy type), where the data begin, the comments, and how many
    there are of each other element."""

    format: str
    count: int
    properties: list[tuple[str, str]]
    offset: int
    comments: list[str]
    elements: dict[str, int] = field(default_factory=dict)


def read_header(path: Path, data: bytes) -> PlyHeader:
    """The header of a file whose first element is ``vertex``; other elements are ignored.

    Raises:
        CaptureError: this is not a valid PLY file.
    """
    lines = []
    position = 0
    while not lines or lines[-1] != "end_header":
        end = data.find(b"\n", position, HEADER_LIMIT)
        if end < 0:
            raise CaptureError(f"{path}: the PLY header does not end.", EXPORT_AGAIN)
        lines.append(data[position:end].decode("latin-1").strip())
        position = end + 1
    if lines[0] != "ply":
        raise CaptureError(f"{path}: this is not a PLY file.", EXPORT_AGAIN)
    kind, count, current, properties, comments = "", -1, "", [], []
    elements: dict[str, int] = {}
    try:
        for words in (line.split() for line in lines[1:-1]):
            match words:
                case ["format", name, *_]:
                    kind = name
                case ["comment", *text]:
                    comments.append(" ".join(text))
                case ["element", "vertex", number]:
                    if current == "other chunk":
                        raise CaptureError(
                            f"{path}: this is compressed PLY, a scene of Gaussians, not plain PLY.",
                            EXPORT_AGAIN,
                        )
                    if current:
                        raise ValueError("elements before the vertices")
                    current, count = "vertex", int(number)
                case ["element", name, number]:
                    current = f"other {name}"
                    elements[name] = int(number)
                case ["property", "list", *_]:
                    if current == "vertex":
                        raise ValueError("lists among the vertex properties")
                case ["property", type_name, name]:
                    if current == "vertex":
                        properties.append((name, TYPES[type_name]))
    except CaptureError:
        raise
    except (ValueError, KeyError) as error:
        raise CaptureError(f"{path}: the PLY header cannot be read ({error}).", EXPORT_AGAIN) from None
    names = [name for name, _ in properties]
    if kind not in ("ascii", "binary_little_endian", "binary_big_endian"):
        raise CaptureError(f"{path}: unknown PLY format {kind!r}.", EXPORT_AGAIN)
    if count < 0 or not properties or len(set(names)) != len(names):
        raise CaptureError(f"{path}: the PLY file has no usable vertices.", EXPORT_AGAIN)
    return PlyHeader(kind, count, properties, position, comments, elements)


def read_vertices(path: Path) -> np.ndarray:
    """The vertices as a structured array with native byte order, [P].

    Raises:
        CaptureError: the file is missing or cut short.
    """
    with reading(path, "a PLY file", EXPORT_AGAIN):
        return _vertices(path, read_bytes(path))


def _vertices(path: Path, data: bytes, exact: bool = False) -> np.ndarray:
    """The vertices of the bytes of a file; ``exact``: floats of text as float64, as their digits may have it."""
    header = read_header(path, data)
    if exact and header.format == "ascii":
        header.properties = [(name, "f8" if kind == "f4" else kind) for name, kind in header.properties]
    order = ">" if header.format == "binary_big_endian" else "<"
    layout = np.dtype([(name, order + kind) for name, kind in header.properties])
    remaining = len(data) - header.offset
    smallest = 2 * len(header.properties) - 1 if header.format == "ascii" else layout.itemsize
    if header.count * smallest > remaining:
        raise CaptureError(
            f"{path}: cut short: {header.count} vertices in the header, but only {remaining} bytes follow.",
            "Copy or export the file again.",
        )
    if header.format != "ascii":
        raw = np.frombuffer(data, layout, header.count, header.offset)
        return raw.astype(layout.newbyteorder("="))
    words = data[header.offset :].split(maxsplit=header.count * len(header.properties))
    try:
        words = words[: header.count * len(header.properties)]
        table = np.array(words, dtype=np.float64).reshape(header.count, len(header.properties))
    except ValueError:
        raise CaptureError(
            f"{path}: cut short or no numbers among the vertices.", "Copy or export the file again."
        ) from None
    out = np.empty(header.count, layout.newbyteorder("="))
    with np.errstate(invalid="ignore", over="ignore"):
        for index, (name, _) in enumerate(header.properties):
            out[name] = table[:, index]
    return out


def need_columns(path: Path, vertices: np.ndarray, names: Iterable[str], what: str) -> np.ndarray:
    """Properties of all vertices, float32 [P, number of names].

    Raises:
        CaptureError: one is missing; ``what`` is the plural noun of the message.
    """
    columns = vertices.dtype.names or ()
    missing = [name for name in names if name not in columns]
    if missing:
        raise CaptureError(f"{path}: {what} need the properties {', '.join(missing)}.", EXPORT_AGAIN)
    with np.errstate(over="ignore"):
        return np.stack([vertices[name].astype(np.float32) for name in names], axis=-1)


def load_points(path: str | Path, *, double: bool = False) -> Points:
    """Reads a coloured point cloud; grey where the file has no colours. Points that are not finite are left out.

    Args:
        double: give coordinates in float64, as exactly as the file has them.

    Raises:
        CaptureError: the file cannot be read or has no points.
    """
    path = Path(path)
    with reading(path, "a point cloud", EXPORT_AGAIN):
        return _points(path, _vertices(path, read_bytes(path), double), double)


def _points(path: Path, vertices: np.ndarray, double: bool) -> Points:
    """The points of the vertices of a file."""
    xyz = need_columns(path, vertices, ("x", "y", "z"), "points")
    if double:
        xyz = np.stack([vertices[name].astype(np.float64) for name in "xyz"], axis=-1)
    columns = vertices.dtype.names or ()
    channels = next((c for c in (("red", "green", "blue"), ("r", "g", "b")) if set(c) <= set(columns)), None)
    rgb = np.full((len(xyz), 3), 128, np.uint8)
    if channels:
        kind = vertices.dtype[channels[0]]
        full = 1.0 if kind.kind == "f" else 65535.0 if kind.itemsize == 2 else 255.0
        colours = np.stack([vertices[c].astype(np.float64) for c in channels], -1) * (255 / full)
        rgb = np.clip(np.nan_to_num(colours) + 0.5, 0, 255).astype(np.uint8)
    elif {"f_dc_0", "f_dc_1", "f_dc_2"} <= set(columns):
        dc = np.stack([vertices[f"f_dc_{c}"].astype(np.float64) for c in range(3)], -1)
        rgb = np.clip(np.nan_to_num(0.5 + SH_C0 * dc) * 255 + 0.5, 0, 255).astype(np.uint8)
    finite = np.isfinite(xyz).all(axis=1)
    if not finite.any():
        raise CaptureError(f"{path}: there are no points in it.", "Remove the file or export it again.")
    return Points(np.ascontiguousarray(xyz[finite]), np.ascontiguousarray(rgb[finite]))


def write_atomically(path: Path, chunks: Iterable[bytes | memoryview]) -> None:
    """Writes a temporary file next to ``path`` and renames it: an interrupted write leaves the old file unchanged.

    Raises:
        CaptureError: the file cannot be written, as permissions or space are missing.
    """
    with writable(path):
        write_file(path, chunks)


@contextmanager
def writable(path: Path) -> Iterator[None]:
    """Turns an OSError while a file is written into a CaptureError that names it."""
    try:
        yield
    except OSError as error:
        too_long = error.errno == errno.ENAMETOOLONG
        raise CaptureError(
            f"{path}: the file cannot be written ({error.strerror or error}).",
            "Give a shorter name."
            if too_long
            else "Check the permissions of the folder and the free space; an existing file is unchanged.",
        ) from None


def write_vertices(path: Path, table: np.ndarray) -> None:
    """Writes a structured array of float32 and uint8 columns, binary, through a temporary file.

    Raises:
        CaptureError: the file cannot be written.
    """
    names = {"f4": "float", "u1": "uchar"}
    properties = [(n, names[table.dtype[n].str[1:]]) for n in table.dtype.names or ()]
    write_atomically(path, [_header(len(table), properties), table.tobytes()])


def _header(count: int, properties: Iterable[tuple[str, str]], comments: Iterable[str] = ()) -> bytes:
    """The header of a binary file of ``count`` vertices with these properties: name and type.

    Comments stand last: some readers take the second and third line for the format and the number of vertices.
    """
    lines = ["ply", "format binary_little_endian 1.0", f"element vertex {count}"]
    lines += [f"property {kind} {name}" for name, kind in properties]
    lines += [f"comment {text}" for text in comments]
    return ("\n".join([*lines, "end_header"]) + "\n").encode()


def save_points(path: str | Path, points: Points, extra: Mapping[str, np.ndarray] | None = None) -> None:
    """Writes x y z (float) and red green blue (uchar), binary, through a temporary file.

    Args:
        path: the file.
        points: P points.
        extra: further properties by name, [P] each: uint8 is written as uchar, anything else as float. `load_points`
            ignores them, `read_vertices` reads them.

    Raises:
        CaptureError: the file cannot be written.
    """
    more = {name: np.asarray(values) for name, values in (extra or {}).items()}
    layout = [(n, "<f4") for n in ("x", "y", "z")] + [(n, "u1") for n in ("red", "green", "blue")]
    layout += [(name, "u1" if values.dtype == np.uint8 else "<f4") for name, values in more.items()]
    table = np.empty(len(points.xyz), layout)
    for index, name in enumerate(("x", "y", "z")):
        table[name] = points.xyz[:, index]
    for index, name in enumerate(("red", "green", "blue")):
        table[name] = points.rgb[:, index]
    for name, values in more.items():
        table[name] = values
    write_vertices(Path(path), table)


def row_chunks(
    names: Iterable[str],
    count: int,
    rows: Iterable[np.ndarray],
    marks: Mapping[str, np.ndarray] | None = None,
    comments: Iterable[str] = (),
    added: Mapping[str, float] | None = None,
) -> Iterator[bytes | memoryview]:
    """A binary file of float properties, in parts, each valid until the next one is taken.

    Args:
        names: of the D properties.
        count: N, the number of rows in all.
        rows: the rows in parts, [R, D] each.
        marks: uchar properties that follow them, uint8 [N] each, by name; None: none.
        comments: lines of the header.
        added: to properties that are written as double, by name; None: to none.
    """
    names, added = list(names), added or {}
    further = list((marks or {}).values())
    properties = [(name, "double" if name in added else "float") for name in names]
    properties += [(name, "uchar") for name in marks or {}]
    yield _header(count, properties, comments)
    start = 0
    if added:
        layout = [(name, "<f8" if name in added else "<f4") for name in names]
        layout += [(name, "u1") for name in marks or {}]
        for part in rows:
            table = np.empty(len(part), layout)
            for column, name in enumerate(names):
                table[name] = part[:, column].astype(np.float64) + added.get(name, 0.0)
            for name, mark in (marks or {}).items():
                table[name] = mark[start : start + len(part)]
            yield table.tobytes()
            start += len(part)
        return
    for part in rows:
        floats = np.ascontiguousarray(part, "<f4")
        if floats.size and further:
            columns = [mark[start : start + len(floats), None] for mark in further]
            yield np.concatenate([floats.view(np.uint8), *columns], axis=1).tobytes()
        elif floats.size:  # memoryview casts no others
            yield floats.data.cast("B")
        start += len(floats)


def write_rows(
    path: Path,
    names: Iterable[str],
    count: int,
    rows: Iterable[np.ndarray],
    marks: Mapping[str, np.ndarray] | None = None,
    comments: Iterable[str] = (),
) -> None:
    """Writes the file of `row_chunks` through a temporary file.

    Raises:
        CaptureError: the file cannot be written.
    """
    write_atomically(path, row_chunks(names, count, rows, marks, comments))
