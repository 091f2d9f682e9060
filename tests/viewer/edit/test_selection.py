"""Regions of space and screen, ranges, combination and growth."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import pytest
import torch

from luxel.render.geometry.camera import Camera
from luxel.render.primitives import Gaussians, Parameters
from luxel.render.primitives.similarity import Similarity
from luxel.render.raster.rasterize import rasterize
from luxel.viewer.edit import Document, combine, operations, regions
from luxel.viewer.edit.masks import PackedMask
from luxel.viewer.edit.outlines import within_polygon, within_stroke

CAMERA = Camera.look_at((2.5, 2.5, -20), (2.5, 2.5, 0), (0, -1, 0), fov_y=0.4, width=200, height=200)


def test_box_sphere_and_plane(any_scene: Parameters) -> None:
    centres = any_scene.centres
    turn = math.sqrt(0.5)
    box = torch.tensor([[turn, -turn, 0, 2], [turn, turn, 0, 2], [0, 0, 1, 2]])
    local = (centres - 2) @ box[:, :3]
    inside = regions.in_box(centres, box, (1.5, 0.8, 10))
    assert torch.equal(inside, (local[:, 0].abs() <= 1.5) & (local[:, 1].abs() <= 0.8))
    assert 0 < int(inside.sum()) < 216
    assert int(regions.in_sphere(centres, (2, 2, 2), 1.01).sum()) == 7
    assert int(regions.above_plane(centres, (0, 2.5, 0), (0, 1, 0)).sum()) == 108


def test_ranges_and_colours(any_scene: Parameters) -> None:
    opacities = any_scene.opacities
    assert torch.equal(regions.in_range(opacities, 0.2, 0.5), (opacities >= 0.2) & (opacities <= 0.5))
    sizes = any_scene.sizes
    assert int(regions.in_range(sizes, float(sizes.median()), math.inf).sum()) in (108, 109)
    recoloured = any_scene.with_base_colours(torch.rand(216, 3) * 0.2)
    recoloured.tensors()["sh_dc"][7] = 0.4 / 0.28209479
    assert regions.near_colour(recoloured.base_colours, (0.9, 0.9, 0.9), 0.05).nonzero().tolist() == [[7]]


def test_values_that_are_not_numbers_are_never_selected() -> None:
    nan = torch.tensor([[math.nan, 0, 0], [0, math.nan, 1], [math.inf, 0, 0]])
    screen = regions.ScreenPoints(nan, CAMERA, torch.ones(200, 200))
    masks = [
        regions.in_sphere(nan, (0, 0, 0), 1e9),
        regions.in_box(nan, torch.eye(4)[:3], (1e9, 1e9, 1e9)),
        regions.in_range(nan[[0, 2], 0], -1, 1),
        screen.in_rectangle(-1e9, -1e9, 1e9, 1e9),
        screen.in_polygon([(0, 0), (200, 0), (200, 200), (0, 200)]),
    ]
    assert not any(bool(mask.any()) for mask in masks)


def test_screen_regions_agree_with_the_projection(any_scene: Parameters) -> None:
    screen = regions.ScreenPoints(any_scene.centres, CAMERA)
    assert bool(screen.counts.all())
    left = screen.in_rectangle(0, 0, 100, 200)
    assert torch.equal(left, (any_scene.centres[:, 0] < 2.5) | (screen.x <= 100)) and int(left.sum()) == 108
    corners = [(0.0, 0.0), (100.0, 0.0), (100.0, 200.0), (0.0, 200.0)]
    assert torch.equal(screen.in_polygon(corners), left)
    notch = [
        (0.0, 0.0),
        (200.0, 0.0),
        (200.0, 200.0),
        (0.0, 200.0),
        (100.0, 100.0),
    ]  # without a triangle left
    outside = screen.in_polygon(notch)
    expected = ~((screen.x < 100) & ((screen.y - 100).abs() < 100 - screen.x))
    assert torch.equal(outside, expected) and 0 < int(outside.sum()) < 216
    stroke = screen.near_stroke([(0, 100), (200, 100)], 10)
    assert torch.equal(stroke, (screen.y - 100).abs() <= 10)
    dab = screen.near_stroke([(100, 100)], 30)
    assert torch.equal(dab, (screen.x - 100).square() + (screen.y - 100).square() <= 900)
    behind = regions.ScreenPoints(any_scene.centres - torch.tensor([0, 0, 100.0]), CAMERA)
    assert not bool(behind.in_rectangle(-1e9, -1e9, 1e9, 1e9).any())
    for bad in ([(0, 0), (1, 1)], [(0, 0)] * 10_001):
        with pytest.raises(ValueError, match="corners must be 3 to"):
            screen.in_polygon(bad)
    with pytest.raises(ValueError, match="points must be 1 to 10000, got 0"):
        screen.near_stroke([], 5)


def test_what_is_hidden_behind_others_is_selected_only_through(grid: Callable[..., Gaussians]) -> None:
    scene = grid(6)
    opaque = replace(
        scene, opacity_logits=torch.full((216,), 9.0), log_scales=torch.full((216, 3), math.log(0.3))
    )
    depth = rasterize(opaque, CAMERA, depth=True).median_depth
    whole = (0, 0, 200, 200)
    assert int(regions.ScreenPoints(opaque.centres, CAMERA).in_rectangle(*whole).sum()) == 216
    seen = regions.ScreenPoints(opaque.centres, CAMERA, depth, 0.02).in_rectangle(*whole)
    assert torch.equal(seen, opaque.centres[:, 2] == 0), "the front layer alone"
    half = rasterize(opaque, CAMERA.scaled(0.5), depth=True).median_depth
    assert torch.equal(regions.ScreenPoints(opaque.centres, CAMERA, half, 0.02).in_rectangle(*whole), seen)


def test_primitive_at_a_point(any_scene: Parameters) -> None:
    assert regions.visible_at(any_scene, (3.05, 1.0, 4.0)).nonzero().tolist() == [[3 * 36 + 6 + 4]]
    assert not regions.visible_at(any_scene.select(torch.arange(0)), (0, 0, 0)).any()


def test_modes_of_combination() -> None:
    a, b = torch.tensor([1, 1, 0, 0]).bool(), torch.tensor([1, 0, 1, 0]).bool()
    results = {
        "replace": [1, 0, 1, 0],
        "add": [1, 1, 1, 0],
        "subtract": [0, 1, 0, 0],
        "intersect": [1, 0, 0, 0],
    }
    for mode, expected in results.items():
        assert combine(a, b, mode).int().tolist() == expected  # pyright: ignore[reportArgumentType]
    with pytest.raises(ValueError, match="mode must be one of"):
        combine(a, b, "xor")  # pyright: ignore[reportArgumentType]


def test_selection_grows_and_shrinks_by_neighbours(any_scene: Parameters) -> None:
    document = Document(any_scene)
    middle = 2 * 36 + 2 * 6 + 2
    document.select(torch.arange(216) == middle)
    document.grow()
    apart = (any_scene.centres - any_scene.centres[middle]).norm(dim=-1)
    assert torch.equal(document.selected, apart < 1.1), "the six neighbours in the grid"
    document.shrink()
    assert document.selected.nonzero().tolist() == [[middle]]
    document.select_all()
    assert not document.shrink(), "nothing that is shown lies beside it"
    document.undo()
    document.invert()
    assert int(document.selected.sum()) == 215


@pytest.mark.parametrize("count", [0, 1, 7, 1000])
def test_masks_are_packed_without_loss(count: int) -> None:
    for share in (0.0, 0.01, 0.5, 1.0):
        mask = torch.rand(count) < share
        packed = PackedMask(mask)
        assert torch.equal(packed.unpack(torch.device("cpu")), mask)
        again = PackedMask.load(packed.arrays(), count)
        assert torch.equal(again.unpack(torch.device("cpu")), mask)
        assert packed.nbytes <= max(count // 8 + 1, 0)


def test_damaged_masks_are_refused() -> None:
    for mask in (torch.arange(100) < 1, torch.arange(100) < 60):
        arrays = PackedMask(mask).arrays()
        with pytest.raises(ValueError, match="rows or bits must be a mask of"):
            PackedMask.load(arrays, 8 if "bits" in arrays else 0)


def test_growth_skips_what_is_not_shown_and_follows_moves(any_scene: Parameters) -> None:
    document = Document(any_scene)
    centres = any_scene.centres.round().long()
    plane = centres[:, 0] == 2
    document.select(plane)
    document.apply(operations.hide(document.state))
    document.select((centres[:, 0] == 1) & (centres[:, 1] == 2) & (centres[:, 2] == 2))
    whole = document.graphs.of(document.state.scene, document.shown)
    for _ in range(8):
        document.grow()
    assert torch.equal(document.selected, centres[:, 0] < 2), "nothing passes through hidden primitives"
    assert document.graphs.of(document.state.scene, document.shown) is whole, (
        "hiding a few builds no other graph"
    )
    document.select(centres[:, 0] < 5)
    document.apply(operations.hide(document.state))
    document.select((centres[:, 0] == 5) & (centres[:, 1] == 2) & (centres[:, 2] == 2))
    document.grow()
    assert int(document.selected.sum()) >= 5, "few that are left are neighbours of each other"
    document.apply(operations.show_all(document.state))
    assert document.graphs.of(document.state.scene, document.shown) is whole
    document.apply(operations.transform(document.state, Similarity(translation=(100, 0, 0))))
    document.select_none()
    document.select((centres[:, 0] == 4) & (centres[:, 1] == 2) & (centres[:, 2] == 2))
    for _ in range(12):
        document.grow()
    moved = document.state.scene.centres[:, 0] > 50
    assert bool(moved.any()) and not bool((document.selected & moved).any()), "what was moved is far now"


@pytest.mark.parametrize("corners", [3, 40, 3000])
def test_tiles_change_no_result_of_lasso_and_brush(corners: int) -> None:
    generator = torch.Generator().manual_seed(corners)
    angles = torch.linspace(0, 12.5, corners + 1, dtype=torch.float64)[:-1]  # goes round twice
    radius = 100 + 60 * (5.3 * angles).sin()
    outline = torch.stack([200 + radius * angles.cos(), 150 + radius * angles.sin()], -1)
    count = 20_000 if corners < 100 else 1000
    x, y = (torch.rand(2, count, generator=generator) * 420 - 10).unbind()
    starts, ends = outline, outline.roll(-1, 0)
    crossed = (y[:, None] >= starts[:, 1].minimum(ends[:, 1])) & (
        y[:, None] < starts[:, 1].maximum(ends[:, 1])
    )
    slope = (ends[:, 0] - starts[:, 0]) / (ends[:, 1] - starts[:, 1])
    odd = (crossed & (x[:, None] < starts[:, 0] + (y[:, None] - starts[:, 1]) * slope)).sum(1) % 2 == 1
    inside = within_polygon(x, y, outline.tolist())
    assert int((inside != odd).sum()) <= 2, "but for rounding on an edge"
    assert 0.05 < float(inside.float().mean()) < 0.95
    edge, from_start = (ends - starts)[:-1], torch.stack([x, y], -1)[:, None].double() - starts[:-1]
    along = ((from_start * edge).sum(-1) / edge.square().sum(-1)).clamp(0, 1)
    distance = (from_start - along[..., None] * edge).norm(dim=-1).amin(1)
    for brush in (2.0, 25.0):
        near = within_stroke(x, y, outline.tolist(), brush)
        clear = (distance - brush).abs() > 1e-3
        assert torch.equal(near[clear], (distance <= brush)[clear])
