"""The tables of docs/results.md."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from luxel.viewer.bench.report import shown
from luxel.viewer.bench.strangers.promises import RULES


@dataclass(frozen=True)
class Column:
    """A column of a table.

    Args:
        key: of the value in a row.
        head: heading, with the unit.
        form: format of numbers; empty: the column holds words.
    """

    key: str
    head: str
    form: str = ""

    def cell(self, row: dict[str, Any]) -> str:
        """The cell of a row; a dash where there is no value."""
        value = row.get(self.key)
        if not self.form:
            return "–" if value is None else str(value)
        return shown(value, self.form)


@dataclass(frozen=True)
class ResultTable:
    """A table of results.

    Args:
        name: by which parts refer to it.
        title: heading.
        text: what was measured and how, in plain sentences.
        columns: the first holds the row's label.
    """

    name: str
    title: str
    text: str
    columns: tuple[Column, ...]


_TIMES = (
    Column("luxel_forward", "luxel forward (ms)", ".3f"),
    Column("luxel_both", "luxel forward + backward (ms)", ".3f"),
)
_RASTER_ENDS = (
    Column("psnr", "to float64 (dB)", ".1f"),
    Column("gradient_error", "worst gradient error", ".1e"),
    Column("peak_gb", "peak memory (GB)", ".2f"),
)
_TRAINING = (
    Column("capture", "capture"),
    Column("options", "options"),
    Column("steps", "steps", ",d"),
    Column("count", "primitives", ",d"),
    Column("psnr", "PSNR (dB)", ".2f"),
    Column("ssim", "SSIM", ".4f"),
    Column("lpips", "LPIPS", ".4f"),
    Column("seconds", "training (s)", ".1f"),
    Column("wall_seconds", "wall time (s)", ".1f"),
    Column("peak_gb", "peak memory (GB)", ".2f"),
)
_TRAINING_TEXT = (
    "Held-out views by the protocol of [the conventions](conventions.md#evaluation-protocol). Training: seconds in "
    "steps, without evaluations. Wall time: from the call to the last score, including opening the capture and all "
    "evaluations."
)
_LIKE_GAUSSIANS = "Measured as the training of Gaussians above."

TABLES = (
    ResultTable(
        "raster",
        "Rasterizer: Gaussians",
        "Median milliseconds of a frame, SH degree 3, forward and forward + backward from a given image gradient to "
        "every parameter; of each backend the fastest mode counts (luxel: called or replayed from a CUDA graph; "
        "gsplat: packed or unpacked, from activated parameters). The distance to the float64 reference is measured on "
        "a sample of tiles. Peak memory: parameters, gradients and all that forward + backward allocates.",
        (
            Column("scene", "scene"),
            Column("size", "image"),
            Column("count", "Gaussians", ",d"),
            *_TIMES,
            Column("gsplat_forward", "gsplat forward (ms)", ".3f"),
            Column("gsplat_both", "gsplat forward + backward (ms)", ".3f"),
            *_RASTER_ENDS,
            Column("gsplat_peak_gb", "gsplat peak memory (GB)", ".2f"),
        ),
    ),
    ResultTable(
        "primitives",
        "Rasterizer: other primitives",
        "The synthetic landscape of `luxel bench raster`, of each primitive as many as stated.",
        (
            Column("primitive", "primitive"),
            Column("scene", "scene"),
            Column("size", "image"),
            Column("count", "primitives", ",d"),
            *_TIMES,
            *_RASTER_ENDS,
        ),
    ),
    ResultTable("training", "Training: Gaussians", _TRAINING_TEXT, _TRAINING),
    ResultTable("moving", "Training: dynamic scenes, 4D Gaussians", _LIKE_GAUSSIANS, _TRAINING),
    ResultTable("convexes", "Training: convexes", _LIKE_GAUSSIANS, _TRAINING),
    ResultTable(
        "steps",
        "A training step of each primitive",
        "The same scene as each primitive, in such a size that a view asks for the same number of (tile, primitive) "
        "pairs; one view a step, fixed count, median of windows of steps.",
        (
            Column("primitive", "primitive"),
            Column("count", "primitives", ",d"),
            Column("instances", "pairs of a view", ",d"),
            Column("step_ms", "step (ms)", ".3f"),
            Column("ratio", "ratio to Gaussians", ".2f"),
        ),
    ),
    ResultTable(
        "fields",
        "Neural fields: training and frames",
        "Hash encoding. The score is that of `luxel eval`. A frame is timed from the camera to "
        "the image on the device.",
        (
            Column("field", "field"),
            Column("scene", "data"),
            Column("steps", "steps", ",d"),
            Column("seconds", "training (s)", ".1f"),
            Column("score", "score"),
            Column("samples_per_s", "samples/s (M)", ",.0f"),
            Column("frame_full", "frame at 1920x1080 (ms)", ".2f"),
            Column("frame_4k", "frame at 3840x2160 (ms)", ".2f"),
        ),
    ),
    ResultTable(
        "field_stages",
        "Neural fields: stages alone",
        "Hash grid 16 x 2 with 2^19 entries a level, network 32 -> 64 x 2 -> 16, 2^20 uniformly random positions a "
        "call. Training: forward and backward to table and weights, without an optimizer.",
        (
            Column("stage", "stage"),
            Column("luxel_inference", "luxel inference (ms)", ".3f"),
            Column("luxel_training", "luxel training (ms)", ".3f"),
            Column("tiny_inference", "tiny-cuda-nn inference (ms)", ".3f"),
            Column("tiny_training", "tiny-cuda-nn training (ms)", ".3f"),
        ),
    ),
    ResultTable(
        "strangers",
        "Captures made from the date",
        "Captures that nothing was tuned to, made from a seed: the date of the measurement. Each training is "
        "`luxel train` in a process of its own, without other options than those of the kind and preset; wall time is "
        "that of the process. gsplat: 7,000 steps with its schedules scaled to them, in at most as many Gaussians as "
        "luxel's default ended with. Mesh: mean distance of the mesh from the exact surface (accuracy), and of the "
        "surface from the mesh (completeness), in thousandths of the solid's radius. What is not as promised stands "
        f"below the table: {RULES}.",
        (
            Column("capture", "capture"),
            Column("seed", "seed"),
            Column("method", "training"),
            *_TRAINING[2:9],
            Column("mesh_accuracy", "mesh accuracy", ".2f"),
            Column("mesh_completeness", "mesh completeness", ".2f"),
        ),
    ),
    ResultTable(
        "loss",
        "Photometric loss",
        "L1 and SSIM of an image, value and gradient; the error is that of the gradient against float64 on the CPU.",
        (
            Column("variant", "variant"),
            Column("size", "image"),
            Column("ms", "forward + backward (ms)", ".4f"),
            Column("tb_per_s", "least bytes moved (TB/s)", ".2f"),
            Column("gradient_error", "gradient error", ".1e"),
        ),
    ),
)


def table_named(name: str) -> ResultTable:
    """The table of that name.

    Raises:
        KeyError: there is none.
    """
    return {table.name: table for table in TABLES}[name]
