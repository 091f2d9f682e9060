"""Images as JPEG and PNG files, by the fastest encoder that is installed.

JPEG: nvJPEG through torchvision for images on a GPU, else libjpeg-turbo through simplejpeg, else Pillow. A 1280x720
image takes about 2.4 ms with simplejpeg, 3.8 ms with Pillow and 85 ms as PNG on one CPU core.
"""

from __future__ import annotations

import functools
import importlib.util
import io
import logging
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
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
    """torchvision's encoder of JPEG files on a GPU, called with planes [3, H, W] and a quality, else None; why not is
    logged.

    The library with its operators is loaded by itself: the package takes as long to import as torch does.
    """
    if not torch.cuda.is_available():
        return None
    try:
        spec = importlib.util.find_spec("torchvision")
        if spec is None or spec.origin is None:
            raise ImportError("torchvision is not installed")
        for library in Path(spec.origin).parent.glob("image*.so"):
            torch.ops.load_library(library)
        encode = torch.ops.image.encode_jpegs_cuda
        encode([torch.zeros(3, 16, 16, dtype=torch.uint8, device="cuda")], 75)
    except Exception as error:  # not installed, for another CUDA, or without nvJPEG
        log.info("JPEG files are made by the CPU, as torchvision's nvJPEG is not available: %s", error)
        return None
    return lambda planes, quality: encode([planes], quality)[0]


@functools.cache
def _search() -> Future[Any]:
    """`gpu_jpeg` by a thread: the CPU makes the files until it has ended, and no first image waits for it."""
    pool = ThreadPoolExecutor(1, "luxel-nvjpeg")
    try:
        return pool.submit(gpu_jpeg)
    finally:
        pool.shutdown(wait=False)


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
    """A JPEG file of a CUDA tensor [H, W, 3]; None where nvJPEG is not there yet or has failed once (logged)."""
    search = _search()
    encode = search.result() if search.done() and not _broken else None
    if encode is None:
        return None
    try:
        with torch.cuda.stream(stream := _side_stream(image.device)):
            planes = image.permute(2, 0, 1).contiguous()
            stream.synchronize()  # torchvision encodes on a stream of its own
            return encode(planes, quality).cpu().numpy().tobytes()
    except Exception as error:
        _broken.append(error)
        log.warning("nvJPEG failed; from now on JPEG files are made by the CPU. %s", error)
        return None


def encode_png(image: np.ndarray | Tensor) -> bytes:
    """A PNG file of an image, uint8 [H, W, 3], RGB."""
    file = io.BytesIO()
    Image.fromarray(as_array(image)).save(file, "PNG", compress_level=1)
    return file.getvalue()
