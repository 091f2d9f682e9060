"""Signals and lost outputs at each phase of a command."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from ends import Case, Commands, attempt, cases

from luxel.render.raster.rasterize import rasterize
from luxel.scenes.synthetic.toy import ring_cameras, torus_knot, write_toy_capture

pytestmark = pytest.mark.skipif(
    not sys.platform.startswith("linux"), reason="processes and streams are those of Linux"
)
SAMPLE = [
    Case("TERM", "training"),
    Case("HUP", "training", stdout="gone", stderr="full"),
    Case("INT", "checkpoint", stdout="closed"),
    Case("TERM", "evaluation"),
    Case("HUP", "report", stderr="closed"),
    Case("TERM", "reading", stdout="full"),
    Case("INT", "start"),
    Case("TERM", "film"),
    Case("none", "training", stdout="full"),
    Case("none", "training", stdout="gone"),
    Case("none", "training", stdout="closed", stderr="closed"),
]
SAMPLED = set(SAMPLE)


@pytest.fixture(scope="module")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Commands, Path, Path]]:
    """A process that runs commands, a capture, and a finished run of it."""
    folder = tmp_path_factory.mktemp("ends")
    capture, case = folder / "knot", Case("none", "training")
    write_toy_capture(
        capture,
        lambda g, c: rasterize(g, c).rgb.numpy(),
        gaussians=torus_knot(300),
        cameras=ring_cameras(8, width=32, height=24),
    )
    with Commands() as commands:
        assert not attempt(commands, case, capture, folder, folder)
        yield commands, capture, folder / "run"


@pytest.mark.parametrize("case", SAMPLE, ids=str)
def test_it_ends_as_promised(case: Case, inputs: tuple[Commands, Path, Path], tmp_path: Path) -> None:
    assert attempt(inputs[0], case, *inputs[1:], tmp_path) == ""


@pytest.mark.slow
def test_it_ends_as_promised_whatever_comes(inputs: tuple[Commands, Path, Path], tmp_path: Path) -> None:
    problems = {}
    for number, case in enumerate(case for case in cases() if case not in SAMPLED):
        folder = tmp_path / str(number)
        folder.mkdir()
        if problem := attempt(inputs[0], case, *inputs[1:], folder):
            problems[case] = problem
    assert not problems
