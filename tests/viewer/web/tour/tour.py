"""A driven tour of the page: every tool once, in each window and colour scheme, and its screenshots on one sheet.

pytest walks through a small scene (test_tour_page.py) and writes build/tour.webp; make_images.py walks through a run.
"""

from __future__ import annotations

import io
import math
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image, ImageDraw, ImageFont

WINDOWS = {"1280x800": (1280, 800), "1920x1080": (1920, 1080), "phone": (390, 844)}
SCHEMES = ("light", "dark")
THUMBNAIL = 300  # pixels of the longer side of a screenshot on the sheet
LABEL = 18  # pixels of the line under it
LARGEST = 1_000_000  # bytes of the sheet
OUTSIDE = """() => [...document.querySelectorAll(".luxel-shell > *, .luxel-shell button, .luxel-card, .luxel-menu")]
  .filter((node) => node.checkVisibility({ opacityProperty: true, visibilityProperty: true }))
  .filter((node) => !node.closest(".luxel-columns, .luxel-loading"))
  .map((node) => [node, node.getBoundingClientRect()])
  .filter(([, box]) => box.width > 0)
  .filter(([node, { left, right, top, bottom }]) => left < -1 || right > innerWidth + 1 ||
    (!node.closest(".luxel-help") && (top < -1 || bottom > innerHeight + 1)))  // the list of controls scrolls
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


@dataclass(frozen=True)
class Gesture:
    """What is done with a tool, at positions of the image: (0, 0) is its middle, (1, 1) half of its shorter side
    farther right and below.

    Args:
        clicks: made one after another.
        drag: corners of one drag.
        keys: pressed first.
        offer: button of the tool's line that is pressed last.
    """

    clicks: tuple[tuple[float, float], ...] = ()
    drag: tuple[tuple[float, float], ...] = ()
    keys: tuple[str, ...] = ()
    offer: str = ""


AROUND = tuple(
    (0.15 + 0.6 * math.cos(turn), -0.62 + 0.26 * math.sin(turn)) for turn in np.linspace(0, 2 * math.pi, 24)
)
GESTURES = {
    "Click": Gesture(clicks=((0.0, 0.2),)),
    "Rectangle": Gesture(drag=((-0.6, -0.35), (0.7, 0.15))),
    "Lasso": Gesture(drag=AROUND),
    "Polygon": Gesture(clicks=((-0.5, -0.3), (0.5, -0.3), (0.6, 0.5), (-0.4, 0.5), (-0.5, -0.3))),
    "Brush": Gesture(drag=((-0.3, 0.7), (0.5, 0.75))),
    "Sphere": Gesture(offer="Select"),
    "Box": Gesture(offer="Select"),
    "Plane": Gesture(offer="Select"),
    "Range": Gesture(offer="Select"),
    "Transform": Gesture(keys=("Control+a",)),
    "Inspect": Gesture(clicks=((0.1, 0.1),)),
    "Ruler": Gesture(clicks=((-0.25, 0.5), (0.3, 0.5))),
    "Level by three points": Gesture(clicks=((0.0, 0.2),)),
}


class Visitor:
    """Walks through one page and calls ``look(state)`` where there is something to see.

    Args:
        page: of the browser.
        look: is called with the name of each state.
        pace: factor of the pauses that people make, and images take.
    """

    def __init__(self, page: Any, look: Callable[[str], None], pace: float = 1.0) -> None:
        self._page, self._look, self._pace = page, look, pace
        self._touch = bool(page.evaluate("matchMedia('(pointer: coarse)').matches"))

    def walk(self) -> None:
        """All states: tools one after the other, then menus and cards."""
        self._look("start")
        tools = self._page.get_by_role("toolbar", name="Tools").get_by_role("button")
        names = [tools.nth(number).get_attribute("aria-label") or "" for number in range(tools.count())]
        for name in names:
            if re.fullmatch(r".+ \([A-Z]\)", name):
                self._tool(name)
        if self._touch:
            self._page.keyboard.press("h")
            self._wait(600)
            self._look("panel")
            self._page.keyboard.press("h")
        else:
            self._panels()
        for key, title in (("y", "Share"), ("?", "Controls"), ("Control+k", "All commands")):
            self._page.keyboard.press(key)
            card = self._page.get_by_role("dialog", name=title)
            card.wait_for(timeout=30_000)
            self._wait(300)
            self._look(title)
            self._page.keyboard.press("Escape")
            card.wait_for(state="hidden")
        if not self._touch:
            self._page.keyboard.press("h")
            self._wait(400)
            self._look("no panel")
            self._page.keyboard.press("h")

    def _tool(self, name: str) -> None:
        button = self._page.get_by_role("toolbar", name="Tools").get_by_role("button", name=name)
        pressed = lambda: button.get_attribute("aria-pressed") == "true"  # noqa: E731
        self._page.keyboard.press(name[-2].lower())
        self._until(pressed, f"{name} does not start")
        self._wait(800)
        self._use(GESTURES.get(name[:-4], Gesture()))
        self._wait(1000)
        self._look(name)
        if name.startswith("Compare"):
            self._page.keyboard.press("Home")  # from where the photograph was taken
        if self._page.locator(".luxel-count").is_visible():
            self._page.keyboard.press("Control+Shift+a")
        if pressed():
            self._page.keyboard.press(name[-2].lower())
        self._until(lambda: not pressed(), f"{name} does not end")

    def _use(self, gesture: Gesture) -> None:
        for key in gesture.keys:
            self._page.keyboard.press(key)
        for place in gesture.clicks:
            (self._page.touchscreen.tap if self._touch else self._page.mouse.click)(*self._at(place))
            self._wait(700)
        if gesture.drag:
            self._page.mouse.move(*self._at(gesture.drag[0]))
            self._page.mouse.down()
            for place in gesture.drag[1:]:
                self._page.mouse.move(*self._at(place), steps=3)
            self._page.mouse.up()
        if gesture.offer:
            button = self._page.locator(".luxel-toolline").get_by_role(
                "button", name=gesture.offer, exact=True
            )
            button.click(timeout=30_000)

    def _at(self, place: tuple[float, float]) -> tuple[float, float]:
        """A position of the image on the page, CSS pixels."""
        box = self._page.evaluate(
            "(() => { const b = window.__viserMutable.canvas.getBoundingClientRect();"
            " return [b.left, b.top, b.width, b.height] })()"
        )
        half = min(box[2:]) / 2
        return box[0] + box[2] / 2 + half * place[0], box[1] + box[3] / 2 + half * place[1]

    def _panels(self) -> None:
        """What the panel of a wide window has beside the tools."""
        page = self._page
        for folder in ("Ruler", "Edit", "Compare"):  # that the tools have opened
            self.fold(folder)
        self.zoom_out(5)
        self.check("Show cameras")
        self.rest()
        self._look("cameras")
        self.check("Show cameras")
        page.keyboard.press("Home")
        for output in ("depth", "ellipsoids"):
            self.choose(output)
            self._look(output)
        self.choose("colour")
        self.fold("Statistics")
        self.check("Histograms")
        self.rest(2500)
        self._look("histograms")
        self.check("Histograms")
        self.fold("Statistics")
        self.fold("Camera path")
        start = [self._at(place) for place in ((-0.2, 0.0), (0.2, 0.0))]
        for _ in range(4):
            page.get_by_role("button", name="Add keyframe").click()
            self._wait(400)
            page.mouse.move(*start[0])
            page.mouse.down()
            page.mouse.move(*start[1], steps=6)
            page.mouse.up()
            self._wait(600)
        self.zoom_out(9)
        self.rest()
        self._look("camera path")
        self.fold("Camera path")
        page.keyboard.press("Home")
        self._wait(1000)

    def zoom_out(self, notches: int) -> None:
        """Goes to where the page begins, and back from there by notches of the wheel."""
        self._page.keyboard.press("Home")
        self._wait(1000)
        self._page.mouse.move(*self._at((0.0, 0.0)))
        for _ in range(notches):
            self._page.mouse.wheel(0, 240)

    def rest(self, milliseconds: int = 1500) -> None:
        """Waits for the image, the pointer where it opens no help."""
        self._page.mouse.move(*self._at((0.9, -0.9)))
        self._wait(milliseconds)

    def fold(self, name: str) -> None:
        """Opens or closes a folder of the panel."""
        heading = self._page.locator(".luxel-heading").get_by_text(name, exact=True)
        heading.click()
        self._wait(400)
        heading.evaluate("node => node.scrollIntoView()")

    def check(self, name: str) -> None:
        """Switches a check box of the panel."""
        self._page.get_by_label(name, exact=True).click()

    def choose(self, output: str) -> None:
        """Chooses what the image shows."""
        self._page.get_by_label("Output", exact=True).click()
        self._page.get_by_role("option", name=output, exact=True).click()
        self.rest()

    def _wait(self, milliseconds: int) -> None:
        self._page.wait_for_timeout(self._pace * milliseconds)

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
    """Writes a WebP file of less than LARGEST bytes."""
    for quality in (85, 70, 55, 40):
        content = io.BytesIO()
        image.save(content, "webp", quality=quality, method=6)
        if content.tell() < LARGEST:
            break
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content.getvalue())
