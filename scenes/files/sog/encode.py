"""Writing of SOG scenes, version 2."""

from __future__ import annotations

import io
import logging
from concurrent.futures import ThreadPoolExecutor
from math import ceil, sqrt
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image

from luxel.render.primitives.gaussians import Gaussians
from luxel.render.primitives.non_finite import non_finite, with_limits
from luxel.scenes.files.ply import write_atomically
from luxel.scenes.files.quantised.quantisation import morton_codes, smallest_three
from luxel.scenes.files.scene_format import SceneFacts
from luxel.scenes.files.scenes.primitive_ply import as_arrays
from luxel.scenes.files.sog.codebooks import indices, make_codebook, make_palette
from luxel.scenes.files.sog.containers import META, meta_bytes, write_bundle, write_folder
from luxel.scenes.files.sog.decode import COEFFICIENTS, LARGEST_FIRST, LARGEST_PALETTE, PER_ROW

log = logging.getLogger(__name__)

EFFORT = 4  # of the WebP encoder, 0 to 6


def save_sog(path: str | Path, gaussians: Gaussians, facts: SceneFacts | None = None) -> None:
    """Writes a bundle; Gaussians with parameters that are not finite are left out, and counted in a warning.

    Raises:
        CaptureError: the file cannot be written.
    """
    write_atomically(Path(path), [sog_bundle(gaussians, facts)])
    say_left_out(Path(path), gaussians)


def save_sog_folder(path: str | Path, gaussians: Gaussians, facts: SceneFacts | None = None) -> None:
    """Writes meta.json, which is ``path``, and the images next to it; see `save_sog`.

    Raises:
        CaptureError: a file cannot be written.
    """
    write_folder(Path(path), *_encoded(gaussians, facts))
    say_left_out(Path(path), gaussians)


def say_left_out(path: Path, gaussians: Gaussians) -> None:
    """Logs how many Gaussians the format cannot hold."""
    limited, _ = with_limits(gaussians)
    if (broken := non_finite(limited)) is not None:
        log.warning("%s: %s; they are left out.", path, broken.in_words(limited))


def sog_bundle(gaussians: Gaussians, facts: SceneFacts | None = None) -> bytes:
    """The bytes of a bundle, see `save_sog`."""
    meta, images = _encoded(gaussians, facts)
    return write_bundle({**images, META: meta_bytes(meta)})


def _encoded(gaussians: Gaussians, facts: SceneFacts | None) -> tuple[dict[str, Any], dict[str, bytes]]:
    """The content of meta.json, and the images by name."""
    gaussians, _ = with_limits(gaussians)
    if (broken := non_finite(gaussians)) is not None:
        gaussians = gaussians.select(~broken.rows)
    arrays = as_arrays(gaussians)
    means, least, greatest = _quantised_means(arrays["means"])
    order = np.argsort(morton_codes(means), kind="stable")
    arrays = {name: array[order] for name, array in arrays.items()}
    means = means[order]

    scales, colours = make_codebook(arrays["log_scales"]), make_codebook(arrays["sh_dc"])
    opacity = 1 / (1 + np.exp(-arrays["opacity_logits"].astype(np.float64)))
    tables = {
        "means_l.webp": _opaque(means & 0xFF),
        "means_u.webp": _opaque(means >> 8),
        "scales.webp": _opaque(indices(arrays["log_scales"], scales)),
        "quats.webp": _packed_quats(arrays["quats"]),
        "sh0.webp": np.column_stack(
            [indices(arrays["sh_dc"], colours), np.rint(255 * opacity).astype(np.uint8)]
        ),
    }
    meta: dict[str, Any] = {
        "version": 2,
        "asset": {"generator": "luxel"},
        "count": len(means),
        "means": {"mins": least, "maxs": greatest, "files": ["means_l.webp", "means_u.webp"]},
        "scales": {"codebook": scales.tolist(), "files": ["scales.webp"]},
        "quats": {"files": ["quats.webp"]},
        "sh0": {"codebook": colours.tolist(), "files": ["sh0.webp"]},
    }
    if facts is not None and facts.antialiased is not None:
        meta["antialias"] = facts.antialiased
    width = max(4, ceil(sqrt(len(means)) / 4) * 4)
    images = {name: _grid(table, width) for name, table in tables.items()}
    if arrays["sh_rest"].size:
        meta["shN"], entries, labels = _encoded_sh(arrays["sh_rest"])
        images["shN_centroids.webp"], images["shN_labels.webp"] = entries, _grid(labels, width)
    with ThreadPoolExecutor() as pool:  # the encoder releases the lock of the interpreter
        return meta, dict(zip(images, pool.map(_webp, images.values()), strict=True))


