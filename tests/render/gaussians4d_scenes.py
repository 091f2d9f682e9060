"""4D Gaussians that tests share, the native stages that draw them, and how they are compared with the reference."""

from __future__ import annotations

import math
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor

from luxel.render.geometry.camera import Camera
from luxel.render.ops.raster.bin_splats import bin_splats
from luxel.render.ops.raster.blend_splats import blend_splats
from luxel.render.ops.raster.project_gaussians4d import project_gaussians4d
from luxel.render.primitives.gaussians4d import Gaussians4d
from luxel.render.reference.raster.rasterize_gaussians4d import rasterize_gaussians4d_reference

D = torch.float64
# The C ABI holds these two as float32: a double comparison needs values that both sides read alike.
EXACT: dict[str, Any] = {"dilation": 0.3125, "max_alpha": 0.984375}


def random_gaussians4d(
    n: int, seed: int = 0, *, sh_degree: int = 1, scale: float = 0.3, dtype=D, device="cpu"
) -> Gaussians4d:
    """Gaussians around the origin and time 0.5 that live for about as long as a clip of length 1."""
    generator = torch.Generator().manual_seed(seed)

    def normal(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator)

    return Gaussians4d(
        means=normal(n, 3),
        times=0.5 + 0.3 * normal(n),
        log_scales=math.log(scale) + 0.4 * normal(n, 3),
        log_scale_t=math.log(0.5) + 0.3 * normal(n),
        rotors=normal(n, 8),
        opacity_logits=1 + normal(n),
        sh_dc=0.8 * normal(n, 3),
        sh_rest=0.2 * normal(n, (sh_degree + 1) ** 2 - 1, 3),
    ).map(lambda t: t.to(device=device, dtype=dtype))


