"""Trains radiance fields of captures for a minute each, and prints how good they are and what their steps are made of.

    python tests/bench/fields/whole_places.py CAPTURE... [--seconds 60] [--set NAME=VALUE ...] [--kernels]
    python tests/bench/fields/whole_places.py CAPTURE... --steps 1000 --max-size 120 --miniature 8   (on a CPU)

For each capture: held-out PSNR and SSIM, steps, ms a step, on a GPU frames of 1280x720 a second, and while it trains
rays a step, samples per ray that are marched and that are visible, the share of these that carry weight, and occupied
cells of each cascade. With --kernels, after it the twelve kernels (on a CPU, operations) that a step spends most time
in. --set changes the configuration; several values with commas between them are compared one after another:
--set extent=box,cascades,contracted.

With --steps the run ends by steps. --miniature N divides cells, places along a ray and points of the finest level by
N, for images whose sides are N times smaller: what small images show on a CPU then follows from as many samples a
pixel as large images have.
"""

from __future__ import annotations

import argparse
import itertools
import json
import statistics
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import torch

from luxel.render.camera import Camera
from luxel.render.fields.config import FieldConfig, defaults
from luxel.render.fields.posed_images import PosedImages
from luxel.render.fields.radiance import MOST_DENSITY, RadianceConfig, RadianceField
from luxel.render.fields.training import FieldTrainer, in_words
from luxel.render.native import best_device
from luxel.render.ops.field.march_rays import LEFT_OUT, RAYS, SAMPLES
from luxel.viewer.bench.machine import machine_facts
from luxel.viewer.bench.timing import many_kernel_times, stage_times, times_ms
from luxel.viewer.commands.train_field import BATCH_ON_CPU
from luxel.viewer.field_data import FieldOrigin
from luxel.viewer.origin import Origin

MARKS = (0.02, 0.05, 0.1, 0.25, 0.5, 0.75, 1.0)  # shares of a run at which samples are counted
HEAVY = 1e-3  # weight in its ray's colour above which a sample counts as carrying some
COUNTED = 1000  # rays whose weights are looked at


def miniature(factor: int) -> type[RadianceField]:
    """Radiance fields with fewer cells and places."""

    class Miniature(RadianceField):
        cells = RadianceField.cells // factor
        places = RadianceField.places // factor

    return Miniature


