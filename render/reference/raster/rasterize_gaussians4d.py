"""The rasterizer of 4D Gaussians in plain torch: slice, project, bin, sort, blend."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from luxel.render.geometry.camera import Camera
from luxel.render.primitives.gaussians4d import Gaussians4d
from luxel.render.reference.raster.project_gaussians4d import project_gaussians4d_reference
from luxel.render.reference.raster.rasterize import ReferenceFrame, draw_splats_reference, each_camera


def rasterize_gaussians4d_reference(
    gaussians: Gaussians4d,
    camera: Camera,
    time: float | Tensor,
    *,
    background: Tensor | None = None,
    sh_degree: int | None = None,
    antialiased: bool = False,
    dilation: float = 0.3,
    max_alpha: float = 0.99,
    depth: bool = False,
    normals: bool = False,
    features: Tensor | None = None,
    tiles: Sequence[int] | None = None,
) -> ReferenceFrame:
    """Renders 4D Gaussians at a time; the other arguments and the results are those of `rasterize_reference`.

    Args:
        time: a number, or a tensor without dimensions, or for a batch of C cameras [C]; differentiable.

    Raises:
        ValueError: ``time`` does not fit the camera.
    """
    timestamps = torch.as_tensor(time, dtype=gaussians.means.dtype, device=gaussians.device)
    cameras = camera.world_to_cam.shape[0] if camera.batched else 1
    if timestamps.shape not in ((), (cameras,)[: camera.batched]):
        expected = f"[] or [{cameras}]" if camera.batched else "[]"
        raise ValueError(f"time must be {expected}, got {list(timestamps.shape)}")
    timestamps = timestamps.expand(cameras)

    def draw(camera: Camera, behind: Tensor | None, number: int) -> ReferenceFrame:
        splats = project_gaussians4d_reference(
            gaussians,
            camera,
            timestamps[number],
            sh_degree=sh_degree,
            antialiased=antialiased,
            dilation=dilation,
        )
        return draw_splats_reference(
            splats,
            camera,
            behind,
            max_alpha=max_alpha,
            depth=depth,
            normals=normals,
            features=features,
            tiles=tiles,
        )

    return each_camera(draw, camera, background)
