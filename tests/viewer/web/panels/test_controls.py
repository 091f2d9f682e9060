"""Every control of the page is driven in a browser by a test, and described in docs/viewer.md."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from page_controls import controls_of
from page_driver import FakeTrainer, ball, ring
from shown import StaticSession, TrainingSession, ViewerApp, side_of

from luxel.render.primitives import Gaussians4d
from luxel.render.raster.rasterize import rasterize
from luxel.render.train import TrainConfig
from luxel.viewer.web.navigate import Pose
from luxel.viewer.web.offline import open_offline_page
from luxel.viewer.web.pair.session import PairSession
from luxel.viewer.web.panels import PANELS
from luxel.viewer.web.session import Session

TESTS = Path(__file__).resolve().parents[1]
MANUAL = TESTS.parents[2] / "docs" / "viewer.md"
UNTITLED = "Without a heading"  # of panels that have none, in the manual

# Lists whose entries are modes of the page; each entry is driven and described like a control.
MODES = (
    *("Show/Output", "Edit/Tool", "Edit/Selection", "Edit/Range/Property", "Camera/Up"),
    *("Compare/Image", "Two scenes/Image", "Edit/Files/What", "Objects/Export/What"),
)
PAGE = {"open_page", "visit", "browser", "page", "edited"}  # parameters of functions that use a browser
LOCATORS = {"get_by_role", "get_by_label"}
OUTPUTS = {"img", "option", "dialog"}  # roles of what is no control


class SteeredTrainer(FakeTrainer):
    """Has what the panel Steering asks for."""

    def __init__(self) -> None:
        super().__init__()
        self.config = TrainConfig()

    def between_steps(self, action: Callable[[], Any]) -> None: ...

    def reconfigure(self, options: dict[str, Any]) -> None: ...


@pytest.fixture(scope="module")
def controls(
    tmp_path_factory: pytest.TempPathFactory,
    carousel: Callable[..., Gaussians4d],
    draw_any: Callable[..., Any],
) -> Iterator[dict[str, list[str]]]:
    """Names of all controls, and the entries of the lists in MODES."""
    folder = tmp_path_factory.mktemp("run")
    sides = [side_of(name, StaticSession(ball(), ring(), name), rasterize) for name in ("one", "two")]
    sessions: list[Session] = [
        StaticSession(ball(), ring(), folder=folder),
        StaticSession(carousel()),
        TrainingSession(SteeredTrainer(), ring(), folder=folder),
        PairSession(*sides),
    ]
    names, built = {}, set()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(folder / "cache"))
        for session in sessions:
            with ViewerApp(session, port=0, render=draw_any) as app:
                opened = open_offline_page(app, Pose.of_camera(ring()[0].camera))
                panels = [*opened.panels, *app._shared]
                built |= {type(panel) for panel in panels}
                for name, control in controls_of(opened.page.client.gui, panels).items():
                    names[name] = list(control.handle.options) if name in MODES else []
    assert built == set(PANELS), "a panel is on none of these pages"
    yield names


@cache
def browser_tests() -> list[tuple[set[str], set[str]]]:
    """Of each function that drives a page: its strings, and those by which it finds a control."""
    functions = []
    for file in sorted(TESTS.rglob("test_*.py")):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.FunctionDef) and PAGE & {arg.arg for arg in node.args.args}:
                calls = [call for call in ast.walk(node) if isinstance(call, ast.Call)]
                located = {
                    text
                    for call in calls
                    if isinstance(call.func, ast.Attribute) and call.func.attr in LOCATORS
                    for text in strings(call)
                    if not OUTPUTS & strings(call)
                }
                functions.append((strings(node), located))
    return functions


def strings(node: ast.AST) -> set[str]:
    """Literal strings within a part of a source."""
    return {n.value for n in ast.walk(node) if isinstance(n, ast.Constant) and isinstance(n.value, str)}


def driven(names: dict[str, list[str]]) -> set[str]:
    """Controls, and entries of lists as ``name: entry``, that a browser test names.

    A control is named in full, or in a Playwright locator by its label where no other control has it.
    """
    labels = Counter(name.rpartition("/")[2] for name in names)
    named = set()
    for texts, located in browser_tests():
        for name, entries in names.items():
            label = name.rpartition("/")[2]
            if name in texts or (labels[label] == 1 and label in located):
                named |= {name, *(f"{name}: {entry}" for entry in entries if entry in texts)}
    return named


def with_entries(names: dict[str, list[str]]) -> set[str]:
    return set(names) | {f"{name}: {entry}" for name, entries in names.items() for entry in entries}


def test_every_control_is_driven_in_a_browser(controls: dict[str, list[str]]) -> None:
    assert sorted(with_entries(controls) - driven(controls)) == []


def described() -> dict[str, str]:
    """Controls in the tables under "All controls", and what stands beside them.

    A cell has labels of one folder or tool: ``Label, Label`` or ``Folder: Label, Label``.
    """
    section = MANUAL.read_text().partition("\n## All controls\n")[2].partition("\n## ")[0]
    rows: dict[str, str] = {}
    for part in section.split("\n### ")[1:]:
        title = part.partition("\n")[0]
        for line in part.splitlines():
            cells = [cell.strip().replace("\\|", "|") for cell in re.split(r"(?<!\\)\|", line)]
            if len(cells) != 4 or cells[1] == "control" or cells[1].startswith("---"):
                continue
            folder, _, labels = cells[1].rpartition(": ")
            path = [part for part in ("" if title == UNTITLED else title, folder) if part]
            rows.update({"/".join([*path, label]): cells[2] for label in labels.split(", ")})
    return rows


def test_every_control_is_described_in_the_manual(controls: dict[str, list[str]]) -> None:
    rows = described()
    assert sorted(set(controls) ^ set(rows)) == [], "controls without a description, and the reverse"
    missing = [f"{name}: {e}" for name, entries in controls.items() for e in entries if e not in rows[name]]
    assert missing == []