def _quantised_means(means: np.ndarray) -> tuple[np.ndarray, list[float], list[float]]:
    """sign(x) log(1 + |x|) of the centres in 16 bits, [N, 3], and the range of each axis."""
    logs = np.sign(means) * np.log1p(np.abs(means.astype(np.float64)))
    least = logs.min(0) if len(logs) else np.zeros(3)
    greatest = logs.max(0) if len(logs) else np.zeros(3)
    span = np.where(greatest > least, greatest - least, 1)
    return np.rint((logs - least) / span * 65535).astype(np.uint16), least.tolist(), greatest.tolist()


def _packed_quats(quats: np.ndarray) -> np.ndarray:
    """The three smallest components in bytes, and which is the largest, uint8 [N, 4]."""
    quats = quats.astype(np.float64)
    length = np.linalg.norm(quats, axis=1, keepdims=True)
    quats = np.where(length > 1e-20, quats / np.maximum(length, 1e-20), [1, 0, 0, 0])
    largest, others = smallest_three(quats)
    stored = np.rint((others * sqrt(2) + 1) / 2 * 255).clip(0, 255)
    return np.column_stack([stored, largest + LARGEST_FIRST]).astype(np.uint8)


def _encoded_sh(sh_rest: np.ndarray) -> tuple[dict[str, Any], np.ndarray, np.ndarray]:
    """The section of spherical harmonics, the image of their palette, and the entry of each Gaussian, [N, 4].

    The palette has as many entries as the greatest power of two that is at most N, and N entries up to 1024.
    """
    count, columns = sh_rest.shape[:2]
    size = count if count <= 1024 else min(LARGEST_PALETTE, 1 << count.bit_length() - 1)
    flat = torch.from_numpy(np.ascontiguousarray(sh_rest.reshape(count, -1)))
    entries, labels = (tensor.numpy() for tensor in make_palette(flat, size))
    codebook = make_codebook(entries)
    rows = ceil(size / PER_ROW)
    image = np.zeros((rows * PER_ROW * columns, 4), np.uint8)
    image[: size * columns] = _opaque(indices(entries, codebook).reshape(-1, 3))
    packed = np.zeros((count, 3), np.uint8)
    packed[:, 0], packed[:, 1] = labels & 0xFF, labels >> 8
    section = {
        "count": size,
        "bands": COEFFICIENTS.index(columns),
        "codebook": codebook.tolist(),
        "files": ["shN_centroids.webp", "shN_labels.webp"],
    }
    return section, image.reshape(rows, PER_ROW * columns, 4), _opaque(packed)


def _opaque(rgb: np.ndarray) -> np.ndarray:
    """Rows of three bytes with an alpha of 255, uint8 [N, 4]."""
    return np.column_stack([rgb, np.full(len(rgb), 255)]).astype(np.uint8)


def _grid(table: np.ndarray, width: int) -> np.ndarray:
    """Rows as the pixels of an image, filled up with zeros, uint8 [H, W, 4]; both sides are multiples of 4."""
    height = max(4, ceil(len(table) / width / 4) * 4)
    image = np.zeros((width * height, 4), np.uint8)
    image[: len(table)] = table
    return image.reshape(height, width, 4)


def _webp(image: np.ndarray) -> bytes:
    """A lossless WebP file that keeps colours also where alpha is 0."""
    out = io.BytesIO()
    Image.fromarray(image).save(out, "WEBP", lossless=True, exact=True, quality=75, method=EFFORT)
    return out.getvalue()
