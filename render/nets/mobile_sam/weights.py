"""The published weights of MobileSAM: where they are searched for, their hash, and their folding for inference."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import torch
from torch import Tensor

from luxel.render.errors import LuxelError

FILE = "mobile_sam.fp16.safetensors"
WEIGHTS_SHA256 = "bb1d1e7825a35469ef5bcd407469c20acba6bcf54b884c328959115510f052a6"
VARIABLE = "LUXEL_MOBILE_SAM"
PACKAGED = Path(__file__).resolve().parents[2] / "data" / FILE
BATCH_NORM_EPS = 1e-5
REMEDY = (
    "Reinstall luxel (`pip install --force-reinstall luxel`), or set LUXEL_MOBILE_SAM to the published file; "
    "without it, give masks from a folder (luxel segment RUN --masks DIR)."
)
# Parts that segmenting by points and boxes does not use: the classifier of TinyViT, and prompts by masks.
UNUSED = ("image_encoder.head.", "image_encoder.norm_head.", "prompt_encoder.mask_downscaling.")


class WeightsError(LuxelError):
    """The weights of a network are missing, cannot be read, or are not those that are known."""


def find_weights(path: str | Path | None = None) -> Path:
    """The file of weights: the one given, else that of the environment variable, else that of the package.

    Args:
        path: a file, or the folder that holds it.

    Raises:
        WeightsError: there is no such file.
    """
    chosen = Path(path or os.environ.get(VARIABLE) or PACKAGED)
    chosen = chosen / FILE if chosen.is_dir() else chosen
    if not chosen.is_file():
        raise WeightsError(f"The weights of MobileSAM are missing ({chosen} does not exist).", REMEDY)
    return chosen


def read_weights(path: Path) -> dict[str, Tensor]:
    """The tensors of the file, float16, by their published names.

    Raises:
        WeightsError: the file cannot be read, or its SHA-256 is not the known one.
    """
    from safetensors.torch import load

    try:
        data = path.read_bytes()
    except OSError as error:
        raise WeightsError(
            f"The weights of MobileSAM, {path}, cannot be read ({error.strerror}).", REMEDY
        ) from error
    digest = hashlib.sha256(data).hexdigest()
    if digest != WEIGHTS_SHA256:
        raise WeightsError(
            f"{path} does not hold the known weights of MobileSAM (SHA-256 {digest[:12]}..., {len(data)} bytes).",
            REMEDY,
        )
    return load(data)


def fold(stored: dict[str, Tensor]) -> dict[str, Tensor]:
    """Parameters for inference, float32: each batch normalisation is folded into the convolution before it.

    y = (w * x - mean) / sqrt(var + eps) * scale + shift  =  (w s) * x + (shift - mean s),  s = scale / sqrt(var + eps)

    Args:
        stored: by published names; ``A.c.weight`` and ``A.bn.*`` become ``A.weight`` and ``A.bias``.
    """
    out: dict[str, Tensor] = {}
    for name, tensor in stored.items():
        if name.startswith(UNUSED) or ".bn." in name:
            continue
        if not name.endswith(".c.weight"):
            out[name] = tensor.float()
            continue
        stem = name.removesuffix(".c.weight")
        norm = {
            part: stored[f"{stem}.bn.{part}"].double()
            for part in ("weight", "bias", "running_mean", "running_var")
        }
        scale = norm["weight"] * torch.rsqrt(norm["running_var"] + BATCH_NORM_EPS)
        out[f"{stem}.weight"] = (tensor.double() * scale[:, None, None, None]).float()
        out[f"{stem}.bias"] = (norm["bias"] - norm["running_mean"] * scale).float()
    return out
