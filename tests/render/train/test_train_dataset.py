"""What reaches the device: composition, masks, halving, order, streaming."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from luxel.render.camera import Camera, Pixels, View
from luxel.render.primitives.gaussians import Gaussians
from luxel.render.rasterize import rasterize
from luxel.render.train.dataset import (
    Dataset,
    Photo,
    ViewOrder,
    halved,
    halved_camera,
    halvings_possible,
)
from luxel.render.train.instance_room import SPARE, InstanceRoom

CPU = torch.device("cpu")


def view_of(pixels: Pixels, name: str = "a") -> View:
    height, width = pixels.rgb.shape[:2]
    return View(name, Camera.look_at((0, -3, 0), (0, 0, 0), width=width, height=height), lambda: pixels)


def bytes_of(rows: Any) -> np.ndarray:
    return np.array(rows, np.uint8)


def test_alpha_composites_onto_the_background() -> None:
    rgb = bytes_of([[[255, 0, 0], [255, 0, 0], [255, 0, 0]]])
    data = Dataset([view_of(Pixels(rgb, bytes_of([[255, 0, 51]])))], ViewOrder(1, 0), CPU, stream=False)
    target = data.target(0, 0, torch.tensor([0.0, 0.0, 1.0]))
    torch.testing.assert_close(target.rgb[0], torch.tensor([[1.0, 0, 0], [0, 0, 1], [0.2, 0, 0.8]]))
    torch.testing.assert_close(target.alpha, torch.tensor([[1.0, 0, 0.2]]))
    assert data.has_alpha and target.weight is None


def test_opaque_photographs_know_no_background() -> None:
    data = Dataset([view_of(Pixels(np.full((2, 2, 3), 51, np.uint8)))], ViewOrder(1, 0), CPU, stream=False)
    target = data.target(0, 0, torch.ones(3))
    torch.testing.assert_close(target.rgb, torch.full((2, 2, 3), 0.2))
    assert target.alpha is None and not data.has_alpha


def test_halving_averages_by_alpha() -> None:
    rgb = torch.tensor([[[200, 0, 0], [10, 10, 10]], [[100, 0, 0], [99, 99, 99]]], dtype=torch.uint8)
    alpha = torch.tensor([[255, 0], [255, 0]], dtype=torch.uint8)
    photo = halved(Photo(rgb, alpha, None), 1)
    assert photo.rgb.tolist() == [[[150, 0, 0]]], "what lies outside of the mask bled in"
    assert photo.alpha is not None and photo.alpha.tolist() == [[128]]


def test_halving_leaves_ignored_pixels_out() -> None:
    rgb = torch.tensor([[[200, 0, 0], [10, 10, 10]], [[100, 0, 0], [99, 99, 99]]], dtype=torch.uint8)
    weight = torch.tensor([[255, 0], [255, 0]], dtype=torch.uint8)
    photo = halved(Photo(rgb, torch.full_like(weight, 255), weight), 1)
    assert photo.rgb.tolist() == [[[150, 0, 0]]]
    assert photo.alpha is not None and photo.alpha.tolist() == [[255]]
    assert photo.weight is not None and photo.weight.tolist() == [[128]]


def test_halving_drops_the_odd_rest_and_the_camera_follows() -> None:
    photo = halved(Photo(torch.zeros(7, 11, 3, dtype=torch.uint8), None, None), 1)
    camera = halved_camera(Camera.look_at((0, -3, 0), (0, 0, 0), width=11, height=7), 1)
    assert photo.rgb.shape == (3, 5, 3) and (camera.height, camera.width) == (3, 5)
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
    photo = Photo((rasterize(big, camera, dilation=0.0).rgb * 255 + 0.5).to(torch.uint8), None, None)
    seen = halved(photo, 2).rgb / 255
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
        a, b = kept.target(step, halvings, grey), sent.target(step, halvings, grey)
        assert torch.equal(a.rgb, b.rgb) and torch.equal(a.alpha, b.alpha)  # type: ignore[arg-type]
        assert torch.equal(a.camera.intrinsics, b.camera.intrinsics)
    kept.start_streaming()
    assert torch.equal(kept.target(5, halvings, grey).rgb, sent.target(5, halvings, grey).rgb)
    kept.close()
    sent.close()


def test_cameras_go_to_the_device_once(toy: Any) -> None:
    data = Dataset(toy.train, ViewOrder(10, 0), CPU, stream=False)
    assert data.target(0, 0, torch.ones(3)).camera is data.target(0, 0, torch.ones(3)).camera
    assert replace(data.target(0, 1, torch.ones(3)).camera, width=1).height == 20


def test_room_for_instances_follows_what_was_needed() -> None:
    class Seen:
        def __init__(self, needed: int) -> None:
            self.instances = torch.tensor([needed])

    room = InstanceRoom()
    assert room.limit is None and not room.settle()
    room.note(Seen(100_000))  # type: ignore[arg-type]
    first = room.limit
    assert first == 250_000 + SPARE
    room.note(Seen(200_000))  # type: ignore[arg-type]
    assert room.limit == first, "the device was asked again"
    assert not room.settle() and room.limit == 300_000 + SPARE
    room.note(Seen(900_000))  # type: ignore[arg-type]
    assert room.settle() and room.limit == 1_350_000 + SPARE
    room.forget()
    assert room.limit is None


def test_room_for_instances_changes_nothing(toy: Any, tmp_path: Any, same_state: Any) -> None:
    exact, roomy = (toy.trainer(tmp_path / name, toy.config(steps=30)) for name in "ab")
    roomy._room = InstanceRoom()
    exact.run(progress=False)
    roomy.run(progress=False)
    assert roomy._room.limit is not None and same_state(exact, roomy)
