"""A training step of each primitive at the same number of (tile, primitive) pairs."""

from __future__ import annotations

from luxel.render.primitives import PRIMITIVES, Gaussians
from luxel.render.replay import release_memory
from luxel.render.storage.journal import scratch_folder
from luxel.scenes import open as open_capture
from luxel.viewer.bench.record.part import Part, Row, Setup
from luxel.viewer.bench.train.step_times import equal_scene, step_times, trained, trainer_for

AFTER, WINDOW, WINDOWS = 6000, 40, 9  # steps of training first; steps timed together, and how often


def rows(setup: Setup) -> list[Row]:
    """A row per primitive: the chair, trained as Gaussians, then trained on as each."""
    after, window, windows = (4, 2, 2) if setup.quick else (AFTER, WINDOW, WINDOWS)
    capture = open_capture(setup.path("chair"), max_size=48 if setup.quick else None)
    if setup.quick:
        capture.train = capture.train[:8]
    views, device = list(capture.train)[::8], setup.device
    step_rows: list[Row] = []
    with scratch_folder() as folder:
        most = 500 if setup.quick else None
        gaussians = trained(trainer_for(capture, f"{folder}/first", device, most=most), after)
        assert isinstance(gaussians, Gaussians)
        for primitive in PRIMITIVES:
            scene = equal_scene(primitive, gaussians, views, device)
            trainer = trainer_for(capture, f"{folder}/{primitive}", device, primitive, most=most)
            row = step_times(trainer, scene, views, window=window, windows=windows)
            row["ratio"] = row["step_ms"] / (step_rows or [row])[0]["step_ms"]
            setup.note(
                f"{row['primitive']}: {row['step_ms']:.3f} ms a step, {row['instances']:,} pairs a view"
            )
            step_rows.append(row)
            del trainer, scene
            release_memory()
    return step_rows


PARTS = (
    Part(
        "steps",
        "training steps of each primitive at equal pairs",
        "steps",
        45,
        rows,
        ("chair",),
    ),
)
