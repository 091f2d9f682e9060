"""Meshes as scenes that are drawn: colours, texture, shading, normals, depth, what marks place and front."""

from __future__ import annotations

import pytest
import torch
from mesh_shapes import icosphere
from torch import Tensor

from luxel.render.errors import LuxelError
from luxel.render.geometry.camera import Camera
from luxel.render.geometry.lens import fisheye_lens
from luxel.render.mesh.triangles import TriangleMesh
from luxel.render.scene import Draw
from luxel.render.surfaces import mesh_scene
from luxel.render.surfaces.mesh_scene import LAYERS, Image, MeshScene, bilinear
from luxel.render.surfaces.mesh_scene import mesh_scene as mesh_scene_of

BLUE = (0.0, 0.0, 1.0)


def square(z: float = 0.0) -> TriangleMesh:
    """Of two triangles over [-1, 1]^2, facing +z."""
    xy = torch.tensor([[-1.0, -1], [1, -1], [1, 1], [-1, 1]])
    faces = torch.tensor([[0, 1, 2], [0, 2, 3]], dtype=torch.int32)
    return TriangleMesh(torch.cat([xy, torch.full((4, 1), z)], 1), faces)


def in_front(distance: float = 2.0, side: int = 64) -> Camera:
    """From +z, y upwards; the square fills the image at a distance of 2."""
    return Camera.look_at(
        (0, 0, distance), (0, 0, 0), (0, 1, 0), fov_y=2 * 0.4636476, width=side, height=side
    )


def draw(
    scene: MeshScene, device: torch.device, camera: Camera | None = None, shaded: bool = False
) -> dict[str, Tensor]:
    drawn = Draw(LAYERS, background=torch.tensor(BLUE, device=device), options={"shaded": shaded})
    images = mesh_scene_of(scene).to(device).draw((camera or in_front()).to(device), drawn).images
    assert tuple(sorted(images)) == tuple(sorted(LAYERS))
    return {name: tensor.cpu() for name, tensor in images.items()}


def test_colours_of_vertices_are_between_them(device):
    rgb = torch.tensor([[0, 0, 0], [255, 0, 0], [255, 255, 0], [0, 255, 0]], dtype=torch.uint8)
    image = draw(MeshScene.build(square(), rgb), device)["colour"]
    steps = (torch.arange(64) + 0.5) / 64
    torch.testing.assert_close(image[..., 0], steps.expand(64, 64), rtol=0, atol=1e-3)
    torch.testing.assert_close(image[..., 1], (1 - steps)[:, None].expand(64, 64), rtol=0, atol=1e-3)
    assert not image[..., 2].any()


