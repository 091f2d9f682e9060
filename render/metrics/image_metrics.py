"""Image metrics: PSNR, SSIM, LPIPS. Images are [H, W, 3] in [0, 1], sRGB."""

from __future__ import annotations

import functools
import hashlib
import io
import threading
from contextlib import suppress
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as nn
from torch import Tensor

from luxel.render.errors import LuxelError
from luxel.render.ops.train.loss import Padding, photometric_loss

WEIGHTS = Path(__file__).parents[1] / "data" / "lpips_alexnet_v0.1.npz"
WEIGHTS_SHA256 = "2130657da5fb12fa47aa766bc2e11f92d2f7d969a00820cc16c5a5cf398f087b"
LPIPS_MIN_SIDE = 31  # pixels; less leaves nothing after AlexNet's pooling


class MetricError(LuxelError):
    """A metric cannot be computed: its weights are missing or damaged, or the images are too small for it."""


def psnr(a: Tensor, b: Tensor, weight: Tensor | None = None) -> float:
    """Peak signal-to-noise ratio, -10 log10 of the mean squared error over pixels and channels, in dB.

    Args:
        a, b: images in [0, 1], [H, W, 3].
        weight: per pixel, >= 0, [H, W]; the mean is weighted by it. None: uniform.

    Returns:
        dB; infinity for equal images, NaN if no pixel counts.
    """
    _check("psnr", a, b, weight)
    square = (a.double() - b.double()).square().mean(dim=-1)
    if weight is None:
        error = square.mean()
    else:
        counts = weight.to(square)
        error = torch.where(counts > 0, square * counts, 0).sum() / counts.clamp_min(0).sum()
    return float(-10 * torch.log10(error))


def affine_fit(
    a: Tensor, b: Tensor, weight: Tensor | None = None, behind: tuple[Tensor, Tensor] | None = None
) -> Tensor:
    """Image ``a`` after the affine transform of its colours that brings it nearest to ``b`` by least squares.

    Comparing the result with ``b`` leaves out how exposure and white balance of the two differ.

    Args:
        a, b: images in [0, 1], [H, W, 3].
        weight: per pixel, >= 0, [H, W]; pixels of weight 0 do not count. None: uniform.
        behind: share of each pixel in [0, 1] that shows a background, [H, W], and its colour, [3]: neither image was
            exposed there, so it stays as it is. None: there is no background.

    Returns:
        [H, W, 3], clamped to [0, 1], of no meaning where pixels do not count; ``a`` itself where none does.
    """
    _check("affine_fit", a, b, weight)
    through = torch.zeros_like(a[..., :1]) if behind is None else behind[0][..., None]
    retained = through * (0.0 if behind is None else behind[1])
    colours = torch.cat([a - retained, 1 - through], -1).double().flatten(0, 1)
    target, counted = (b - retained).double().flatten(0, 1), colours
    if weight is not None:
        counts = weight.to(colours).clamp_min(0).flatten()[:, None]
        colours, target = (torch.where(counts > 0, t, 0) for t in (colours, target))
        counted = colours * counts
    system = counted.T @ colours
    if not bool(system[3, 3] > 0):
        return a
    # Colours of a grey image are not independent; a little of the identity keeps the solution near no change.
    damping = 1e-9 * system[3, 3] * torch.eye(4, dtype=system.dtype, device=system.device)
    solution = torch.linalg.solve(system + damping, counted.T @ target + damping[:, :3])
    return (retained + (colours @ solution).to(a).view_as(a)).clamp(0, 1)


def ssim(a: Tensor, b: Tensor, weight: Tensor | None = None, padding: Padding = "zero") -> float:
    """Mean structural similarity (Wang et al. 2004), each channel by itself.

    Gaussian window of 11 x 11 taps, sigma 1.5, K1 = 0.01, K2 = 0.03, range 1.

    Args:
        a, b: images in [0, 1], [H, W, 3].
        weight: per pixel, >= 0, [H, W]. Where it is 0, ``a`` counts as equal to ``b`` in its neighbours'
            windows and the pixel itself does not count.
        padding: "zero": outside the image both images are 0 (what 3DGS and most papers after it report).
            "valid": pixels whose window leaves the image do not count.

    Returns:
        In [-1, 1], 1 for equal images; NaN if no pixel counts.
    """
    _check("ssim", a, b, weight)
    counted = torch.ones_like(a[..., 0]) if weight is None else weight
    if padding == "valid":
        counted = counted[5:-5, 5:-5]
    if not bool((counted > 0).any()):
        return float("nan")
    dtype = a.dtype if a.dtype in (torch.float32, torch.float64) else torch.float32
    with torch.no_grad():
        weight = None if weight is None else weight.to(dtype).contiguous()
        return 1 - float(photometric_loss(a.to(dtype), b.to(dtype), weight, ssim_weight=1.0, padding=padding))


