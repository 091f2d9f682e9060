"""Tasks at the page in a real browser, each within the actions that it may take, nothing lost on reload."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from hands import Desk
from page_driver import until
from page_tasks import TASKS, Task, table
from segmenters import NestedSegmenter
from shown import ViewerApp
from task_scenes import session_of

from luxel.viewer.web.editing import object_tool

QUICK = {  # those of `make test`
    *(
        "Select one primitive",
        "Fly to a point",
        "Export a selection",
        "Undo and redo",
        "Copy a link to the view",
    ),
}
DOCS = Path(__file__).resolve().parents[4] / "docs" / "viewer.md"


def test_the_table_of_the_docs_is_that_of_the_tasks() -> None:
    assert table() in DOCS.read_text(), "docs/viewer.md: write the table of tasks anew"
    assert sum(task.by == "mouse" for task in TASKS) >= 20
    assert sum(task.by == "keys" for task in TASKS) >= 10


@pytest.mark.parametrize(
    "task",
    [pytest.param(task, marks=() if task.name in QUICK else pytest.mark.slow) for task in TASKS],
    ids=lambda task: f"{task.name}, {task.by}",
)
def test_task(
    task: Task, open_page: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    segmenter = NestedSegmenter()
    monkeypatch.setattr(object_tool, "segmenter_for", lambda device: segmenter)
    torch.set_num_threads(1)
    with session_of(task.scene, tmp_path) as session, ViewerApp(session, port=0) as app:
        page = open_page(app, width=1280, height=800)
        page.context.grant_permissions(["clipboard-read", "clipboard-write"])
        errors: list[str] = []
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.on("console", lambda line: line.type == "error" and errors.append(line.text))
        desk = Desk(page, app)
        stays = task.run(desk)
        assert desk.hands.actions <= task.actions, "more actions than the table has"
        assert not errors
        if stays is not None:
            page.wait_for_timeout(1000)  # for what is stored in the background
            desk.reload()
            until(lambda: stays(desk), "lost on reload")
        assert not errors
