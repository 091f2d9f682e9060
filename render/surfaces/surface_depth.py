"""Depth of the surface that a camera sees of a scene, as fusion uses it."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from luxel.render.geometry.camera import Camera
from luxel.render.primitives import Parameters
from luxel.render.primitives.gaussians import Gaussians, quat_to_matrix
from luxel.render.primitives.planes import pixel_rays
from luxel.render.raster.rasterize import Frame, rasterize

OPAQUE = 0.5  # alpha of pixels that show a surface


@torch.no_grad()
def surface_depth(
    scene: Parameters, camera: Camera, exact: bool = False, **render: Any
) -> tuple[Tensor, Frame]:
    """Depth along z where half of the light has been stopped, [H, W], 0 where it is not; and the frame.

    Of 3D Gaussians it is the depth of the centre of the Gaussian that stops it, or with ``exact`` where the density of
    that Gaussian is highest along the ray of the pixel; see `ray_depth`.

    Args:
        scene: primitives.
        camera: a single pinhole.
        exact: for 3D Gaussians; other primitives are not affected.
        render: options of `luxel.render.raster.rasterize.rasterize`.
    """
    frame = rasterize(scene, camera, depth=True, median_splat=exact and scene.planar, **render)
    assert frame.median_depth is not None
    depth = frame.median_depth
    if isinstance(scene, Gaussians) and frame.median_splat is not None:
        depth = ray_depth(scene, camera, frame.median_splat)
    return torch.where(frame.alpha > OPAQUE, depth, 0.0), frame


def ray_depth(scene: Gaussians, camera: Camera, splat: Tensor) -> Tensor:
    """Depth along z at which a Gaussian's density is highest along the ray of a pixel, [H, W]; 0 where there is none.

    Yu et al. 2024, "Gaussian Opacity Fields", eq. 6, and without its approximation Zhang et al. 2024, "RaDe-GS",
    section 3: with the ray r of length 1 along z, the centre m viewed from the camera, and the inverse A of a root of
    the covariance, it is (A r . A m) / (A r . A r). Of a flat Gaussian it is where the ray meets its plane.

    Args:
        scene: N Gaussians.
        camera: a single pinhole.
        splat: number of the Gaussian of each pixel, [H, W]; -1: none.
    """
    known, rows = splat >= 0, splat.clamp_min(0).long()
    pose = camera.world_to_cam.to(scene.means)
    rays = pixel_rays(pose[None], camera.intrinsics[None].to(scene.means), camera.width, camera.height)[0]
    axes, scales = quat_to_matrix(scene.quats), scene.scales
    root = (axes / scales[:, None]).mT  # rows: axes by their inverse scales
    centres = (root @ (scene.means - camera.position.to(scene.means))[..., None])[..., 0]
    along = (root[rows] @ rays[..., None])[..., 0]
    depth = (along * centres[rows]).sum(-1) / along.square().sum(-1)
    return torch.where(known, depth, 0.0)
