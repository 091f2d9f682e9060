"""Images as JPEG and PNG files, by the fastest encoder that is installed.

JPEG: nvJPEG through torchvision for images on a GPU, else libjpeg-turbo through simplejpeg, else Pillow. A 1280x720
image takes about 2.4 ms with simplejpeg, 3.8 ms with Pillow and 85 ms as PNG on one CPU core.
"""

from __future__ import annotations

import functools
import io
import logging
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import Tensor

try:
    import simplejpeg
except ImportError:  # Pillow does it, more slowly
    simplejpeg = None

log = logging.getLogger("luxel.viewer")

FINE = 85  # quality from which colours keep their full resolution
_broken: list[Exception] = []  # why nvJPEG is not used any more


@functools.cache
def gpu_jpeg() -> Any:
    """torchvision's ``encode_jpeg`` if it can encode on a GPU, else None; why not is logged."""
    if not torch.cuda.is_available():
        return None
    try:
        from torchvision.io import encode_jpeg  # type: ignore[import-not-found]

        encode_jpeg(torch.zeros(3, 16, 16, dtype=torch.uint8, device="cuda"), quality=75)
    except Exception as error:  # not installed, for another CUDA, or without nvJPEG
        log.info("JPEG files are made by the CPU, as torchvision's nvJPEG is not available: %s", error)
        return None
    return encode_jpeg


def jpeg_encoder(on_gpu: bool) -> str:
    """The library that encodes images on a GPU, or in the memory of the CPU."""
    if on_gpu and not _broken and gpu_jpeg() is not None:
        return "nvJPEG (torchvision)"
    return "Pillow" if simplejpeg is None else "libjpeg-turbo (simplejpeg)"


@functools.cache
def _side_stream(device: torch.device) -> torch.cuda.Stream:
    """A CUDA stream for copies and JPEG files, which then do not wait for the next render."""
    return torch.cuda.Stream(device)


def as_array(image: np.ndarray | Tensor) -> np.ndarray:
    """An image, uint8 [H, W, 3], in the memory of the CPU; one on a GPU must have been rendered completely."""
    if not isinstance(image, Tensor):
        return image
    if not image.is_cuda:
        return image.numpy()
    with torch.cuda.stream(_side_stream(image.device)):
        return image.cpu().numpy()


def encode_jpeg(image: np.ndarray | Tensor, quality: int) -> bytes:
    """A JPEG file.

    Args:
        image: uint8 [H, W, 3], RGB; a tensor on a GPU, which must have been rendered completely, is encoded there if
            nvJPEG is available.
        quality: 1..99; colours have half the resolution below FINE, except on a GPU.
    """
    if isinstance(image, Tensor) and image.is_cuda and (file := _encode_on_gpu(image, quality)) is not None:
        return file
    pixels = np.ascontiguousarray(as_array(image))
    fine = quality >= FINE
    if simplejpeg is not None:
        return simplejpeg.encode_jpeg(pixels, quality, "RGB", "444" if fine else "420", fastdct=not fine)
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, "JPEG", quality=quality, subsampling=0 if fine else 2)
    return file.getvalue()


def _encode_on_gpu(image: Tensor, quality: int) -> bytes | None:
    """A JPEG file of a CUDA tensor [H, W, 3]; None where nvJPEG is missing, or has failed once, which is logged."""
    encode = gpu_jpeg()
    if encode is None or _broken:
        return None
    try:
        with torch.cuda.stream(stream := _side_stream(image.device)):
            planes = image.permute(2, 0, 1).contiguous()
            stream.synchronize()  # torchvision encodes on a stream of its own
            return encode(planes, quality=quality).cpu().numpy().tobytes()
    except Exception as error:
        _broken.append(error)
        log.warning("nvJPEG failed; from now on JPEG files are made by the CPU. %s", error)
        return None


def encode_png(image: np.ndarray | Tensor) -> bytes:
    """A PNG file of an image, uint8 [H, W, 3], RGB."""
    file = io.BytesIO()
    Image.fromarray(as_array(image)).save(file, "PNG", compress_level=1)
    return file.getvalue()
