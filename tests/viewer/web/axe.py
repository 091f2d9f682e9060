"""axe-core (Deque, MPL-2.0), which examines a page for faults of accessibility: a tool of tests, from npm."""

from __future__ import annotations

import os
import shutil
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

VERSION = "4.14.1"
FILE = "axe-core/axe.min.js"
OWN = Path.home() / ".cache" / "luxel-tests"
SERIOUS = """async () => (await axe.run(document, { resultTypes: ["violations"], preload: false })).violations
  .filter(({ impact }) => impact === "serious" || impact === "critical")
  .map(({ id, nodes }) => `${id}: ${nodes.map((node) => node.html.slice(0, 120)).join(" ")}`)"""


@cache
def source() -> str | None:
    """Its script: of the folder LUXEL_NODE_MODULES, else of a cache that npm fills; None where there is none."""
    for folder in filter(None, (os.environ.get("LUXEL_NODE_MODULES", ""), OWN / "node_modules")):
        if (file := Path(folder) / FILE).is_file():
            return file.read_text()
    npm = shutil.which("npm")
    if npm is None:
        return None
    OWN.mkdir(parents=True, exist_ok=True)
    command = [npm, "install", "--prefix", str(OWN), "--no-audit", "--no-fund", f"axe-core@{VERSION}"]
    try:
        subprocess.run(command, check=True, capture_output=True, timeout=120)
    except (OSError, subprocess.SubprocessError):
        return None
    file = OWN / "node_modules" / FILE
    return file.read_text() if file.is_file() else None


def findings(page: Any, script: str) -> list[str]:
    """The serious and critical ones of a page."""
    if page.evaluate("typeof axe === 'undefined'"):
        page.evaluate(script)
    return page.evaluate(SERIOUS)
