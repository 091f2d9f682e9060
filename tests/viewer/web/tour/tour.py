"""A driven tour of the page: every tool once, in each window and colour scheme, and its screenshots on one sheet.

python tests/viewer/web/tour/tour.py SCENE OUT.webp     walks through a scene as `luxel view` opens it

pytest walks through a small one (test_tour_page.py) and writes build/tour.webp.
"""

from __future__ import annotations

import io
import math
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from PIL import Image, ImageDraw, ImageFont

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # where pytest has the drivers of the page from
sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

WINDOWS = {"1280x800": (1280, 800), "1920x1080": (1920, 1080), "phone": (390, 844)}
SCHEMES = ("light", "dark")
THUMBNAIL = 300  # pixels of the longer side of a screenshot on the sheet
LABEL = 18  # pixels of the line under it
LARGEST = 1 << 20  # bytes of the sheet

OUTSIDE = """() => [...document.querySelectorAll(".luxel-shell > *, .luxel-shell button, .luxel-card, .luxel-menu")]
  .filter((node) => node.checkVisibility({ opacityProperty: true, visibilityProperty: true }))
  .filter((node) => !node.closest(".luxel-columns, .luxel-loading"))
  .map((node) => [node, node.getBoundingClientRect()])
  .filter(([, box]) => box.width > 0)
  .filter(([, { left, right, top, bottom }]) =>
    Math.min(left, top) < -1 || right > innerWidth + 1 || bottom > innerHeight + 1)
  .map(([node]) => node.outerHTML.slice(0, 120))"""


@dataclass(frozen=True)
class Screen:
    """A screenshot of the tour.

    Args:
        window: a key of WINDOWS.
        scheme: light or dark.
        state: what the page showed.
        image: the screenshot.
    """

    window: str
    scheme: str
    state: str
    image: Image.Image


class Visitor:
    """Walks through one page and calls ``look(state)`` where there is something to see."""

    def __init__(self, page: Any, look: Callable[[str], None]) -> None:
        self._page, self._look = page, look

    def walk(self) -> None:
        """All states: tools one after the other, then menus and cards."""
        self._look("start")
        tools = self._page.get_by_role("toolbar", name="Tools").get_by_role("button")
        names = [tools.nth(number).get_attribute("aria-label") or "" for number in range(tools.count())]
        for name in names:
            if re.fullmatch(r".+ \([A-Z]\)", name):
                self._tool(name)
        for key, title in (("y", "Share"), ("?", "Controls"), ("Control+k", "All commands")):
            self._page.keyboard.press(key)
            card = self._page.get_by_role("dialog", name=title)
            card.wait_for(timeout=30_000)
            self._page.wait_for_timeout(300)
            self._look(title)
            self._page.keyboard.press("Escape")
            card.wait_for(state="hidden")
        self._page.keyboard.press("h")
        self._page.wait_for_timeout(400)
        self._look("no panel")
        self._page.keyboard.press("h")

    def _tool(self, name: str) -> None:
        button = self._page.get_by_role("toolbar", name="Tools").get_by_role("button", name=name)
        pressed = lambda: button.get_attribute("aria-pressed") == "true"  # noqa: E731
        self._page.keyboard.press(name[-2].lower())
        self._until(pressed, f"{name} does not start")
        self._page.wait_for_timeout(500)
        self._look(name)
        self._page.keyboard.press(name[-2].lower())
        self._until(lambda: not pressed(), f"{name} does not end")

    def _until(self, condition: Callable[[], bool], what: str) -> None:
        for _ in range(600):
            if condition():
                return
            self._page.wait_for_timeout(50)
        raise AssertionError(what)