def test_a_texture_lies_as_its_places_say(device):
    pixels = torch.randint(0, 256, (64, 64, 3), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    uv = torch.tensor([[0.0, 1], [1, 1], [1, 0], [0, 0]])  # (0, 0) at the top left corner
    image = draw(MeshScene.build(square(), None, Image(uv, pixels, False)), device)["colour"]
    torch.testing.assert_close(image, pixels / 255, rtol=0, atol=2e-3)
    twice = draw(
        MeshScene.build(square(), None, Image(2 * uv - 3, pixels, True)), device, in_front(side=128)
    )["colour"]
    torch.testing.assert_close(twice[1:63, 1:63], twice[65:127, 65:127], rtol=0, atol=5e-3)
    torch.testing.assert_close(twice[1:63, 1:63], (pixels / 255)[1:63, 1:63], rtol=0, atol=5e-3)


def test_pixels_of_an_image_are_interpolated_and_clamped_to_its_border():
    pixels = torch.tensor([[[0], [100]], [[200], [40]]], dtype=torch.uint8).expand(2, 2, 3).contiguous()
    places = torch.tensor([[0.25, 0.25], [0.5, 0.25], [0.5, 0.5], [-3.0, 0.75], [1.0, 7.0]])
    expected = torch.tensor([0.0, 50, 85, 200, 40]) / 255
    torch.testing.assert_close(bilinear(pixels, places), expected[:, None].expand(5, 3))


def test_a_mesh_without_colours_is_shaded_and_one_with_colours_on_demand(device):
    plain = MeshScene.build(icosphere(3))
    grey = torch.full((len(plain.mesh.vertices), 3), 90, dtype=torch.uint8)
    assert (
        not plain.coloured and not MeshScene.build(icosphere(3), grey).coloured
    )  # one colour for all is none
    varied = grey.clone()
    varied[::2] = 200
    coloured = MeshScene.build(icosphere(3), varied)
    view = in_front(3.0)
    shaded = draw(plain, device, view)["colour"]
    torch.testing.assert_close(draw(coloured, device, view, shaded=True)["colour"], shaded, rtol=0, atol=1e-6)
    assert not torch.equal(shaded, draw(coloured, device, view)["colour"])
    middle, rim = shaded[32, 32], shaded[32, 32 - 19]
    assert (
        middle[0] == pytest.approx(0.8, abs=0.01)
        and rim[0] < 0.65
        and (shaded[0, 0] == torch.tensor(BLUE)).all()
    )


def test_depth_normals_and_alpha(device):
    drawn = draw(MeshScene.build(square(0.5)), device, in_front(2.5))
    assert (drawn["alpha"] == 1).all()
    torch.testing.assert_close(
        drawn["depth"], torch.full((64, 64), 2.0)
    )  # along the axis, not along the rays
    torch.testing.assert_close(drawn["normal"], torch.tensor([0.0, 0, 1]).expand(64, 64, 3))
    behind = Camera.look_at((0, 0, -2), (0, 0, 0), (0, 1, 0), width=64, height=64)
    drawn = draw(MeshScene.build(square()), device, behind)
    torch.testing.assert_close(drawn["normal"][32, 32], torch.tensor([0.0, 0, -1]))  # towards the camera
    beside = draw(MeshScene.build(square()), device, in_front(8.0))
    assert not beside["alpha"][0, 0] and not beside["depth"][0, 0] and not beside["normal"][0, 0].any()


def test_round_surfaces_are_smooth_and_edges_sharp():
    sphere = MeshScene.build(icosphere(3))
    assert (sphere.corner_normals.view(-1, 3) * sphere.mesh.corners().view(-1, 3)).sum(1).min() > 0.999
    corners = torch.tensor([[x, y, z] for x in (0.0, 1) for y in (0.0, 1) for z in (0.0, 1)])
    quads = ((0, 1, 3, 2), (4, 6, 7, 5), (0, 4, 5, 1), (2, 3, 7, 6), (0, 2, 6, 4), (1, 5, 7, 3))
    faces = torch.tensor([t for a, b, c, d in quads for t in ((a, b, c), (a, c, d))])
    cube = MeshScene.build(TriangleMesh(corners, faces))
    own = torch.nn.functional.normalize(cube.mesh.face_vectors(), dim=1)
    torch.testing.assert_close(cube.corner_normals.view(-1, 3, 3), own[:, None].expand(-1, 3, 3))


def test_place_size_and_front():
    scene = MeshScene.build(square())
    assert scene.count == 2 and mesh_scene_of(scene).numbers() == {"count": 2}
    assert len(scene.centres) == 512 and scene.centres[:, :2].abs().max() > 0.95
    assert scene.centres[:, :2].abs().mean(0).tolist() == pytest.approx([0.5, 0.5], abs=0.06)  # by area
    assert scene.front == pytest.approx((0, 0, 1)) and MeshScene.build(icosphere(2)).front is None
    flat = MeshScene.build(TriangleMesh(torch.zeros(3, 3), torch.tensor([[0, 1, 2]])))
    assert flat.centres.shape == (512, 3) and flat.front is None  # no area
    assert draw(flat, torch.device("cpu"))["alpha"].sum() == 0


def test_what_is_refused(monkeypatch):
    mesh = square()
    with pytest.raises(ValueError, match=r"rgb must be \[4, 3\] as there are vertices, got \[3, 3\]"):
        MeshScene.build(mesh, torch.zeros(3, 3, dtype=torch.uint8))
    image = Image(torch.zeros(5, 2), torch.zeros(4, 4, 3, dtype=torch.uint8), False)
    with pytest.raises(ValueError, match=r"image.uv must be \[4, 2\]"):
        MeshScene.build(mesh, None, image)
    lens = Camera.look_at((0, 0, 2), (0, 0, 0), (0, 1, 0))
    with pytest.raises(LuxelError, match="Meshes cannot use cameras with a fisheye"):
        MeshScene.build(mesh).draw(
            Camera(lens.world_to_cam, lens.intrinsics, 8, 8, lens=fisheye_lens()), Draw()
        )
    monkeypatch.setattr(mesh_scene, "free_memory", lambda device: 1000)
    with pytest.raises(LuxelError, match=r"2 triangles need 0.0 GiB to be rendered, and 0.0 GiB are free"):
        MeshScene.build(mesh)
