"""From prompts in one view through the scene: the scene itself carries the objects from view to view.

Masks vote, the labels are rendered in the next view (`luxel.render.segment.next_view`), where they prompt the
segmenter, and of its masks the one votes in turn that agrees best with them (`luxel.render.segment.carried_mask`). A
view whose masks disagree has no vote, and another one replaces it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor

from luxel.render.errors import LuxelError
from luxel.render.geometry.camera import View
from luxel.render.primitives.parameters import Parameters
from luxel.render.segment.carried_mask import UNSURE, ShownLabels, carried_mask, inside
from luxel.render.segment.label_image import label_image
from luxel.render.segment.label_map import label_map
from luxel.render.segment.mask_choice import best_for
from luxel.render.segment.next_view import ViewWeights, label_sums, next_view
from luxel.render.segment.options import PropagateOptions, SolveOptions
from luxel.render.segment.segmenter import Box, MaskChoice, Point, Prompt, Segmenter, on_device
from luxel.render.segment.solve import Solution, nearest_primitives, solve
from luxel.render.segment.votes import MAX_LABELS, NO_LABEL, Votes

EMPTY = 0.9  # transmittance above which a pixel shows nothing


@dataclass
class Propagated:
    """What a propagation arrives at.

    Args:
        solution: labels of the primitives.
        maps: label maps by name of the view, uint8 [H, W] on the CPU, in the order in which they were made.
        skipped: (view, label, why) for each object without a vote in a view that was looked at.
        changes: see `changed_share`, by each view after the prompted ones.
        votes: of all maps.
    """

    solution: Solution
    maps: dict[str, Tensor] = field(default_factory=dict)
    skipped: list[tuple[str, int, str]] = field(default_factory=list)
    changes: list[float] = field(default_factory=list)
    votes: Votes | None = None


@dataclass
class _ViewMasks:
    """Masks and logits by label in one view."""

    logits: dict[int, Tensor]

    def label_map(self, missing: Tensor | None = None) -> Tensor:
        """uint8 [H, W]: overlaps belong to the higher logit; NO_LABEL where that is within `UNSURE` of 0, and where
        ``missing``, bool [H, W], else 0."""
        stacked = torch.stack([self.logits[label] for label in sorted(self.logits)])
        labels = torch.tensor(sorted(self.logits), dtype=torch.uint8, device=stacked.device)
        top, index = stacked.max(dim=0)
        silent = top.abs() < UNSURE if missing is None else (top.abs() < UNSURE) | (missing & (top <= 0))
        return torch.where(top > 0, labels[index], 0).to(torch.uint8).masked_fill(silent, NO_LABEL)


class Propagation:
    """Carries objects from prompted views through the others.

    Args:
        scene: N primitives.
        views: that may be looked at, and those of the prompts.
        segmenter: finds masks in their images.
        prompts: of labels 1 to L - 1, at least one each.
        options, solving: see there.
        look: the image of a view for the segmenter, uint8 [H, W, 3]; None: its image.
        on_view: called with the name of each view before it is looked at.
        render: options of `rasterize` that change alpha.

    Raises:
        LuxelError: prompts of a view that is not among the views, or outside of its image.
    """

    def __init__(
        self,
        scene: Parameters,
        views: Sequence[View],
        segmenter: Segmenter,
        prompts: Sequence[Prompt],
        options: PropagateOptions | None = None,
        solving: SolveOptions | None = None,
        *,
        look: Callable[[View], np.ndarray] | None = None,
        on_view: Callable[[str], None] | None = None,
        render: dict[str, Any] | None = None,
    ) -> None:
        self.scene, self.segmenter, self.prompts = scene, segmenter, list(prompts)
        self.views = {view.name: view for view in views}
        self.options, self.solving = options or PropagateOptions(), solving or SolveOptions()
        self.count = 1 + max((prompt.label for prompt in self.prompts), default=0)
        self._look, self._on_view, self._render = look or photograph, on_view, render or {}
        self._embedding: tuple[str, Any] = ("", None)
        self._nearest: Tensor | None = None
        for prompt in self.prompts:
            check_prompt(prompt, self.views)

    def run(self) -> Propagated:
        """Looks at views until the labels change no more.

        Raises:
            LuxelError: there are no prompts, or one means nothing: no mask, or no primitive below the mask.
        """
        if not self.prompts:
            raise LuxelError("There is nothing to segment.", "Give at least one click or box.")
        votes, result = self._first_views()
        weights = ViewWeights(self.scene, list(self.views.values()), list(result.maps), **self._render)
        area = weights.weights.float().amax(0)
        looked: dict[str, set[int]] = {name: set() for name in result.maps}
        voting = len(looked)
        while voting < self.options.views and len(looked) < 2 * self.options.views:
            labels = result.solution.labels
            view = next_view(weights, looked, labels, self.count)
            if view is None:
                break
            known = weights.known(view.name, looked, labels) & ~result.solution.filled
            before = len(result.skipped)
            maps = self._map_of(view, result.solution, known, result.skipped)
            result.maps[view.name] = maps.cpu()
            looked[view.name] = {label for _, label, _ in result.skipped[before:]}
            if bool((maps == NO_LABEL).all()):
                continue
            voting += 1
            self._add(votes, view, maps)
            result.solution = self._solved(votes)
            result.changes.append(changed_share(labels, result.solution.labels, area, self.count))
            if result.changes[-1] < self.options.least_change:
                break
        result.votes = votes
        return result

    def _first_views(self) -> tuple[Votes, Propagated]:
        """Votes and labels from the views with prompts; there the objects without a prompt are carried over too."""
        names = list(dict.fromkeys(prompt.view for prompt in self.prompts))
        for name in names:
            self._check_clicks(name)
        given = {name: self._prompted(name) for name in names}
        missing = {name: set(range(1, self.count)) - set(masks.logits) for name, masks in given.items()}
        result = Propagated(Solution(*(torch.empty(0),) * 3))
        rendered: dict[str, dict[int, ShownLabels]] = {name: {} for name in names}
        for label in sorted(set().union(*missing.values())):
            alone = self._alone(label, given)
            for name in names:
                if label in missing[name]:
                    rendered[name][label] = self._rendered(self.views[name], alone, ~alone.filled, 2)
        votes = Votes(self.scene.count, self.count, self.scene.device)
        for name in names:
            view = self.views[name]
            size = view.camera.height, view.camera.width
            unsure = torch.zeros(size, dtype=torch.bool, device=self.scene.device)
            for label, shown in rendered[name].items():
                logits = self._carried(view, label, shown, 1, result.skipped)
                if logits is not None:
                    given[name].logits[label] = logits
                else:
                    unsure |= shown.labels == 1
            maps = given[name].label_map(unsure)
            result.maps[name] = maps.cpu()
            self._add(votes, view, maps)
        result.solution = self._solved(votes)
        counts = torch.bincount(votes.leaders().label.long(), minlength=256)
        for prompt in self.prompts:
            if not int(counts[prompt.label]):
                raise LuxelError(
                    f"{prompt.view}: no primitives of the scene are below the mask of {_in_words(prompt)}.",
                    "Click on something that the scene shows, or train it longer.",
                )
        return votes, result

    def _check_clicks(self, name: str) -> None:
        """Raises LuxelError for a click where the scene shows next to nothing: segmenters find a mask there too."""
        view, none = self.views[name], torch.zeros(self.scene.count, dtype=torch.uint8)
        camera, time = view.camera.to(self.scene.device), view.time if self.scene.moves else None
        visible = label_image(self.scene, camera, none, 1, time, **self._render).transmittance
        for prompt in self.prompts:
            for x, y, positive in prompt.points if prompt.view == name else ():
                row, column = min(int(y), camera.height - 1), min(int(x), camera.width - 1)
                if positive and float(visible[row, column]) > EMPTY:
                    raise LuxelError(
                        f"{name}: the click at {x:g}, {y:g} is on nothing: the scene is empty there.",
                        "Click on an object that the scene shows.",
                    )

    def _prompted(self, name: str) -> _ViewMasks:
        """The masks of the prompts in a view, each the one of those proposed that `best_for` chooses."""
        masks, view = _ViewMasks({}), self.views[name]
        for label in dict.fromkeys(prompt.label for prompt in self.prompts if prompt.view == name):
            own = [prompt for prompt in self.prompts if (prompt.view, prompt.label) == (name, label)]
            points = [point for prompt in own for point in prompt.points]
            box = next((prompt.box for prompt in own if prompt.box is not None), None)
            if box is None and not any(positive for *_, positive in points):
                raise LuxelError(
                    f"{name}: there is a point next to an object, but none on it.",
                    "Click on it in this view too.",
                )
            others = [
                point
                for prompt in self.prompts
                if prompt.view == name and prompt.label != label
                for point in prompt.points
                if point[2]
            ]
            choice = self._masks(view, points, box)
            best = best_for(choice, points, others)
            if not bool(choice.masks[best].any()):
                raise LuxelError(
                    f"{name}: {_in_words(own[0])} is on nothing: the segmenter finds no mask there.",
                    "Click inside an object, or draw a box around it with --box VIEW X0 Y0 X1 Y1.",
                )
            masks.logits[label] = inside(choice, best)
        return masks

    def _alone(self, label: int, given: dict[str, _ViewMasks]) -> Solution:
        """Labels of the primitives, 1 for one object and 0 for all else, from the views in which it has a prompt."""
        votes = Votes(self.scene.count, 2, self.scene.device)
        for name, masks in given.items():
            if label in masks.logits:
                self._add(votes, self.views[name], (masks.label_map() == label).to(torch.uint8))
        return self._solved(votes)

    def _map_of(
        self, view: View, solution: Solution, known: Tensor, skipped: list[tuple[str, int, str]]
    ) -> Tensor:
        """The label map of a view: the segmenter's masks of what the labels show there; ``known``, bool [N]."""
        shown, masks = self._rendered(view, solution, known, self.count), _ViewMasks({})
        unsure = torch.zeros_like(shown.labels, dtype=torch.bool)
        for label in range(1, self.count):
            logits = self._carried(view, label, shown, label, skipped)
            if logits is not None:
                masks.logits[label] = logits
            else:
                unsure |= shown.labels == label
        return masks.label_map(unsure) if masks.logits else torch.full_like(shown.labels, NO_LABEL)

    def _carried(
        self, view: View, label: int, shown: ShownLabels, value: int, skipped: list[tuple[str, int, str]]
    ) -> Tensor | None:
        """Logits [H, W] of an object, prompted by what its labels show; None: the view has no vote for it.

        Args:
            view: to look at.
            label: of the object.
            shown: rendered labels, in which the object has ``value``.
            value: see there.
            skipped: gets why there is no vote.
        """

        def find_masks(points: Sequence[Point], box: Box | None) -> MaskChoice:
            return self._masks(view, points, box)

        logits = carried_mask(find_masks, shown, value, self.options)
        if isinstance(logits, Tensor):
            return logits
        if logits:
            skipped.append((view.name, label, logits))
        return None

    def _masks(self, view: View, points: Sequence[Point], box: Box | None) -> MaskChoice:
        if self._embedding[0] != view.name:
            if self._on_view is not None:
                self._on_view(view.name)
            self._embedding = (view.name, self.segmenter.embed(self._look(view)))
        given = self.segmenter.masks(self._embedding[1], points=list(points), box=box)
        return on_device(given, self.scene.device)

    def _rendered(self, view: View, solution: Solution, known: Tensor, count: int) -> ShownLabels:
        """What labels below ``count`` show in a view, those of ``known`` primitives, bool [N], apart; on the device of
        the scene."""
        camera, time = view.camera.to(self.scene.device), view.time if self.scene.moves else None
        labels = label_map(self.scene, camera, solution.labels, count, time, **self._render)
        if count == MAX_LABELS or bool(known.all()):
            return ShownLabels(labels, labels)
        apart = solution.labels.masked_fill(~known, count)
        voted = label_map(self.scene, camera, apart, count + 1, time, **self._render)
        return ShownLabels(labels, voted.masked_fill(voted == count, NO_LABEL))

    def _solved(self, votes: Votes) -> Solution:
        """Labels of all primitives; their neighbours are searched once."""
        if self._nearest is None and self.solving.neighbours and self.scene.count > 1:
            self._nearest = nearest_primitives(self.scene, self.solving.neighbours)
        return solve(self.scene, votes, self.solving, self._nearest)

    def _add(self, votes: Votes, view: View, maps: Tensor) -> None:
        camera, time = view.camera.to(self.scene.device), view.time if self.scene.moves else None
        votes.add(self.scene, camera, maps.to(self.scene.device), time, **self._render)


