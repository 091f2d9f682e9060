"""The tile rasterizer: project -> bin (sort) -> blend, differentiable end to end.

Kerbl et al. 2023, "3D Gaussian Splatting for Real-Time Radiance Field Rendering"; EWA splatting after Zwicker et
al. 2002. A primitive is projected to rows on the screen; the later stages depend only on these. The kernels are in
cuda/kernels, the same stages in plain torch in render/reference.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from luxel.render.geometry.camera import Camera
from luxel.render.ops.raster.blend_splats import CHANNELS, Blended, BlendSettings
from luxel.render.primitives.parameters import Parameters, Projected
from luxel.render.primitives.planes import plane_depth, with_planes
from luxel.render.raster.pipeline import (
    DILATION,
    MAX_ALPHA,
    TileLists,
    bin_tiles,
    blend,
    project,
    viewing,
    with_capacity,
    with_scaled_gradients,
)


@dataclass
class Frame:
    """The result of `rasterize`; for a batch of cameras every tensor has a leading C.

    Args:
        rgb: colours over the background, [H, W, 3], not clamped above 1.
        transmittance: fraction of the background that is visible, in (0, 1], [H, W]; None from backends that set
            ``given_alpha`` instead.
        depth: mean z weighted by contribution, [H, W] (capture units; 0 where nothing is visible); of surfels, where
            the pixel's ray meets them.
        median_depth: z of the splat at which transmittance falls to 1/2, [H, W], 0 if it never does; no gradient.
        normals: world-space normals weighted by contribution, not normalised, [H, W, 3].
        features: blended features over 0, [H, W, F].
        count: contributing splats per pixel, int32 [H, W]; None unless requested.
        splats: screen splats, of Gaussians [C, N, 8]: x, y, opacity, depth, conic a, b, c, radius; undefined where
            culled; None from backends that do not provide them.
        tile_counts: tiles that a splat touches, int32 [C, N]; 0 where culled.
        totals: splats that touch a tile, and (tile, splat) pairs that the frame needs, all cameras together,
            int64 [2]; None from backends that do not provide them.
        overflow: 1 if ``max_instances`` was too small and parts are missing, int32 [1]; None likewise.
        square_depth: sum of the squares of the depth, each weighted by its contribution, [H, W] (capture units
            squared); of primitives whose depth varies over their pixels, with depth and normals, else None.
        plane_distance: sum of the distances of planes from the camera, each weighted by its contribution, [H, W]
            (capture units); None unless requested. See `luxel.render.primitives.planes`.
        plane_depth: z at which the blended planes meet the pixel's ray, [H, W] (capture units), 0 where they do not;
            None unless requested.
        median_splat: number of the splat of ``median_depth``, int32 [H, W], -1 where there is none; None unless
            requested.
        given_alpha: alpha of backends without ``transmittance``, [H, W]; else None.
    """

    rgb: Tensor
    transmittance: Tensor | None
    depth: Tensor | None
    median_depth: Tensor | None
    normals: Tensor | None
    features: Tensor | None
    count: Tensor | None
    splats: Tensor | None
    tile_counts: Tensor
    totals: Tensor | None
    overflow: Tensor | None
    given_alpha: Tensor | None = None
    square_depth: Tensor | None = None
    plane_distance: Tensor | None = None
    plane_depth: Tensor | None = None
    median_splat: Tensor | None = None

    @property
    def alpha(self) -> Tensor:
        """Coverage in [0, 1), [H, W]."""
        if self.transmittance is not None:
            return 1 - self.transmittance
        assert self.given_alpha is not None
        return self.given_alpha

    @property
    def visible(self) -> Tensor:
        """Splats that touch a tile, all cameras together, int64 [1]."""
        assert self.totals is not None
        return self.totals[:1]

    @property
    def instances(self) -> Tensor:
        """(tile, splat) pairs that the frame needs, all cameras together, int64 [1]."""
        assert self.totals is not None
        return self.totals[1:]


@dataclass
class DensifyStatistics:
    """Statistics of backward passes for densification; `rasterize` adds to them in place.

    Args:
        data: [N, 4] float32: see the properties, in their order. Of 4D Gaussians the second holds sums of
            |d loss / d time|. Of convexes the first holds sums of the signed d loss / d sigma, the second nothing,
            and the fourth the largest distance of a point from the centroid.
    """

    data: Tensor

    @staticmethod
    def zeros(
        count: int, device: torch.device | str = "cpu", dtype: torch.dtype = torch.float32
    ) -> DensifyStatistics:
        """Zero statistics of ``count`` primitives."""
        return DensifyStatistics(torch.zeros(count, 4, device=device, dtype=dtype))

    @property
    def grad_norm(self) -> Tensor:
        """Sum over passes of |d loss / d mean2d|, where one unit is half the image, [N]."""
        return self.data[:, 0]

    @property
    def abs_grad_norm(self) -> Tensor:
        """The same of per-pixel absolute gradients (AbsGS, Ye et al. 2024), [N]; 0 unless requested."""
        return self.data[:, 1]

    @property
    def visible(self) -> Tensor:
        """Number of views in which the primitive was visible, [N]."""
        return self.data[:, 2]

    @property
    def max_radius(self) -> Tensor:
        """Largest radius on screen relative to the longer image side, [N]."""
        return self.data[:, 3]

    def reset(self) -> None:
        """Sets all to 0, in place."""
        self.data.zero_()

    def select(self, index: Tensor) -> DensifyStatistics:
        """The statistics of some primitives, copied."""
        return DensifyStatistics(self.data[index])


def rasterize(
    scene: Parameters,
    camera: Camera,
    *,
    time: float | Tensor | None = None,
    background: Tensor | None = None,
    sh_degree: int | None = None,
    antialiased: bool = False,
    dilation: float = DILATION,
    max_alpha: float = MAX_ALPHA,
    depth: bool = False,
    normals: bool = False,
    planes: bool = False,
    median_splat: bool = False,
    count: bool = False,
    features: Tensor | None = None,
    statistics: DensifyStatistics | None = None,
    absolute_gradients: bool = False,
    deterministic: bool = False,
    full_gradient_depth: float = 0.0,
    max_instances: int | None = None,
    max_visible: int | None = None,
    on_totals: Callable[[Tensor], None] | None = None,
) -> Frame:
    """Renders Gaussians, 4D Gaussians or convexes for a camera or a batch of cameras.

    Differentiable by every field of ``scene``, by ``time``, ``background``, ``features`` and ``camera.world_to_cam``.

    Args:
        scene: N primitives, float32 or (CPU only) float64.
        camera: a camera or C of them, on the same device.
        time: of moving scenes, a scalar for all cameras or [C]; ignored for static scenes.
        background: colour behind everything, [3] or [C, 3]; None: black.
        sh_degree: highest degree of spherical harmonics that is evaluated; None: all that are stored.
        antialiased: compensate opacity for the dilation (Mip-Splatting, Yu et al. 2024); ignored for convexes and
            surfels.
        dilation: px^2 added to the diagonal of screen covariances; ignored for convexes and surfels.
        max_alpha: cap on the alpha of one splat at a pixel.
        depth, normals, count: render these too (median_depth comes with depth). Convexes have no normals.
        planes: render the depth of planes too, which is not biased where surfaces are visible at an angle; with
            ``normals``, of planar primitives and pinhole cameras.
        median_splat: render the numbers of the splats of ``median_depth``, by another pass over the image; for up to
            2^24 primitives.
        features: values blended like colours, [N, F], over a background of 0.
        statistics: updated in place by the backward pass.
        absolute_gradients: accumulate absolute gradients in the statistics too (slightly slower).
        deterministic: bit-identical gradients on the GPU, except by the camera; slower. On the CPU they always are.
        full_gradient_depth: gradients by what is nearer than this (camera z, capture units) are multiplied by the
            square of its share of it; 0: none is. See `luxel.render.raster.pipeline.gradient_scale`.
        max_instances: capacity for (tile, splat) pairs. None: as many as needed, for which the host waits for the
            device; with a number nothing waits, and ``Frame.overflow`` says whether it was too small.
        max_visible: with ``max_instances``, capacity for visible splats, which saves time if few are visible; if
            ``Frame.visible`` is larger, the frame is invalid. None: all splats.
        on_totals: called with `Frame.totals` right after projection is submitted, before the rest of the frame; so a
            caller can copy them to the host without waiting for the frame.

    Returns:
        Frame, with a leading C where ``camera`` is a batch.

    Raises:
        ValueError: inconsistent shapes, devices or float types, a scene that moves without a time, or planes that the
            primitives or the camera do not have.
        NativeError: no kernels for this device.
        FirstOrderError: second derivatives, when they are computed, or forward mode.
    """
    if features is not None and (features.dim() != 2 or features.shape[0] != scene.count):
        raise ValueError(f"features must be [{scene.count}, F], got {list(features.shape)}")
    if planes and not (scene.planar and normals):
        raise ValueError(f"planes must be False: {scene.noun} have none, or normals are not rendered")
    if planes and camera.lens is not None:
        raise ValueError("camera must be a pinhole where planes are rendered")
    single = not camera.batched
    view = viewing(
        scene,
        camera,
        time=time,
        sh_degree=sh_degree,
        antialiased=antialiased,
        dilation=dilation,
        depth=depth,
        normals=normals,
    )
    cameras, size = view.world_to_cam.shape[0], {"width": camera.width, "height": camera.height}
    projected = project(scene, view, None if statistics is None else statistics.data)
    if planes:
        projected = with_planes(projected, scene, view.world_to_cam)
    if full_gradient_depth > 0:
        projected = with_scaled_gradients(projected, full_gradient_depth)

    if on_totals is not None:
        on_totals(projected.totals)

    absolute = absolute_gradients and statistics is not None
    settings = BlendSettings(
        scene.policy, **size, max_alpha=max_alpha, absolute=absolute, deterministic=deterministic
    )
    moments = scene.depth_moments(depth, normals)

    def draw(visible_capacity: int, capacity: int) -> Frame:
        lists = bin_tiles(projected, settings, visible_capacity=visible_capacity, capacity=capacity)

        def blend_values(part: Tensor) -> Blended:
            return blend(projected._replace(values=part), lists, None, settings)

        behind = _behind(background, projected.values, cameras)
        blended = blend(
            projected, lists, behind, settings._replace(depth_moments=moments), median=depth, count=count
        )
        image, transmittance = blended.image, blended.transmittance
        first = 3 + int(depth) + int(moments > 1)  # channel of the normals
        of_normals = image[..., first : first + 3] if normals else None
        distance = image[..., -1] if planes else None
        planar = None
        if distance is not None and of_normals is not None:
            planar = plane_depth(distance, of_normals, view.world_to_cam, view.intrinsics)
        return Frame(
            rgb=image[..., :3] if image.shape[-1] > 3 else image,
            transmittance=transmittance,
            depth=image[..., 3] / (1 - transmittance).clamp_min(1e-10) if depth else None,
            median_depth=blended.median_depth if depth else None,
            normals=of_normals,
            features=_blend_features(blend_values, features, cameras) if features is not None else None,
            count=blended.contributors if count else None,
            splats=projected.splats,
            tile_counts=projected.tile_counts,
            totals=projected.totals,
            overflow=lists.overflow,
            square_depth=image[..., 4] if moments > 1 else None,
            plane_distance=distance,
            plane_depth=planar,
            median_splat=_median_splat(projected, lists, settings) if median_splat else None,
        )

    if max_instances is None:
        frame = with_capacity(draw, projected, settings)
    else:
        rows = projected.tile_counts.numel()
        frame = draw(min(max_visible or rows, rows), max_instances)
    return _first(frame) if single else frame


@torch.no_grad()
def _median_splat(projected: Projected, lists: TileLists, settings: BlendSettings) -> Tensor:
    """Numbers of the splats of the median depth, [C, H, W]: their depth with numbers instead of depths."""
    splats = projected.splats.detach().clone()
    splats[..., 3] = torch.arange(1, splats.shape[1] + 1, device=splats.device)
    numbered = projected._replace(splats=splats, values=projected.values[..., :3].detach())
    rendered = blend(numbered, lists, None, settings._replace(depth_moments=0), median=True, keep=False)
    return rendered.median_depth.round().to(torch.int32) - 1


def _behind(background: Tensor | None, values: Tensor, cameras: int) -> Tensor | None:
    """The background of every channel, [C, D]: the colour, and 0 for the rest."""
    if background is None:
        return None
    if background.shape not in ((3,), (cameras, 3)):
        raise ValueError(f"background must be [3] or [{cameras}, 3], got {list(background.shape)}")
    colour = background.to(values).expand(cameras, 3)
    others = values.shape[-1] - 3
    return torch.nn.functional.pad(colour, (0, others)) if others else colour


def _blend_features(blend_values: Callable[[Tensor], Blended], features: Tensor, cameras: int) -> Tensor:
    """Blends [N, F] in groups of as many channels as a kernel takes, [C, H, W, F]."""
    parts = []
    for group in features.split(max(CHANNELS), dim=-1):
        width = min(c for c in CHANNELS if c >= group.shape[-1])
        padded = torch.nn.functional.pad(group, (0, width - group.shape[-1]))
        image = blend_values(padded.expand(cameras, *padded.shape)).image
        parts.append(image[..., : group.shape[-1]])
    return torch.cat(parts, dim=-1)


def _first(frame: Frame) -> Frame:
    """The frame of the only camera, without the leading C (splats and tile_counts keep theirs)."""
    for name in (
        "rgb",
        "transmittance",
        "depth",
        "median_depth",
        "normals",
        "features",
        "count",
        "square_depth",
        "plane_distance",
        "plane_depth",
        "median_splat",
    ):
        tensor = getattr(frame, name)
        if tensor is not None:
            setattr(frame, name, tensor.squeeze(0))  # a view; the gradient of tensor[0] would copy the image
    return frame
