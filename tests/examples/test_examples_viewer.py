"""The example of a viewer tool does what it says."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "viewer_tool.py"


def test_the_viewer_tool_counts_neighbours_of_a_click() -> None:
    run = subprocess.run(
        [sys.executable, str(EXAMPLE), "--check"], capture_output=True, text=True, timeout=120
    )
    assert run.returncode == 0, run.stderr
    count = re.fullmatch(r"(\d+) of 600 Gaussians", run.stdout.strip())
    assert count is not None, run.stdout
    assert 10 < int(count[1]) < 300, "a click on the knot has neighbours, but not all are near"
    assert len(EXAMPLE.read_text().splitlines()) < 80
