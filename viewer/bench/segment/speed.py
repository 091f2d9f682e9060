"""Votes of label maps and label images against the colour forward pass, taken in turns in one process.

Primitives have the label of the nearest of L random ones, and the label maps are images of these labels. Before any
time is taken votes are compared with the gradient of blended features, two runs with each other, and label images with
blended one-hot labels.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from luxel.render.geometry.camera import Camera
from luxel.render.ops.raster.label_render import label_render
from luxel.render.ops.raster.label_votes import label_votes_, vote_table
from luxel.render.primitives import Parameters
from luxel.render.raster.pipeline import blend, project, viewing
from luxel.render.raster.rasterize import rasterize
from luxel.render.segment import Votes
from luxel.render.segment.label_image import label_image
from luxel.render.segment.solve import solve
from luxel.render.segment.splat_lists import splat_lists
from luxel.viewer.bench.timing import compare_ms

# Milliseconds to reach on an NVIDIA H200 with a million Gaussians at 960x540, by number of labels and row.
GOALS = {
    (None, "votes"): 1.0,
    (16, "label image"): 1.5,
    (255, "label image"): 4.0,
    (None, "click to labels"): 150.0,
}
MAX_TO_COLOUR = 2.0  # milliseconds of votes, as a multiple of those of the colour forward pass
COLOUR = "colour"

Run = Callable[[int], object]


def nearest_of(scene: Parameters, count: int) -> Tensor:
    """The label of each primitive: the nearest of ``count`` random centres, uint8 [N]."""
    generator = torch.Generator().manual_seed(count)
    seeds = scene.centres[torch.randperm(scene.count, generator=generator)[:count].to(scene.device)]
    parts = [torch.cdist(part, seeds).argmin(1) for part in scene.centres.split(65536)]
    return torch.cat(parts).to(torch.uint8)


class LabelledCase:
    """A scene with L labels, seen by some cameras one after the other.

    Args:
        scene: N primitives.
        cameras: V cameras.
        count: L.
        time: of moving scenes.
    """

    def __init__(self, scene: Parameters, cameras: Sequence[Camera], count: int, time: float | None) -> None:
        self.scene, self.cameras, self.count, self.time = scene, cameras, count, time
        self.labels = nearest_of(scene, count)
        self.maps = [label_image(scene, camera, self.labels, count, time).labels for camera in cameras]
        self.listed = [splat_lists(scene, camera, time) for camera in cameras]
        self.projected = [project(scene, viewing(scene, camera, time=time)) for camera in cameras]
        self.votes = Votes(scene.count, count, scene.device)
        self.table = vote_table(scene.count, count, scene.device)

    def _vote(self, k: int, centre_rule: bool) -> None:
        splats, lists, settings = self.listed[k]
        label_votes_(
            self.table,
            splats,
            *(lists.instances, lists.ranges, lists.plan, self.maps[k][None]),
            labels=self.count,
            width=settings.width,
            height=settings.height,
            max_alpha=settings.max_alpha,
            centre_rule=centre_rule,
            primitive=settings.policy,
        )

    def _render(self, k: int) -> None:
        splats, lists, settings = self.listed[k]
        label_render(
            splats,
            *(lists.instances, lists.ranges, lists.plan, self.labels),
            label_count=self.count,
            width=settings.width,
            height=settings.height,
            max_alpha=settings.max_alpha,
            primitive=settings.policy,
        )

    def _click(self, k: int) -> None:
        """What follows a mask: its votes, the labels of the primitives, their image."""
        votes = Votes(self.scene.count, 2, self.scene.device)
        votes.add(self.scene, self.cameras[k], (self.maps[k] == 1).to(torch.uint8), time=self.time)
        label_image(self.scene, self.cameras[k], solve(self.scene, votes).labels, 2, self.time)

    def variants(self) -> dict[str, Run]:
        """What is timed, by name."""
        views, scene, time = len(self.cameras), self.scene, self.time

        def of_view(run: Callable[[int], object]) -> Run:
            return lambda i: run(i % views)

        return {
            COLOUR: of_view(lambda k: rasterize(scene, self.cameras[k], time=time)),
            "votes": of_view(lambda k: self.votes.add(scene, self.cameras[k], self.maps[k], time=time)),
            "label image": of_view(
                lambda k: label_image(scene, self.cameras[k], self.labels, self.count, time)
            ),
            f"{COLOUR}, stage": of_view(
                lambda k: blend(self.projected[k], self.listed[k].lists, None, self.listed[k].settings)
            ),
            "votes, stage": of_view(lambda k: self._vote(k, False)),
            "votes by the centre rule, stage": of_view(lambda k: self._vote(k, True)),
            "label image, stage": of_view(self._render),
            "click to labels": of_view(self._click),
        }

    def check(self) -> dict[str, float]:
        """Largest differences from the witnesses, in pixels of weight; two runs must have the same bits."""
        runs = [Votes(self.scene.count, self.count, self.scene.device) for _ in range(2)]
        for votes in runs:
            votes.add(self.scene, self.cameras[0], self.maps[0], time=self.time)
        if not torch.equal(runs[0].weights, runs[1].weights) or not torch.equal(runs[0].seen, runs[1].seen):
            raise RuntimeError("two runs gave different votes")
        chosen = sorted({0, 1, self.count - 1} & set(range(self.count)))
        features = torch.zeros(
            self.scene.count, len(chosen) + 1, device=self.scene.device, requires_grad=True
        )
        with torch.enable_grad():
            image = rasterize(self.scene, self.cameras[0], time=self.time, features=features).features
        assert image is not None
        masks = [self.maps[0] == k for k in chosen]
        weight = torch.stack([*masks, torch.ones_like(masks[0])], -1).to(image)
        expected = torch.autograd.grad(image, features, weight)[0]
        actual = torch.cat([runs[0].weights[:, chosen], runs[0].seen[:, None]], 1)
        scale = expected.abs().clamp_min(1)
        one_hot = torch.stack([self.labels == k for k in chosen], -1).float()
        frame = rasterize(self.scene, self.cameras[0], time=self.time, features=one_hot)
        rendered = label_image(self.scene, self.cameras[0], self.labels, self.count, self.time)
        assert frame.features is not None
        off = [
            (frame.features[..., k] - rendered.weights)[rendered.labels == label].abs().amax().item()
            for k, label in enumerate(chosen)
            if bool((rendered.labels == label).any())
        ]
        return {"votes": ((actual - expected) / scale).abs().max().item(), "labels": max(off, default=0.0)}


@torch.no_grad()
def measure(
    scene: Parameters,
    cameras: Sequence[Camera],
    count: int,
    time: float | None,
    *,
    warmup: int,
    iterations: int,
) -> dict[str, Any]:
    """Checks and times a scene with L labels.

    Returns:
        pairs: of tile and splat, mean over the cameras; off: differences from the witnesses; times: by name of
        `LabelledCase.variants`, with ``to_colour``, the median as a multiple of that of the colour pass.
    """
    case = LabelledCase(scene, cameras, count, time)
    off = case.check()
    pairs = sum(int(lists.lists.ranges[-1, 1]) for lists in case.listed) / len(case.listed)
    times = compare_ms(case.variants(), scene.device, warmup=max(warmup, len(cameras)), iterations=iterations)
    for name, result in times.items():
        colour = times[f"{COLOUR}, stage" if name.endswith("stage") else COLOUR]
        result["to_colour"] = result["median"] / colour["median"]
    return {"pairs": pairs, "off": off, "times": times, "out_of_room": case.votes.over_capacity}
