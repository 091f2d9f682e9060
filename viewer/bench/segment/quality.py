"""How good the labels are: mean IoU on views that are held out, and how far odd and even views agree."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from luxel.render.geometry.camera import View
from luxel.render.segment import (
    NO_LABEL,
    LabelScores,
    PropagateOptions,
    Propagation,
    Segmenter,
    SolveOptions,
    Votes,
    solve_maps,
)
from luxel.render.segment.label_map import label_map
from luxel.render.segment.solve import solve
from luxel.viewer.bench.segment.choices import ProviderName
from luxel.viewer.bench.segment.label_maps import clicks, given_maps, spread
from luxel.viewer.bench.segment.scenes import LabelledScene


def from_maps(
    made: LabelledScene, provider: ProviderName, count: int, options: SolveOptions
) -> dict[str, Any]:
    """Labels from the maps of ``count`` views: scores, milliseconds of a mask of votes, seconds of all."""
    views = spread(made.train, count)
    maps = given_maps(made, views, provider)
    started = time.perf_counter()
    solution, _, missing = solve_maps(made.scene, views, maps, made.count, options, **made.render)
    scored = scores(made, solution.labels)
    row = {
        "views": len(views),
        "seconds": time.perf_counter() - started,
        "filled": int(solution.filled.sum()),
        "missing": len(missing),
        "vote_ms": _vote_ms(made, views, maps),
        **scored,
    }
    if provider == "ids" and len(views) > 1:
        row["stability"] = stability(made, options)
    return row


def from_clicks(
    made: LabelledScene, segmenter: Segmenter, count: int, options: SolveOptions
) -> dict[str, Any]:
    """Labels from one click on each object, carried through at most ``count`` views."""
    prompts, started = clicks(made), time.perf_counter()
    looks = PropagateOptions(views=max(count, len({prompt.view for prompt in prompts})))
    result = Propagation(made.scene, made.train, segmenter, prompts, looks, options, render=made.render).run()
    seconds = time.perf_counter() - started
    row = {"views": len(result.maps), "seconds": seconds, "filled": int(result.solution.filled.sum())}
    row |= {"missing": len(result.skipped), "objects": len(prompts)}
    by_name = {view.name: view for view in made.train}
    looked = [by_name[name] for name in result.maps]
    row["vote_ms"] = _vote_ms(made, looked, list(result.maps.values()))
    return row | scores(made, result.solution.labels)


def scores(made: LabelledScene, labels: Tensor) -> dict[str, Any]:
    """mIoU of labels on the held-out views, the least IoU of a label, the fraction of right pixels, and what would be
    left of an object that is deleted, see `halos`: mean and most of all objects."""
    total = LabelScores(made.count)
    for view in made.test:
        total.add(_rendered(made, view, labels), made.truth[view.name])
    left = halos(made, labels)
    iou = total.iou[1:]
    known = iou[~iou.isnan()]
    least = float(known.min()) if len(known) else float("nan")
    scored = {"miou": total.mean_iou, "least_iou": least, "accuracy": total.accuracy}
    return scored | {"halo": float(left.mean()), "most_halo": float(left.max())} if len(left) else scored


def halos(made: LabelledScene, labels: Tensor) -> Tensor:
    """The part of each object that stays where its primitives are deleted, of 1, for each that is visible.

    That is the weight in its true masks of primitives with another label. Pixels within one of a border are left out:
    antialiasing mixes them.
    """
    votes = Votes(made.scene.count, made.count, made.scene.device)
    for view in made.test:
        _add(made, votes, view, without_borders(made.truth[view.name]))
    weights = votes.weights
    own = torch.arange(made.count, device=weights.device)
    left = (weights * (labels.to(weights.device)[:, None] != own)).sum(0) / weights.sum(0)
    return left[1:][~left[1:].isnan()]


def without_borders(labels: Tensor) -> Tensor:
    """A label map in which pixels next to one of another label have no vote, uint8 [H, W]."""
    planes = labels[None, None].float()
    most = torch.nn.functional.max_pool2d(planes, 3, 1, 1)[0, 0]
    least = -torch.nn.functional.max_pool2d(-planes, 3, 1, 1)[0, 0]
    return labels.masked_fill(most != least, NO_LABEL)


def bound(made: LabelledScene, options: SolveOptions) -> float:
    """mIoU on the held-out views of labels from their own true maps: what the primitives allow."""
    votes = _voted(made, made.test)
    return float(scores(made, solve(made.scene, votes, options).labels)["miou"])


def stability(made: LabelledScene, options: SolveOptions) -> float:
    """Fraction of the primitives, seen by odd and by even views, that both give one label."""
    odd, even = (_voted(made, made.train[start::2]) for start in (1, 0))
    a, b = (solve(made.scene, votes, options).labels for votes in (odd, even))
    visible = (odd.seen > 0) & (even.seen > 0) & (a != NO_LABEL)
    return float((a == b)[visible].float().mean())


def _voted(made: LabelledScene, views: Sequence[View]) -> Votes:
    votes = Votes(made.scene.count, made.count, made.scene.device)
    for view in views:
        _add(made, votes, view, made.truth[view.name])
    return votes


def _add(made: LabelledScene, votes: Votes, view: View, labels: Tensor) -> None:
    device = made.scene.device
    moment = view.time if made.scene.moves else None
    votes.add(made.scene, view.camera.to(device), labels.to(device), moment, **made.render)


def _rendered(made: LabelledScene, view: View, labels: Tensor) -> Tensor:
    camera, moment = view.camera.to(made.scene.device), view.time if made.scene.moves else None
    return label_map(made.scene, camera, labels, made.count, moment, **made.render).cpu()


def _vote_ms(made: LabelledScene, views: Sequence[View], maps: Sequence[Tensor]) -> float:
    """Median milliseconds of adding the votes of a label map, projection included."""
    votes = Votes(made.scene.count, made.count, made.scene.device)
    pairs = list(zip(views, maps, strict=True))

    def one(k: int) -> None:
        _add(made, votes, *pairs[k % len(pairs)])

    one(0)
    return statistics.median(_milliseconds(one, k, made.scene.device) for k in range(max(len(pairs), 5)))


def _milliseconds(run: Callable[[int], None], k: int, device: torch.device) -> float:
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    started = time.perf_counter()
    run(k)
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return 1e3 * (time.perf_counter() - started)
