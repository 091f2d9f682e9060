"""`luxel bench`."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, field, make_dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, Union

import tyro

from luxel.render.bounds import Bounds, Every, Folder, Megapixels, Options, Pixels, Repeats, Steps
from luxel.render.errors import LuxelError
from luxel.render.primitives import PRIMITIVES, PrimitiveName
from luxel.render.raster import Backend, rasterizer
from luxel.render.train.config import TrainConfig
from luxel.render.train.presets import preset
from luxel.viewer.commands.bench_fields import Fields
from luxel.viewer.commands.bench_record import Record
from luxel.viewer.commands.bench_segment import SegmentBench
from luxel.viewer.commands.bench_strangers import Strangers
from luxel.viewer.commands.bench_view import View
from luxel.viewer.help_texts import description
from luxel.viewer.options import DeviceName, LensUse, optional, pick_device

if TYPE_CHECKING:
    import torch

    from luxel.viewer.bench.raster import measure as raster
    from luxel.viewer.bench.raster import scenes
    from luxel.viewer.bench.train.measure import Variant

GPU_COUNTS, CPU_COUNTS = (100_000, 1_000_000, 3_000_000), (5_000, 20_000, 80_000)
GPU_SIZES, CPU_SIZES = ("1280x720", "1920x1080", "3840x2160"), ("320x180", "640x360")


@dataclass
class Raster(Options):
    """Times the rasterizer: inference, forward, and forward + backward, by scene and image size.

    Without options: synthetic landscapes of several sizes, at several resolutions (small ones without a GPU).
    Prints a table and writes OUT/raster.json, raster.md and raster.html: times with percentiles, time by stage and
    kernel, peak memory, rooflines against ceilings measured in the same run, and the distance of image and gradients
    from a float64 reference. With --against gsplat both draw the same scenes in turns, in one process; a backend whose
    image is under 60 dB to the reference is marked and not ranked.

    Examples:
        luxel bench raster
        luxel bench raster --scene scene.ply runs/first --sizes 1920x1080 --against gsplat
        luxel bench raster --data splats/ --only garden bonsai --out before/
        luxel bench raster --primitive convexes --counts 100000 500000
    """

    scene: Annotated[tuple[Path, ...], optional("PATH...")] = ()
    """Scene files or run folders to measure too, from a ring of views around each; default: none."""
    data: Annotated[Path | None, Folder(), optional("DIR")] = None
    """Folder that holds garden-points.npz and bonsai-7k.splat: the published scenes, with their goals;
    default: none."""
    primitive: PrimitiveName = "gaussians"
    """Primitive of the synthetic landscapes; scene files keep theirs."""
    counts: Annotated[
        tuple[Annotated[int, Bounds(100, 2**31 - 1, stated=False)], ...], optional("INT...")
    ] = ()
    """Primitives of the synthetic landscapes; default: 100k, 1M and 3M, or 5k, 20k and 80k without a GPU."""
    sizes: Annotated[tuple[str, ...], optional("SIZE...")] = ()
    """Image sizes as WIDTHxHEIGHT; default: 1280x720, 1920x1080 and 3840x2160 (small ones without a GPU), and for
    the published scenes those that their goals are for."""
    only: Annotated[tuple[str, ...], optional("NAME...")] = ()
    """Scenes to measure, by name or by the beginning of names: terrain, garden, garden-g5. Default: all."""
    against: Literal["gsplat"] | None = None
    """Measure another backend alongside luxel's."""
    backend: Backend = "luxel"
    """Measure this backend, alone or with --against first."""
    quality: bool = True
    """Compare with the float64 reference; takes longer than the timing."""
    quick: bool = False
    """Few repetitions and tiles: for a first impression."""
    iterations: Annotated[Repeats | None, optional("INT")] = None
    """Timed calls of each pass; default: 100, or 10 without a GPU."""
    out: Annotated[Path, Folder(), tyro.conf.arg(metavar="DIR")] = Path("bench")
    """Folder for the report; an earlier one in it is replaced."""
    device: DeviceName = "auto"
    """Device to draw on; auto: the GPU if luxel can use it, else the CPU."""

    def execute(self) -> int:
        """Measures, writes, prints; returns 1 where a part failed."""
        from luxel.viewer.bench import report
        from luxel.viewer.bench.raster import measure as raster
        from luxel.viewer.bench.raster import report as raster_report
        from luxel.viewer.bench.raster import scenes
        from luxel.viewer.bench.raster.variants import PASSES

        if self.primitive != "gaussians" and (self.data is not None or self.against is not None):
            raise LuxelError(
                "--data and --against are for Gaussians.", "Leave them out, or leave --primitive out."
            )
        sizes = [scenes.parse_size(text) for text in self.sizes]
        device = pick_device(self.device)
        backends = _backends(self.backend, self.against, device)
        on_gpu = device.type == "cuda"
        usual = [scenes.parse_size(text) for text in (GPU_SIZES if on_gpu else CPU_SIZES)]
        chosen = scenes.chosen(self._scenes(on_gpu), self.only)
        report.check_writable(self.out, "raster")

        def keep(results: dict[str, Any]) -> None:
            row = results["rows"][-1]
            noun = PRIMITIVES[row["primitive"]].noun
            position = f"{row['scene']} {row['width']}x{row['height']}, {row['gaussians']:,} {noun}"
            times = [result["times"][PASSES[-1]]["median"] for result in row["results"].values()]
            print(
                f"{position}: " + ", ".join(f"{ms:.2f}" for ms in times) + " ms", file=sys.stderr, flush=True
            )
            report.write(self.out, "raster", results, raster_report.TITLE, raster_report.sections(results))

        rows = [(scene, sizes or scene.sizes or usual) for scene in chosen]
        results = raster.run(rows, backends, device, self._settings(on_gpu), keep)
        return report.conclude(
            self.out, "raster", results, raster_report.TITLE, raster_report.sections(results)
        )

    def _scenes(self, on_gpu: bool) -> list[scenes.Scene]:
        from luxel.viewer.bench.raster import scenes

        counts = self.counts or (GPU_COUNTS if on_gpu else CPU_COUNTS)
        published = scenes.data_scenes(self.data) if self.data else []
        own = [scenes.file_scene(path) for path in self.scene]
        return [*own, *published, *(scenes.terrain_scene(count, self.primitive) for count in counts)]

    def _settings(self, on_gpu: bool) -> raster.Settings:
        from luxel.viewer.bench.raster import measure as raster

        if on_gpu:
            warmup, iterations, tiles = (3, 10, 16) if self.quick else (10, 100, 64)
        else:
            warmup, iterations, tiles = (1, 4, 2) if self.quick else (2, 10, 4)
        return raster.Settings(warmup, self.iterations or iterations, tiles if self.quality else 0)