def changed_share(before: Tensor, after: Tensor, area: Tensor, count: int) -> float:
    """The largest fraction of an object's area that got or lost its label.

    Args:
        before, after: labels, uint8 [N].
        area: of each primitive, [N].
        count: L; labels 1 to L - 1 are objects.
    """

    areas = torch.stack([area, area * (before != after)])
    old, new = (label_sums(areas, labels, count)[:, 1:] for labels in (before, after))
    changed, total = old[1] + new[1], torch.maximum(old[0], new[0])
    return float((changed / total.clamp_min(1e-12)).max()) if count > 1 else 0.0


def photograph(view: View) -> np.ndarray:
    """The image of a view, uint8 [H, W, 3]; cut-out ones over white."""
    pixels = view.read()
    if pixels.alpha is None:
        return pixels.rgb
    alpha = pixels.alpha[..., None].astype(np.float32) / 255
    return np.round(pixels.rgb * alpha + 255 * (1 - alpha)).astype(np.uint8)


def check_prompt(prompt: Prompt, views: dict[str, View]) -> None:
    """Raises LuxelError for a prompt of no view, outside of its image, or with an empty box."""
    view = views.get(prompt.view)
    if view is None:
        raise LuxelError(f"{prompt.view}: there is no such view.", "Give the name of a view of the capture.")
    width, height = view.camera.width, view.camera.height
    boxes = [] if prompt.box is None else [prompt.box[:2], prompt.box[2:]]
    for x, y in [*(point[:2] for point in prompt.points), *boxes]:
        if not (0 <= x <= width and 0 <= y <= height):
            raise LuxelError(
                f"{prompt.view}: {x:g}, {y:g} is outside of the image, which has {width}x{height} pixels.",
                f"Give x from 0 to {width} and y from 0 to {height}.",
            )
    if prompt.box is not None and not (prompt.box[0] < prompt.box[2] and prompt.box[1] < prompt.box[3]):
        raise LuxelError(
            f"{prompt.view}: the box {' '.join(f'{edge:g}' for edge in prompt.box)} is empty.",
            "Give its upper left corner before its lower right one: X0 Y0 X1 Y1.",
        )


def _in_words(prompt: Prompt) -> str:
    if prompt.points:
        x, y, _ = prompt.points[0]
        return f"the click at {x:g}, {y:g}"
    return "the box " + " ".join(f"{edge:g}" for edge in prompt.box or ())
