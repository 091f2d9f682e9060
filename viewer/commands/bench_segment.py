"""`luxel bench segment`."""

from __future__ import annotations

import sys
import typing
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import tyro

from luxel.render.bounds import Bounds, Folder, Options, Repeats, Steps
from luxel.render.primitives import PRIMITIVES, PrimitiveName
from luxel.render.segment.options import SolveOptions
from luxel.viewer.bench.segment.choices import PartName, ProviderName
from luxel.viewer.options import DeviceName, optional, pick_device

if TYPE_CHECKING:
    from luxel.viewer.bench.segment import measure

GPU_COUNT, CPU_COUNT = 1_000_000, 20_000
GPU_SIZE, CPU_SIZE = "960x540", "320x180"

LabelCount = Annotated[int, Bounds(2, 255)]
ViewCount = Annotated[int, Bounds(1, 1000)]


@dataclass
class SegmentBench(Options):
    """Measures segmentation: votes and label images, the network, and the quality of the labels.

    Times: votes of a label map and label images against the colour forward pass, in turns in one process. Network:
    encoder and decoder of MobileSAM. Quality: scenes of solids are made up and trained with each primitive, and
    labelled from true ids, from noisy ones of which a fifth is missing, and from one click on each object; scored is
    the mean IoU on views that are held out. Prints tables and writes OUT/segment.json, segment.md and segment.html,
    with the published figures of SAGOnline alongside luxel's.

    Examples:
        luxel bench segment
        luxel bench segment --only times --scene scene.ply --sizes 960x540 --labels 16 255
        luxel bench segment --only quality --primitives convexes --providers ids --cache made/
    """

    only: Annotated[tuple[PartName, ...], optional("{times,network,quality}...")] = ()
    """Parts to measure; default: all three."""
    scene: Annotated[tuple[Path, ...], optional("PATH...")] = ()
    """Scene files or run folders that times are taken on; default: a synthetic landscape of 1M
    Gaussians, or of 20k without a GPU."""
    sizes: Annotated[tuple[str, ...], optional("SIZE...")] = ()
    """Image sizes of times and network as WIDTHxHEIGHT; default: 960x540, or 320x180 without a GPU."""
    labels: tuple[LabelCount, ...] = (16, 255)
    """Numbers of labels that times are taken with."""
    primitives: Annotated[tuple[PrimitiveName, ...], optional("NAME...")] = ()
    """Primitives that are trained for the quality; default: all."""
    providers: Annotated[tuple[ProviderName, ...], optional("{ids,noisy-ids,mobile-sam}...")] = ()
    """Where masks come from: true ids, noisy ones, one click on each object; default: all three."""
    views: tuple[ViewCount, ...] = (6, 24)
    """Numbers of views with label maps."""
    clicked_views: tuple[ViewCount, ...] = (8,)
    """Numbers of views that MobileSAM looks at, at most, after a click on each object."""
    side: Annotated[int, Bounds(32, 2048)] = 256
    """Pixels of the square images that are trained on."""
    steps: Steps = 1000
    """Steps of the trainings."""
    solve: SolveOptions = field(default_factory=SolveOptions)
    cache: Annotated[Path | None, Folder(), optional("DIR")] = None
    """Folder that keeps made-up captures and trained scenes for later calls; default: nothing is stored."""
    iterations: Annotated[Repeats | None, optional("INT")] = None
    """Timed calls of each measurement; default: 100, or 8 without a GPU."""
    quick: bool = False
    """Tiny scenes and few repetitions, to check that everything works; the quality is meaningless."""
    out: Annotated[Path, Folder(), tyro.conf.arg(metavar="DIR")] = Path("bench")
    """Folder for the report; an earlier one in it is replaced."""
    device: DeviceName = "auto"
    """Device to measure on; auto: the GPU if luxel can use it, else the CPU."""

    def execute(self) -> int:
        """Measures, writes, prints; returns 1 where a part failed."""
        from luxel.viewer.bench import report
        from luxel.viewer.bench.raster import scenes
        from luxel.viewer.bench.segment import measure
        from luxel.viewer.bench.segment import report as segment_report

        device = pick_device(self.device)
        on_gpu = device.type == "cuda"
        sizes = [scenes.parse_size(text) for text in self.sizes or (GPU_SIZE if on_gpu else CPU_SIZE,)]
        settings = self._settings(on_gpu)
        given = [scenes.file_scene(path) for path in self.scene] if "times" in settings.parts else []
        chosen = given or [
            scenes.terrain_scene(GPU_COUNT if on_gpu else CPU_COUNT // (10 if self.quick else 1))
        ]
        report.check_writable(self.out, "segment")

        def keep(results: dict[str, Any]) -> None:
            print(_line(results["rows"][-1]), file=sys.stderr, flush=True)
            report.write(self.out, "segment", results, segment_report.TITLE, segment_report.sections(results))

        results = measure.run(chosen, sizes, device, settings, keep)
        parts, printed = segment_report.sections(results), segment_report.printed(results)
        return report.conclude(self.out, "segment", results, segment_report.TITLE, parts, printed=printed)

    def _settings(self, on_gpu: bool) -> measure.Settings:
        """The settings for the options, with defaults for this type of device."""
        from luxel.viewer.bench.segment import measure
        from luxel.viewer.bench.segment.scenes import Sizes

        side = min(self.side, 48) if self.quick else self.side
        iterations = (10 if self.quick else 100) if on_gpu else (2 if self.quick else 8)
        return measure.Settings(
            parts=self.only or typing.get_args(PartName),
            labels=self.labels,
            primitives=self.primitives or tuple(PRIMITIVES),
            providers=self.providers or typing.get_args(ProviderName),
            views=self.views,
            clicked_views=self.clicked_views,
            sizes=Sizes(side, self.steps, self.quick),
            warmup=10 if on_gpu and not self.quick else 1,
            iterations=self.iterations or iterations,
            cache=self.cache,
            solve=self.solve,
        )


def _line(row: dict[str, Any]) -> str:
    """A row in one line, for the terminal."""
    if row["failures"]:
        return f"{row['part']}: failed"
    if row["part"] == "quality":
        position = f"{row['primitive']}, {row['provider']}, {row['views']} views"
        return f"{position}: mIoU {100 * row['miou']:.2f} % in {row['seconds']:.1f} s"
    times = ", ".join(f"{name} {result['median']:.3g}" for name, result in row["times"].items())
    return f"{row['part']} at {row['width']}x{row['height']}: {times} ms"