def project4d(
    gaussians: Gaussians4d,
    camera: Camera,
    time: float | Tensor,
    *,
    sh_degree: int | None = None,
    antialiased: bool = False,
    dilation: float = 0.3,
    depth: bool = False,
    normals: bool = False,
    statistics: Tensor | None = None,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The native stage for a camera or a batch, with a time for all or for each."""
    batch = camera if camera.batched else Camera.stack([camera])
    timestamps = torch.as_tensor(time, dtype=gaussians.means.dtype, device=gaussians.device)
    return project_gaussians4d(
        tuple(gaussians.tensors().values()),
        batch.world_to_cam,
        batch.calibration,
        timestamps.expand(batch.world_to_cam.shape[0]),
        width=camera.width,
        height=camera.height,
        sh_degree=gaussians.sh_degree if sh_degree is None else sh_degree,
        near=camera.near,
        far=camera.far,
        dilation=dilation,
        antialiased=antialiased,
        with_depth=depth,
        with_normals=normals,
        statistics=statistics,
        shutters=batch.shutter,
    )


def draw4d(
    gaussians: Gaussians4d,
    camera: Camera,
    time: float | Tensor,
    *,
    background: Tensor | None = None,
    max_alpha: float = 0.99,
    depth: bool = False,
    normals: bool = False,
    **options: Any,
) -> SimpleNamespace:
    """All native stages; the fields are those of `rasterize_gaussians4d_reference`."""
    splats, values, tile_counts, totals = project4d(
        gaussians, camera, time, depth=depth, normals=normals, **options
    )
    seen, capacity = totals.tolist()
    size = {"width": camera.width, "height": camera.height}
    instances, ranges, _, plan = bin_splats(
        splats, tile_counts, totals, **size, visible_capacity=seen, capacity=capacity
    )
    behind = None
    if background is not None:
        behind = torch.nn.functional.pad(background.to(values), (0, values.shape[-1] - 3))
        behind = behind.expand(len(values), -1)
    lists = (instances, ranges, plan)
    image, transmittance, _, count, median = blend_splats(
        splats, values, behind, *lists, **size, max_alpha=max_alpha, median=depth, tally=True
    )
    fields = {
        "rgb": image[..., :3],
        "alpha": 1 - transmittance,
        "depth": image[..., 3] / (1 - transmittance).clamp_min(1e-10) if depth else None,
        "median_depth": median if depth else None,
        "normals": image[..., -3:] if normals else None,
        "count": count,
    }
    if not camera.batched:
        fields = {name: t if t is None else t[0] for name, t in fields.items()}
    return SimpleNamespace(**fields, tile_counts=tile_counts)


def assert_agrees4d(
    gaussians: Gaussians4d,
    camera: Camera,
    time: float | list[float],
    *,
    jumps: float = 0.03,
    **options: Any,
) -> dict[str, float]:
    """Fails unless the native stages give the images and gradients of the float64 reference.

    Images to 1e-5 (float32) or 1e-12 (float64), gradients of a random weighting of all outputs by parameters, pose and
    time to 1e-4 or 1e-10 of their norm. Pixels on a jump are left out, as in the comparison of 3D Gaussians.

    Args:
        jumps: largest share of the pixels that may be left out.

    Returns:
        The largest differences found, by output and parameter.
    """
    single = gaussians.means.dtype == torch.float32
    margin, forward, backward = (2e-4, 1e-5, 1e-4) if single else (1e-9, 1e-12, 1e-10)
    options = {**EXACT, **options}
    given = {**gaussians.tensors(), "world_to_cam": camera.world_to_cam, "time": torch.tensor(time, dtype=D)}
    if camera.shutter is not None:
        given["shutter"] = camera.shutter

    def leaves(dtype: torch.dtype, device: torch.device) -> dict[str, Tensor]:
        return {k: t.detach().to(device, dtype, copy=True).requires_grad_() for k, t in given.items()}

    def view(leaf: dict[str, Tensor]) -> Camera:
        like = leaf["world_to_cam"]
        return replace(camera.to(like.dtype).to(like.device), world_to_cam=like, shutter=leaf.get("shutter"))

    ours, theirs = leaves(gaussians.means.dtype, gaussians.device), leaves(D, torch.device("cpu"))
    native = draw4d(Gaussians4d(*(ours[n] for n in Gaussians4d.names)), view(ours), ours["time"], **options)
    witness = rasterize_gaussians4d_reference(
        Gaussians4d(*(theirs[n] for n in Gaussians4d.names)), view(theirs), theirs["time"], **options
    )

    keep = witness.margin > margin
    assert (~keep).double().mean() <= jumps, f"{(~keep).double().mean():.3f} of the pixels sit on a jump"
    assert torch.equal(native.count.cpu()[keep], witness.count[keep]) and witness.count.max() > 0
    actual: dict[str, float] = {}
    generator, losses = torch.Generator().manual_seed(7), [torch.zeros((), dtype=D)] * 2
    for name in ("rgb", "alpha", "depth", "median_depth", "normals"):
        a, b = getattr(native, name), getattr(witness, name)
        assert (a is None) == (b is None), name
        if b is None:
            continue
        assert a.shape == b.shape and a.dtype == gaussians.means.dtype, name
        scale = max(1.0, b.abs().max().item())
        actual[name] = (a.detach().cpu().to(D) - b.detach())[keep].abs().max().item() / scale
        assert actual[name] <= forward, f"{name}: {actual[name]:.3g}"
        if name != "median_depth":
            weight = torch.randn(b.shape, generator=generator, dtype=D)
            weight = weight * keep.reshape(*keep.shape, *[1] * (b.dim() - keep.dim()))
            losses = [losses[0] + (a * weight.to(a)).sum().cpu().to(D), losses[1] + (b * weight).sum()]
    for loss in losses:
        loss.backward()
    for name, leaf in theirs.items():
        expected, gradient = leaf.grad, ours[name].grad
        assert expected is not None and gradient is not None, name
        difference, norm = (gradient.cpu().to(D) - expected).norm().item(), expected.norm().item()
        actual[f"g_{name}"] = difference / max(norm, 1e-300)
        assert difference <= backward * norm + 1e-30, (
            f"gradient of {name}: {difference:.3g} off in {norm:.3g}"
        )
    return actual
