"""Which view to look at next: one that shows an object well, much of it known from other views, and much that is new.

What views with a vote show of an object is known. A view of which little is known is a step too far: what the labels
show there are rather guesses from neighbours, and a mask that agrees with guesses confirms them.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from luxel.render.geometry.camera import View
from luxel.render.primitives.parameters import Parameters
from luxel.render.segment.votes import Votes

SIDE = 128  # pixels of the longer side of the images in which weights are counted
MIN_VISIBLE = 0.5  # of the area of an object in the view that shows most of it
MIN_KNOWN = 0.6  # of the area of an object that a view shows, which views with a vote have shown
KNOWN_AREA = 0.25  # of the area of a primitive in a view, which another view with a vote must show of it
SECOND_VOTE = 0.5  # worth of area that a single view has voted for, against that of area without a vote
MAX_VIEWS = 64  # that are compared
CHUNK = 1 << 16  # primitives that are summed at a time


Looked = Mapping[str, Collection[int]]
"""Names of views that were looked at, each with the labels that have no vote there."""


class ViewWeights:
    """What each primitive contributes to each of some views, counted once in small images.

    Args:
        scene: N primitives.
        views: V views; of more than `MAX_VIEWS` some are left out, evenly, but none of ``always``.
        always: names of views that are retained.
        options: of `luxel.render.raster.rasterize.rasterize` that change alpha.

    Attributes:
        views: those that were counted.
        weights: contribution of primitives to pixels, as the area of the surface that is visible, in pixels of the
            first view at the middle depth of the scene, float16 [V, N].
    """

    def __init__(
        self, scene: Parameters, views: Sequence[View], always: Sequence[str] = (), **options: Any
    ) -> None:
        stride = -(-len(views) // MAX_VIEWS)
        self.views = [
            view for index, view in enumerate(views) if index % stride == 0 or view.name in set(always)
        ]
        areas = [_areas(scene, view, options) for view in self.views]
        unit = areas[0][1].median().clamp_min(1e-30) if scene.count else 1.0
        self.weights = torch.stack([(covered * area / unit).clamp(max=6e4).half() for covered, area in areas])

    def index(self, name: str) -> int:
        """The place of a view in ``views``."""
        return [view.name for view in self.views].index(name)

    def of_objects(self, labels: Tensor, count: int) -> Tensor:
        """Visible area of each label in each view, float32 [V, L].

        Args:
            labels: of the primitives, uint8 [N].
            count: L; labels are below it.
        """
        return label_sums(self.weights, labels, count)

    def voted(self, looked: Looked, labels: Tensor) -> Tensor:
        """The largest and the second largest area of each primitive in views that have a vote for it, float32 [2, N].

        Args:
            looked: views that were looked at, and the labels without a vote there.
            labels: of the primitives, uint8 [N].
        """
        labels = labels.to(self.weights.device)
        top = torch.zeros(2, self.weights.shape[1], device=self.weights.device)
        for name, without in looked.items():
            weights = self.weights[self.index(name)].float()
            for label in without:
                weights = weights.masked_fill(labels == label, 0)
            top = torch.stack(
                [torch.maximum(top[0], weights), top[1].maximum(torch.minimum(top[0], weights))]
            )
        return top

    def known(self, name: str, looked: Looked, labels: Tensor) -> Tensor:
        """Which primitives views with a vote have shown well enough to tell what a view shows, bool [N].

        A vote of a pixel that a primitive hardly contributes to is a vote on what is in front of it.

        Args:
            name: of the view.
            looked, labels: see `voted`.
        """
        return self.voted(looked, labels)[0] >= KNOWN_AREA * self.weights[self.index(name)].float()


def label_sums(weights: Tensor, labels: Tensor, count: int, covered: Tensor | None = None) -> Tensor:
    """Sums of weights over the primitives of each label, float32 [V, L].

    Args:
        weights: of each primitive in V views, [V, N].
        labels: of the primitives, uint8 [N]; those from L on do not count.
        count: L.
        covered: [N], which is subtracted from the weights first, down to 0.
    """
    # Products of matrices: a million atomic additions to a few sums would wait for each other.
    labels = labels.to(weights.device)
    known = torch.arange(count, dtype=torch.uint8, device=weights.device)
    sums = torch.zeros(len(weights), count, device=weights.device)
    for first in range(0, len(labels), CHUNK):
        part = slice(first, first + CHUNK)
        of_part = weights[:, part].float()
        if covered is not None:
            of_part = (of_part - covered[part]).clamp_min_(0)
        sums += of_part @ (labels[part, None] == known).float()
    return sums


def next_view(
    weights: ViewWeights, looked: Looked, labels: Tensor, count: int, least: float = MIN_VISIBLE
) -> View | None:
    """The view to look at next.

    Of each object at least a fraction must be visible, compared with the view that shows most of it, and `MIN_KNOWN` of
    what is visible must be known. Of such views the one with most area that no view has voted for yet, as fractions of
    the objects added up, where area that one view has voted for counts `SECOND_VOTE`. Where no view is known so well,
    the one that is known best: the search goes from view to view around an object.

    Args:
        weights: of all views.
        looked: views that were looked at, and the labels without a vote there.
        labels: of the primitives, uint8 [N].
        count: L; labels 1 to L - 1 are objects.
        least: the fraction.

    Returns:
        The view; None where no view is left that shows an object.
    """
    areas = weights.of_objects(labels, count)[:, 1:]
    shown = areas / areas.amax(0).clamp_min(1e-12)
    once, twice = (
        label_sums(weights.weights, labels, count, covered)[:, 1:]
        for covered in weights.voted(looked, labels)
    )
    known = 1 - once / areas.clamp_min(1e-12)
    new = shown * (once + SECOND_VOTE * (twice - once)) / areas.clamp_min(1e-12)
    visible = shown >= least
    left = torch.tensor([view.name not in looked for view in weights.views], device=areas.device)
    for score in (
        torch.where(visible & (known >= MIN_KNOWN), new + 1e-3 * shown, 0),
        torch.where(visible, known + 1e-3 * shown, 0),
        shown,
    ):
        total = score.sum(1).masked_fill(~left, 0)
        if bool((total > 0).any()):
            return weights.views[int(total.argmax())]
    return None


def _areas(scene: Parameters, view: View, options: dict[str, Any]) -> tuple[Tensor, Tensor]:
    """Of each primitive in a view the sum of T alpha over pixels, and the area of a pixel at its depth; [N] each."""
    camera = view.camera.scaled(min(1.0, SIDE / max(view.camera.width, view.camera.height)))
    camera = camera.to(scene.device)
    votes = Votes(scene.count, 1, scene.device)
    maps = torch.zeros(camera.height, camera.width, dtype=torch.uint8, device=scene.device)
    votes.add(scene, camera, maps, time=view.time if scene.moves else None, **options)
    centres = torch.nan_to_num(scene.centres.detach().float())
    matrix = camera.world_to_cam.float()
    depth = centres @ matrix[2, :3] + matrix[2, 3]
    return votes.seen.float(), (depth / camera.intrinsics[0]).square()