def reduced(config: RadianceConfig, factor: int) -> RadianceConfig:
    """With fewer points and longer steps; the distortion is in units of steps."""
    finest = None if config.finest is None else max(16, config.finest // factor)
    growth = None if config.growth is None else config.growth * factor
    distortion = None if config.distortion is None else config.distortion * factor
    return replace(config, finest=finest, growth=growth, distortion=distortion)


def counts(field: RadianceField) -> str:
    """Samples along the rays of one step, in words; the next step stays as it is."""
    live = field.live.clone()
    with torch.no_grad():
        raw = field.march(field.draw_batch(torch.Generator(field.device).manual_seed(1)))
        seen = field.visible(raw) if field.config.rooms else raw
        depth = field.density(seen.positions)[:, 0].clamp(-MOST_DENSITY, MOST_DENSITY).exp()
    field.live.copy_(live)
    weights = torch.cat(list(_weights(depth * field.scale * seen.dt, seen.ranges)) or [seen.t[:0]])
    rays, fit = (max(1, int(s.counters[RAYS] - s.counters[LEFT_OUT])) for s in (raw, seen))
    occupied = field.occupancy.occupied().view(field.occupancy.cascades, -1).float().mean(1)
    return (
        f"{int(live)} rays; samples a ray {int(raw.counters[SAMPLES]) / rays:.1f} marched, "
        f"{int(seen.counters[SAMPLES]) / fit:.1f} visible, {_share(weights > HEAVY):.1f} % of these above {HEAVY}; "
        f"cells occupied {' '.join(f'{100 * share:.2f}' for share in occupied.tolist())} %"
    )


def _weights(depth: torch.Tensor, ranges: torch.Tensor) -> Iterator[torch.Tensor]:
    """Of the samples of some rays, by their optical depths."""
    for first, count in ranges[ranges[:, 1] > 0][:COUNTED].tolist():
        own = depth[first : first + count]
        yield (own - own.cumsum(0)).exp() * -torch.expm1(-own)


def _share(which: torch.Tensor) -> float:
    return 100 * float(which.float().mean()) if len(which) else 0.0


def train(
    config: FieldConfig, data: PosedImages, make: type[RadianceField], device: torch.device, kernels: bool
) -> None:
    """Trains, and prints."""
    with tempfile.TemporaryDirectory() as folder:
        field = make(config).to(device)
        trainer = FieldTrainer(field, data, f"{folder}/run", device, say=lambda _: None)
        marks = list(MARKS)
        while not trainer.finish_reason():
            trainer.step()
            while marks and trainer.progress >= marks[0]:
                trainer.loop.wait_for_device()
                print(
                    f"  {100 * marks.pop(0):3.0f} %, step {trainer.steps_done}: {counts(field)}", flush=True
                )
        trainer.loop.wait_for_device()
        steps, seconds = trainer.steps_done, trainer.train_seconds
        scores = in_words(trainer.evaluate())
        print(
            f"  {scores}: {steps} steps in {seconds:.1f} s, {1e3 * seconds / steps:.2f} ms a step", flush=True
        )
        if device.type == "cuda":
            views = list(data.held_out or data.views)[:8]
            ms = statistics.median(t for view in views for t in frame_ms(field, view.camera, device))
            print(f"  a frame of 1280x720: {ms:.2f} ms, {1e3 / ms:.0f} FPS", flush=True)
        if not kernels:
            return
        timed = many_kernel_times if device.type == "cuda" else stage_times
        for row in timed(lambda _: trainer.advance(), device, iterations=32 if device.type == "cuda" else 4)[
            :12
        ]:
            print(
                f"  {row['ms']:9.3f} ms {row['launches']:7.2f} launches a step  {row['kernel']}", flush=True
            )


def frame_ms(field: RadianceField, camera: Camera, device: torch.device) -> list[float]:
    """Times of the frame of 1280x720 from where a camera stands, as high as its image."""
    focal = float(camera.intrinsics[1]) * 720 / camera.height
    wide = replace(
        camera, intrinsics=torch.tensor([focal, focal, 640.0, 360.0]), width=1280, height=720, lens=None
    )
    wide = wide.to(device)
    with torch.no_grad():
        return times_ms(lambda _: field.render(wide), device, warmup=3, iterations=10)


def variants(words: Sequence[str]) -> Iterator[dict[str, Any]]:
    """All combinations of the values of NAME=VALUE,VALUE,... as changes of a configuration."""
    names = [word.partition("=")[0] for word in words]
    for values in itertools.product(*(word.partition("=")[2].split(",") for word in words)):
        yield {name: _value(value) for name, value in zip(names, values, strict=True)}


def _value(word: str) -> Any:
    try:
        return json.loads(word)
    except json.JSONDecodeError:
        return word


def main() -> None:
    """Each capture with each configuration."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("captures", nargs="+")
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--steps", type=int)
    parser.add_argument("--max-size", type=int)
    parser.add_argument("--miniature", type=int, default=1)
    parser.add_argument("--set", nargs="*", default=[], metavar="NAME=VALUE[,VALUE...]")
    parser.add_argument("--kernels", action="store_true")
    given = parser.parse_args()
    device = best_device()
    print(machine_facts(device), flush=True)
    limits = {"seconds": given.seconds} if given.steps is None else {"steps": given.steps}
    batch = {} if device.type == "cuda" else {"batch": BATCH_ON_CPU}
    for path in given.captures:
        data = FieldOrigin.of("radiance", path, Origin("", max_size=given.max_size)).open().data
        for changes in variants(given.set):
            config = replace(defaults("radiance"), checkpoint_every=0, **{**limits, **batch, **changes})
            config.check()
            adapted = RadianceField.adapt_config(config, data)
            assert isinstance(adapted, RadianceConfig)
            shown = ("extent", "cascades", "finest", "log2_entries", "sky", "distortion")
            print(path, changes, {name: getattr(adapted, name) for name in shown}, flush=True)
            train(reduced(adapted, given.miniature), data, miniature(given.miniature), device, given.kernels)


if __name__ == "__main__":
    main()
