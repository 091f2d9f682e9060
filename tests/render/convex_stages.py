"""Convexes through the kernels, stage by stage, and how tests compare that with the reference."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import torch
from convex_scenes import D
from torch import Tensor

from luxel.render.geometry.camera import Camera
from luxel.render.ops.raster.bin_splats import bin_splats
from luxel.render.ops.raster.blend_splats import blend_splats
from luxel.render.ops.raster.project_convexes import project_convexes
from luxel.render.primitives.convexes import Convexes
from luxel.render.reference.raster.rasterize_convexes import rasterize_convexes_reference

MAX_ALPHA = (
    0.984375  # the C ABI holds it as float32: a double comparison needs a value that both sides read alike
)


class Drawn(NamedTuple):
    """What the stages give for C cameras."""

    image: Tensor  # [C, H, W, D] rgb, depth times alpha, features
    alpha: Tensor  # [C, H, W]
    count: Tensor  # [C, H, W]
    median_depth: Tensor  # [C, H, W]
    splats: Tensor  # [C, N, 28]
    values: Tensor  # [C, N, D]
    tile_counts: Tensor  # [C, N]
    totals: Tensor  # [2]
    lists: tuple[Tensor, ...]  # instances, ranges, overflow, plan


def projection_of(camera: Camera) -> tuple[tuple[Tensor, Tensor], dict[str, Any]]:
    """The arguments of `project_convexes` that a camera gives."""
    stacked = camera if camera.batched else Camera.stack([camera])
    size = {"width": camera.width, "height": camera.height, "near": camera.near, "far": camera.far}
    return (stacked.world_to_cam, stacked.intrinsics), size


def draw(
    convexes: Convexes,
    camera: Camera,
    *,
    background: Tensor | None = None,
    features: Tensor | None = None,
    depth: bool = True,
    sh_degree: int = 3,
    room: int | None = None,
    statistics: Tensor | None = None,
    **options: Any,
) -> Drawn:
    """All three stages; without ``room`` for instances, as much as is needed."""
    cameras, projection = projection_of(camera)
    size = {"width": camera.width, "height": camera.height}
    splats, values, tile_counts, totals = project_convexes(
        tuple(convexes.tensors().values()),
        *cameras,
        **projection,
        sh_degree=sh_degree,
        with_depth=depth,
        statistics=statistics,
    )
    seen, needed = (tile_counts.numel(), room) if room is not None else totals.tolist()
    lists = bin_splats(
        splats, tile_counts, totals, **size, visible_capacity=seen, capacity=needed, primitive="convexes"
    )
    if features is not None:
        values = torch.cat([values, features.expand(len(values), *features.shape)], -1)
    if background is not None:
        background = torch.nn.functional.pad(
            background.expand(len(values), 3), (0, values.shape[-1] - background.shape[-1])
        )
    image, transmittance, _, count, median = blend_splats(
        splats,
        values,
        background,
        lists[0],
        lists[1],
        lists[3],
        primitive="convexes",
        **size,
        **{"max_alpha": MAX_ALPHA, "median": True, "tally": True, **options},
    )
    return Drawn(image, 1 - transmittance, count, median, splats, values, tile_counts, totals, lists)


def assert_agrees(
    convexes: Convexes,
    camera: Camera,
    *,
    background: Tensor | None = None,
    features: Tensor | None = None,
    depth: bool = True,
    jumps: float = 0.03,
    **options: Any,
) -> Drawn:
    """Fails unless the kernels give the images and gradients of the float64 reference.

    Images to 1e-5 (float32) or 1e-12 (float64), gradients of a random weighting of all outputs to 1e-4 or 1e-10 of the
    norm of each parameter's gradient. Pixels where a yes-or-no decision is closer than rounding are left out of both;
    scenes must not have polygons that are about to change their corners.

    Args:
        jumps: largest share of the pixels that may be left out.
    """
    single = convexes.points.dtype == torch.float32
    margin, hull, forward, backward = (2e-4, 1e-5, 1e-5, 1e-4) if single else (1e-9, 1e-9, 1e-12, 1e-10)
    given = {**convexes.tensors(), "world_to_cam": camera.world_to_cam}
    if background is not None:
        given["background"] = background
    if features is not None:
        given["features"] = features

    def leaves(dtype: torch.dtype, device: torch.device) -> dict[str, Tensor]:
        return {k: t.detach().to(device, dtype, copy=True).requires_grad_() for k, t in given.items()}

    def parts(actual: dict[str, Tensor]) -> tuple[Convexes, Camera, dict[str, Tensor]]:
        like = actual["points"]
        posed = replace(camera.to(like.dtype).to(like.device), world_to_cam=actual["world_to_cam"])
        rest = {k: t for k, t in actual.items() if k in ("background", "features")}
        return Convexes(**{name: actual[name] for name in Convexes.names}), posed, rest

    native_in, witness_in = leaves(convexes.points.dtype, convexes.device), leaves(D, torch.device("cpu"))
    own, posed, rest = parts(native_in)
    native = draw(own, posed, depth=depth, **rest, **options)
    theirs, posed, rest = parts(witness_in)
    degree = {"sh_degree": options["sh_degree"]} if "sh_degree" in options else {}
    witness = rasterize_convexes_reference(
        theirs, posed, depth=True, max_alpha=options.get("max_alpha", MAX_ALPHA), **rest, **degree
    )
    assert all(s.margin.numel() == 0 or s.margin.min() > hull for s in witness.splats), "a polygon on a jump"

    pixels = (-1, camera.height, camera.width)
    keep = (witness.margin > margin).reshape(pixels)
    assert (~keep).double().mean() <= jumps, f"{(~keep).double().mean():.3f} of the pixels sit on a jump"
    assert torch.equal(native.count.cpu()[keep], witness.count.reshape(pixels)[keep])
    image = [witness.rgb]
    if depth:
        image.append((witness.depth * witness.alpha)[..., None])
        near = native.median_depth.cpu().to(D) - witness.median_depth.reshape(pixels)
        scale = max(1.0, witness.median_depth.max().item())
        assert near[keep].abs().max() <= forward * scale if keep.any() else True
    if features is not None:
        image.append(witness.features)
    expected = torch.cat([*image, witness.alpha[..., None]], -1)
    expected = expected.reshape(*pixels, expected.shape[-1])
    actual = torch.cat([native.image, native.alpha[..., None]], -1)
    assert actual.shape == expected.shape and actual.dtype == convexes.points.dtype
    scale = max(1.0, expected.abs().max().item())
    difference = (actual.detach().cpu().to(D) - expected)[keep].abs().max().item() if keep.any() else 0.0
    assert difference <= forward * scale, f"image: {difference:.3g} off in {scale:.3g}"

    weight = (
        torch.randn(expected.shape, generator=torch.Generator().manual_seed(7), dtype=D) * keep[..., None]
    )
    (actual * weight.to(actual)).sum().backward()
    if expected.requires_grad:
        (expected * weight).sum().backward()
    for name, leaf in witness_in.items():
        gradient = native_in[name].grad
        true = torch.zeros_like(leaf) if leaf.grad is None else leaf.grad
        assert gradient is not None and gradient.shape == leaf.shape, f"no gradient of {name}"
        off, norm = (gradient.cpu().to(D) - true).norm().item(), true.norm().item()
        assert off <= backward * norm + 1e-30, f"gradient of {name}: {off:.3g} off in {norm:.3g}"
    return native
