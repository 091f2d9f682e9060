"""The output "objects": colours of labels over those of the scene, for every primitive that can have them."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from page_driver import ball
from shown import StaticSession, draw, outputs_of

from luxel.render.errors import LuxelError
from luxel.render.geometry.camera import Camera
from luxel.render.primitives import Convexes, Gaussians, Gaussians4d, Parameters
from luxel.render.raster.rasterize import rasterize
from luxel.render.segment.label_map import label_map
from luxel.render.segment.objects import Objects
from luxel.viewer.web.shading.legend import notice_of
from luxel.viewer.web.shading.shading import DisplaySettings


class Source:
    """Objects that do not change."""

    def __init__(self, objects: Objects, problem: LuxelError | None = None) -> None:
        self.objects, self.objects_problem = objects, problem


def halves(scene: Parameters) -> Objects:
    """The primitives on one side of the median along y as an object, those of the other side as none."""
    centres = scene.centres[:, 1]
    objects = Objects("", (centres > centres.median()).to(torch.uint8))
    objects.add("half").colour = (10, 200, 250)
    return objects


def camera_of(scene: Parameters) -> Camera:
    """Looks at a scene from outside."""
    centre = scene.centres.mean(0)
    reach = 3.0 * float((scene.centres - centre).norm(dim=1).median())
    eye = (float(centre[0]) + reach, float(centre[1]), float(centre[2]) + 0.1)
    return Camera.look_at(eye, tuple(centre.tolist()), fov_y=0.9, width=64, height=48)


def test_each_pixel_has_the_colour_of_its_label(any_scene: Parameters) -> None:
    scene, objects = any_scene, halves(any_scene)
    camera, time = camera_of(scene), StaticSession(scene).times
    shown = 0.0 if time is None else 0.5 * (time[0] + time[1])
    settings = DisplaySettings(output="objects", objects=Source(objects), overlay=1.0, time=shown)
    image, caption = draw(rasterize, scene, camera, settings)
    labels = label_map(scene, camera, objects.labels, 2, shown if scene.moves else None)
    of_object = labels == 1
    assert 0 < int(of_object.sum()) < of_object.numel() and caption == "1 object"
    assert torch.equal(
        image[of_object], torch.tensor([10, 200, 250], dtype=torch.uint8).expand(int(of_object.sum()), 3)
    )
    others = image[~of_object].int()
    assert int((others.amax(-1) - others.amin(-1)).max()) <= 1, "what belongs to no object is grey"
    plain, _ = draw(rasterize, scene, camera, DisplaySettings(time=shown))
    settings.overlay = 0.0
    assert torch.equal(draw(rasterize, scene, camera, settings)[0], plain)
    settings.overlay = 0.5
    between = draw(rasterize, scene, camera, settings)[0][of_object].float()
    expected = 0.5 * plain[of_object].float() + 0.5 * torch.tensor([10.0, 200.0, 250.0])
    assert float((between - expected).abs().max()) <= 1.01


def test_a_scene_without_objects_says_so() -> None:
    scene, camera = ball(), Camera.look_at((3.5, 0, 0), (0, 0, 0), width=320, height=240)
    plain, _ = draw(rasterize, scene, camera, DisplaySettings())
    none = Objects("", torch.zeros(scene.count, dtype=torch.uint8))
    for source, text in (
        (Source(none), "no objects yet"),
        (Source(none, LuxelError("they are damaged.", "Mend them.")), "they are damaged"),
        (Source(halves(scene.select(torch.arange(9)))), "another scene"),
    ):
        image, caption = draw(rasterize, scene, camera, DisplaySettings(output="objects", objects=source))
        assert text in caption and notice_of(caption) == "" and not torch.equal(image, plain)
        assert torch.equal(image[:20], plain[:20]), "the scene is seen behind the text"
    empty = Gaussians.empty(0)
    nothing = Source(Objects("", torch.zeros(0, dtype=torch.uint8)))
    _, caption = draw(rasterize, empty, camera, DisplaySettings(output="objects", objects=nothing))
    assert "no Gaussians" in notice_of(caption)


def test_which_scenes_can_show_objects() -> None:
    for scene_type in (Gaussians, Gaussians4d, Convexes):
        assert outputs_of(scene_type, with_objects=True)[-1] == "objects"
        assert "objects" not in outputs_of(scene_type)
    with pytest.raises(LuxelError, match="has no output 'objects'"):
        draw(rasterize, ball(), Camera.look_at((3, 0, 0), (0, 0, 0)), DisplaySettings(output="objects"))


def test_hidden_primitives_are_not_seen_as_objects(pair_of_layers: Callable[[], Gaussians]) -> None:
    scene = pair_of_layers()
    objects = Objects("", torch.tensor([1, 2], dtype=torch.uint8))
    objects.add("front").colour, objects.add("behind").colour = (255, 0, 0), (0, 0, 255)
    camera = Camera.look_at((4.0, 0, 0), (0, 0, 0), fov_y=0.6, width=33, height=33)
    settings = DisplaySettings(output="objects", objects=Source(objects), overlay=1.0)
    assert draw(rasterize, scene, camera, settings)[0][16, 16].tolist() == [255, 0, 0]
    scene.opacity_logits[0] = -40.0
    assert draw(rasterize, scene, camera, settings)[0][16, 16].tolist() == [0, 0, 255]


@pytest.fixture
def pair_of_layers() -> Callable[[], Gaussians]:
    """Makes two opaque Gaussians behind one another along the x axis."""

    def make() -> Gaussians:
        means = torch.tensor([[1.0, 0, 0], [-1.0, 0, 0]])
        return Gaussians(
            means,
            torch.tensor([[1.0, 0, 0, 0]]).repeat(2, 1),
            torch.full((2, 3), -0.5),
            torch.full((2,), 8.0),
            torch.zeros(2, 3),
            torch.zeros(2, 0, 3),
        )

    return make
