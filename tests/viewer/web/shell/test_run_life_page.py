"""The page of a training in a real browser: a pause for an edit, the end, its card, and what the page becomes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from page_controls import Controls
from page_driver import PausableTrainer, ball, newest_client, ring, until
from shown import TrainingSession, ViewerApp

from luxel.scenes import save_scene
from luxel.viewer.web.editing.editable_training import EditableTraining
from luxel.viewer.web.navigate import Pose
from luxel.viewer.web.panels.edit import EditPanel
from luxel.viewer.web.panels.ruler import RulerPanel
from luxel.viewer.web.run_end import RunEnd

HEIGHTS = "nodes => nodes.map((node) => node.getBoundingClientRect().height)"


@pytest.fixture
def app(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ViewerApp]:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    torch.set_num_threads(1)
    save_scene(tmp_path / "scene.ply", ball())
    session = TrainingSession(trainer := PausableTrainer(), ring(), "run", folder=tmp_path)
    with trainer, ViewerApp(session, port=0) as app:
        yield app


def end(app: ViewerApp, folder: Path) -> list[int]:
    """Ends the training; returns what pages ask for: further steps."""
    app.session.trainer.done = True
    (folder / "eval").mkdir(exist_ok=True)
    (folder / "eval" / "index.html").write_text("<title>Report</title>the report")
    asked: list[int] = []
    app.session.extend = asked.append
    report = folder / "eval" / "index.html"
    app.session.end(RunEnd("target_minutes", 1792, 10_000, 60, 250, "Gaussians", 26.93, 0.9123, 13, report))
    EditableTraining.of(app.session).open()
    return asked


@pytest.mark.slow
def test_a_training_is_paused_to_edit_and_its_end_makes_a_scene_of_the_page(
    app: ViewerApp, open_page: Callable[..., Any], tmp_path: Path
) -> None:
    page = open_page(app, width=1280, height=800)
    errors: list[str] = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    bar, client = page.get_by_role("toolbar", name="Tools"), newest_client(app)
    opened = app._pages[client.client_id]
    bar.get_by_role("button", name="Rectangle (R)").click()
    page.get_by_text("Pause or wait for the end to edit.", exact=True).wait_for()
    page.locator(".luxel-toolline").get_by_role("button", name="Pause and edit").click()
    page.get_by_role("button", name="Objects", exact=True).wait_for()
    assert bar.get_by_role("button", name="Rectangle (R)").get_attribute("aria-pressed") == "true"
    edit = next(panel for panel in opened.panels if isinstance(panel, EditPanel))
    upper = ball().means[:, 2] > 0
    edit.run(lambda document: document.select(upper, "replace", "Select"))
    page.get_by_text(f"{int(upper.sum())} Gaussians selected").wait_for()
    page.keyboard.press("Delete")
    until(lambda: app.session.status()["count"] == 250 - int(upper.sum()), "nothing was deleted")
    bar.get_by_role("button", name="Undo: Delete").wait_for()
    page.keyboard.press(" ")
    page.get_by_text("are saved in edited-step-").first.wait_for()
    page.get_by_role("button", name="Objects", exact=True).wait_for(state="detached")
    page.get_by_text("the training keeps its scene").wait_for()  # the tool has opened the folder
    Controls(page, app).press("Edit/Pause and edit")
    page.get_by_role("button", name="Objects", exact=True).wait_for()
    page.keyboard.press(" ")
    page.get_by_role("button", name="Objects", exact=True).wait_for(state="detached")

    ruler = page.get_by_role("button", name="Ruler", exact=True)
    ruler.click()
    before = Pose.of_client(client.camera)
    end(app, tmp_path)
    card = page.get_by_role("region", name="Stopped after 60 s, at step 1,792")
    card.wait_for()
    assert "PSNR of 13 held-out views\n26.93 dB" in card.inner_text() and "0.912" in card.inner_text()
    page.get_by_role("button", name="Objects", exact=True).wait_for()
    assert np.allclose(Pose.of_client(client.camera).position, before.position), "the camera has moved"
    assert ruler.get_attribute("aria-expanded") == "true", "an open folder was closed"
    assert opened.page is app._pages[client.client_id].page, "the page was loaded again"
    page.screenshot(path=tmp_path / "end.png")
    card.get_by_role("button", name="Clean up").click()
    until(lambda: opened.page.toolbar.active == ("Lasso",), "the button chooses no tool")
    page.wait_for_function(
        "document.querySelector('.luxel-heading[aria-expanded=true]') && [...document.querySelectorAll("
        "'.luxel-heading')].some((n) => n.textContent.trim() === 'Edit' && n.ariaExpanded === 'true')"
    )
    assert not card.is_visible()
    assert any(isinstance(panel, RulerPanel) for panel in opened.panels) and not errors


@pytest.mark.slow
def test_the_card_is_closed_for_good_trains_longer_and_shows_the_report(
    app: ViewerApp, open_page: Callable[..., Any], tmp_path: Path
) -> None:
    asked = end(app, tmp_path)
    page = open_page(app, width=390, height=844)
    card = page.get_by_role("region", name="Stopped after 60 s")
    card.wait_for()
    box = card.bounding_box()
    assert box["x"] >= 0 and box["x"] + box["width"] <= 390 and box["y"] + box["height"] <= 844
    page.screenshot(path=tmp_path / "phone.png")
    with page.expect_popup() as popup:
        card.get_by_role("button", name="Report").click()
    popup.value.get_by_text("the report").wait_for()
    card.get_by_role("button", name="Train longer").press("Enter")
    steps = card.get_by_label("Further steps")
    assert steps.input_value() == "890"
    steps.press("Escape")
    assert card.is_visible() and not steps.is_visible()
    card.get_by_role("button", name="Train longer").click()
    steps.fill("2000")
    page.screenshot(path=tmp_path / "longer.png")
    steps.press("Enter")
    until(lambda: asked == [2000], "the number of steps did not arrive")
    page.keyboard.press("Escape")
    card.wait_for(state="hidden")
    page.reload()
    page.get_by_role("toolbar", name="Tools").wait_for()
    page.wait_for_timeout(1000)
    assert not card.is_visible(), "a card that was closed came back"


@pytest.mark.slow
def test_targets_of_the_card_are_large_on_touch_screens(app: ViewerApp, browser: Any, tmp_path: Path) -> None:
    end(app, tmp_path)
    context = browser.new_context(viewport={"width": 390, "height": 844}, has_touch=True, is_mobile=True)
    page = context.new_page()
    page.goto(app.url)
    page.locator(".luxel-end").wait_for(timeout=60_000)
    assert min(page.locator(".luxel-end button:visible").evaluate_all(HEIGHTS)) >= 40
    context.close()
