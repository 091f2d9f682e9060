"""Primitives as a scene: layers and options are those of the rasterizer, bit by bit."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from luxel.render.errors import LuxelError
from luxel.render.geometry.camera import Camera
from luxel.render.primitives import Gaussians, Parameters
from luxel.render.raster.primitive_scene import primitive_scene
from luxel.render.raster.rasterize import rasterize
from luxel.render.scene import Draw, Extent

BLUE = torch.tensor([0.0, 0.0, 1.0])


def test_layers_are_the_images_of_the_rasterizer(
    random_gaussians: Callable[..., Gaussians], toy_camera: Callable[..., Camera]
) -> None:
    gaussians, camera = random_gaussians(30), toy_camera()
    scene = primitive_scene(gaussians, antialiased=True, up=(0.0, -1.0, 0.0), metres=2.0)
    about = scene.about
    assert (about.noun, about.up, about.metres, about.antialiased) == (
        "Gaussians",
        (0.0, -1.0, 0.0),
        2.0,
        True,
    )
    assert scene.count == 30 and scene.part(Parameters) is gaussians and scene.part(dict) is None
    assert not about.moves and torch.equal(scene.centres(), gaussians.centres)
    drawn = scene.draw(
        camera, Draw(about.layers, background=BLUE, options={"antialiased": True, "scale": 1.5})
    )
    frame = rasterize(
        gaussians.scaled(1.5), camera, background=BLUE, antialiased=True, depth=True, normals=True, count=True
    )
    expected = {"colour": frame.rgb, "normal": frame.normals} | {
        name: getattr(frame, name)
        for name in ("alpha", "depth", "median_depth", "count", "splats", "tile_counts")
    }
    assert drawn.complete and set(drawn.images) == set(about.layers) == set(expected)
    touched = drawn.images["tile_counts"] > 0  # rows of others are undefined
    assert torch.equal(drawn.images.pop("splats")[touched], expected["splats"][touched])
    for name, image in drawn.images.items():
        assert torch.equal(image, expected[name]), name
    assert set(scene.draw(camera, Draw()).images) == {"colour"}


def test_gradients_pass(
    random_gaussians: Callable[..., Gaussians], toy_camera: Callable[..., Camera]
) -> None:
    gaussians = random_gaussians(10).requires_grad_()
    primitive_scene(gaussians).draw(toy_camera(), Draw()).images["colour"].sum().backward()
    assert gaussians.sh_dc.grad is not None and gaussians.sh_dc.grad.abs().sum() > 0


def test_what_a_scene_has_not_is_refused(
    random_gaussians: Callable[..., Gaussians], toy_camera: Callable[..., Camera]
) -> None:
    scene = primitive_scene(random_gaussians(3))
    wrong = (
        Draw(("colour", "f")),
        Draw(options={"to_sun": (0, 0, 1)}),
        Draw(depth_limit=torch.ones(1)),
    )
    for drawn, name in zip(wrong, ("f", "to_sun", "depth_limit"), strict=True):
        with pytest.raises(LuxelError, match=f"This scene of Gaussians has no '{name}'"):
            scene.draw(toy_camera(), drawn)


def test_its_extent_tells_what_is_visible_and_finite(random_gaussians: Callable[..., Gaussians]) -> None:
    gaussians = random_gaussians(4)
    gaussians.means[2, 0] = torch.nan
    extent = primitive_scene(gaussians).parts[Extent]
    places, opacities = extent.opacities(0.0)
    assert torch.equal(places.nan_to_num(), gaussians.centres.nan_to_num())
    assert torch.equal(opacities, gaussians.opacities)
    assert extent.finite().tolist() == [True, True, False, True]


def test_its_options_go_with_it_to_another_device(random_gaussians: Callable[..., Gaussians]) -> None:
    scene = primitive_scene(random_gaussians(3), antialiased=True, lenses=True)
    moved = scene.to(torch.device("cpu"))
    assert moved.about is scene.about and moved.device == torch.device("cpu")
