"""Trains radiance fields of captures for a minute each, and prints how good they are and what their steps are made of.

    python tests/bench/fields/scene_extent.py CAPTURE... [--seconds 60] [--set NAME=VALUE ...] [--kernels]
    python tests/bench/fields/scene_extent.py CAPTURE... --variant distortion=0.01,distortion_final=1e-3 \\
        --variant exposure=affine --draw transmittance=1e-2 --draw transmittance=1e-3,threshold=4,steps=1.5
    python tests/bench/fields/scene_extent.py CAPTURE... --steps 1000 --max-size 120 --miniature 8   (on a CPU)

For each capture, while it trains: rays a step, samples per ray that are marched and that are visible, the share of
these that carry weight, and occupied cells of each cascade. With --kernels, after it the twelve kernels (on a CPU,
operations) that a step spends most time in. --set changes the configuration; several values with commas between them
are compared one after another: --set extent=box,cascades,contracted. Each --variant is a set of changes of its own,
trained one after another; without one there is one without changes.

Each field is drawn as it was trained to be, and once more for each --draw: options of `Drawing`, and the constants
per_ray, longest, fewest and rows of the waves of a frame. For each a line of JSON is printed: held-out PSNR of renders
as they are and after an affine fit of their colours, SSIM, seconds of training, steps, ms a step, visible samples a
ray, field queries of a pixel of a frame, on a GPU frames of 1280x720 a second. --out appends these lines to a file.

Training stops after --seconds of steps. The learning rate, and the weight of the distortion, follow the greater of the
shares of the steps and of the seconds that are done, so that they reach their ends in that time, however fast the steps
are. With --steps the run ends by steps. --miniature N divides cells, places along a ray and points of the finest
level by N, for images whose sides are N times smaller: what small images show on a CPU then follows from as many
samples a pixel as large images have.
"""

from __future__ import annotations

import argparse
import itertools
import json
import statistics
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest import mock

import torch

from luxel.render.fields.capture import march
from luxel.render.fields.capture.posed_images import PosedImages
from luxel.render.fields.config import defaults
from luxel.render.fields.drawing import wavefront
from luxel.render.fields.radiance import MAX_DENSITY, RadianceConfig, RadianceField
from luxel.render.fields.radiance_config import Drawing
from luxel.render.fields.training.trainer import FieldTrainer
from luxel.render.geometry.camera import Camera
from luxel.render.native import best_device
from luxel.render.ops.field.march_rays import LEFT_OUT, RAYS, SAMPLES
from luxel.viewer.bench.fields.stages import counting, encoded_field
from luxel.viewer.bench.machine import machine_facts
from luxel.viewer.bench.timing import many_kernel_times, stage_times, times_ms
from luxel.viewer.commands.train_field import BATCH_ON_CPU
from luxel.viewer.scene_loading.capture_options import Origin
from luxel.viewer.scene_loading.field_data import FieldOrigin

MARKS = (0.02, 0.05, 0.1, 0.25, 0.5, 0.75, 1.0)  # shares of a run at which samples are counted
HEAVY = 1e-3  # weight in its ray's colour above which a sample counts as carrying some
COUNTED = 1000  # rays whose weights are looked at
CONSTANTS = {  # of a frame's waves
    "per_ray": (wavefront, "PER_RAY"),
    "longest": (wavefront, "LONGEST"),
    "fewest": (wavefront, "FEWEST"),
    "rows": (march, "ROWS_OF_WAVE"),
}
TIMED_VIEWS = 8  # frames are drawn from


def miniature(factor: int) -> type[RadianceField]:
    """Radiance fields with fewer cells and samples."""

    class Miniature(RadianceField):
        cells = RadianceField.cells // factor
        diagonal_samples = RadianceField.diagonal_samples // factor

    return Miniature


