"""A cube drawn by convexes looks like a cube."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import torch
from convex_scenes import D, solid
from PIL import Image

from luxel.render.geometry.camera import Camera
from luxel.render.primitives.convexes import Convexes
from luxel.render.primitives.gaussians import SH_C0
from luxel.render.reference.raster.rasterize_convexes import rasterize_convexes_reference

GOLDEN = Path(__file__).parents[1] / "golden" / "convex_cube.png"


SIGNS = torch.cartesian_prod(*[torch.tensor([-1.0, 1.0])] * 3)


def cube_faces() -> Convexes:
    """The six faces of the cube [-1, 1]^3, each in a colour of its own."""
    faces = [SIGNS[SIGNS[:, axis] == side] for axis in range(3) for side in (-1, 1)]
    colors = torch.tensor(
        [[0.5, 0.1, 0.1], [0.9, 0.3, 0.2], [0.1, 0.5, 0.1], [0.3, 0.9, 0.2], [0.1, 0.1, 0.5]]
    )
    return solid(torch.stack(faces), torch.cat([colors, torch.tensor([[0.2, 0.3, 0.9]])]))


def traced_cube(camera: Camera) -> tuple[np.ndarray, np.ndarray]:
    """The same cube by rays: number of the face that is seen at each pixel, -1 for none, and how near an edge is."""
    fx, fy, cx, cy = camera.intrinsics.numpy()
    rotation, eye = camera.world_to_cam.numpy()[:3, :3], camera.position.numpy()
    rows, columns = np.mgrid[: camera.height, : camera.width] + 0.5
    local = np.stack([(columns - cx) / fx, (rows - cy) / fy, np.ones_like(rows)], -1)
    direction = local @ rotation
    with np.errstate(divide="ignore"):
        near = (-np.sign(direction) - eye) / direction
        far = (np.sign(direction) - eye) / direction
    enter, leave = near.max(-1), far.min(-1)
    axis = near.argmax(-1)
    side = np.take_along_axis(direction, axis[..., None], -1)[..., 0] < 0
    return np.where(enter < leave, 2 * axis + side, -1), np.sort(near, -1)[..., 2] - np.sort(near, -1)[..., 1]


def cube_camera() -> Camera:
    return Camera.look_at((2.5, -4, 2.2), (0, 0, 0), width=96, height=80).to(D)


def test_a_cube_of_convexes_looks_like_a_cube():
    """Each pixel away from edges shows the face that a ray hits; LUXEL_DRAW_GOLDENS=1 writes the image."""
    cube, camera = cube_faces(), cube_camera()
    frame = rasterize_convexes_reference(cube, camera, background=torch.ones(3, dtype=D))
    face, _ = traced_cube(camera)
    colors = np.concatenate([0.5 + SH_C0 * cube.sh_dc.numpy(), np.ones((1, 3))])
    edge = np.zeros_like(face, dtype=bool)
    for shift in range(1, 3):
        for direction in (0, 1):
            for sign in (-1, 1):
                edge |= np.roll(face, sign * shift, direction) != face
    assert sorted(np.unique(face)) == [-1, 1, 2, 5] and edge.mean() < 0.25
    np.testing.assert_allclose(frame.rgb.numpy()[~edge], colors[face][~edge], atol=0.02)
    pixels = (frame.rgb.clamp(0, 1) * 255).round().byte().numpy()
    if os.environ.get("LUXEL_DRAW_GOLDENS"):
        Image.fromarray(pixels).save(GOLDEN, optimize=True)
    golden = np.asarray(Image.open(GOLDEN)).astype(int)
    assert np.abs(golden - pixels).max() <= 1


def test_one_convex_has_the_outline_of_a_cube():
    cube = solid(SIGNS[None], torch.tensor([[0.9, 0.3, 0.2]]))
    camera = cube_camera()
    frame = rasterize_convexes_reference(cube, camera)
    assert frame.splats[0].edges.tolist() == [6]
    hit = traced_cube(camera)[0] >= 0
    assert ((frame.alpha.numpy() > 0.5) == hit).mean() > 0.995
