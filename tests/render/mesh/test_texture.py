"""Textures: charts, the texels of triangles, and colours from images of an exact shape."""

from __future__ import annotations

from importlib.util import find_spec

import pytest
import torch
from test_depth_fusion import around, sphere_depth
from test_holes import globe
from torch import Tensor

from luxel.render.geometry.camera import Camera
from luxel.render.mesh import texture_atlas
from luxel.render.mesh.texture_atlas import Unwrapped, covered_texels, unwrap
from luxel.render.mesh.texture_bake import TextureBake
from luxel.render.mesh.triangles import TriangleMesh, merged

needed = pytest.mark.skipif(
    find_spec("xatlas") is None, reason="xatlas is not installed: unwrapping was not tested"
)


def pattern(points: Tensor) -> Tensor:
    """Colours of directions that change within a fraction of a coarse triangle."""
    return 0.5 + 0.4 * torch.sin(14 * torch.nn.functional.normalize(points, dim=-1))


def painted(camera: Camera) -> tuple[Tensor, Tensor]:
    """Depth of the sphere of radius 1 and its colours."""
    depth, places = sphere_depth(camera)
    return depth, torch.where(depth[..., None] > 0, pattern(2 * places - 1), 0.0)


def sphere(rings: int = 14, sides: int = 20) -> TriangleMesh:
    mesh = globe(rings, sides)
    return TriangleMesh(mesh.vertices.float(), mesh.faces.int())


def quad(pixels: int) -> Unwrapped:
    """A square from (0, 0, 0) to (1, 1, 0), seen from below, on the middle half of the texture."""
    places = torch.tensor([[0.0, 0, 0], [1, 0, 0], [1, 1, 0], [0, 1, 0]])
    mesh = TriangleMesh(places, torch.tensor([[0, 2, 1], [0, 3, 2]], dtype=torch.int32))
    return Unwrapped(mesh, torch.arange(4), 0.25 + 0.5 * places[:, :2], mesh.vertex_normals())


def psnr(colours: Tensor, expected: Tensor) -> float:
    return float(-10 * (colours - expected).square().mean().log10())


