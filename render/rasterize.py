"""The tile rasterizer: project -> bin (sort) -> blend, differentiable end to end.

Kerbl et al. 2023, "3D Gaussian Splatting for Real-Time Radiance Field Rendering"; EWA splatting after Zwicker et
al. 2002. A primitive projects itself to rows on the screen; what follows sees only those. The kernels are in
cuda/kernels, the same stages in plain torch in render/reference.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from luxel.render.camera import Camera
from luxel.render.ops.raster.bin_splats import bin_splats
from luxel.render.ops.raster.blend_splats import CHANNELS, blend_splats
from luxel.render.primitives.parameters import Parameters, Viewing

DILATION = 0.3  # px^2 on the diagonal of screen covariances
MAX_ALPHA = 0.99  # of one splat at a pixel
SPARE = 256  # room that is added to what the last frame of a kind asked for, besides a quarter


@dataclass
class Frame:
    """What `rasterize` returns; for a batch of cameras every tensor has a leading C.

    Args:
        rgb: colours over the background, [H, W, 3], not clamped above 1.
        transmittance: share of the light from behind everything that comes through, in (0, 1], [H, W]; None from
            backends that give ``given_alpha`` instead.
        depth: mean z of what is seen, weighted by its contribution, [H, W] (capture units; 0 where nothing is).
        median_depth: z of the splat at which half of the light is gone, [H, W], 0 where it never is; no gradient.
        normals: world-space normals weighted by contribution, not normalised, [H, W, 3].
        features: blended features over 0, [H, W, F].
        count: contributing splats per pixel, int32 [H, W]; None where it was not asked for.
        splats: screen splats, [C, N, 8]: x, y, opacity, depth, conic a, b, c, radius; undefined where culled; None
            from backends that do not keep them.
        tile_counts: tiles that a splat touches, int32 [C, N]; 0 where culled.
        totals: splats that touch a tile, and (tile, splat) pairs that the frame asks for, all cameras together,
            int64 [2]; None from backends that do not tell.
        overflow: 1 where `max_instances` was too small and parts are missing, int32 [1]; None likewise.
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
        """(tile, splat) pairs that the frame asks for, all cameras together, int64 [1]."""
        assert self.totals is not None
        return self.totals[1:]