@contextmanager
def visiting(browser: Any, address: str, window: str, scheme: str) -> Iterator[Any]:
    """A page of a window and scheme, once it is painted."""
    width, height = WINDOWS[window]
    touch = {"has_touch": True, "is_mobile": True} if window == "phone" else {}
    context = browser.new_context(viewport={"width": width, "height": height}, color_scheme=scheme, **touch)
    try:
        page = context.new_page()
        page.goto(address)
        page.locator(".luxel-loading").wait_for(state="hidden", timeout=60_000)
        page.get_by_role("toolbar", name="Tools").wait_for(timeout=60_000)
        page.wait_for_timeout(500)
        yield page
    finally:
        context.close()


def screenshot(page: Any) -> Image.Image:
    """What a page shows."""
    return Image.open(io.BytesIO(page.screenshot())).convert("RGB")


def sheet(screens: list[Screen], columns: int = 8) -> Image.Image:
    """All screenshots, small and with their names, in rows of one window and scheme."""
    groups: dict[tuple[str, str], list[Screen]] = {}
    for screen in screens:
        groups.setdefault((screen.window, screen.scheme), []).append(screen)
    font = ImageFont.load_default(13)
    rows: list[tuple[str, list[Screen]]] = []
    for (window, scheme), group in groups.items():
        for begin in range(0, len(group), columns):
            rows.append((f"{window}, {scheme}" if begin == 0 else "", group[begin : begin + columns]))
    small = [[_small(screen.image) for screen in group] for _, group in rows]
    heights = [
        max(image.height for image in line) + LABEL + (LABEL if title else 0)
        for line, (title, _) in zip(small, rows, strict=True)
    ]
    width = columns * (THUMBNAIL + 6)
    result = Image.new("RGB", (width, sum(heights)), "white")
    draw, top = ImageDraw.Draw(result), 0
    for (title, group), line, height in zip(rows, small, heights, strict=True):
        if title:
            draw.text((4, top + 1), title, fill="black", font=font)
        below = top + (LABEL if title else 0)
        for place, (screen, image) in enumerate(zip(group, line, strict=True)):
            left = place * (THUMBNAIL + 6)
            result.paste(image, (left, below))
            draw.text((left + 2, below + image.height + 1), screen.state, fill="black", font=font)
        top += height
    return result


def _small(image: Image.Image) -> Image.Image:
    by = THUMBNAIL / max(image.size)
    return image.resize((round(image.width * by), round(image.height * by)), Image.Resampling.LANCZOS)


def write_sheet(image: Image.Image, path: Path) -> None:
    """Writes a WebP file of less than 1 MiB."""
    for quality in (85, 70, 55, 40):
        content = io.BytesIO()
        image.save(content, "webp", quality=quality, method=6)
        if content.tell() < LARGEST:
            break
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content.getvalue())


def main(scene: str, out: str) -> None:
    import subprocess
    import time
    import urllib.request

    from page_driver import CHROMIUM, FLAGS
    from playwright.sync_api import sync_playwright

    port = 8300
    viewer = subprocess.Popen(
        [sys.executable, "-m", "luxel.viewer.console", "view", scene, "--port", str(port), "--no-open"]
    )
    address, screens = f"http://127.0.0.1:{port}", []
    try:
        deadline = time.monotonic() + 120
        while math.isfinite(deadline):
            try:
                urllib.request.urlopen(address, timeout=2).close()
                break
            except OSError:
                assert time.monotonic() < deadline, "the viewer does not answer"
                time.sleep(0.5)
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=CHROMIUM, headless=True, args=FLAGS)
            for window in WINDOWS:
                for scheme in SCHEMES:
                    with visiting(browser, address, window, scheme) as page:
                        page.wait_for_timeout(4000)  # until the image is there in full

                        def look(
                            state: str, page: Any = page, window: str = window, scheme: str = scheme
                        ) -> None:
                            screens.append(Screen(window, scheme, state, screenshot(page)))

                        Visitor(page, look).walk()
            browser.close()
    finally:
        viewer.terminate()
        viewer.wait()
    write_sheet(sheet(screens), Path(out))


if __name__ == "__main__":
    main(*sys.argv[1:])
