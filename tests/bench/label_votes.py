"""Votes of label maps and label images against the colour forward pass, with 16 and with 255 labels.

What it measures
    Milliseconds of a view, taken in turns. Whole: projection, lists and the stage, as `rasterize`, `Votes.add` and
    `label_image` run them; stage: blending, voting, rendering labels alone, from given lists. Primitives have the
    label of the nearest of L random ones, and the label maps are images of these labels. Before any time is taken
    votes are compared with the gradient of blended features, two runs with each other, and label images with blended
    one-hot labels. Goals: votes of a view within 1 ms with projection on an NVIDIA H200 with a million Gaussians, and
    within twice the colour forward pass everywhere; label images within 1.5 ms with 16 labels, 4 ms with 255.

How to run
    python tests/bench/label_votes.py FILE [--size 960x540] [--labels 16 255] [--device cuda] [--views 4]
    FILE: a scene file or a run folder; terrain: a synthetic scene of a million Gaussians.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor

from luxel.render.camera import Camera
from luxel.render.native import best_device
from luxel.render.ops.raster.label_render import label_render
from luxel.render.ops.raster.label_votes import label_votes_, vote_table
from luxel.render.pipeline import blend, project, viewing
from luxel.render.primitives import Parameters
from luxel.render.rasterize import rasterize
from luxel.render.segment import Votes, label_image
from luxel.render.segment.splat_lists import splat_lists
from luxel.viewer.bench.raster.scenes import file_scene, parse_size, terrain_scene
from luxel.viewer.bench.timing import compare_ms

Run = Callable[[int], object]


def nearest_of(scene: Parameters, count: int) -> Tensor:
    """The label of each primitive: the nearest of ``count`` random centres, uint8 [N]."""
    generator = torch.Generator().manual_seed(count)
    seeds = scene.centres[torch.randperm(scene.count, generator=generator)[:count].to(scene.device)]
    parts = [torch.cdist(part, seeds).argmin(1) for part in scene.centres.split(65536)]
    return torch.cat(parts).to(torch.uint8)


class Case:
    """A scene with L labels, seen by some cameras one after the other.

    Args:
        scene: N primitives.
        cameras: V cameras.
        count: L.
        time: of moving scenes.
    """

    def __init__(self, scene: Parameters, cameras: list[Camera], count: int, time: float | None) -> None:
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

    def variants(self) -> dict[str, Run]:
        """What is timed, by name."""
        views, scene, time = len(self.cameras), self.scene, self.time

        def of_view(run: Callable[[int], object]) -> Run:
            return lambda i: run(i % views)

        return {
            "colour, whole": of_view(lambda k: rasterize(scene, self.cameras[k], time=time)),
            "votes, whole": of_view(
                lambda k: self.votes.add(scene, self.cameras[k], self.maps[k], time=time)
            ),
            "labels, whole": of_view(
                lambda k: label_image(scene, self.cameras[k], self.labels, self.count, time)
            ),
            "colour, stage": of_view(
                lambda k: blend(self.projected[k], self.listed[k].lists, None, self.listed[k].settings)
            ),
            "votes, stage": of_view(lambda k: self._vote(k, False)),
            "votes by the centre rule, stage": of_view(lambda k: self._vote(k, True)),
            "labels, stage": of_view(self._render),
        }

    def check(self) -> dict[str, float]:
        """Largest differences from the witnesses, in pixels of weight; two runs must have the same bits."""
        runs = [Votes(self.scene.count, self.count, self.scene.device) for _ in range(2)]
        for votes in runs:
            votes.add(self.scene, self.cameras[0], self.maps[0], time=self.time)
        if not torch.equal(runs[0].weights, runs[1].weights) or not torch.equal(runs[0].seen, runs[1].seen):
            raise SystemExit("two runs gave different votes")
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


def main(arguments: list[str] | None = None) -> int:
    """Measures each number of labels; prints a table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("file", help="scene file, run folder, or terrain")
    parser.add_argument("--size", default="960x540")
    parser.add_argument("--labels", type=int, nargs="+", default=[16, 255])
    parser.add_argument("--device", default=str(best_device()))
    parser.add_argument("--views", type=int, default=4)
    parser.add_argument("--iterations", type=int)
    parser.add_argument("--time", type=float, help="of moving scenes")
    options = parser.parse_args(arguments)
    device = torch.device(options.device)
    source = terrain_scene(1_000_000) if options.file == "terrain" else file_scene(Path(options.file))
    with torch.no_grad():
        scene = source.build(device)
        cameras = [c.to(device) for c in source.look(scene.to("cpu"), *parse_size(options.size, "--size"))]
        iterations = options.iterations or (200 if device.type == "cuda" else 2 * options.views)
        for count in options.labels:
            case = Case(scene, cameras[: options.views], count, options.time)
            off = case.check()
            listed = sum(int(lists.lists.ranges[-1, 1]) for lists in case.listed) / len(case.listed)
            print(
                f"{source.name}: {scene.count} {scene.noun}, {options.size}, {count} labels, {listed:.0f} pairs of "
                f"tile and splat a view, on {device}. "
                f"Off the witness: votes {off['votes']:.1e}, labels {off['labels']:.1e}. "
                f"No room for further labels: {case.votes.out_of_room}"
            )
            results = compare_ms(case.variants(), device, warmup=options.views, iterations=iterations)
            for name, result in results.items():
                colour = results[f"colour, {name.rpartition(', ')[2]}"]["median"]
                print(f"  {name:32} {result['median']:9.3f} ms  {result['median'] / colour:5.2f} x colour")
    return 0


if __name__ == "__main__":
    sys.exit(main())
