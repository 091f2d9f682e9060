"""Synthetic captures that parts of the record and other measurements share, generated into its cache."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from luxel.scenes.synthetic import write_courtyard
from luxel.viewer.bench.record.part import Setup
from luxel.viewer.bench.record.training import made_capture

PLACE = "place"


@contextmanager
def courtyard_capture(setup: Setup) -> Iterator[Path]:
    """The folder of the synthetic courtyard, `place` in the cache; generated on the setup's device where it is missing.

    Args:
        setup: whose cache, device and size: a quick one has a few small views, in a folder of its own.
    """

    def write(folder: Path) -> Path:
        if setup.quick:
            return write_courtyard(folder, views=8, width=48, height=32, points=400, device=setup.device)
        return write_courtyard(folder, device=setup.device)

    with made_capture(setup, PLACE + ("-quick" if setup.quick else ""), write) as folder:
        yield folder
