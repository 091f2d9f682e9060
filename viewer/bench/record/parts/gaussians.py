"""Training Gaussians on given captures, and on the synthetic courtyard."""

from __future__ import annotations

import functools

from luxel.viewer.bench.record.captures import courtyard_capture
from luxel.viewer.bench.record.part import Headline, Part, Row, Setup
from luxel.viewer.bench.record.training import Training, training_row

SHOWN = "{psnr:.2f} dB in {seconds:.1f} s"


def rows(setup: Setup, *, training: Training, name: str, folder: str) -> list[Row]:
    """The row of one training."""
    return [training_row(setup, training, name, setup.path(folder))]


def courtyard_rows(setup: Setup, *, training: Training) -> list[Row]:
    """The row of one training on the synthetic courtyard."""
    with courtyard_capture(setup) as folder:
        return [training_row(setup, training, "courtyard", folder)]


def part(
    name: str,
    capture: str,
    folder: str,
    seconds: float,
    training: Training,
    label: str = "",
    table: str = "training",
) -> Part:
    """A part that trains once.

    Args:
        name: of the part, after "train-".
        capture: its name in the table.
        folder: below the data folder.
        seconds: expected wall time.
        training: how.
        label: of its row of the README; empty: it has none.
        table: that its row belongs to.
    """
    measure = functools.partial(rows, training=training, name=capture, folder=folder)
    headlines = (Headline(label, SHOWN),) if label else ()
    return Part(
        f"train-{name}", f"{capture}, {training.options}", table, seconds, measure, (folder,), headlines
    )


_CHAIR, _FOX, _PLUSH = ("chair", "chair"), ("fox", "fox/images"), ("plush", "plush")
_DEFAULT, _FAST = Training(settings=("steps=30000",)), Training(preset="fast")

PARTS = (
    part("chair", *_CHAIR, 45, _DEFAULT, "chair (NeRF-synthetic), 30,000 steps"),
    part(
        "chair-fast",
        *_CHAIR,
        25,
        Training(preset="fast", settings=("steps=12000",)),
        "chair, fast preset, 12,000 steps",
    ),
    part("fox", *_FOX, 35, _DEFAULT, "fox, from 50 images alone, 30,000 steps"),
    part("fox-fast", *_FOX, 15, _FAST),
    part("plush", *_PLUSH, 45, _DEFAULT, "plush (COLMAP), 30,000 steps"),
    part("plush-fast", *_PLUSH, 20, _FAST, "plush, fast preset"),
    Part(
        "train-courtyard",
        f"courtyard (generated), {_DEFAULT.options}",
        "training",
        70,
        functools.partial(courtyard_rows, training=_DEFAULT),
        headlines=(Headline("courtyard (generated), 30,000 steps", SHOWN),),
    ),
    Part(
        "train-courtyard-fast",
        f"courtyard (generated), {_FAST.options}",
        "training",
        20,
        functools.partial(courtyard_rows, training=_FAST),
    ),
)
