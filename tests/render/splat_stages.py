"""Convexes and surfels through the kernels, stage by stage, and how tests compare that with the reference."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import torch
from torch import Tensor

from luxel.render.geometry.camera import Camera
from luxel.render.ops.raster.bin_splats import bin_splats
from luxel.render.ops.raster.blend_splats import blend_splats
from luxel.render.ops.raster.project_convexes import project_convexes
from luxel.render.ops.raster.project_surfels import project_surfels
from luxel.render.primitives.convexes import Convexes
from luxel.render.primitives.surfels import Surfels
from luxel.render.reference.raster.rasterize_convexes import rasterize_convexes_reference
from luxel.render.reference.raster.rasterize_surfels import rasterize_surfels_reference

D = torch.float64
MAX_ALPHA = (
    0.984375  # the C ABI holds it as float32: a double comparison needs a value that both sides read alike
)

Scene = Convexes | Surfels


@dataclass(frozen=True)
class Stages:
    """What a primitive has of its own.

    Args:
        project, reference: the first stage, and the whole in float64.
        projection, reference_options, blending: options of project, reference and blend.
        jumps: largest share of pixels that may sit on a jump.
        margin: how near a jump a pixel of single precision may be.
        hull: the same of a polygon that is about to change its corners, in single precision; None: there are none.
    """

    name: str
    project: Callable[..., Any]
    reference: Callable[..., Any]
    projection: dict[str, Any]
    reference_options: dict[str, Any]
    blending: dict[str, Any]
    jumps: float
    margin: float
    hull: float | None


STAGES: dict[type[Any], Stages] = {
    Convexes: Stages(
        "convexes", project_convexes, rasterize_convexes_reference, {}, {}, {}, 0.03, 2e-4, hull=1e-5
    ),
    Surfels: Stages(
        "surfels",
        project_surfels,
        rasterize_surfels_reference,
        {"with_normals": True},
        {"normals": True},
        {"depth_moments": 2},
        0.04,
        3e-4,
        hull=None,
    ),
}


class Drawn(NamedTuple):
    """What the stages give for C cameras."""

    image: Tensor  # [C, H, W, D] convexes: rgb, depth times alpha, features; surfels: rgb, z, z^2, normals times alpha
    alpha: Tensor  # [C, H, W]
    count: Tensor  # [C, H, W]
    median_depth: Tensor  # [C, H, W]
    splats: Tensor  # [C, N, 28 or 12]
    values: Tensor  # [C, N, D]
    tile_counts: Tensor  # [C, N]
    totals: Tensor  # [2]
    lists: tuple[Tensor, ...]  # instances, ranges, overflow, plan


def projection_of(camera: Camera) -> tuple[tuple[Tensor, Tensor], dict[str, Any]]:
    """The arguments of a projection that a camera gives."""
    stacked = camera if camera.batched else Camera.stack([camera])
    size = {"width": camera.width, "height": camera.height, "near": camera.near, "far": camera.far}
    return (stacked.world_to_cam, stacked.intrinsics), size


def draw(
    scene: Scene,
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
    stages = STAGES[type(scene)]
    cameras, projection = projection_of(camera)
    size = {"width": camera.width, "height": camera.height}
    splats, values, tile_counts, totals = stages.project(
        tuple(scene.tensors().values()),
        *cameras,
        **projection,
        sh_degree=sh_degree,
        with_depth=depth,
        **stages.projection,
        statistics=statistics,
    )
    seen, needed = (tile_counts.numel(), room) if room is not None else totals.tolist()
    lists = bin_splats(
        splats, tile_counts, totals, **size, visible_capacity=seen, capacity=needed, primitive=stages.name
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
        primitive=stages.name,
        **size,
        **{"max_alpha": MAX_ALPHA, "median": True, "tally": True, **stages.blending, **options},
    )
    return Drawn(image, 1 - transmittance, count, median, splats, values, tile_counts, totals, lists)


def _expected(scene: Scene, witness: Any, depth: bool, features: bool) -> Tensor:
    """Images of the reference with the channels of `Drawn.image`, then alpha."""
    parts = [witness.rgb]
    if depth:
        parts.append((witness.depth * witness.alpha)[..., None])
    if isinstance(scene, Surfels):
        parts += [witness.features[..., :1], witness.normals]
    elif features:
        parts.append(witness.features)
    return torch.cat([*parts, witness.alpha[..., None]], -1)


def assert_agrees(
    scene: Scene,
    camera: Camera,
    *,
    background: Tensor | None = None,
    features: Tensor | None = None,
    depth: bool = True,
    jumps: float | None = None,
    **options: Any,
) -> Drawn:
    """Fails unless the kernels give the images and gradients of the float64 reference.

    Images to 1e-5 (float32) or 1e-12 (float64), gradients of a random weighting of all outputs to 1e-4 or 1e-10 of the
    norm of each parameter's gradient. Pixels where a yes-or-no decision is closer than rounding are left out of both;
    scenes must not have polygons that are about to change their corners.

    Args:
        features: of convexes, [N, F].
        depth: of convexes; surfels always have it.
        jumps: largest share of the pixels that may be left out; None: that of the primitive.
    """
    stages, kind = STAGES[type(scene)], type(scene)
    tensors = scene.tensors()
    first = tensors[kind.names[0]]
    single = first.dtype == torch.float32
    margin, forward, backward = (stages.margin, 1e-5, 1e-4) if single else (1e-9, 1e-12, 1e-10)
    given = {**tensors, "world_to_cam": camera.world_to_cam}
    if background is not None:
        given["background"] = background
    if features is not None:
        given["features"] = features

    def leaves(dtype: torch.dtype, device: torch.device) -> dict[str, Tensor]:
        return {k: t.detach().to(device, dtype, copy=True).requires_grad_() for k, t in given.items()}

    def parts(actual: dict[str, Tensor]) -> tuple[Scene, Camera, dict[str, Tensor]]:
        like = actual["world_to_cam"]
        posed = replace(camera.to(like.dtype).to(like.device), world_to_cam=like)
        rest = {k: t for k, t in actual.items() if k in ("background", "features")}
        return kind(**{name: actual[name] for name in kind.names}), posed, rest

    native_in, witness_in = leaves(first.dtype, first.device), leaves(D, torch.device("cpu"))
    own, posed, rest = parts(native_in)
    native = draw(own, posed, depth=depth, **rest, **options)
    theirs, posed, rest = parts(witness_in)
    rest |= {"sh_degree": options["sh_degree"]} if "sh_degree" in options else {}
    limit = options.get("max_alpha", MAX_ALPHA)
    witness = stages.reference(theirs, posed, depth=True, max_alpha=limit, **stages.reference_options, **rest)
    if stages.hull is not None:
        hull = stages.hull if single else 1e-9
        polygons = [s.margin for s in witness.splats if s.margin.numel()]
        assert all(m.min() > hull for m in polygons), "a polygon on a jump"

    pixels = (-1, camera.height, camera.width)
    keep = (witness.margin > margin).reshape(pixels)
    most = stages.jumps if jumps is None else jumps
    assert (~keep).double().mean() <= most, f"{(~keep).double().mean():.3f} of the pixels sit on a jump"
    assert torch.equal(native.count.cpu()[keep], witness.count.reshape(pixels)[keep])
    if depth:
        near = native.median_depth.cpu().to(D) - witness.median_depth.reshape(pixels)
        scale = max(1.0, witness.median_depth.max().item())
        assert not keep.any() or near[keep].abs().max() <= forward * scale
    expected = _expected(scene, witness, depth, features is not None)
    expected = expected.reshape(*pixels, expected.shape[-1])
    actual = torch.cat([native.image, native.alpha[..., None]], -1)
    assert actual.shape == expected.shape and actual.dtype == first.dtype
    scale = expected.detach().abs().flatten(0, -2).amax(0).clamp_min(1)
    relative = ((actual.detach().cpu().to(D) - expected.detach()).abs() / scale)[keep]
    off = relative.max().item() if keep.any() else 0.0
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


def check_gradients(scene: Scene, camera: Camera, **options: Any) -> dict[str, Tensor]:
    """Draws, weighs all outputs, and fails unless images and gradients are finite."""
    scene = scene.detach().requires_grad_()
    drawn = draw(scene, camera, **options)
    loss = drawn.image.sum() + drawn.alpha.sum()
    assert torch.isfinite(loss)
    loss.backward()
    gradients = {}
    for name, tensor in scene.tensors().items():
        assert tensor.grad is not None and tensor.grad.isfinite().all(), f"gradient of {name} is not finite"
        gradients[name] = tensor.grad
    return gradients
