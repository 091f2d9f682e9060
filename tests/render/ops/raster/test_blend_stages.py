"""The rasterizers of convexes and surfels, project -> bin -> blend, against their references: what both promise."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import pytest
import torch
from convex_scenes import convexes_like, random_convexes
from splat_stages import STAGES, D, assert_agrees, check_gradients, draw, projection_of
from surfel_scenes import random_surfels, surfels_like
from torch._subclasses import FakeTensorMode

from luxel.render.geometry.camera import Camera
from luxel.render.primitives.convexes import Convexes
from luxel.render.primitives.surfels import Surfels


@dataclass(frozen=True)
class Case:
    """A primitive, and what its scenes are like.

    Args:
        kind: of the primitive.
        empty: arguments of `kind.empty`.
        jumps: of an image of one pixel, and of other small ones; behind a wall.
        thick: sizes where alpha is capped, and behind a wall.
        threads: count and size where threads share the work.
        seeds: behind a wall, of numbers that are none, of too little room.
        open_ended: parameters of which an infinity is a good number.
        features: numbers beside the colour of several cameras, and of sums in a fixed order; 0: none.
    """

    kind: type[Convexes] | type[Surfels]
    empty: tuple[int, ...]
    jumps: tuple[float, float, float]
    thick: tuple[float, float]
    threads: tuple[int, float]
    seeds: tuple[int, int, int]
    open_ended: tuple[str, ...]
    features: tuple[int, int]

    def random(self, *args: Any, **options: Any) -> Any:
        return (random_convexes if self.kind is Convexes else random_surfels)(*args, **options)

    def like(self, precision: dict[str, Any], camera: Camera, *args: Any, **options: Any) -> Any:
        if self.kind is Convexes:
            return convexes_like(precision, *args, **options)
        return surfels_like(precision, camera, *args, **options)


CONVEXES = Case(
    Convexes,
    (5,),
    (0.0, 0.05, 0.12),
    (0.8, 0.8),
    (900, 0.2),
    (10, 14, 18),
    ("log_delta", "log_sigma", "opacity_logits", "mask_logits"),
    (3, 12),
)
SURFELS = Case(
    Surfels,
    (),
    (1.0, 0.1, 0.3),
    (0.6, 0.5),
    (1500, 0.1),
    (11, 15, 19),
    ("log_scales", "opacity_logits"),
    (0, 0),
)
both = pytest.mark.parametrize("case", [CONVEXES, SURFELS], ids=["convexes", "surfels"])


def numbers(count: int, width: int) -> torch.Tensor:
    return torch.rand(count, width, generator=torch.Generator().manual_seed(1)).to(D)


@pytest.mark.parametrize(
    ("case", "count", "options"),
    [(CONVEXES, 60, {"seed": k, "k": k, "sh_degree": k % 4}) for k in range(3, 9)]
    + [(SURFELS, 70, {"seed": seed, "sh_degree": seed % 4}) for seed in range(5)],
)
def test_agrees_with_the_reference(toy_camera, precision, case, count, options):
    camera = toy_camera(70, 50, off_centre=True, dtype=D)
    background = torch.tensor([0.25, 0.5, 0.875], dtype=D)
    drawn = assert_agrees(case.like(precision, camera, count, **options), camera, background=background)
    assert drawn.count.max() > 8


@pytest.mark.parametrize(("case", "count"), [(CONVEXES, 50), (SURFELS, 60)])
def test_several_cameras_each_with_its_pose(toy_camera, precision, case, count):
    cameras = Camera.stack(
        [toy_camera(40, 30, dtype=D), toy_camera(40, 30, eye=(2.5, 2, 1), off_centre=True, dtype=D)]
    )
    width = case.features[0]
    options = {"features": numbers(count, width), "depth": False} if width else {}
    assert_agrees(case.like(precision, cameras, count, seed=3), cameras, **options)


@both
@pytest.mark.parametrize("degree", range(4))
def test_degrees_of_colour(toy_camera, precision, case, degree):
    camera = toy_camera(30, 30, dtype=D)
    assert_agrees(case.like(precision, camera, 30, seed=4, sh_degree=3), camera, sh_degree=degree)


@both
@pytest.mark.parametrize("size", [(1, 1), (1, 40), (40, 1), (15, 17), (16, 16), (129, 3)])
def test_sizes(toy_camera, precision, case, size):
    camera = toy_camera(*size, dtype=D)
    jumps = case.jumps[0] if size == (1, 1) else case.jumps[1]
    assert_agrees(case.like(precision, camera, 40, seed=5), camera, jumps=jumps)


@both
def test_fixed_order_of_sums(toy_camera, precision, case):
    camera = toy_camera(40, 30, dtype=D)
    scene = case.like(precision, camera, 50, seed=6)
    assert_agrees(scene, camera, deterministic=True)
    if width := case.features[1]:
        assert_agrees(scene, camera, deterministic=True, features=numbers(50, width))


@both
def test_capped_alpha(toy_camera, precision, case):
    camera = toy_camera(40, 30, dtype=D)
    scene = case.like(precision, camera, 30, seed=7, size=case.thick[0])
    scene.opacity_logits += 5
    assert_agrees(scene, camera, max_alpha=0.625, jumps=0.06)


@both
def test_pixels_end_behind_a_wall(toy_camera, precision, case):
    camera = toy_camera(33, 33, dtype=D)
    scene = case.like(precision, camera, 200, seed=case.seeds[0], size=case.thick[1])
    scene.opacity_logits += 6
    assert_agrees(scene, camera, jumps=case.jumps[2])


@both
@pytest.mark.parametrize("deterministic", [False, True])
def test_gradients_repeat(toy_camera, device, case, deterministic):
    if device.type == "cuda" and not deterministic:
        pytest.skip("sums on a GPU come out of atomic additions in any order")
    scene = case.random(400, seed=12).map(lambda t: t.to(device, torch.float32))
    camera = toy_camera(device=device)
    actual = []
    for _ in range(3):
        leaves = scene.detach().requires_grad_()
        draw(leaves, camera, deterministic=deterministic).image.square().sum().backward()
        actual.append([t.grad for t in leaves.tensors().values()])
    assert all(torch.equal(a, b) for other in actual[1:] for a, b in zip(actual[0], other, strict=True))


@both
def test_cpu_results_do_not_depend_on_threads(toy_camera, case):
    results, threads = [], torch.get_num_threads()
    count, size = case.threads
    try:
        for used in (1, 2, 5):
            torch.set_num_threads(used)
            scene = case.random(count, seed=13, size=size).to(torch.float32).requires_grad_()
            camera = toy_camera(90, 70)
            pose = camera.world_to_cam.clone().requires_grad_()
            image = draw(scene, replace(camera, world_to_cam=pose)).image
            image.square().sum().backward()
            results.append([image, pose.grad, *(t.grad for t in scene.tensors().values())])
    finally:
        torch.set_num_threads(threads)
    for other in results[1:]:
        assert all(torch.equal(a, b) for a, b in zip(other, results[0], strict=True))


@both
def test_empty(toy_camera, precision, case):
    background = torch.tensor([0.1, 0.2, 0.3]).to(**precision)
    empty = case.kind.empty(*case.empty).map(lambda t: t.to(**precision))
    drawn = draw(empty, toy_camera(20, 17, **precision), background=background)
    torch.testing.assert_close(drawn.image[0, ..., :3], background.expand(17, 20, 3))
    assert not drawn.alpha.any() and not drawn.count.any()
    check_gradients(empty, toy_camera(20, 17, **precision))


@pytest.mark.parametrize(
    ("case", "name"), [(case, n) for case in (CONVEXES, SURFELS) for n in case.kind.names]
)
@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
def test_not_a_number_stays_where_it_is(toy_camera, precision, case, name, value):
    """One bad primitive in three: the image and the gradients of the others are those without it."""
    scene = case.random(30, seed=case.seeds[1]).map(lambda t: t.to(**precision))
    camera = toy_camera(40, 30, **precision)
    good = (torch.arange(30) % 3 != 0).to(precision["device"])
    getattr(scene, name).view(30, -1)[~good, -1] = value
    gradients = check_gradients(scene, camera)
    if value == value and name in case.open_ended:
        return  # e^-inf = 0 and sigmoid(inf) = 1 are good numbers: such a primitive may be drawn
    without = draw(scene.select(good), camera).image
    torch.testing.assert_close(draw(scene, camera).image, without, rtol=0, atol=0)
    expected = check_gradients(scene.select(good), camera)
    for key, gradient in gradients.items():
        assert not gradient[~good].any(), f"a dropped primitive has a gradient of {key}"
        scale = expected[key].abs().max().item()
        torch.testing.assert_close(gradient[good], expected[key], rtol=1e-4, atol=1e-5 * scale)


@both
@pytest.mark.parametrize("value", [float("nan"), float("inf")])
@pytest.mark.parametrize("part", ["world_to_cam", "intrinsics"])
def test_a_camera_that_is_no_number_draws_background(toy_camera, precision, case, part, value):
    camera = toy_camera(20, 10, **precision)
    getattr(camera, part).view(-1)[0] = value
    background = torch.tensor([0.1, 0.2, 0.3]).to(**precision)
    drawn = draw(case.random(20).map(lambda t: t.to(**precision)), camera, background=background)
    torch.testing.assert_close(drawn.image[0, ..., :3], background.expand(10, 20, 3))


@both
def test_too_little_room_is_told_and_harmless(toy_camera, device, case):
    scene = case.random(60, seed=case.seeds[2]).map(lambda t: t.to(device, torch.float32)).requires_grad_()
    camera = toy_camera(50, 37, device=device)
    whole, plenty = draw(scene, camera), draw(scene, camera, room=100_000)
    assert plenty.lists[2].item() == 0 and torch.equal(plenty.image, whole.image)
    for room in (0, 1, 100):
        cut = draw(scene, camera, room=room)
        assert cut.lists[2].item() == 1 and cut.image.isfinite().all()
        gradients = torch.autograd.grad(cut.image.sum(), list(scene.tensors().values()))
        assert all(gradient.isfinite().all() for gradient in gradients)


@both
def test_statistics_leave_gradients_alone(toy_camera, device, case):
    gradients = []
    for statistics in (None, torch.zeros(40, 4, device=device)):
        scene = case.random(40, seed=6).map(lambda t: t.to(device, torch.float32)).requires_grad_()
        draw(scene, toy_camera(device=device), statistics=statistics).image.square().sum().backward()
        gradients.append([t.grad for t in scene.tensors().values()])
    for plain, counted in zip(*gradients, strict=True):
        torch.testing.assert_close(counted, plain, rtol=1e-4, atol=1e-5 * plain.abs().max().item())


def of_two_cameras(toy_camera, device, case, count: int, **options: Any) -> tuple[Any, Camera]:
    cameras = Camera.stack([toy_camera(50, 37), toy_camera(50, 37, eye=(2.5, 2, 1), off_centre=True)])
    return case.random(count, **options).map(lambda t: t.to(device, torch.float32)), cameras.to(device)


@both
def test_fake_tensors_have_the_shapes_of_real_ones(toy_camera, device, case):
    scene, cameras = of_two_cameras(toy_camera, device, case, 30, seed=7)

    def project(scene: Any, *pose: torch.Tensor) -> tuple[torch.Tensor, ...]:
        stages = STAGES[case.kind]
        options = {**projection_of(cameras)[1], "sh_degree": 3, "with_depth": True, **stages.projection}
        return stages.project(tuple(scene.tensors().values()), *pose, **options)

    pose = cameras.world_to_cam, cameras.intrinsics
    with FakeTensorMode() as mode:
        fake = project(scene.map(mode.from_tensor), *map(mode.from_tensor, pose))
    for actual, expected in zip(fake, project(scene, *pose), strict=True):
        shape = actual.shape, actual.dtype, actual.device
        assert shape == (expected.shape, expected.dtype, expected.device)


@both
def test_compiles_as_one_graph(toy_camera, device, case):
    """fullgraph=True: no graph break, forward or backward."""
    scene, cameras = of_two_cameras(toy_camera, device, case, 40, seed=19, sh_degree=3)
    torch._dynamo.reset()

    def render(world_to_cam, background, statistics, *parameters):
        posed = replace(cameras, world_to_cam=world_to_cam)
        drawn = draw(case.kind(*parameters), posed, background=background, room=5000, statistics=statistics)
        return drawn.image, drawn.alpha

    results = []
    background = torch.tensor([0.1, 0.5, 0.9], device=device)
    for function in (render, torch.compile(render, fullgraph=True, backend="aot_eager")):
        inputs = [cameras.world_to_cam, background, *scene.tensors().values()]
        inputs = [t.detach().clone().requires_grad_() for t in inputs]
        statistics = torch.zeros(40, 4, device=device)
        outputs = function(*inputs[:2], statistics, *inputs[2:])
        torch.stack([output.square().sum() for output in outputs]).sum().backward()
        results.append([*(o.detach() for o in outputs), *(t.grad for t in inputs), statistics])
    assert results[0][-1][:, 2].max() == 2
    for eager, compiled in zip(*results, strict=True):
        torch.testing.assert_close(compiled, eager, rtol=1e-4, atol=1e-5 * eager.abs().max().item())