@dataclass
class TrainBench(Options):
    """Trains captures and reports quality, training time, and quality over time.

    CAPTURE is whatever `luxel train` opens. Prints a table and writes OUT/train.json, train.md and train.html with
    curves of held-out PSNR over training time, which excludes evaluations. With --against gsplat the same trainer fits
    the same data from the same start once more with gsplat's rasterizer; a result more than 0.1 dB under the best is
    marked and not ranked. A competitor may train with settings of its own, which the report lists. The report has for
    each the training time from which the first run is ahead. gsplat-default and gsplat-mcmc are gsplat's own training
    with its two strategies, as it publishes them, on the same views and points, measured the same.

    Examples:
        luxel bench train capture/
        luxel bench train photos/ chair/ --steps 7000 --against gsplat
        luxel bench train capture/ --set strategy.kind=mcmc init.sh_degree=2 --steps 3000
        luxel bench train capture/ --against luxel:primitive=convexes,preset=light,max_gaussians=100000
        luxel bench train capture/ --preset fast --against gsplat \\
            --against gsplat:preset=default,strategy.kind=adaptive,steps=7000
        luxel bench train capture/ --preset default --against gsplat-default --against gsplat-mcmc:count=luxel
        luxel bench train capture/ --preset default --against gsplat-default --seeds 3
    """

    captures: Annotated[
        tuple[Path, ...],
        tyro.conf.Positional,
        tyro.conf.arg(metavar="CAPTURE...", help_behavior_hint="(required)"),
    ]
    """Captures to train on, as for `luxel train`."""
    steps: Annotated[Steps | None, optional("INT")] = None
    """Length of each run; default: that of the preset, else 7000, or 500 without a GPU."""
    primitive: PrimitiveName = "gaussians"
    """What the scene is made of."""
    preset: Annotated[str | None, optional("NAME")] = None
    """Preset to start from, as of `luxel train`; default: default, with fewer steps."""
    set: Annotated[tuple[str, ...], optional("NAME=VALUE...")] = ()
    """Fields of the training configuration, as config.json names them, for example rates.means=1e-4
    strategy.kind=mcmc; default: none."""
    seeds: Annotated[int, Bounds(1, 1000)] = 1
    """Runs of each variant on each capture, the first with the seed of its configuration (--set seed=N), each further
    one with the next number. With more than one the report has means, and half of the range of PSNR."""
    evaluations: Annotated[int, Bounds(1, 10**6, stated=False)] = 10
    """Measurements on the held-out views, evenly over the steps of each run. Four more come early: at 1/2, 1/4, 1/8
    and 1/16 of the first interval."""
    against: Annotated[
        tuple[str, ...],
        tyro.conf.UseAppendAction,
        optional("BACKEND[:NAME=VALUE,...]"),
    ] = ()
    """Train with this too; may be given several times. A backend alone, such as gsplat, uses exactly the settings of
    the first run. Settings after a colon, such as gsplat:steps=7000,rates.means=1e-4, change them as --set does. With
    preset=NAME or primitive=NAME among them, they start from the values of that preset or primitive, and of --preset,
    --steps and --set only a background applies. gsplat-default and gsplat-mcmc train as gsplat does; they take
    steps=N (default: 30000, its own), count=N or count=luxel (at most as many Gaussians; luxel: as the first run ends
    with), scaled=true (all schedules scaled to the steps) and, the first, reset=true (resets opacities, as its
    documentation says and release 1.5.3 does not)."""
    backend: Backend = "luxel"
    """Train with this backend, alone or with --against first."""
    holdout_every: Every = 8
    """Hold out every Nth view, beginning with the first, if the data set names no test views; 0: none."""
    max_size: Annotated[Pixels | None, optional("PIXELS")] = None
    """Shrink images to at most this many pixels on their longer side; default: full size."""
    max_megapixels: Annotated[Megapixels | None, optional("N")] = None
    """Refuse images of more megapixels; default: 400."""
    masks: Literal["auto", "cutout", "ignore", "none"] = "auto"
    """Masks and alpha, as in `luxel train`."""
    lens: LensUse = "undistort"
    """Images of a fisheye or a distorted lens, as in `luxel train`."""
    lpips: bool = True
    """Measure LPIPS too, at the end."""
    out: Annotated[Path, Folder(), tyro.conf.arg(metavar="DIR")] = Path("bench")
    """Folder for the report; an earlier one in it is replaced."""
    device: DeviceName = "auto"
    """Device to train on; auto: the GPU if luxel can use it, else the CPU."""

    def execute(self) -> int:
        """Trains, writes, prints; returns 1 where a run failed."""
        from luxel.viewer.bench import report
        from luxel.viewer.bench.train import measure as train
        from luxel.viewer.bench.train import report as train_report
        from luxel.viewer.bench.train.variants import TrainVariant
        from luxel.viewer.progress import describe, opening
        from luxel.viewer.scene_loading.capture_options import Origin

        if not self.captures:
            raise LuxelError("There is no capture to train on.", "luxel bench train CAPTURE")
        device = pick_device(self.device)
        variants = self.variants(device)
        opened = []
        for path in self.captures:
            origin = Origin(
                str(path.resolve()),
                self.holdout_every,
                self.max_size,
                self.masks,
                self.max_megapixels,
                lens=self.lens,
            )
            with opening("opening the capture") as on_progress:
                opened.append(origin.open(on_progress))
            for variant in variants:
                if isinstance(variant, TrainVariant) and variant.config.depth != "none":
                    origin.add_depth(opened[-1], variant.config)
            describe(opened[-1])
        report.check_writable(self.out, "train")

        def keep(results: dict[str, Any]) -> None:
            report.write(self.out, "train", results, train_report.TITLE, train_report.sections(results))

        results = train.run(opened, variants, device, keep, seeds=self.seeds)
        return report.conclude(self.out, "train", results, train_report.TITLE, train_report.sections(results))

    def variants(self, device: torch.device) -> list[Variant]:
        """The variants to train, the first compared with the others; each backend works on the device.

        Raises:
            LuxelError: an unknown setting, or a backend that cannot draw on the device.
        """
        from luxel.viewer.bench.train.variants import TrainVariant, parse_variant

        first = TrainVariant(self.backend, replace(self.configuration(device), backend=self.backend))
        first.config.check()
        chosen: dict[str, Variant] = {first.name: first}
        for words in self.against:
            chosen.setdefault(words, parse_variant(words, first.config, self.evaluations))
        for one in chosen.values():
            one.require(device)
        return list(chosen.values())

    def configuration(self, device: torch.device) -> TrainConfig:
        """The preset with the options applied.

        Raises:
            LuxelError: an unknown field or preset, or an invalid value.
        """
        from luxel.viewer.bench.train.variants import configured

        config = preset(self.preset or "default", self.primitive)
        if self.steps is not None or not self.preset:
            config = config.with_steps(self.steps or (7000 if device.type == "cuda" else 500))
        values = config.to_dict() | {"lpips": self.lpips, "save_renders": 0}
        try:
            return configured(values, self.set, self.evaluations)
        except LuxelError as error:
            raise LuxelError(f"--set {' '.join(self.set)}: {error.problem}", error.remedy) from error


