"""What reaches the device: composition, masks, halving, order, streaming."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from luxel.render.geometry.camera import Camera, Pixels, View
from luxel.render.ops.train.gather_view import BACKGROUND, ROW, SLOT, VIEW
from luxel.render.primitives.gaussians import Gaussians
from luxel.render.raster.rasterize import rasterize
from luxel.render.train.memory.instance_capacity import SPARE, InstanceCapacity
from luxel.render.train.views.dataset import (
    ByteImage,
    Dataset,
    Target,
    ViewOrder,
    halved,
    halved_camera,
    halvings_possible,
)

CPU = torch.device("cpu")


def view_of(pixels: Pixels, name: str = "a") -> View:
    height, width = pixels.rgb.shape[:2]
    return View(name, Camera.look_at((0, -3, 0), (0, 0, 0), width=width, height=height), lambda: pixels)


def target_of(data: Dataset, step: int, halvings: int, background: torch.Tensor) -> Target:
    """What a step compares with: its view, halved, over a background [3]."""
    table = torch.zeros(2, ROW, dtype=torch.int32)
    table[1, [SLOT, VIEW]] = torch.tensor(data.sample(step)[:2], dtype=torch.int32)
    table[1, BACKGROUND] = background.view(torch.int32)
    return data.image_stack(step, halvings).gather(table)[0]


def bytes_of(rows: Any) -> np.ndarray:
    return np.array(rows, np.uint8)


def alone(pixels: Pixels) -> Target:
    """The only image of a data set."""
    data = Dataset([view_of(pixels)], ViewOrder(1, 0), CPU, stream=False)
    return target_of(data, 0, 0, torch.zeros(3))


def test_alpha_composites_onto_the_background() -> None:
    rgb = bytes_of([[[255, 0, 0], [255, 0, 0], [255, 0, 0]]])
    data = Dataset([view_of(Pixels(rgb, bytes_of([[255, 0, 51]])))], ViewOrder(1, 0), CPU, stream=False)
    target = target_of(data, 0, 0, torch.tensor([0.0, 0.0, 1.0]))
    torch.testing.assert_close(target.rgb[0], torch.tensor([[1.0, 0, 0], [0, 0, 1], [0.2, 0, 0.8]]))
    torch.testing.assert_close(target.alpha, torch.tensor([[1.0, 0, 0.2]]))
    assert data.has_alpha and target.weight is None


def test_opaque_photographs_know_no_background() -> None:
    data = Dataset([view_of(Pixels(np.full((2, 2, 3), 51, np.uint8)))], ViewOrder(1, 0), CPU, stream=False)
    target = target_of(data, 0, 0, torch.ones(3))
    torch.testing.assert_close(target.rgb, torch.full((2, 2, 3), 0.2))
    assert target.alpha is None and not data.has_alpha


def test_halving_averages_by_alpha() -> None:
    rgb = torch.tensor([[[200, 0, 0], [10, 10, 10]], [[100, 0, 0], [99, 99, 99]]], dtype=torch.uint8)
    alpha = torch.tensor([[255, 0], [255, 0]], dtype=torch.uint8)
    image = halved(ByteImage(rgb, alpha, None), 1)
    assert image.rgb.tolist() == [[[150, 0, 0]]], "what lies outside of the mask bled in"
    assert image.alpha is not None and image.alpha.tolist() == [[128]]


def test_halving_leaves_ignored_pixels_out() -> None:
    rgb = torch.tensor([[[200, 0, 0], [10, 10, 10]], [[100, 0, 0], [99, 99, 99]]], dtype=torch.uint8)
    weight = torch.tensor([[255, 0], [255, 0]], dtype=torch.uint8)
    image = halved(ByteImage(rgb, torch.full_like(weight, 255), weight), 1)
    assert image.rgb.tolist() == [[[150, 0, 0]]]
    assert image.alpha is not None and image.alpha.tolist() == [[255]]
    assert image.weight is not None and image.weight.tolist() == [[128]]


def test_halving_keeps_the_colour_of_what_is_ignored_altogether() -> None:
    rgb = torch.full((2, 2, 3), 80, dtype=torch.uint8)
    image = halved(ByteImage(rgb, None, torch.zeros(2, 2, dtype=torch.uint8)), 1)
    assert image.rgb.tolist() == [[[80, 80, 80]]]
    assert image.weight is not None and image.weight.tolist() == [[0]]


@pytest.mark.parametrize("size", [(40, 60), (41, 59), (3, 60)])
def test_ignored_pixels_get_the_colours_around_them(size: tuple[int, int]) -> None:
    random = np.random.default_rng(0)
    height, width = size
    ramp = np.linspace(40, 200, width)[None, :, None] + random.uniform(-9, 9, (height, width, 3))
    rgb, weight = ramp.astype(np.uint8), np.full(size, 255, np.uint8)
    weight[5:30, 8:40], weight[:, -2:] = 0, 0
    rgb[weight == 0] = random.integers(0, 256, (int((weight == 0).sum()), 3))
    target = alone(Pixels(rgb, weight=weight))
    shown, hidden = 255 * target.rgb, torch.from_numpy(weight == 0)
    assert torch.equal(shown[~hidden].round().byte(), torch.from_numpy(rgb)[~hidden])
    expected = torch.linspace(40, 200, width)[None, :, None].expand(height, width, 3)
    assert (shown - expected)[hidden].abs().max() < 45, "by less than across the hole"


def test_an_image_of_which_nothing_counts_stays() -> None:
    rgb = np.full((6, 5, 3), 7, np.uint8)
    target = alone(Pixels(rgb, weight=np.zeros((6, 5), np.uint8)))
    assert torch.equal((255 * target.rgb).round().byte(), torch.from_numpy(rgb))


def test_halving_drops_the_odd_rest_and_the_camera_follows() -> None:
    image = halved(ByteImage(torch.zeros(7, 11, 3, dtype=torch.uint8), None, None), 1)
    camera = halved_camera(Camera.look_at((0, -3, 0), (0, 0, 0), width=11, height=7), 1)
    assert image.rgb.shape == (3, 5, 3) and (camera.height, camera.width) == (3, 5)
    assert camera.intrinsics[2:].tolist() == [2.75, 1.75], "the principal point moved"


def test_a_halved_render_is_a_render_of_the_halved_camera() -> None:
    big = Gaussians(
        torch.tensor([[0.2, 0.0, 0.1], [-0.5, 0.3, -0.2]]),
        torch.tensor([[1.0, 0, 0, 0]] * 2),
        torch.full((2, 3), -1.2),
        torch.full((2,), 2.0),
        torch.tensor([[1.0, 0.5, -0.5], [-0.5, 1.0, 0.3]]),
        torch.zeros(2, 0, 3),
    )
    camera = Camera.look_at((0, -3, 0), (0, 0, 0), width=67, height=51)
    image = ByteImage((rasterize(big, camera, dilation=0.0).rgb * 255 + 0.5).to(torch.uint8), None, None)
    seen = halved(image, 2).rgb / 255
    small = rasterize(big, halved_camera(camera, 2), dilation=0.0).rgb
    assert (seen - small).abs().mean() < 0.002
    wrong = rasterize(big, camera.resized(small.shape[1], small.shape[0]), dilation=0.0).rgb
    assert (seen - wrong).abs().mean() > 0.006, "the test cannot tell the crop from a stretch"


def test_halvings_stop_at_a_smallest_size() -> None:
    views = [view_of(Pixels(np.zeros((130, 500, 3), np.uint8)))]
    assert [halvings_possible(views, n, 64) for n in (0, 1, 2, 5)] == [0, 1, 1, 1]


def test_every_view_once_per_epoch_in_an_order_that_the_seed_gives() -> None:
    order, again, other = ViewOrder(7, 3), ViewOrder(7, 3), ViewOrder(7, 4)
    epochs = [[order.view_at(7 * e + i) for i in range(7)] for e in range(3)]
    assert all(sorted(epoch) == list(range(7)) for epoch in epochs) and epochs[0] != epochs[1]
    assert again.view_at(15) == epochs[2][1], "the order depends on what was asked before"
    assert [other.view_at(i) for i in range(7)] != epochs[0]


@pytest.mark.parametrize("halvings", [0, 1])
def test_streaming_gives_the_same_targets(toy_cutout: Any, halvings: int) -> None:
    order = ViewOrder(10, 0)
    kept = Dataset(toy_cutout.train, order, CPU, stream=False)
    sent = Dataset(toy_cutout.train, order, CPU, stream=True)
    grey = torch.full((3,), 0.5)
    for step in (0, 1, 2, 2, 9, 10, 3, 4):  # a repeated step, a jump ahead and one back
        a, b = target_of(kept, step, halvings, grey), target_of(sent, step, halvings, grey)
        assert torch.equal(a.rgb, b.rgb) and torch.equal(a.alpha, b.alpha)  # type: ignore[arg-type]
        assert torch.equal(a.camera.intrinsics, b.camera.intrinsics)
    kept.start_streaming()
    assert torch.equal(target_of(kept, 5, halvings, grey).rgb, target_of(sent, 5, halvings, grey).rgb)
    kept.close()
    sent.close()


def test_a_shelf_stays_where_it_is(toy: Any) -> None:
    data = Dataset(toy.train, ViewOrder(10, 0), CPU, stream=False)
    assert data.image_stack(0, 0) is data.image_stack(7, 0) and data.image_stack(0, 1) is data.image_stack(
        3, 1
    )
    assert data.image_stack(0, 1).size == (24, 20) and data.image_stack(0, 0).size == (48, 40)
    sent = Dataset(toy.train, ViewOrder(10, 0), CPU, stream=True)
    first = sent.image_stack(0, 0)
    before = first.images.rgb.clone()
    assert sent.image_stack(1, 0) is first and not torch.equal(first.images.rgb, before)
    sent.close()


def test_photographs_of_different_kinds_lie_apart() -> None:
    random = np.random.default_rng(0)
    shapes = [(4, 6), (6, 4), (4, 6), (4, 6)]
    pixels = [Pixels(random.integers(0, 255, (*s, 3)).astype(np.uint8)) for s in shapes]
    pixels[2].alpha = random.integers(0, 255, shapes[2]).astype(np.uint8)
    pixels[3].weight = np.full(shapes[3], 255, np.uint8)
    data = Dataset([view_of(p, str(i)) for i, p in enumerate(pixels)], ViewOrder(4, 0), CPU, stream=False)
    for step in range(4):
        index = data.order.view_at(step)
        target, stored = target_of(data, step, 0, torch.zeros(3)), pixels[index]
        assert (target.camera.height, target.camera.width) == shapes[index]
        assert (target.alpha is not None, target.weight is not None) == (index == 2, index == 3)
        rgb = torch.from_numpy(stored.rgb).float() / 255
        cover = 1 if stored.alpha is None else torch.from_numpy(stored.alpha).float()[..., None] / 255
        torch.testing.assert_close(target.rgb, rgb * cover)


def test_room_for_instances_follows_what_was_needed() -> None:
    room = InstanceCapacity()
    room.adapt(5, False)
    assert room.limit is None
    assert room.begin(100_000) == room.limit == 250_000 + SPARE
    room.adapt(200_000, False)
    assert room.limit == 250_000 + SPARE, "memory was moved without need"
    room.adapt(290_000, False)
    assert room.limit == 435_000 + SPARE, "it waited for the overflow"
    room.adapt(900_000, True)
    assert room.limit == 1_350_000 + SPARE
    room.adapt(10_000, False)
    assert room.limit == 15_000 + SPARE, "it kept room that nothing needs"
    room.forget()
    assert room.limit is None
