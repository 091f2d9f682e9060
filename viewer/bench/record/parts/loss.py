"""The photometric loss."""

from __future__ import annotations

from luxel.viewer.bench.record.part import Part, Row, Setup
from luxel.viewer.bench.train.loss_times import gradient_error, time_loss


def rows(setup: Setup) -> list[Row]:
    """A row per variant: with and without weights, called or replayed from a CUDA graph."""
    width, height = (64, 48) if setup.quick else (1920, 1080)
    error = gradient_error(width, height, setup.device)
    timing = time_loss(width, height, setup.device, 4 if setup.quick else 200)
    rows: list[Row] = []
    for variant, times in timing["times"].items():
        ms = times["median"]
        rate = timing["bytes"] / ms / 1e9
        rows.append(
            {
                "variant": variant,
                "size": f"{width}x{height}",
                "ms": ms,
                "tb_per_s": rate,
                "gradient_error": error,
            }
        )
        setup.note(f"{variant}: {ms:.4f} ms, {rate:.2f} TB/s")
    return rows


PARTS = (Part("loss", "photometric loss, forward + backward", "loss", 10, rows),)