@dataclass
class Compare(Options):
    """Compares two reports of one benchmark, row by row: what became faster, what slower.

    Prints a table of both figures and their ratio, after / before; figures worse by more than 2 % (PSNR: 0.1 dB) are
    marked. Refuses reports of different devices, scenes or sizes unless --force is given.

    Examples:
        luxel bench compare before/raster.json after/raster.json
    """

    before: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="BEFORE.json")]
    """Report of the earlier state."""
    after: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="AFTER.json")]
    """Report of the later state."""
    force: bool = False
    """Compare what both reports have, also from different devices."""

    def execute(self) -> int:
        """Prints the comparison."""
        from luxel.viewer.bench import report
        from luxel.viewer.bench.compare import compare, load_report

        comparison = compare(load_report(self.before), load_report(self.after), force=self.force)
        print(comparison.text)
        for table in comparison.tables:
            print(report.markdown_table(table))
        return 0


SUBCOMMANDS = {
    "raster": Raster,
    "train": TrainBench,
    "fields": Fields,
    "segment": SegmentBench,
    "view": View,
    "strangers": Strangers,
    "compare": Compare,
    "record": Record,
}


def _choice(*, summary: bool) -> Any:
    """The type of a subcommand, described by the first line of its docstring or by all of it."""
    choices = []
    for name, kind in SUBCOMMANDS.items():
        text = (kind.__doc__ or "").split("\n")[0] if summary else description(kind)
        choices.append(Annotated[kind, tyro.conf.subcommand(name, description=text, prefix_name=False)])
    return Annotated[Union[tuple(choices)], tyro.conf.arg(name="")]  # noqa: UP007 - made at run time


