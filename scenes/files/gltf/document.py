"""glTF 2.0 in one binary file (.glb): the container, the JSON document, its accessors, and where its nodes put meshes.

Source: the Khronos specification of glTF 2.0, sections 3.5 (scenes), 3.6 (accessors) and 4 (GLB).
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import msgspec
import numpy as np

from luxel.scenes.errors import CaptureError
from luxel.scenes.files.reading import check_file, open_file, read_bytes

MAGIC, VERSION = b"glTF", 2
JSON_CHUNK, BINARY_CHUNK = b"JSON", b"BIN\0"
HEADER, CHUNK = struct.Struct("<4sII"), struct.Struct("<I4s")
FLOAT, UNSIGNED_BYTE, UNSIGNED_SHORT, UNSIGNED_INT = 5126, 5121, 5123, 5125
# By component type: the numpy type, and what a normalised integer is divided by.
COMPONENTS = {
    5120: ("i1", 127),
    UNSIGNED_BYTE: ("u1", 255),
    5122: ("<i2", 32767),
    UNSIGNED_SHORT: ("<u2", 65535),
}
INDICES = {UNSIGNED_BYTE: "u1", UNSIGNED_SHORT: "<u2", UNSIGNED_INT: "<u4"}
WIDTHS = {"SCALAR": 1, "VEC2": 2, "VEC3": 3, "VEC4": 4}
READ_EXTENSIONS = {"KHR_gaussian_splatting", "KHR_mesh_quantization"}
COPY_AGAIN = "Copy or export the file again."
EXPORT_PLAIN = (
    "Export it with all data inside the file and without compression (Gaussians with plain KHR_gaussian_splatting), or "
    "as .ply."
)

Natural = Annotated[int, msgspec.Meta(ge=0)]


class Accessor(msgspec.Struct, rename="camel"):
    """The values of one attribute."""

    component_type: int
    count: Natural
    type: str
    buffer_view: Natural | None = None
    byte_offset: Natural = 0
    normalized: bool = False
    sparse: Any = None


class BufferView(msgspec.Struct, rename="camel"):
    """A range of bytes of a buffer."""

    buffer: Natural
    byte_length: Natural
    byte_offset: Natural = 0
    byte_stride: Annotated[int, msgspec.Meta(ge=1)] | None = None
    extensions: dict[str, Any] = {}


class Buffer(msgspec.Struct):
    """The binary chunk where there is no URI."""

    uri: str | None = None


class Primitive(msgspec.Struct):
    """Attributes by name, each the number of an accessor."""

    attributes: dict[str, Natural]
    mode: int = 4
    indices: Natural | None = None
    material: Natural | None = None
    extensions: dict[str, Any] = {}


class Mesh(msgspec.Struct):
    """Primitives that a node puts at one position."""

    primitives: list[Primitive]


class Node(msgspec.Struct):
    """A place in the scene: a matrix, column major, or rotation (xyzw), scale and translation."""

    mesh: Natural | None = None
    children: list[Natural] = []
    matrix: Annotated[list[float], msgspec.Meta(min_length=16, max_length=16)] | None = None
    translation: tuple[float, float, float] = (0.0, 0.0, 0.0)
    rotation: tuple[float, float, float, float] = (0.0, 0.0, 0.0, 1.0)
    scale: tuple[float, float, float] = (1.0, 1.0, 1.0)

    def local(self) -> np.ndarray:
        """To the parent's coordinates, float64 [4, 4]."""
        if self.matrix is not None:
            return np.array(self.matrix, np.float64).reshape(4, 4).T
        x, y, z, w = np.array(self.rotation) / max(float(np.linalg.norm(self.rotation)), 1e-300)
        out = np.eye(4)
        out[:3, :3] = [
            [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
            [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
            [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)],
        ]
        out[:3, :3] *= np.array(self.scale)
        out[:3, 3] = self.translation
        return out


class Scene(msgspec.Struct):
    """The nodes at the root of a scene."""

    nodes: list[Natural] = []


class Asset(msgspec.Struct):
    """What a file says of itself."""

    extras: Any = None


class Image(msgspec.Struct, rename="camel"):
    """The file of an image: a range of bytes, or a URI."""

    buffer_view: Natural | None = None
    uri: str | None = None


class Document(msgspec.Struct, rename="camel"):
    """The parts of a glTF document that scenes of Gaussians and meshes need."""

    asset: Asset
    accessors: list[Accessor] = []
    buffer_views: list[BufferView] = []
    buffers: list[Buffer] = []
    meshes: list[Mesh] = []
    nodes: list[Node] = []
    scenes: list[Scene] = []
    scene: Natural = 0
    images: list[Image] = []
    materials: list[Any] = []
    textures: list[Any] = []
    samplers: list[Any] = []
    extensions_required: list[str] = []


def unsupported(path: Path, what: str) -> CaptureError:
    """The error for a part of glTF that luxel does not read."""
    return CaptureError(f"{path}: {what}, which luxel does not read.", EXPORT_PLAIN)


def read_glb(path: Path) -> tuple[Document, memoryview]:
    """The document and the binary chunk of a file; an empty one where there is none.

    Raises:
        CaptureError: it is not glTF 2.0 in one file, is cut short, or needs an extension that luxel does not read.
    """
    return parse_glb(path, memoryview(read_bytes(path)))


def parse_glb(path: Path, data: memoryview) -> tuple[Document, memoryview]:
    """As `read_glb`, of the bytes of a file; the path is for messages."""
    start, end = _json_chunk(path, bytes(data[: HEADER.size + CHUNK.size]), len(data))
    document = _document(path, data[start:end])
    while end + CHUNK.size <= len(data):
        length, kind = CHUNK.unpack_from(data, end)
        if end + CHUNK.size + length > len(data):
            raise CaptureError(f"{path}: cut short: a chunk has {length} bytes.", COPY_AGAIN)
        start, end = end + CHUNK.size, end + CHUNK.size + length
        if kind == BINARY_CHUNK:
            return document, data[start:end]
    return document, data[:0]


def read_document(path: Path) -> Document:
    """The document alone, without the binary chunk.

    Raises:
        CaptureError: as `read_glb`.
    """
    size = check_file(path)
    with open_file(path) as file:
        start, end = _json_chunk(path, file.read(HEADER.size + CHUNK.size), size)
        return _document(path, file.read(end - start))


def read_parts(path: Path) -> dict[str, Any]:
    """The document as it is in the file, with the parts that `Document` does not have.

    Raises:
        CaptureError: as `read_document`.
    """
    size = check_file(path)
    with open_file(path) as file:
        start, end = _json_chunk(path, file.read(HEADER.size + CHUNK.size), size)
        return msgspec.json.decode(file.read(end - start), type=dict[str, Any])


def _json_chunk(path: Path, head: bytes, size: int) -> tuple[int, int]:
    """Where the JSON chunk begins and ends in a file of ``size`` bytes, by its first bytes."""
    start = HEADER.size + CHUNK.size
    if len(head) < start or head[:4] != MAGIC or HEADER.unpack_from(head)[1] != VERSION:
        raise CaptureError(f"{path}: this is not binary glTF 2.0.", COPY_AGAIN)
    total, (length, kind) = HEADER.unpack_from(head)[2], CHUNK.unpack_from(head, HEADER.size)
    if kind != JSON_CHUNK:
        raise CaptureError(f"{path}: the first chunk is not JSON.", COPY_AGAIN)
    if total > size or start + length > size:
        raise CaptureError(
            f"{path}: cut short: the header says {max(total, start + length)} bytes, and there are {size}.",
            COPY_AGAIN,
        )
    return start, start + length


def _document(path: Path, text: bytes | memoryview) -> Document:
    document = msgspec.json.decode(text, type=Document)
    foreign = sorted(set(document.extensions_required) - READ_EXTENSIONS)
    if foreign:
        raise unsupported(path, f"it needs the extension {' and '.join(foreign)[:200]}")
    return document


def values(path: Path, document: Document, binary: memoryview, number: int) -> np.ndarray:
    """The values of an accessor, [count, width], float32; a view of the file where it has floats.

    Integers are normalised where the accessor says so, else converted.

    Raises:
        CaptureError: the accessor is sparse or compressed, has an unknown type, or more values than bytes.
    """
    accessor = document.accessors[number]
    kind, full = COMPONENTS.get(accessor.component_type, ("<f4", 0))
    raw = _stored(path, document, binary, number, kind if full or accessor.component_type == FLOAT else None)
    if not full:
        return raw
    out = raw.astype(np.float32)
    if accessor.normalized:
        np.maximum(np.divide(out, np.float32(full), out=out), np.float32(-1), out=out)
    return out


def indices(path: Path, document: Document, binary: memoryview, number: int) -> np.ndarray:
    """The values of an accessor of vertex numbers, int64 [count].

    Raises:
        CaptureError: as `values`, or they are no unsigned integers.
    """
    kind = INDICES.get(document.accessors[number].component_type)
    return _stored(path, document, binary, number, kind).reshape(-1).astype(np.int64)


def _stored(path: Path, document: Document, binary: memoryview, number: int, kind: str | None) -> np.ndarray:
    """The numbers of an accessor as they are in the file, of the numpy type ``kind``, [count, width]."""
    accessor = document.accessors[number]
    if accessor.sparse is not None or accessor.buffer_view is None:
        raise unsupported(path, f"accessor {number} is sparse or compressed")
    view = document.buffer_views[accessor.buffer_view]
    if view.extensions:
        raise unsupported(path, f"accessor {number} is compressed ({', '.join(view.extensions)[:200]})")
    if view.buffer or not document.buffers or document.buffers[0].uri is not None:
        raise unsupported(path, f"accessor {number} has its data in another file")
    if accessor.type not in WIDTHS or kind is None:
        raise unsupported(
            path, f"accessor {number} is of {accessor.type[:20]} and component type {accessor.component_type}"
        )
    item, width = np.dtype(kind).itemsize, WIDTHS[accessor.type]
    stride = view.byte_stride or item * width
    remaining = min(view.byte_length, len(binary) - view.byte_offset) - accessor.byte_offset
    if accessor.count and stride * (accessor.count - 1) + item * width > remaining:
        raise CaptureError(
            f"{path}: accessor {number} has {accessor.count} values, and there are {max(remaining, 0)} bytes for them.",
            COPY_AGAIN,
        )
    if not accessor.count:
        return np.zeros((0, width), kind)
    start = view.byte_offset + accessor.byte_offset
    return np.ndarray((accessor.count, width), kind, binary, start, (stride, item))


def image_file(path: Path, document: Document, binary: memoryview, number: int) -> bytes | None:
    """The bytes of the file of an image; None: they are outside of the binary chunk.

    Raises:
        CaptureError: the file is cut short.
    """
    image = document.images[number]
    if image.buffer_view is None:
        return None
    view = document.buffer_views[image.buffer_view]
    if view.buffer or not document.buffers or document.buffers[0].uri is not None:
        return None
    if view.byte_offset + view.byte_length > len(binary):
        raise CaptureError(
            f"{path}: image {number} has {view.byte_length} bytes from byte {view.byte_offset} on, and there "
            f"are {len(binary)}.",
            COPY_AGAIN,
        )
    return bytes(binary[view.byte_offset : view.byte_offset + view.byte_length])


def placed_meshes(path: Path, document: Document) -> Iterator[tuple[Mesh, np.ndarray]]:
    """The meshes of the document's scene and their matrices to its coordinates, float64 [4, 4].

    Without a scene all nodes without a parent are its roots.

    Raises:
        CaptureError: a node has two parents or is its own ancestor.
    """
    if document.scenes:
        roots = document.scenes[document.scene].nodes
    else:
        children = {child for node in document.nodes for child in node.children}
        roots = [number for number in range(len(document.nodes)) if number not in children]
    waiting, visited = [(number, np.eye(4)) for number in reversed(roots)], set()
    while waiting:
        number, parent = waiting.pop()
        if number in visited:
            raise CaptureError(f"{path}: node {number} has two positions in the scene.", COPY_AGAIN)
        visited.add(number)
        node = document.nodes[number]
        with np.errstate(over="ignore", invalid="ignore"):
            matrix = parent @ node.local()
        if node.mesh is not None:
            yield document.meshes[node.mesh], matrix
        waiting += [(child, matrix) for child in reversed(node.children)]