@dataclass
class DensifyStatistics:
    """What a densification strategy learns from backward passes; `rasterize` adds to it in place.

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
        """Statistics of ``count`` primitives that no pass has seen yet."""
        return DensifyStatistics(torch.zeros(count, 4, device=device, dtype=dtype))

    @property
    def grad_norm(self) -> Tensor:
        """Sum over passes of |d loss / d mean2d|, where one unit is half the image, [N]."""
        return self.data[:, 0]

    @property
    def abs_grad_norm(self) -> Tensor:
        """The same of per-pixel absolute gradients (AbsGS, Ye et al. 2024), [N]; 0 unless asked for."""
        return self.data[:, 1]

    @property
    def visible(self) -> Tensor:
        """How many views saw the primitive, [N]."""
        return self.data[:, 2]

    @property
    def max_radius(self) -> Tensor:
        """Largest radius on screen relative to the longer image side, [N]."""
        return self.data[:, 3]

    def reset(self) -> None:
        """Forgets everything, in place."""
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
    count: bool = False,
    features: Tensor | None = None,
    statistics: DensifyStatistics | None = None,
    absolute_gradients: bool = False,
    deterministic: bool = False,
    max_instances: int | None = None,
    max_visible: int | None = None,
    on_totals: Callable[[Tensor], None] | None = None,
) -> Frame:
    """Draws Gaussians, 4D Gaussians or convexes as a camera, or a batch of cameras, sees them.

    Differentiable by every field of ``scene``, by ``time``, ``background``, ``features`` and ``camera.world_to_cam``.

    Args:
        scene: N primitives, float32 or (CPU only) float64.
        camera: a camera or C of them, on the same device.
        time: of scenes that move: when, for all cameras or [C]. Others look the same at all times.
        background: colour behind everything, [3] or [C, 3]; None is black.
        sh_degree: evaluate spherical harmonics up to this degree; None: all that are stored.
        antialiased: compensate opacity for the dilation (Mip-Splatting, Yu et al. 2024); of Gaussians.
        dilation: px^2 added to the diagonal of screen covariances; of Gaussians.
        max_alpha: cap on the alpha of one splat at a pixel.
        depth, normals, count: also give these (median_depth comes with depth). Convexes have no normals.
        features: anything to blend like colours, [N, F], over a background of 0.
        statistics: filled in place by the backward pass.
        absolute_gradients: let the statistics hold absolute gradients too (costs a little).
        deterministic: give bit-identical gradients every time on the GPU too, except by the camera; slower. On the
            CPU they always are.
        max_instances: room for (tile, splat) pairs. None takes as much as is needed, for which the host waits
            for the device; with a number nothing waits, and ``Frame.overflow`` tells whether it sufficed.
        max_visible: with ``max_instances``, room for visible splats, which saves time where few are visible; where
            ``Frame.visible`` is larger, the frame is not to be used. None: room for all.
        on_totals: called with `Frame.totals` as soon as they are asked of the device, before the rest of the frame
            is: who copies them to the host there need not wait for the frame to learn whether its room sufficed.

    Returns:
        Frame, with a leading C where ``camera`` is a batch.

    Raises:
        ValueError: shapes, devices or float types that do not fit together, or a scene that moves and no time.
        NativeError: no kernels for this device.
    """
    if features is not None and (features.dim() != 2 or features.shape[0] != scene.count):
        raise ValueError(f"features must be [{scene.count}, F], got {list(features.shape)}")
    single = not camera.batched
    world_to_cam = camera.world_to_cam[None] if single else camera.world_to_cam
    intrinsics = camera.intrinsics[None] if single else camera.intrinsics
    cameras, size = world_to_cam.shape[0], {"width": camera.width, "height": camera.height}
    dtype, device = scene.opacity_logits.dtype, scene.opacity_logits.device
    view = Viewing(
        world_to_cam=world_to_cam.to(device=device, dtype=dtype),
        intrinsics=intrinsics.to(device=device, dtype=dtype),
        times=_times(time, scene, cameras, single) if scene.moves else None,
        **size,
        near=camera.near,
        far=camera.far,
        sh_degree=scene.sh_degree if sh_degree is None else sh_degree,
        dilation=dilation,
        antialiased=antialiased,
        with_depth=depth,
        with_normals=normals,
    )
    told = None if statistics is None else statistics.data
    splats, values, tile_counts, totals = scene.project(view, told)

    if on_totals is not None:
        on_totals(totals)

    def draw(visible_capacity: int, capacity: int) -> Frame:
        instances, ranges, overflow, plan = bin_splats(
            splats,
            tile_counts,
            totals,
            **size,
            visible_capacity=visible_capacity,
            capacity=capacity,
            primitive=scene.policy,
        )

        def blend(
            part: Tensor, behind: Tensor | None, median: bool = False, tally: bool = False
        ) -> tuple[Tensor, ...]:
            return blend_splats(
                splats,
                part,
                behind,
                instances,
                ranges,
                plan,
                primitive=scene.policy,
                **size,
                max_alpha=max_alpha,
                absolute=absolute_gradients and statistics is not None,
                deterministic=deterministic,
                median=median,
                tally=tally,
            )

        image, transmittance, _, contributors, median_depth = blend(
            values, _behind(background, values, cameras), depth, count
        )
        return Frame(
            rgb=image[..., :3] if image.shape[-1] > 3 else image,
            transmittance=transmittance,
            depth=image[..., 3] / (1 - transmittance).clamp_min(1e-10) if depth else None,
            median_depth=median_depth if depth else None,
            normals=image[..., -3:] if normals else None,
            features=_blend_features(blend, features, cameras) if features is not None else None,
            count=contributors if count else None,
            splats=splats,
            tile_counts=tile_counts,
            totals=totals,
            overflow=overflow,
        )

    if max_instances is None:
        frame = _draw_with_enough_room(
            draw, totals, (device, *tile_counts.shape, camera.width, camera.height)
        )
    else:
        frame = draw(min(max_visible or tile_counts.numel(), tile_counts.numel()), max_instances)
    return _first(frame) if single else frame


def _times(time: float | Tensor | None, scene: Parameters, cameras: int, single: bool) -> Tensor:
    """The time of each camera, [C]."""
    if time is None:
        raise ValueError(f"{scene.noun} move: they need a time to be drawn at")
    held = scene.opacity_logits
    if not isinstance(time, Tensor):
        return held.new_full((cameras,), time)
    if time.shape not in ((),) + (((cameras,),) if not single else ()):
        wanted = "[]" if single else f"[] or [{cameras}]"
        raise ValueError(f"time must be {wanted}, got {list(time.shape)}")
    return time.to(held).expand(cameras)


_ROOM: dict[tuple[Any, ...], tuple[int, int]] = {}  # visible splats, instances: by kind of frame


def _draw_with_enough_room(draw: Callable[[int, int], Frame], totals: Tensor, kind: tuple[Any, ...]) -> Frame:
    """Draws with the room that earlier frames of this kind needed, looking only afterwards whether it sufficed.

    So the device does not stand idle while the host waits for the exact numbers; the first frame of a kind, and
    one that needs more, is drawn with those.
    """
    room = _ROOM.get(kind) if totals.is_cuda and not torch.compiler.is_compiling() else None
    if room is None:
        needed = totals.tolist()
        frame = draw(*needed)
    else:
        on_host = torch.empty(2, dtype=totals.dtype, pin_memory=True).copy_(totals, non_blocking=True)
        copied = torch.cuda.Event()
        copied.record(torch.cuda.current_stream(totals.device))
        frame = draw(*room)
        copied.synchronize()
        needed = on_host.tolist()
        if any(n > r for n, r in zip(needed, room, strict=True)):
            frame = draw(*needed)
    if totals.is_cuda and not torch.compiler.is_compiling():
        if len(_ROOM) >= 64:  # counts change while a scene grows
            _ROOM.clear()
        # A quarter more than needed; falling slowly, as views take turns.
        seen, instances = (
            max(n + n // 4 + SPARE, r - r // 16) for n, r in zip(needed, room or (0, 0), strict=True)
        )
        _ROOM[kind] = seen, instances
    return frame


def _behind(background: Tensor | None, values: Tensor, cameras: int) -> Tensor | None:
    """The background of every channel, [C, D]: the colour, and 0 for the rest."""
    if background is None:
        return None
    if background.shape not in ((3,), (cameras, 3)):
        raise ValueError(f"background must be [3] or [{cameras}, 3], got {list(background.shape)}")
    colour = background.to(values).expand(cameras, 3)
    others = values.shape[-1] - 3
    return torch.nn.functional.pad(colour, (0, others)) if others else colour


def _blend_features(blend, features: Tensor, cameras: int) -> Tensor:
    """Blends [N, F] in groups of as many channels as a kernel takes, [C, H, W, F]."""
    parts = []
    for group in features.split(max(CHANNELS), dim=-1):
        width = min(c for c in CHANNELS if c >= group.shape[-1])
        padded = torch.nn.functional.pad(group, (0, width - group.shape[-1]))
        image = blend(padded.expand(cameras, *padded.shape), None)[0]
        parts.append(image[..., : group.shape[-1]])
    return torch.cat(parts, dim=-1)


def _first(frame: Frame) -> Frame:
    """The frame of the only camera, without the leading C (splats and tile_counts keep theirs)."""
    for name in ("rgb", "transmittance", "depth", "median_depth", "normals", "features", "count"):
        tensor = getattr(frame, name)
        if tensor is not None:
            setattr(frame, name, tensor.squeeze(0))  # a view; the gradient of tensor[0] would copy the image
    return frame
