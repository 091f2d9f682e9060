"""Votes: equal the gradient of blended features, have the same bits on every run, and count what they should."""

from __future__ import annotations

import pytest
import torch
from label_scenes import CASES, HEIGHT, WIDTH, labelled_scene, random_maps, two_cameras, votes_by_gradient

from luxel.render.ops.raster.label_votes import label_votes_, vote_table
from luxel.render.segment import NO_LABEL, Votes
from luxel.render.segment.splat_lists import SplatLists, splat_lists


def assert_votes(votes: Votes, expected: torch.Tensor) -> None:
    """To 1e-5 of a pixel or of the sum in float32, 1e-12 in float64; expected: labels, then all pixels."""
    tolerance = 1e-12 if expected.dtype == torch.float64 else 1e-5
    for actual, witness in ((votes.weights, expected[:, :-1]), (votes.seen, expected[:, -1])):
        torch.testing.assert_close(actual, witness, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("labels", [1, 5, 32, 33, 255])
@pytest.mark.parametrize(("name", "time"), CASES)
def test_votes_are_the_gradient_of_features(random_gaussians, toy_camera, precision, name, time, labels):
    scene, cameras = (
        labelled_scene(name, random_gaussians, 60, **precision),
        two_cameras(toy_camera, **precision),
    )
    maps = random_maps(2, labels)
    votes = Votes(scene.count, labels, scene.device, precision["dtype"])
    votes.add(scene, cameras, maps, time=time)
    expected = votes_by_gradient(scene, cameras, maps, labels, time)
    assert expected.max() > 5
    assert_votes(votes, expected)
    leaders, floats = votes.leaders(), votes.weights.float()
    torch.testing.assert_close(leaders.top, floats.amax(1), rtol=0, atol=0)
    voted = leaders.label != NO_LABEL
    assert (voted == (leaders.top > 0)).all()
    assert (floats[voted, leaders.label[voted].long()] == leaders.top[voted]).all()
    if labels > 1:
        torch.testing.assert_close(leaders.second, floats.topk(2, dim=1).values[:, 1], rtol=0, atol=0)


def test_options_that_change_alpha_do_so(random_gaussians, toy_camera, precision):
    scene, camera = random_gaussians(60, scale=0.02, **precision), toy_camera(WIDTH, HEIGHT, **precision)
    maps = random_maps(1, 3)[0]
    for options in ({"antialiased": True}, {"dilation": 1.0}, {"max_alpha": 0.5}):
        votes = Votes(scene.count, 3, scene.device, precision["dtype"])
        votes.add(scene, camera, maps, **options)
        assert_votes(votes, votes_by_gradient(scene, camera, maps, 3, **options))


def stripes(labels: int) -> torch.Tensor:
    """Vertical stripes of all labels, two pixels wide."""
    return (torch.arange(WIDTH) // 2 % labels).to(torch.uint8).repeat(HEIGHT, 1)


@pytest.mark.parametrize("labels", [4, 200])
def test_two_runs_give_the_same_bits(random_gaussians, toy_camera, device, labels):
    """Whatever the order of views and the number of threads; with more labels per primitive than slots."""
    scene = random_gaussians(400, seed=9, scale=0.3, device=device)
    cameras = [toy_camera(WIDTH, HEIGHT, eye=eye, device=device) for eye in ((0.5, -3.5, 0.8), (2.5, 2, 1))]
    maps = [stripes(labels), random_maps(1, labels)[0]]
    threads, outcomes = torch.get_num_threads(), []
    try:
        for run in range(4):
            torch.set_num_threads(1 + run % 2)
            votes = Votes(scene.count, labels, device)
            for k in (0, 1) if run < 2 else (1, 0):
                votes.add(scene, cameras[k], maps[k])
            outcomes.append((votes.weights, votes.seen, *votes.leaders()))
    finally:
        torch.set_num_threads(threads)
    for outcome in outcomes[1:]:
        assert all(torch.equal(a, b) for a, b in zip(outcome, outcomes[0], strict=True))
    if labels > 8:
        assert ((outcomes[0][0] > 0).sum(1) > 8).any()


def test_the_ninth_label_goes_to_the_pool(random_gaussians, toy_camera, precision):
    """And where the pool has no row left it counts as seen only."""
    scene, camera = random_gaussians(30, scale=0.6, **precision), toy_camera(WIDTH, HEIGHT, **precision)
    maps = stripes(25)
    expected = votes_by_gradient(scene, camera, maps, 40)
    votes = Votes(scene.count, 40, scene.device, precision["dtype"])
    votes.add(scene, camera, maps)
    assert_votes(votes, expected)
    assert votes.over_capacity == 0 and ((expected[:, :-1] > 0).sum(1) > 8).any()
    biased = votes.leaders(background_bias=1e6)
    assert (biased.label[expected[:, 0] > 1e-3] == 0).all()

    tight = Votes(scene.count, 40, scene.device, precision["dtype"])
    assert tight._table.pool is not None
    tight._table = tight._table._replace(pool=tight._table.pool[:1])
    tight.add(scene, camera, maps)
    torch.testing.assert_close(tight.seen, votes.seen, rtol=0, atol=0)
    many = int(((expected[:, :-1] > 1e-6).sum(1) > 8).sum())
    assert many - 1 <= tight.over_capacity <= many  # the row may be lost to a race
    missing = expected[:, -1] - tight.weights.sum(1)
    assert (missing > -1e-4).all() and (missing > 1).any()
    kept = tight.weights > 0
    torch.testing.assert_close(tight.weights[kept], votes.weights[kept], rtol=0, atol=0)


def test_primitives_that_are_not_finite_get_no_votes(random_gaussians, toy_camera, precision):
    scene, camera = random_gaussians(60, **precision), toy_camera(WIDTH, HEIGHT, **precision)
    maps = random_maps(1, 3)[0]
    scene.means[0] = torch.nan
    scene.log_scales[1, 1] = torch.nan
    scene.opacity_logits[2] = torch.nan
    scene.quats[3] = torch.inf
    votes = Votes(scene.count, 3, scene.device, precision["dtype"])
    votes.add(scene, camera, maps)
    assert (votes.seen[:4] == 0).all() and (votes.leaders().label[:4] == NO_LABEL).all()
    assert votes.seen.isfinite().all() and votes.seen[4:].max() > 1


def test_maps_without_labels_and_scenes_without_primitives(random_gaussians, toy_camera, precision):
    scene, camera = random_gaussians(60, **precision), toy_camera(WIDTH, HEIGHT, **precision)
    nothing = torch.full((HEIGHT, WIDTH), NO_LABEL, dtype=torch.uint8)
    for labels in (3, 100):
        votes = Votes(scene.count, labels, scene.device, precision["dtype"])
        votes.add(scene, camera, nothing)
        assert (votes.weights == 0).all() and votes.seen.max() > 1
        leaders = votes.leaders()
        assert (leaders.label == NO_LABEL).all() and (leaders.top == 0).all() and (leaders.second == 0).all()
        empty = scene.map(lambda t: t[:0])
        votes = Votes(0, labels, scene.device, precision["dtype"])
        votes.add(empty, camera, nothing)
        assert votes.weights.shape == (0, labels) and votes.leaders().label.shape == (0,)
        with pytest.raises(ValueError, match="scene must have 0 primitives, got 60"):
            votes.add(scene, camera, nothing)


def centre_votes(listed: SplatLists, maps: torch.Tensor, labels: int) -> torch.Tensor:
    """SAGOnline's rule in plain torch, tile by tile, for Gaussians and one camera: [N, labels + 1]."""
    rows, ranges = listed.splats[0].double().cpu(), listed.lists.ranges.tolist()
    votes, columns = torch.zeros(rows.shape[0], labels + 1, dtype=torch.float64), -(-WIDTH // 16)
    for tile, (start, end) in enumerate(ranges):
        top, left = tile // columns * 16, tile % columns * 16
        part = maps[top : top + 16, left : left + 16].long().clamp(max=labels)
        y, x = torch.meshgrid(
            torch.arange(part.shape[0]) + top + 0.5, torch.arange(part.shape[1]) + left + 0.5, indexing="ij"
        )
        transmittance, alive = (
            torch.ones(part.shape, dtype=torch.float64),
            torch.ones_like(part, dtype=torch.bool),
        )
        for i in listed.lists.instances[start:end].tolist():
            dx, dy, (a, b, c) = x - rows[i, 0], y - rows[i, 1], rows[i, 4:7]
            voting = alive & (transmittance > 0.01) & (dx**2 + dy**2 <= 4)
            votes[i] += torch.bincount(part[voting], minlength=labels + 1)
            alpha = (rows[i, 2] * torch.exp(-(a * dx**2 + c * dy**2) / 2 - b * dx * dy)).clamp_max(0.99)
            after = torch.where(alpha >= 1 / 255, transmittance * (1 - alpha), transmittance)
            alive &= after > 1e-4
            transmittance = torch.where(alive, after, transmittance)
    return votes


def test_centre_rule_counts_pixels_near_the_centre(random_gaussians, toy_camera, precision):
    scene, camera = (
        random_gaussians(60, scale=0.1, opacity_logit=2, **precision),
        toy_camera(WIDTH, HEIGHT, **precision),
    )
    maps = random_maps(1, 3)[0]
    votes = Votes(scene.count, 3, scene.device, precision["dtype"], centre_rule=True)
    votes.add(scene, camera, maps)
    expected = centre_votes(splat_lists(scene, camera), maps, 3)
    actual = torch.cat([votes.weights, (votes.seen - votes.weights.sum(1))[:, None]], 1).double().cpu()
    assert (actual == actual.round()).all()
    assert (
        actual - expected
    ).abs().sum() <= 2 and expected.sum() > 200  # T may be closer to 0.01 than rounding


def test_operation_checks_its_arguments(random_gaussians, toy_camera, device):
    scene, cameras = random_gaussians(60, device=device), two_cameras(toy_camera, device=device)
    splats, (instances, ranges, _, plan), _ = splat_lists(scene, cameras)
    maps = random_maps(2, 3).to(device)
    options = {"labels": 3, "width": WIDTH, "height": HEIGHT, "max_alpha": 0.99}
    table = vote_table(60, 3, device)
    torch.library.opcheck(
        torch.ops.luxel.label_votes_.default,
        (*table, splats, instances, ranges, plan, maps, 3, WIDTH, HEIGHT, 0.99, False, "gaussians"),
        test_utils=("test_schema", "test_faketensor", "test_autograd_registration"),
    )
    lists = splats, instances, ranges, plan
    with pytest.raises(ValueError, match=r"maps must be \[2, 37, 50\]"):
        label_votes_(table, *lists, maps[:1], **options)
    with pytest.raises(ValueError, match=r"votes must be \[60, 5\]"):
        label_votes_(table, *lists, maps, **{**options, "labels": 4})
    with pytest.raises(ValueError, match=r"labels must be 1 to .* in such a table, got 40"):
        label_votes_(table, *lists, maps, **{**options, "labels": 40})
    with pytest.raises(ValueError, match=r"primitive must be one of .* got pyramids"):
        label_votes_(table, *lists, maps, **options, primitive="pyramids")
    with pytest.raises(ValueError, match="contiguous"):
        label_votes_(table._replace(votes=table.votes.T.contiguous().T), *lists, maps, **options)
    if device.type == "cuda":
        with pytest.raises(ValueError, match="fine tables are for the CPU only"):
            label_votes_(table._replace(votes=torch.stack([table.votes] * 2, -1)), *lists, maps, **options)