def reduced(config: RadianceConfig, factor: int) -> RadianceConfig:
    """With fewer points and longer steps; the distortion is in units of steps."""
    finest = None if config.finest is None else max(16, config.finest // factor)
    growth = None if config.growth is None else config.growth * factor
    first, last = (None if w is None else w * factor for w in (config.distortion, config.distortion_final))
    return replace(config, finest=finest, growth=growth, distortion=first, distortion_final=last)


def counts(field: RadianceField) -> tuple[float, str]:
    """Visible samples along a ray of one step, and further numbers in words; the next step stays as it is."""
    live = field.march.live.clone()
    with torch.no_grad():
        raw = field.march.samples(
            field.draw_batch(torch.Generator(field.device).manual_seed(1)), field.rays.images
        )
        seen = field.march.visible(raw, field.raw_densities) if field.config.marched_batches else raw
        depth = field.density(seen.positions)[:, 0].clamp(-MAX_DENSITY, MAX_DENSITY).exp()
    field.march.live.copy_(live)
    weights = torch.cat(list(_weights(depth * field.march.scale * seen.dt, seen.ranges)) or [seen.t[:0]])
    rays, fit = (max(1, int(s.counters[RAYS] - s.counters[LEFT_OUT])) for s in (raw, seen))
    occupied = field.march.occupancy.occupied().view(field.march.occupancy.cascades, -1).float().mean(1)
    visible = int(seen.counters[SAMPLES]) / fit
    return visible, (
        f"{int(live)} rays; samples a ray {int(raw.counters[SAMPLES]) / rays:.1f} marched, "
        f"{visible:.1f} visible, {_share(weights > HEAVY):.1f} % of these above {HEAVY}; "
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
    config: RadianceConfig,
    data: PosedImages,
    make: type[RadianceField],
    device: torch.device,
    draws: Sequence[dict[str, float]],
    kernels: bool,
) -> Iterator[dict[str, Any]]:
    """Trains and prints; yields what it measured, a row for each kind of drawing."""
    with tempfile.TemporaryDirectory() as folder:
        field = make(config).to(device)
        trainer = FieldTrainer(field, data, f"{folder}/run", device, say=lambda _: None)
        marks = list(MARKS)
        visible = 0.0
        while not trainer.finish_reason():
            trainer.step()
            while marks and trainer.progress >= marks[0]:
                trainer.loop.wait_for_device()
                visible, words = counts(field)
                print(f"  {100 * marks.pop(0):3.0f} %, step {trainer.steps_done}: {words}", flush=True)
        trainer.loop.wait_for_device()
        steps, seconds = trainer.steps_done, trainer.train_seconds
        trained = {"seconds": round(seconds, 2), "steps": steps, "ms_per_step": 1e3 * seconds / steps}
        for draw in ({}, *draws):
            with drawn_with(field, draw):
                drawn = measured_drawing(field, data, device)
            yield {"draw": draw, **trained, "visible_per_ray": visible, **drawn}
        if not kernels:
            return
        timed = many_kernel_times if device.type == "cuda" else stage_times
        for row in timed(lambda _: trainer.advance(), device, iterations=32 if device.type == "cuda" else 4)[
            :12
        ]:
            print(
                f"  {row['ms']:9.3f} ms {row['launches']:7.2f} launches a step  {row['kernel']}", flush=True
            )


@contextmanager
def drawn_with(field: RadianceField, draw: dict[str, float]) -> Iterator[None]:
    """Context in which a field is drawn with other options and constants."""
    with ExitStack() as stack:
        for name in draw.keys() & CONSTANTS.keys():
            stack.enter_context(mock.patch.object(*CONSTANTS[name], int(draw[name])))
        options = {name: value for name, value in draw.items() if name not in CONSTANTS}
        stack.enter_context(
            mock.patch.object(field.march, "drawing", field.march.drawing._replace(**options))
        )
        field.march._renderer = None  # its graphs have the constants
        yield
    field.march._renderer = None


def measured_drawing(field: RadianceField, data: PosedImages, device: torch.device) -> dict[str, float]:
    """Scores, queries of a pixel, and on a GPU the rate of frames."""
    with torch.no_grad():
        row = field.scores(aligned=True)
        views = list(data.held_out or data.views)[:TIMED_VIEWS]
        if device.type == "cuda":
            ms = statistics.median(t for view in views for t in frame_ms(field, view.camera, device))
            row |= {"frame_ms": ms, "fps": 1e3 / ms}
        cameras = [wide(view.camera) if device.type == "cuda" else view.camera for view in views]
        with counting(encoded_field(field)) as queries:
            for camera in cameras:
                field.render(camera.to(device))
    return row | {"queries_per_pixel": queries.rows / sum(c.width * c.height for c in cameras)}


def wide(camera: Camera) -> Camera:
    """A camera of 1280x720 where another stands, that sees as much from top to bottom."""
    focal = float(camera.intrinsics[1]) * 720 / camera.height
    intrinsics = torch.tensor([focal, focal, 640.0, 360.0])
    return replace(camera, intrinsics=intrinsics, width=1280, height=720, lens=None)


def frame_ms(field: RadianceField, camera: Camera, device: torch.device) -> list[float]:
    """Times of the frame of 1280x720 from where a camera stands, as high as its image."""
    moved = wide(camera).to(device)
    with torch.no_grad():
        return times_ms(lambda _: field.render(moved), device, warmup=3, iterations=10)


def changes_of(words: str) -> dict[str, Any]:
    """NAME=VALUE,NAME=VALUE as a dictionary."""
    pairs = (word.partition("=") for word in words.split(",") if word)
    return {name: _value(value) for name, _, value in pairs}


def draw_of(words: str) -> dict[str, float]:
    """As `changes_of`, of options of drawing.

    Raises:
        ValueError: there is no such option.
    """
    draw = changes_of(words)
    if unknown := draw.keys() - {*Drawing._fields, *CONSTANTS}:
        raise ValueError(
            f"--draw: {', '.join(sorted(unknown))}; there are {', '.join((*Drawing._fields, *CONSTANTS))}"
        )
    return draw


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
    parser.add_argument("--variant", action="append", type=changes_of, metavar="NAME=VALUE,...")
    parser.add_argument("--draw", action="append", type=draw_of, default=[], metavar="NAME=VALUE,...")
    parser.add_argument("--out", type=Path, help="file that the lines of JSON are appended to")
    parser.add_argument("--kernels", action="store_true")
    given = parser.parse_args()
    device = best_device()
    print(machine_facts(device), flush=True)
    limits = {"seconds": given.seconds} if given.steps is None else {"steps": given.steps}
    batch = {} if device.type == "cuda" else {"batch": BATCH_ON_CPU}
    for path in given.captures:
        data = FieldOrigin.of("radiance", path, Origin("", max_size=given.max_size)).open().data
        for common, own in itertools.product(variants(given.set), given.variant or [{}]):
            changes = {**common, **own}
            config = replace(defaults("radiance"), checkpoint_every=0, **{**limits, **batch, **changes})
            config.check()
            adapted = RadianceField.adapt_config(config, data)
            assert isinstance(adapted, RadianceConfig)
            shown = (*("extent", "cascades", "finest", "log2_entries", "sky", "distortion"), *changes)
            print(path, changes, {name: getattr(adapted, name) for name in shown}, flush=True)
            small = reduced(adapted, given.miniature)
            make = miniature(given.miniature)
            for row in train(small, data, make, device, given.draw, given.kernels):
                line = json.dumps({"capture": Path(path).name, "variant": changes, **row})
                print(line, flush=True)
                if given.out is not None:
                    with given.out.open("a") as file:
                        file.write(line + "\n")


if __name__ == "__main__":
    main()
