"""Votes of label maps and label images."""

from __future__ import annotations

import pytest
import torch

from luxel.render.geometry.camera import Camera
from luxel.render.segment import NO_LABEL, Votes
from luxel.render.segment.label_image import label_image


def halves(height: int, width: int) -> torch.Tensor:
    """Label 0 on the left, 1 on the right, no vote in the lowest rows."""
    maps = torch.zeros(height, width, dtype=torch.uint8)
    maps[:, width // 2 :] = 1
    maps[-3:] = NO_LABEL
    return maps


def test_votes_add_up(random_gaussians, toy_camera, precision):
    scene, camera = random_gaussians(80, **precision), toy_camera(40, 30, **precision)
    votes = Votes(scene.count, 2, scene.device, scene.means.dtype)
    votes.add(scene, camera, halves(30, 40))
    everywhere = Votes(scene.count, 1, scene.device, scene.means.dtype)
    everywhere.add(scene, camera, torch.zeros(30, 40, dtype=torch.uint8))
    torch.testing.assert_close(votes.seen, everywhere.weights[:, 0])
    missing = votes.seen - votes.weights.sum(1)
    assert (missing > -1e-4).all() and missing.max() > 0.1  # the rows without a vote


def test_a_batch_is_the_sum_of_its_views(random_gaussians, toy_camera, precision):
    scene = random_gaussians(80, **precision)
    cameras = [toy_camera(40, 30, **precision), toy_camera(40, 30, **precision)]
    maps = torch.stack([halves(30, 40), halves(30, 40).flip(1)])
    batch, singles = (Votes(scene.count, 2, scene.device, scene.means.dtype) for _ in range(2))
    batch.add(scene, Camera.stack(cameras), maps)
    for camera, image in zip(cameras, maps, strict=True):
        singles.add(scene, camera, image)
    torch.testing.assert_close(batch.weights, singles.weights)


def test_primitives_take_the_label_of_their_pixels(random_gaussians, toy_camera, precision):
    scene, camera = random_gaussians(80, scale=0.02, **precision), toy_camera(40, 30, **precision)
    votes = Votes(scene.count, 2, scene.device, scene.means.dtype)
    votes.add(scene, camera, halves(30, 40))
    leaders = votes.leaders()
    labels = label_image(scene, camera, leaders.label, 2).labels.cpu()
    voted = (halves(30, 40) != NO_LABEL) & (labels != NO_LABEL)
    assert (labels[voted] == halves(30, 40)[voted]).float().mean() > 0.9
    assert (leaders.label[leaders.top == 0] == NO_LABEL).all()
    biased = votes.leaders(background_bias=1e6).label
    assert (biased[votes.weights[:, 0] > 0] == 0).all()


@pytest.mark.parametrize(
    ("maps", "says"),
    [
        (torch.zeros(40, 30, dtype=torch.uint8), r"maps must be \[30, 40\]"),
        (torch.zeros(30, 40), "uint8"),
        (torch.full((30, 40), 7, dtype=torch.uint8), "labels below 2"),
    ],
)
def test_maps_that_do_not_fit(random_gaussians, toy_camera, maps, says):
    scene = random_gaussians(5)
    with pytest.raises(ValueError, match=says):
        Votes(5, 2, scene.device).add(scene, toy_camera(40, 30), maps)


def test_labels_that_do_not_fit(random_gaussians, toy_camera):
    with pytest.raises(ValueError, match=r"labels must be uint8 \[5\]"):
        label_image(random_gaussians(5), toy_camera(40, 30), torch.zeros(4, dtype=torch.uint8), 2)
    with pytest.raises(ValueError, match="labels must be 1 to 255"):
        Votes(5, 256)
