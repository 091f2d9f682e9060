"""Surfels through the kernels, stage by stage, and how tests compare that with the reference."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import torch
from torch import Tensor

from luxel.render.geometry.camera import Camera
from luxel.render.ops.raster.bin_splats import bin_splats
from luxel.render.ops.raster.blend_splats import blend_splats
from luxel.render.ops.raster.project_surfels import project_surfels
from luxel.render.primitives.surfels import Surfels
from luxel.render.reference.raster.rasterize_surfels import rasterize_surfels_reference

D = torch.float64
MAX_ALPHA = (
    0.984375  # the C ABI holds it as float32: a double comparison needs a value that both sides read alike
)


class Drawn(NamedTuple):
    """What the stages give for C cameras."""

    image: Tensor  # [C, H, W, 8] rgb, z and z^2 times alpha, normals times alpha
    alpha: Tensor  # [C, H, W]
    count: Tensor  # [C, H, W]
    median_depth: Tensor  # [C, H, W]
    splats: Tensor  # [C, N, 12]
    values: Tensor  # [C, N, 8]
    tile_counts: Tensor  # [C, N]
    totals: Tensor  # [2]
    lists: tuple[Tensor, ...]  # instances, ranges, overflow, plan


def random_surfels(n: int, seed: int = 0, *, sh_degree: int = 1, size: float = 0.3) -> Surfels:
    """Surfels around the origin, of all orientations."""
    generator = torch.Generator().manual_seed(seed)

    def normal(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator)

    return Surfels(
        means=0.7 * normal(n, 3),
        quats=normal(n, 4),
        log_scales=torch.tensor(size).log() + 0.5 * normal(n, 2),
        opacity_logits=1 + normal(n),
        sh_dc=0.8 * normal(n, 3),
        sh_rest=0.2 * normal(n, (sh_degree + 1) ** 2 - 1, 3),
    ).to(D)


def well_seen(surfels: Surfels, camera: Camera, least: float = 0.2) -> Surfels:
    """Those that a camera does not see edge-on, where rounding counts; least: cosine of the angle."""
    cameras = camera if camera.batched else Camera.stack([camera])
    keep = torch.ones(surfels.count, dtype=torch.bool)
    for position in cameras.cam_to_world[:, :3, 3].to(surfels.means):
        sight = torch.nn.functional.normalize(surfels.means - position, dim=-1)
        keep &= (surfels.normals * sight).sum(-1).abs() >= least
    return surfels.select(keep)


def projection_of(camera: Camera) -> tuple[tuple[Tensor, Tensor], dict[str, Any]]:
    """The arguments of `project_surfels` that a camera gives."""
    stacked = camera if camera.batched else Camera.stack([camera])
    size = {"width": camera.width, "height": camera.height, "near": camera.near, "far": camera.far}
    return (stacked.world_to_cam, stacked.intrinsics), size


def draw(
    surfels: Surfels,
    camera: Camera,
    *,
    background: Tensor | None = None,
    sh_degree: int = 3,
    room: int | None = None,
    statistics: Tensor | None = None,
    **options: Any,
) -> Drawn:
    """All three stages with all values; without ``room`` for instances, as much as is needed."""
    cameras, projection = projection_of(camera)
    size = {"width": camera.width, "height": camera.height}
    splats, values, tile_counts, totals = project_surfels(
        tuple(surfels.tensors().values()),
        *cameras,
        **projection,
        sh_degree=sh_degree,
        with_depth=True,
        with_normals=True,
        statistics=statistics,
    )
    seen, needed = (tile_counts.numel(), room) if room is not None else totals.tolist()
    lists = bin_splats(
        splats, tile_counts, totals, **size, visible_capacity=seen, capacity=needed, primitive="surfels"
    )
    if background is not None:
        background = torch.nn.functional.pad(background.expand(len(values), 3), (0, 5))
    image, transmittance, _, count, median = blend_splats(
        splats,
        values,
        background,
        lists[0],
        lists[1],
        lists[3],
        primitive="surfels",
        **size,
        **{"max_alpha": MAX_ALPHA, "median": True, "tally": True, "depth_moments": 2, **options},
    )
    return Drawn(image, 1 - transmittance, count, median, splats, values, tile_counts, totals, lists)


def assert_agrees(
    surfels: Surfels,
    camera: Camera,
    *,
    background: Tensor | None = None,
    jumps: float = 0.04,
    **options: Any,
) -> Drawn:
    """Fails unless the kernels give the images and gradients of the float64 reference.

    Images to 1e-5 (float32) or 1e-12 (float64), gradients of a random weighting of all outputs to 1e-4 or 1e-10 of the
    norm of each parameter's gradient. Pixels where a yes-or-no decision is closer than rounding are left out of both.

    Args:
        jumps: largest share of the pixels that may be left out.
    """
    single = surfels.means.dtype == torch.float32
    margin, forward, backward = (3e-4, 1e-5, 1e-4) if single else (1e-9, 1e-12, 1e-10)
    given = {**surfels.tensors(), "world_to_cam": camera.world_to_cam}
    if background is not None:
        given["background"] = background

    def leaves(dtype: torch.dtype, device: torch.device) -> dict[str, Tensor]:
        return {k: t.detach().to(device, dtype, copy=True).requires_grad_() for k, t in given.items()}

    def parts(actual: dict[str, Tensor]) -> tuple[Surfels, Camera, dict[str, Tensor]]:
        like = actual["means"]
        posed = replace(camera.to(like.dtype).to(like.device), world_to_cam=actual["world_to_cam"])
        rest = {k: t for k, t in actual.items() if k == "background"}
        return Surfels(**{name: actual[name] for name in Surfels.names}), posed, rest

    native_in, witness_in = leaves(surfels.means.dtype, surfels.device), leaves(D, torch.device("cpu"))
    own, posed, rest = parts(native_in)
    native = draw(own, posed, **rest, **options)
    theirs, posed, rest = parts(witness_in)
    degree = {"sh_degree": options["sh_degree"]} if "sh_degree" in options else {}
    limit = options.get("max_alpha", MAX_ALPHA)
    witness = rasterize_surfels_reference(
        theirs, posed, depth=True, normals=True, max_alpha=limit, **rest, **degree
    )
    assert witness.depth is not None and witness.median_depth is not None
    assert witness.normals is not None and witness.features is not None

    pixels = (-1, camera.height, camera.width)
    keep = (witness.margin > margin).reshape(pixels)
    assert (~keep).double().mean() <= jumps, f"{(~keep).double().mean():.3f} of the pixels sit on a jump"
    assert torch.equal(native.count.cpu()[keep], witness.count.reshape(pixels)[keep])
    near = native.median_depth.cpu().to(D) - witness.median_depth.reshape(pixels)
    scale = max(1.0, witness.median_depth.max().item())
    assert not keep.any() or near[keep].abs().max() <= forward * scale
    accumulated = (witness.depth * witness.alpha)[..., None]
    expected = torch.cat(
        [witness.rgb, accumulated, witness.features[..., :1], witness.normals, witness.alpha[..., None]], -1
    ).reshape(*pixels, 9)
    actual = torch.cat([native.image, native.alpha[..., None]], -1)
    assert actual.shape == expected.shape and actual.dtype == surfels.means.dtype
    scale = expected.abs().reshape(-1, 9).amax(0).clamp_min(1)
    relative = ((actual.detach().cpu().to(D) - expected.detach()).abs() / scale.detach())[keep]
    off = relative.amax().item() if keep.any() else 0.0
    assert off <= forward, f"image: {off:.3g} off"

    generator = torch.Generator().manual_seed(7)
    weight = torch.randn(expected.shape, generator=generator, dtype=D) * keep[..., None]
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
