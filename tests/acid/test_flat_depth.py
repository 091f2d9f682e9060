"""A term of the loss is one file and one line, in both steps and in captured ones."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from additions import changed_lines, extended

HERE = Path(__file__).resolve().with_name("flat_depth")
RUNS, MOVING = HERE.with_name("flat_depth_runs.py"), HERE.parents[1] / "render"
CODE = "import runpy\nrunpy.run_path(sys.argv.pop(1), run_name='__main__')"
# The largest distance of the gradients of both steps, as a share of their norm. Conics of surfels that are seen from
# the side lose digits with the square of their aspect ratio.
APART = {"gaussians": 1e-5, "gaussians4d": 1e-5, "convexes": 1e-5, "surfels": 5e-4}


def ran(folder: Path, *what: str) -> Any:
    """What `flat_depth_runs.py` prints last, run in a copy of the sources with the term."""
    (folder / "source").mkdir()
    printed = extended(HERE, folder / "source").python(CODE, RUNS, MOVING, folder, *what)
    return json.loads(printed.splitlines()[-1])


def test_it_is_one_file_and_one_line() -> None:
    assert len([file for file in (HERE / "files").rglob("*") if file.is_file()]) == 1
    assert changed_lines(HERE) == 1


@pytest.mark.slow
def test_it_changes_what_both_steps_reach(tmp_path: Path) -> None:
    """Depth becomes flatter, where all views of a step have one size, with another rasterizer, and with two sizes."""
    reached = ran(tmp_path, "outcomes")
    for name, case in reached.items():
        without, within = case["left"]
        assert 0.5 * without < within < 0.999 * without, name
    assert reached["fused"]["calls"] == {"fused": 120, "general": 0}
    assert reached["another rasterizer"]["calls"] == {"fused": 0, "general": 120}
    assert reached["two sizes"]["calls"]["general"] > 40


@pytest.mark.slow
def test_both_steps_have_its_gradients(tmp_path: Path) -> None:
    for primitive, of_parameters in ran(tmp_path, "gradients", *APART).items():
        assert len(of_parameters) >= 3, primitive
        for name, (apart, norm) in of_parameters.items():
            assert norm > 0 and apart < APART[primitive], (primitive, name)


@pytest.mark.gpu
@pytest.mark.slow
def test_captured_steps_have_it(tmp_path: Path, gpu: torch.device) -> None:
    """They wait for nothing, and replayed ones have the bits of those that are called."""
    assert ran(tmp_path, "captured")["captures"] >= 1
