"""Prints the lowest versions that pyproject.toml allows as requirements, for `make test-oldest`; torch is installed."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path


def lowest(requirements: list[str]) -> list[str]:
    """The lowest version of each requirement, such as numpy==1.26.4 of numpy>=1.26.4; torch is left out."""
    listed = []
    for requirement in requirements:
        name, bound = re.fullmatch(r"([a-z0-9-]+)>=([0-9.]+)(?:,.*)?", requirement).groups()  # type: ignore[union-attr]
        if name != "torch":
            listed.append(f"{name}=={bound}")
    return listed


if __name__ == "__main__":
    project = tomllib.loads((Path(__file__).resolve().parent.parent / "pyproject.toml").read_text())[
        "project"
    ]
    print(*lowest(project["dependencies"]), sep="\n")
