"""How the tests of bad input break a capture."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

Refused = Callable[..., str]


def edit(capture: Path, change: Callable[[dict[str, Any]], object]) -> None:
    """Changes transforms.json."""
    path = capture / "transforms.json"
    document = json.loads(path.read_text())
    change(document)
    path.write_text(json.dumps(document))


def first_image(capture: Path) -> Path:
    document = json.loads((capture / "transforms.json").read_text())
    path = capture / document["frames"][1]["file_path"]
    return path if path.suffix else path.with_suffix(".png")
