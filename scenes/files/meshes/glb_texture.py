"""The texture of a .glb mesh: one image that all its triangles share, with the colours of materials that have none.

Source: the Khronos specification of glTF 2.0, sections 3.8 (textures) and 3.9 (materials).
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from luxel.scenes.errors import CaptureError
from luxel.scenes.files.gltf.document import COPY_AGAIN, Document, Primitive, image_file, values
from luxel.scenes.files.images.image_decoding import opened_bytes
from luxel.scenes.files.images.image_files import as_rgb
from luxel.scenes.files.meshes.mesh import Texture

log = logging.getLogger(__name__)

CLAMP = 33071  # CLAMP_TO_EDGE; a sampler without a mode repeats


class Surface(NamedTuple):
    """What a material says.

    Args:
        rgb: linear colour in [0, 1]; None: none is given.
        image: number of the image of its colours; None: there is none.
        uv: number of the coordinates in it.
        repeats: whether it repeats beyond [0, 1].
    """

    rgb: tuple[float, float, float] | None = None
    image: int | None = None
    uv: int = 0
    repeats: bool = True


def surface_of(path: Path, document: Document, primitive: Primitive) -> Surface:
    """The material of a primitive.

    Raises:
        CaptureError: it names a texture or an image that is not there.
    """
    if primitive.material is None:
        return Surface()
    about = _object(_object(document.materials[primitive.material]).get("pbrMetallicRoughness"))
    factor = about.get("baseColorFactor")
    rgb = None
    if isinstance(factor, list) and len(factor) == 4 and all(isinstance(x, int | float) for x in factor):
        red, green, blue = (min(max(float(x), 0.0), 1.0) for x in factor[:3])
        rgb = red, green, blue
    position = _object(about.get("baseColorTexture"))
    number, uv = position.get("index"), position.get("texCoord", 0)
    if number is None:
        return Surface(rgb)
    try:
        texture = _object(document.textures[number])
        image, sampler = texture.get("source"), texture.get("sampler")
        wrap = _object(document.samplers[sampler]) if sampler is not None else {}
        if image is not None and not 0 <= image < len(document.images):
            raise IndexError
    except (IndexError, TypeError):
        raise CaptureError(
            f"{path}: the texture {number} of a material, or its image, is not in the file.", COPY_AGAIN
        ) from None
    repeats = not wrap.get("wrapS") == wrap.get("wrapT") == CLAMP
    return Surface(rgb, image, uv if isinstance(uv, int) else 0, repeats)


def _object(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def shared_texture(
    path: Path,
    document: Document,
    binary: memoryview,
    parts: Sequence[tuple[Primitive, int]],
) -> Texture | None:
    """The texture of a file's primitives; None: there is none, or none that luxel shows, which is logged.

    Args:
        parts: primitives and their numbers of vertices, in the order of the mesh's vertices.

    Raises:
        CaptureError: the image is damaged, or a primitive has another number of coordinates in it than of vertices.
    """
    surfaces = [surface_of(path, document, primitive) for primitive, _ in parts]
    images = {surface.image for surface in surfaces}
    if images == {None}:
        return None
    image = next(iter(images))
    if len(images) > 1 or image is None:
        log.warning(
            "%s: its materials have %d textures or none; luxel shows one that all share, so that it is shown without.",
            path,
            len(images - {None}),
        )
        return None
    data = image_file(path, document, binary, image)
    if data is None:
        log.warning("%s: its texture is in another file; it is shown without.", path)
        return None
    with opened_bytes(path, data) as opened:
        pixels = as_rgb(opened)
    uvs = [
        _coordinates(path, document, binary, primitive, surface, count)
        for (primitive, count), surface in zip(parts, surfaces, strict=True)
    ]
    return Texture(np.concatenate(uvs), pixels, any(surface.repeats for surface in surfaces))


def _coordinates(
    path: Path, document: Document, binary: memoryview, primitive: Primitive, surface: Surface, count: int
) -> np.ndarray:
    """Where the vertices of a primitive are in the image, float32 [V, 2]."""
    name = f"TEXCOORD_{surface.uv}"
    if name not in primitive.attributes:
        raise CaptureError(f"{path}: a mesh with a texture lacks {name}.", COPY_AGAIN)
    uv = values(path, document, binary, primitive.attributes[name])
    if uv.shape != (count, 2):
        raise CaptureError(
            f"{path}: a mesh has {count} positions and {len(uv)} coordinates of {uv.shape[1]} numbers in its texture.",
            COPY_AGAIN,
        )
    return uv.astype(np.float32)
