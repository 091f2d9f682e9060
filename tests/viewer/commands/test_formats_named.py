"""docs/formats.md and the help texts name every registered scene format, as it is registered."""

from __future__ import annotations

from pathlib import Path

import pytest

from luxel.scenes.files.registry import SCENE_FORMATS
from luxel.scenes.files.scene_format import FACTS, SceneFormat
from luxel.viewer.commands.export import Export
from luxel.viewer.commands.view import ViewScene

PAGE = Path(__file__).resolve().parents[3] / "docs" / "formats.md"
HELD = {
    FACTS: "all",
    (): "none",
    ("antialiased",): "antialiasing",
    ("antialiased", "up"): "antialiasing, up",
}


def rows() -> dict[str, list[str]]:
    """The cells of the first table of the page, by suffix."""
    lines = PAGE.read_text().split("\n\n")[2].splitlines()[2:]
    cells = ([cell.strip() for cell in line.strip("|").split("|")] for line in lines)
    return {suffix.strip("`"): rest for suffix, *rest in cells}


@pytest.mark.parametrize("known", SCENE_FORMATS, ids=lambda known: known.suffix)
def test_the_page_lists_a_format_as_it_is(known: SceneFormat) -> None:
    read, written, primitives, degree, _, facts, axes = rows()[known.suffix]
    assert (read.startswith("yes"), written.startswith("yes")) == (
        known.load is not None,
        known.save is not None,
    )
    assert (primitives == "all") == (known.primitives is None)
    assert (int(degree), facts, axes) == (known.sh_degree, HELD[known.holds], known.axes)


@pytest.mark.parametrize("known", SCENE_FORMATS, ids=lambda known: known.suffix)
def test_help_texts_name_a_format(known: SceneFormat) -> None:
    assert known.suffix in (Export.__doc__ or "")
    assert known.load is None or known.suffix in (ViewScene.__doc__ or "")


def test_the_table_of_losses_has_every_format_that_is_written() -> None:
    losses = PAGE.read_text().split("## Losses")[1].split("\n## ")[0]
    missing = [known.suffix for known in SCENE_FORMATS if known.save and f"`{known.suffix}`" not in losses]
    assert not missing, f"run `python tests/bench/files/format_losses.py` and put its table into {PAGE.name}"