class Lpips(torch.nn.Module):
    """Learned perceptual distance (Zhang et al. 2018, eq. 1): AlexNet, linear weights of version 0.1.

    Args:
        path: weights, an .npz whose SHA-256 must be the known one. None: those of the package.

    Raises:
        MetricError: the file is missing or damaged.
    """

    shift: Tensor
    scale: Tensor

    def __init__(self, path: Path | None = None) -> None:
        super().__init__()
        arrays = _read_weights(WEIGHTS if path is None else Path(path))
        for name, array in arrays.items():
            self.register_buffer(
                name.replace(".", "_"), torch.from_numpy(array.astype(np.float32)), persistent=False
            )
        self.register_buffer("shift", torch.tensor([-0.030, -0.088, -0.188])[:, None, None], persistent=False)
        self.register_buffer("scale", torch.tensor([0.458, 0.448, 0.450])[:, None, None], persistent=False)

    def features(self, image: Tensor) -> list[Tensor]:
        """AlexNet's five activations, unit length over F: [B, 3, H, W] in [-1, 1] to [B, F, h, w] each."""
        x = (image - self.shift) / self.scale
        out = []
        for layer, (stride, padding, pool) in enumerate(
            ((4, 2, False), (1, 2, True), (1, 1, True), (1, 1, False), (1, 1, False)), start=1
        ):
            x = nn.max_pool2d(x, 3, 2) if pool else x
            weight, bias = getattr(self, f"conv{layer}_weight"), getattr(self, f"conv{layer}_bias")
            x = nn.conv2d(x, weight, bias, stride=stride, padding=padding).relu()
            out.append(x / (x.square().sum(dim=1, keepdim=True).sqrt() + 1e-10))
        return out

    def forward(self, a: Tensor, b: Tensor) -> Tensor:
        """Distance of images in [0, 1], [H, W, 3], at least 31 pixels a side.

        Returns:
            Scalar, 0 for equal images.

        Raises:
            MetricError: the images are too small.
        """
        _check("lpips", a, b, None)
        if min(a.shape[:2]) < LPIPS_MIN_SIDE:
            raise MetricError(
                f"LPIPS needs at least {LPIPS_MIN_SIDE} pixels a side, got {a.shape[1]}x{a.shape[0]}.",
                "Use larger images, or leave LPIPS out.",
            )
        pair = torch.stack([a, b]).movedim(-1, 1).to(self.shift) * 2 - 1
        distance = pair.new_zeros(())
        with torch.backends.cudnn.flags(enabled=True, allow_tf32=False):  # tf32 moves the distance by 1e-3
            activations = self.features(pair)
        for layer, activation in enumerate(activations, start=1):
            square = (activation[0] - activation[1]).square()
            distance = distance + (square * getattr(self, f"linear{layer}")[:, None, None]).sum(dim=0).mean()
        return distance


_loading = threading.Lock()
_begun: set[torch.device] = set()  # devices on which a thread loads LPIPS, or has loaded it


@functools.lru_cache(maxsize=2)
def _model(device: torch.device, path: Path) -> Lpips:
    return Lpips(path).to(device).eval()


def loaded_lpips(device: torch.device) -> Lpips:
    """`Lpips` with the package's weights, kept loaded per device.

    Raises:
        MetricError: the weights are missing or damaged.
    """
    with _loading:
        return _model(_numbered(device), WEIGHTS)


def load_lpips_meanwhile(device: torch.device) -> None:
    """Begins once per GPU to load `Lpips` and the kernels of its first images, which take 0.2 s, in a thread.

    Whatever fails there fails again, and is reported, where LPIPS is asked for.
    """
    device = _numbered(device)
    if device in _begun:
        return
    _begun.add(device)
    threading.Thread(target=_load_with_kernels, args=(device,), name="luxel-lpips", daemon=True).start()


def _numbered(device: torch.device) -> torch.device:
    return torch.empty(0, device=device).device  # cuda:0 for cuda


def _load_with_kernels(device: torch.device) -> None:
    stream = torch.cuda.Stream(device)
    with suppress(MetricError, RuntimeError), _loading, torch.no_grad(), torch.cuda.stream(stream):
        image = torch.zeros(64, 64, 3, device=device)
        _model(device, WEIGHTS)(image, image)
        stream.synchronize()


def lpips(a: Tensor, b: Tensor) -> float:
    """`Lpips` of images in [0, 1], [H, W, 3], with the package's weights, kept loaded per device."""
    with torch.no_grad():
        return float(loaded_lpips(a.device)(a, b))


def _read_weights(path: Path) -> dict[str, np.ndarray]:
    remedy = "Reinstall luxel (`pip install --force-reinstall luxel`), or evaluate without it (--no-lpips)."
    try:
        data = path.read_bytes()
    except OSError as error:
        raise MetricError(f"The LPIPS weights {path} cannot be read ({error.strerror}).", remedy) from error
    digest = hashlib.sha256(data).hexdigest()
    if digest != WEIGHTS_SHA256:
        raise MetricError(
            f"The LPIPS weights {path} are damaged (SHA-256 {digest[:12]}..., {len(data)} bytes).", remedy
        )
    with np.load(io.BytesIO(data), allow_pickle=False) as arrays:
        return {name: arrays[name] for name in arrays.files}


def _check(metric: str, a: Tensor, b: Tensor, weight: Tensor | None) -> None:
    if a.dim() != 3 or a.shape[-1] != 3 or 0 in a.shape:
        raise ValueError(f"{metric}: images must be [H, W, 3] and not empty, got {list(a.shape)}")
    if a.shape != b.shape:
        raise ValueError(f"{metric}: images differ in shape, {list(a.shape)} and {list(b.shape)}")
    if weight is not None and weight.shape != a.shape[:2]:
        raise ValueError(f"{metric}: weight must be {list(a.shape[:2])}, got {list(weight.shape)}")