@dataclass
class Bench(Options):
    """Measures luxel on this machine: rasterizer, training, fields, segmentation or viewer, alone or alongside peers.

    Everything is warmed up first. Times of the rasterizer are taken in turns and given as medians with the 10th and
    90th percentile, trainings as curves of quality over time, with clocks, power, driver, versions and commit. Results
    are written as JSON, as Markdown and as one page with plots. Without a subcommand the rasterizer is measured.

    Examples:
        luxel bench
        luxel bench raster --against gsplat --sizes 1920x1080
        luxel bench train capture/ --steps 3000
        luxel bench fields --only image --encodings hash
        luxel bench compare before/raster.json after/raster.json
        luxel bench record --data captures/
    """

    what: Any = field(default_factory=Raster)
    """What to measure."""

    @staticmethod
    def variant(arguments: Sequence[str]) -> type:
        """The command for its arguments: without a subcommand, help texts list the subcommands in a line each."""
        what = _choice(summary=not set(SUBCOMMANDS) & set(arguments))
        return make_dataclass(
            Bench.__name__,
            [("what", what, field(default_factory=Raster))],
            bases=(Bench,),
            namespace={"__doc__": Bench.__doc__},
        )

    def execute(self) -> int:
        """Runs the chosen benchmark; returns the exit status."""
        return self.what.execute()


def _backends(first: Backend, against: Backend | None, device: torch.device) -> list[Backend]:
    """The backends to measure, each of which works on the device."""
    chosen: list[Backend] = [first]
    if against is not None and against != first:
        chosen.append(against)
    for backend in chosen:
        rasterizer(backend, device)
    return chosen
