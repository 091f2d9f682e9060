"""Label images: the argmax of blended one-hot labels."""

from __future__ import annotations

import pytest
import torch
from label_scenes import CASES, HEIGHT, WIDTH, blended_labels, labelled_scene, two_cameras

from luxel.render.ops.raster.label_render import label_render
from luxel.render.segment import NO_LABEL
from luxel.render.segment.label_image import label_image
from luxel.render.segment.splat_lists import splat_lists


def some_labels(count: int, labels: int) -> torch.Tensor:
    """Random ones, every seventh primitive has none."""
    chosen = torch.randint(0, labels, (count,), generator=torch.Generator().manual_seed(2), dtype=torch.uint8)
    chosen[::7] = NO_LABEL
    return chosen


@pytest.mark.parametrize("count", [1, 3, 254])
@pytest.mark.parametrize(("name", "time"), CASES)
def test_labels_are_the_argmax_of_blended_ones(random_gaussians, toy_camera, precision, name, time, count):
    scene, cameras = (
        labelled_scene(name, random_gaussians, 300, **precision),
        two_cameras(toy_camera, **precision),
    )
    labels = some_labels(scene.count, count).to(scene.device)
    actual = label_image(scene, cameras, labels, count, time=time)
    blended, transmittance = blended_labels(scene, cameras, labels, count, time)
    tolerance = 1e-12 if precision["dtype"] == torch.float64 else 1e-5
    top, index = blended.max(-1)
    torch.testing.assert_close(actual.weights, top, rtol=0, atol=tolerance)
    torch.testing.assert_close(actual.transmittance, transmittance, rtol=0, atol=tolerance)
    assert ((actual.labels == NO_LABEL) == (top == 0)).all() and actual.labels.dtype == torch.uint8
    second = blended.scatter(-1, index[..., None], -1).amax(-1)
    clear = top - second.clamp_min(0) > 1e-4
    assert clear.float().mean() > 0.5
    assert (actual.labels[clear] == index[clear]).all()
    assert len(actual.labels.unique()) >= min(count, 15)


def test_two_runs_give_the_same_bits(random_gaussians, toy_camera, device):
    scene, camera = random_gaussians(400, scale=0.3, device=device), toy_camera(WIDTH, HEIGHT, device=device)
    labels = some_labels(scene.count, 200)
    first, second = (label_image(scene, camera, labels, 200) for _ in range(2))
    assert all(torch.equal(a, b) for a, b in zip(first, second, strict=True))


def test_nothing_to_see(random_gaussians, toy_camera, precision):
    scene, camera = random_gaussians(20, **precision), toy_camera(WIDTH, HEIGHT, **precision)
    empty = scene.map(lambda t: t[:0])
    scene.means[:] = torch.nan
    for nothing in (scene, empty):
        image = label_image(nothing, camera, torch.zeros(nothing.count, dtype=torch.uint8), 2)
        assert image.labels.shape == (HEIGHT, WIDTH)
        assert (image.labels == NO_LABEL).all() and (image.weights == 0).all()
        assert (image.transmittance == 1).all()


def test_operation_checks_its_arguments(random_gaussians, toy_camera, device):
    scene, cameras = random_gaussians(60, device=device), two_cameras(toy_camera, device=device)
    splats, (instances, ranges, _, plan), _ = splat_lists(scene, cameras)
    labels = some_labels(60, 3).to(device)
    lists, sizes = (splats, instances, ranges, plan), {"width": WIDTH, "height": HEIGHT, "max_alpha": 0.99}
    torch.library.opcheck(
        torch.ops.luxel.label_render.default,
        (*lists, labels, 3, WIDTH, HEIGHT, 0.99, "gaussians"),
        test_utils=("test_schema", "test_faketensor", "test_autograd_registration"),
    )
    with pytest.raises(ValueError, match=r"labels must be \[60\]"):
        label_render(*lists, labels[:5], label_count=3, **sizes)
    with pytest.raises(ValueError, match="label_count must be 1 to 255, got 0"):
        label_render(*lists, labels, label_count=0, **sizes)
    with pytest.raises(ValueError, match=r"primitive must be one of .* got pyramids"):
        label_render(*lists, labels, label_count=3, primitive="pyramids", **sizes)
