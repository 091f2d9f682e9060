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
# Parts that segmenting by points and boxes does not use: the classifier of TinyViT, and prompts by masks.
UNUSED = ("image_encoder.head.", "image_encoder.norm_head.", "prompt_encoder.mask_downscaling.")


class WeightsError(LuxelError):
    """The weights of a network are missing, cannot be read, or are not those that are known."""


def cached_weights() -> Path:
    """Where the weights are searched for when nothing else is given: luxel/models in the user's cache folder."""
    home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return home / "luxel" / "models" / FILE


def find_weights(path: str | Path | None = None) -> Path:
    """The file of weights: the one given, else that of the environment variable, of the package, of the cache folder.

    Args:
        path: a file, or the folder that holds it.

    Raises:
        WeightsError: there is no such file.
    """
    chosen = path or os.environ.get(VARIABLE)
    tried = [Path(chosen)] if chosen else [PACKAGED, cached_weights()]
    tried = [entry / FILE if entry.is_dir() else entry for entry in tried]
    for entry in tried:
        if entry.is_file():
            return entry
    raise WeightsError(f"The weights of MobileSAM are missing ({tried[-1]} does not exist).", _remedy())


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
            f"The weights of MobileSAM, {path}, cannot be read ({error.strerror}).", _remedy()
        ) from error
    digest = hashlib.sha256(data).hexdigest()
    if digest != WEIGHTS_SHA256:
        raise WeightsError(
            f"{path} does not hold the known weights of MobileSAM (SHA-256 {digest[:12]}..., {len(data)} bytes).",
            _remedy(),
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


def _remedy() -> str:
    return (
        f"Put {FILE} (SHA-256 {WEIGHTS_SHA256[:12]}...) at {cached_weights()}, or set {VARIABLE} to the file; "
        "without it, give masks from a folder."
    )
