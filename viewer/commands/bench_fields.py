"""`luxel bench fields`."""

from __future__ import annotations

import dataclasses
import functools
import sys
import typing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import tyro

from luxel.render.bounds import Bounds, Folder, Options, Positive, Repeats
from luxel.render.fields.applications import FieldName, application_type
from luxel.render.fields.encodings import ENCODINGS, EncodingName
from luxel.viewer.options import DeviceName, optional, pick_device

if TYPE_CHECKING:
    from luxel.viewer.bench.fields import measure as fields
    from luxel.viewer.bench.fields.datasets import FieldDataset

GPU_SIZES, CPU_SIZES = ("1920x1080", "3840x2160"), ("96x54", "192x108")


@dataclass
class Fields(Options):
    """Trains and draws neural fields: image, sdf, volume and radiance, each with each encoding.

    Each combination is trained for some seconds, evaluated, and rendered at each size. Prints tables and writes
    OUT/fields.json, fields.md and fields.html: milliseconds of a frame with percentiles, and whether that is 60 FPS;
    the shares of encoding, network and the rest of a frame; training samples per second; the quality after training;
    rooflines; and the field alone against plain torch, and against tiny-cuda-nn where that is installed.

    Examples:
        luxel bench fields
        luxel bench fields --only image sdf --encodings hash --seconds 3 --quick
        luxel bench fields --only radiance --capture capture/ --sizes 1920x1080
    """

    only: Annotated[tuple[FieldName, ...], optional("{image,sdf,volume,radiance}...")] = ()
    """Fields to measure; default: all four."""
    encodings: Annotated[tuple[EncodingName, ...], optional(f"{{{','.join(ENCODINGS)}}}...")] = ()
    """Encodings of positions; default: all."""
    sizes: Annotated[tuple[str, ...], optional("SIZE...")] = ()
    """Image sizes as WIDTHxHEIGHT; default: 1920x1080 and 3840x2160, or small ones without a GPU."""
    seconds: Annotated[Positive | None, optional("SECONDS")] = None
    """Seconds of training of each combination; default: 5, or 1 without a GPU."""
    capture: Annotated[Path | None, optional("CAPTURE")] = None
    """Capture for radiance fields, opened as by `luxel train`; slow without a GPU. Default: a synthetic scene."""
    iterations: Annotated[Repeats | None, optional("INT")] = None
    """Timed calls of each measurement; default: 20, or 4 without a GPU."""
    quick: bool = False
    """Fewer repetitions and views: for a first impression."""
    batch: Annotated[Annotated[int, Bounds(1, 2**24)] | None, optional("INT")] = None
    """Samples of a training step, and positions of a call in comparisons; default: 262,144, or 4,096 without a GPU."""
    log2_entries: Annotated[Annotated[int, Bounds(3, 28)] | None, optional("INT")] = None
    """Logarithm to base 2 of the largest number of entries of a level; default: 19, or 15 without a GPU."""
    ngpc: bool = False
    """Estimate how much faster each frame would be with the accelerator NGPC (Mubarik et al. 2023), too."""
    out: Annotated[Path, Folder(), tyro.conf.arg(metavar="DIR")] = Path("bench")
    """Folder for the report; an earlier one in it is replaced."""
    device: DeviceName = "auto"
    """Device to train and draw on; auto: the GPU if luxel can use it, else the CPU."""

    def execute(self) -> int:
        """Measures, writes, prints; returns 1 where a part failed."""
        from luxel.viewer.bench import report
        from luxel.viewer.bench.fields import measure as fields
        from luxel.viewer.bench.fields import report as fields_report
        from luxel.viewer.bench.fields.datasets import capture_dataset, make_dataset
        from luxel.viewer.bench.raster import scenes

        device = pick_device(self.device)
        settings = self._settings(device.type == "cuda")
        usual = GPU_SIZES if device.type == "cuda" else CPU_SIZES
        sizes = [scenes.parse_size(text) for text in self.sizes or usual]
        kinds: tuple[FieldName, ...] = self.only or typing.get_args(FieldName)
        encodings: tuple[EncodingName, ...] = self.encodings or tuple(ENCODINGS)
        small = device.type != "cuda"
        # Opened first: an error ends the command before anything is measured.
        given = None
        if self.capture is not None and any(_takes_capture(kind) for kind in kinds):
            given = capture_dataset(self.capture)
        report.check_writable(self.out, "fields")

        def keep(results: dict[str, Any]) -> None:
            row = results["rows"][-1]
            times = [f"{frame['times']['median']:.2f} ms" for frame in row["frames"]]
            position = f"{row['field']}, {row['encoding']} ({row['whole_seconds']:.1f} s)"
            print(f"{position}: {', '.join(times) or 'failed'}", file=sys.stderr, flush=True)
            report.write(self.out, "fields", results, fields_report.TITLE, fields_report.sections(results))

        def make(kind: FieldName) -> FieldDataset:
            if given is not None and _takes_capture(kind):
                return dataclasses.replace(given, kind=kind)
            return make_dataset(kind, small=small)

        makers = [functools.partial(make, kind) for kind in dict.fromkeys(kinds)]
        results = fields.run(makers, list(dict.fromkeys(encodings)), sizes, device, settings, keep)
        parts = fields_report.sections(results)
        return report.conclude(
            self.out, "fields", results, fields_report.TITLE, parts, printed=fields_report.PRINTED
        )

    def _settings(self, on_gpu: bool) -> fields.Settings:
        """The settings for the options, with defaults for this type of device."""
        from luxel.viewer.bench.fields import measure as fields

        seconds, iterations = (5.0, 20) if on_gpu else (1.0, 4)
        batch, log2_entries = (1 << 18, 19) if on_gpu else (1 << 12, 15)
        seconds = seconds if self.seconds is None else self.seconds
        batch = batch if self.batch is None else self.batch
        log2_entries = log2_entries if self.log2_entries is None else self.log2_entries
        if self.quick:
            iterations = 8 if on_gpu else 2
        iterations = iterations if self.iterations is None else self.iterations
        return fields.Settings(
            seconds=seconds,
            warmup=3 if on_gpu and not self.quick else 1,
            iterations=iterations,
            frame_seconds=0.3 if self.quick else 1.0,
            views=4 if on_gpu and not self.quick else 2,
            rows=batch,
            batch=batch,
            log2_entries=log2_entries,
            ngpc=self.ngpc,
        )


def _takes_capture(kind: FieldName) -> bool:
    return application_type(kind).data_type == "capture"
