"""Links to views, in the JavaScript that browsers run."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from luxel.viewer.web.shell import shell_server

LINK = Path(shell_server.__file__).with_name("static") / "link.js"

SCRIPT = """
import(process.argv[1]).then(({ decodeView, encodeView }) => {
  const results = JSON.parse(process.argv[2]).map((fragment) => {
    try {
      const view = decodeView(fragment);
      return { view, again: encodeView(view) };
    } catch (error) {
      return { error: error.message };
    }
  });
  console.log(JSON.stringify(results));
});
"""


def _decode(*fragments: str) -> list[dict[str, object]]:
    node = shutil.which("node")
    if node is None:
        pytest.skip("link test not run: node is not installed")
    done = subprocess.run(
        [
            node,
            "--no-warnings",
            "--experimental-default-type=module",
            "-e",
            SCRIPT,
            str(LINK),
            json.dumps(fragments),
        ],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    return json.loads(done.stdout)


GOOD = "position=1,-2.5,1e-3&target=0,0,0&up=0,0,1&fov=0.9"


def test_links_are_read_and_written_alike_and_malformed_ones_say_why() -> None:
    good, full, *bad = _decode(
        GOOD,
        GOOD + "&time=0.25&output=depth",
        "",
        "view",
        GOOD.replace("fov=0.9", "fov=NaN"),
        GOOD.replace("fov=0.9", "fov=9"),
        GOOD.replace("1e-3", "Infinity"),
        GOOD.replace("1e-3", "1e10"),
        GOOD.replace("1,-2.5,1e-3", "1,2"),
        GOOD.replace("1,-2.5,1e-3", "0,0,0"),
        GOOD.replace("up=0,0,1", "up=0,0,0"),
        GOOD.replace("up=0,0,1", "up=1,-2.5,0.001"),
        GOOD + "&time=soon",
        GOOD + "&x=" + "x" * 3000,
    )
    assert good == {
        "view": {"position": [1, -2.5, 0.001], "target": [0, 0, 0], "up": [0, 0, 1], "fov": 0.9},
        "again": GOOD.replace("1e-3", "0.001"),
    }
    assert full["view"]["time"] == 0.25 and full["view"]["output"] == "depth"  # type: ignore[index]
    assert full["again"] == good["again"] + "&time=0.25&output=depth"  # type: ignore[operator]
    for answer in bad:
        assert set(answer) == {"error"}, answer
