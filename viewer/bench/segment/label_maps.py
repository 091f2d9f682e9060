"""What labels are made of in the benchmark: true label maps, worse ones, and one click on each object."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from luxel.render.geometry.camera import View
from luxel.render.segment import Prompt
from luxel.render.segment.mask_prompt import innermost_point
from luxel.scenes.synthetic.id_segmenter import displaced
from luxel.viewer.bench.segment.choices import ProviderName
from luxel.viewer.bench.segment.scenes import LabelledScene

REACH = 3.0  # pixels by which borders are moved
MISSING = 0.2  # fraction of the masks that are missing
MIN_PIXELS = 30  # of an object in the view in which it is clicked


def spread(views: Sequence[View], count: int) -> list[View]:
    """Some of the views, evenly; all of them where there are fewer."""
    count = min(count, len(views))
    return [views[i * len(views) // count] for i in range(count)]


def with_noise(labels: Tensor, seed: int, count: int) -> Tensor:
    """A label map, uint8 [H, W], with borders moved by up to `REACH` pixels, in which objects are missing at random."""
    generator = torch.Generator().manual_seed(seed)
    out = displaced(labels, REACH, seed).clone()
    for label in range(1, count):
        if float(torch.rand((), generator=generator)) < MISSING:
            out[out == label] = 0
    return out


def given_maps(made: LabelledScene, views: Sequence[View], provider: ProviderName) -> list[Tensor]:
    """The label maps of views, true or noisy."""
    truth = [made.truth[view.name] for view in views]
    if provider == "ids":
        return truth
    return [with_noise(labels, seed, made.count) for seed, labels in enumerate(truth)]


def clicks(made: LabelledScene) -> list[Prompt]:
    """One click on each object, at its innermost point.

    All are in the view that shows most objects, and of such views in the one that shows the smallest of them largest;
    objects that it does not show are clicked where they are largest.
    """
    names = [view.name for view in made.train]
    shown = torch.stack(
        [torch.bincount(made.truth[name].flatten().int(), minlength=made.count) for name in names]
    )[:, 1:]
    large = shown >= MIN_PIXELS
    smallest = shown.masked_fill(~large, 2**30).amin(1)
    best = max(range(len(names)), key=lambda row: (int(large[row].sum()), int(smallest[row])))
    prompts = []
    for label in range(1, made.count):
        row = best if bool(large[best, label - 1]) else int(shown[:, label - 1].argmax())
        if int(shown[row, label - 1]):
            point = innermost_point(made.truth[names[row]] == label)
            prompts.append(Prompt(label, names[row], (point,)))
    return prompts
