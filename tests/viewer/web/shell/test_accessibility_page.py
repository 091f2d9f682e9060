"""The page as axe-core and a keyboard see it: names, contrast, sizes, folders."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from axe import findings, source
from page_driver import FakeTrainerRunning, ring, until
from shown import TrainingSession, ViewerApp

from luxel.viewer.web.run_end import RunEnd

SMALL = """() => [...document.querySelectorAll("#root *, .luxel-shell *")]
  .filter((node) => node.checkVisibility() && [...node.childNodes].some((n) => n.nodeType === 3 && n.data.trim()))
  .filter((node) => !node.closest(".uplot, svg") && parseFloat(getComputedStyle(node).fontSize) < 12.9)
  .map((node) => node.outerHTML.slice(0, 120))"""
TARGETS = (
    "#root :is(button, input, .luxel-heading), :is(.luxel-buttons, .luxel-imagebar) button, "
    ".luxel-share :is(button, select, a, input)"
)
LOW = f"""() => [...document.querySelectorAll("{TARGETS}")]
  .filter((node) => node.checkVisibility() && node.type !== "checkbox" && node.getAttribute("tabindex") !== "-1")
  .filter((node) => node.getBoundingClientRect().height < 39.5)
  .map((node) => node.outerHTML.slice(0, 120))"""


@pytest.fixture(scope="module")
def axe() -> str:
    if (script := source()) is None:
        pytest.skip("axe-core not run: it is not in LUXEL_NODE_MODULES, and npm did not install it")
    return script


@pytest.fixture
def visit(browser: Any) -> Iterator[Callable[..., Any]]:
    contexts: list[Any] = []

    def visit(app: ViewerApp, **options: Any) -> Any:
        options = {"viewport": {"width": 1280, "height": 800}, "color_scheme": "light", **options}
        contexts.append(browser.new_context(**options))
        page = contexts[-1].new_page()
        page.goto(app.url)
        page.locator(".luxel-loading").wait_for(state="hidden", timeout=60_000)
        page.wait_for_function("!document.documentElement.classList.contains('luxel-starting')")
        return page

    yield visit
    for context in contexts:
        context.close()


def _open_all(page: Any) -> None:
    closed = page.locator(".luxel-heading[aria-expanded=false]:visible")
    until(lambda: closed.count() > 0, "no folder is closed")
    while closed.count() > 0:
        closed.first.click()
        page.wait_for_timeout(50)
    page.wait_for_timeout(400)  # they unfold


def _show_notices(page: Any, app: ViewerApp) -> None:
    bars = app.open_pages()[-1].bars
    bars.show("first", "A notice with two buttons.", [("Restore", lambda: None), ("Discard", lambda: None)])
    bars.show("second", "A notice without a button.")
    page.get_by_text("A notice without a button.").wait_for()


def _check(page: Any, axe: str, state: str) -> None:
    assert findings(page, axe) == [], state
    assert page.evaluate(SMALL) == [], f"{state}: text below 13 px"


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_scene_passes_axe_with_its_folders_palette_and_card(
    shown: ViewerApp, visit: Callable[..., Any], axe: str, scheme: str
) -> None:
    page = visit(shown, color_scheme=scheme)
    _check(page, axe, "view")
    _show_notices(page, shown)
    _check(page, axe, "notices on the image")
    _open_all(page)
    _check(page, axe, "folders open")
    page.keyboard.press("Control+k")
    page.get_by_role("dialog", name="All commands").wait_for()
    page.wait_for_timeout(500)
    _check(page, axe, "palette")
    page.keyboard.press("Escape")
    page.get_by_role("dialog", name="All commands").wait_for(state="hidden")
    page.keyboard.press("?")
    page.get_by_role("dialog", name="Controls").wait_for()
    _check(page, axe, "card")
    page.keyboard.press("Escape")
    page.keyboard.press("y")
    share = page.get_by_role("dialog", name="Share")
    share.get_by_role("button", name="Save image").click()
    share.get_by_role("button", name="Download: view.png").first.wait_for()
    for name in ("Image", "Film", "Scene file", "Report"):
        share.get_by_role("tab", name=name).click()
        page.wait_for_timeout(200)
        _check(page, axe, f"share, {name}")


@pytest.mark.slow
def test_a_training_passes_axe(visit: Callable[..., Any], axe: str) -> None:
    with FakeTrainerRunning() as trainer, ViewerApp(TrainingSession(trainer, ring()), port=0) as app:
        page = visit(app)
        _check(page, axe, "training")
        app.session.extend = lambda steps: None
        app.session.end(RunEnd("steps", 1000, 1000, 60, 250, "Gaussians", 26.9, 0.91, 13))
        page.get_by_role("button", name="Train longer").click()
        for scheme in ("light", "dark"):
            page.emulate_media(color_scheme=scheme)
            page.wait_for_timeout(300)
            _check(page, axe, f"card of the end, {scheme}")


@pytest.mark.slow
def test_a_phone_passes_axe_and_has_targets_for_thumbs(
    shown: ViewerApp, visit: Callable[..., Any], axe: str
) -> None:
    page = visit(shown, viewport={"width": 390, "height": 844}, has_touch=True, is_mobile=True)
    _show_notices(page, shown)
    _check(page, axe, "phone")
    page.locator(".luxel-sheet").click(position={"x": 150, "y": 20})
    page.wait_for_timeout(500)
    _open_all(page)
    _check(page, axe, "phone, panel open")
    assert page.evaluate(LOW) == [], "targets below 40 px"
    page.locator(".luxel-sheet").click(position={"x": 150, "y": 20})
    page.get_by_role("button", name="Share (Y)").click()
    share = page.get_by_role("dialog", name="Share")
    share.get_by_role("button", name="Save image").wait_for()
    box = share.bounding_box()
    assert box["x"] >= 0 and box["x"] + box["width"] <= 390 and box["y"] + box["height"] <= 844
    _check(page, axe, "phone, share")
    assert page.evaluate(LOW) == [], "targets of the menu below 40 px"


@pytest.mark.slow
def test_folders_open_by_keys_and_stay_open_when_the_panel_comes_back(
    shown: ViewerApp, visit: Callable[..., Any]
) -> None:
    page = visit(shown)
    for name, key in (("Statistics", "Enter"), ("Camera path", " ")):
        heading = page.get_by_role("button", name=name, exact=True)
        heading.focus()
        page.keyboard.press(key)
        page.wait_for_function(
            "(name) => [...document.querySelectorAll('.luxel-heading')].some("
            "(h) => h.textContent === name && h.ariaExpanded === 'true')",
            arg=name,
        )
    page.get_by_role("button", name="Show", exact=True).click()
    page.evaluate("document.activeElement.blur()")
    page.wait_for_timeout(400)
    page.mouse.move(1100, 500)
    page.mouse.wheel(0, 150)
    page.wait_for_timeout(800)
    states = "[...document.querySelectorAll('.luxel-heading')].map((heading) => heading.ariaExpanded).join()"
    top = "document.querySelector('.luxel-heading')?.getBoundingClientRect().top"
    before, scrolled = page.evaluate(states), page.evaluate(top)
    page.keyboard.press("h")
    until(lambda: page.evaluate(states) == "", "the panel stays")
    page.keyboard.press("h")
    until(lambda: page.evaluate(states) == before, "the folders are as they were at first")
    until(lambda: abs(page.evaluate(top) - scrolled) < 2, "the panel is at its top again")