@pytest.mark.parametrize("candidates", [texture_atlas.CANDIDATES, 100])
def test_texels_are_where_their_triangles_are(candidates: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(texture_atlas, "CANDIDATES", candidates)
    texels = covered_texels(quad(32), 32)
    row, column = texels.index // 32, texels.index % 32
    assert len(texels.index) == 256 and row.min() == column.min() == 8 and row.max() == column.max() == 23
    mesh = quad(32).mesh
    places = (texels.shares[..., None] * mesh.corners()[texels.face]).sum(1)
    expected = torch.stack([(column + 0.5) / 16 - 0.5, (row + 0.5) / 16 - 0.5, 0 * row], -1)
    assert torch.allclose(places, expected, atol=1e-5)


def test_triangles_outside_of_the_image_or_without_area_have_no_texels() -> None:
    whole = quad(16)
    flat = whole._replace(uv=torch.full_like(whole.uv, 0.3))
    assert not len(covered_texels(flat, 16).index)
    beyond = covered_texels(whole._replace(uv=4 * whole.uv - 1), 16)
    assert len(beyond.index) == 256


def test_texels_that_no_image_shows_have_the_colours_of_the_vertices() -> None:
    pixels = 64
    colours = torch.tensor([[0.0, 0, 0], [1, 0, 0], [1, 1, 0], [0, 1, 0]])
    bake = TextureBake(quad(pixels), colours, pixels, 0.1)
    assert bake.seen == 0
    image = bake.image()
    inside = slice(16, 48)
    expected = (torch.arange(32) + 0.5) / 32
    assert torch.allclose(image[inside, inside, 0], expected.expand(32, 32), atol=1e-4)
    assert torch.allclose(image[inside, inside, 1], expected[:, None].expand(32, 32), atol=1e-4)
    edge = image[30, 16 - texture_atlas.GUTTER : 16]  # the gutter continues the chart
    assert (edge - image[30, 16]).abs().max() < 0.1
    assert torch.allclose(image[0, 0], image[inside, inside].reshape(-1, 3).mean(0), atol=1e-4)


def test_only_what_a_camera_sees_counts() -> None:
    pixels, grey = 64, torch.full((4, 3), 0.5)
    camera = Camera.look_at((0.5, 0.5, -2), (0.5, 0.5, 0), up=(0, -1, 0), width=64, height=64)
    behind = Camera.look_at((0.5, 0.5, 2), (0.5, 0.5, 0), up=(0, -1, 0), width=64, height=64)
    red = torch.tensor([1.0, 0, 0]).expand(64, 64, 3)
    depth = torch.full((64, 64), 2.0)
    cases = {
        "seen": (depth, camera, 1.0),
        "occluded": (depth - 0.5, camera, 0.0),
        "nothing": (0 * depth, camera, 0.0),
        "from behind": (depth, behind, 0.0),
    }
    for name, (shown, visible_from, share) in cases.items():
        bake = TextureBake(quad(pixels), grey, pixels, 0.1)
        bake.add(shown, red, visible_from)
        assert bake.seen == share, name
        middle = bake.image()[32, 32]
        assert torch.allclose(middle, torch.tensor([1.0, 0, 0]) if share else grey[0]), name
    half = depth.clone()
    half[:, 32:] = 1.0  # something in front of one half
    bake = TextureBake(quad(pixels), grey, pixels, 0.1)
    bake.add(half, red, camera)
    assert 0.4 < bake.seen <= 0.5


@needed
def test_a_texture_shows_what_a_coarse_mesh_cannot() -> None:
    pixels, mesh = 256, sphere()
    unwrapped = unwrap(mesh, pixels)
    assert merged(unwrapped.mesh).is_closed() and len(unwrapped.mesh.faces) == len(mesh.faces)
    assert torch.equal(unwrapped.mesh.vertices, mesh.vertices[unwrapped.source])
    bake = TextureBake(unwrapped, pattern(unwrapped.mesh.vertices), pixels, 0.1)
    for camera in around(24):
        bake.add(*painted(camera), camera)
    assert bake.seen > 0.999
    image = bake.image()
    corners = unwrapped.mesh.faces.long()
    generator = torch.Generator().manual_seed(0)
    face = torch.randint(len(corners), (4000,), generator=generator)
    shares = torch.distributions.Dirichlet(torch.ones(3)).sample((4000,))
    place, at = (
        (shares[..., None] * of[corners[face]]).sum(1) for of in (unwrapped.mesh.vertices, unwrapped.uv)
    )
    sampled = torch.nn.functional.grid_sample(
        image.movedim(-1, 0)[None], (2 * at - 1)[None, None], "bilinear", "border", align_corners=False
    )[0, :, 0].T
    by_vertices = (shares[..., None] * pattern(unwrapped.mesh.vertices)[corners[face]]).sum(1)
    assert psnr(sampled, pattern(place)) > 28 > 8 + psnr(by_vertices, pattern(place))


@needed
def test_charts_do_not_overlap() -> None:
    unwrapped = unwrap(sphere(), 256)
    corners = unwrapped.uv[unwrapped.mesh.faces.long()].double()
    (a, b, c) = corners.unbind(1)
    area = 0.5 * ((b - a)[:, 0] * (c - a)[:, 1] - (b - a)[:, 1] * (c - a)[:, 0]).abs().sum()
    covered = len(covered_texels(unwrapped, 1024).index) / 1024**2
    assert 0.3 < covered < 1 and covered == pytest.approx(float(area), rel=0.02)


@needed
def test_charts_that_do_not_fit_at_first_are_packed_into_one_image() -> None:
    unwrapped = unwrap(sphere(40, 60), 64)
    assert unwrapped.uv.min() >= 0 and unwrapped.uv.max() <= 1


@pytest.mark.gpu
@needed
def test_a_gpu_bakes_the_same_texture(gpu: torch.device) -> None:
    unwrapped = unwrap(sphere(), 128)
    images = []
    for device in (torch.device("cpu"), gpu):
        there = Unwrapped(unwrapped.mesh.to(device), *(part.to(device) for part in unwrapped[1:]))
        bake = TextureBake(there, pattern(there.mesh.vertices), 128, 0.1)
        for camera in around(8):
            depth, rgb = painted(camera)
            bake.add(depth.to(device), rgb.to(device), camera.to(device))
        images.append(bake.image().cpu())
    assert (images[0] - images[1]).abs().mean() < 1e-3
