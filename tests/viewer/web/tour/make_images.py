"""The images of docs/viewer.md, of the tour through a run of `luxel demo`.

python tests/viewer/web/tour/make_images.py RUN FOLDER [SCREENS]

FOLDER (docs/images) gets the sheet of all screenshots, viewer-tour.webp, and single ones as viewer-NAME.jpg; SCREENS
gets all of them as they are. It takes a quarter of an hour on two cores.
"""

from __future__ import annotations

import itertools
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve()
sys.path[:0] = [str(folder) for folder in HERE.parents[1:3]]  # where pytest has the drivers of the page from

from page_driver import CHROMIUM, FLAGS  # noqa: E402
from PIL import Image  # noqa: E402
from tour import SCHEMES, WINDOWS, Screen, Visitor, screenshot, sheet, visiting, write_sheet  # noqa: E402

QUALITY = 70  # of the images
PANEL = 324  # CSS pixels of its width
Look = Callable[[str], None]

# Names of the files and the states of the first window that they show.
IMAGES = {
    **{"edit": "Rectangle (R)", "lasso": "Lasso (L)", "brush": "Brush (B)", "range": "Range (K)"},
    **{"transform": "Transform (T)", "compare": "Compare with the photograph (C)", "inspect": "Inspect (I)"},
    **{"ruler": "Ruler (M)", "frustums": "cameras", "statistics": "histograms", "camera-path": "camera path"},
    **{"help": "Controls", "training": "training", "end": "end", "pair": "pair"},
    **{
        "pair-difference": "pair difference",
        "lost": "connection lost",
        "error": "error",
        "seen-by": "seen by",
    },
}
OUTPUTS = ("colour", "count", "overdraw", "ellipsoids", "points")  # side by side in viewer-outputs.jpg


class Tour:
    """The tour through a run on this machine.

    Args:
        run: its folder; of it only copies are shown.
        single: gets each screenshot as it is; None: none does.
    """

    def __init__(self, browser: Any, run: Path, single: Path | None) -> None:
        self._browser, self._run, self._single = browser, run, single
        self.screens: list[Screen] = []

    def walk(self) -> None:
        """All tools, in each window and scheme."""
        for window, scheme in itertools.product(WINDOWS, SCHEMES):
            with self._visit("view", self._run, window=window, scheme=scheme) as (page, look):
                Visitor(page, look).walk()

    def inspect(self) -> None:
        """Outputs and errors of the run, and a page whose viewer has ended."""
        with self._visit("view", self._run) as (page, look):
            visitor = Visitor(page, look)
            for output in OUTPUTS:
                visitor.choose(output)
                look(output)
            visitor.choose("seen by")
            page.wait_for_timeout(20_000)
            look("seen by")
            visitor.choose("colour")
            page.keyboard.press("c")
            page.get_by_label("Image", exact=True).click()
            page.get_by_role("option", name="luminance error", exact=True).click()
            visitor.rest(3000)
            look("error")
            page.keyboard.press("c")
            subprocess.run(["kill", str(self._viewer.pid)], check=True)
            page.wait_for_timeout(8000)
            look("connection lost")

    def train(self) -> None:
        """A short training of the demo, its end, and the two runs side by side."""
        with tempfile.TemporaryDirectory() as folder:
            short = Path(folder) / "short"
            with self._visit("demo", "--minutes", "0.5", "--run", str(short)) as (page, look):
                page.wait_for_timeout(12_000)
                look("training")
                page.locator(".luxel-end").wait_for(timeout=300_000)
                page.wait_for_timeout(2000)
                look("end")
            with self._visit("view", self._run, short) as (page, look):
                look("pair")
                page.get_by_label("Image", exact=True).first.click()  # of Two scenes, not of Compare
                page.get_by_role("option", name="difference", exact=True).click()
                page.wait_for_timeout(4000)
                look("pair difference")

    @contextmanager
    def _visit(
        self,
        command: str,
        *arguments: str | Path,
        window: str = next(iter(WINDOWS)),
        scheme: str = SCHEMES[0],
    ) -> Iterator[tuple[Any, Look]]:
        """A page of a viewer, and the function that takes screenshots of it."""
        with (
            _served(command, *arguments) as (viewer, address),
            visiting(self._browser, address, window, scheme) as page,
        ):
            self._viewer = viewer
            page.wait_for_timeout(4000)  # until the image is there in full

            def look(state: str) -> None:
                screen = Screen(window, scheme, state, screenshot(page))
                self.screens.append(screen)
                if self._single is not None:
                    screen.image.save(self._single / f"{window}-{scheme}-{state}.png")

            yield page, look

    def write(self, folder: Path) -> None:
        """Writes the sheet and the images."""
        write_sheet(sheet(self.screens), folder / "viewer-tour.webp")
        first = (next(iter(WINDOWS)), SCHEMES[0])
        shown = {
            screen.state: screen.image for screen in self.screens if (screen.window, screen.scheme) == first
        }
        phone = {screen.state: screen.image for screen in self.screens if screen.window == "phone"}
        images = {name: shown[state] for name, state in IMAGES.items()}
        images["outputs"] = beside([_middle(shown[output]) for output in OUTPUTS])
        images["phone"] = beside([phone["start"], phone["panel"]])
        for name, image in images.items():
            image.save(folder / f"viewer-{name}.jpg", quality=QUALITY, optimize=True)


def beside(images: list[Image.Image]) -> Image.Image:
    """Images of one height side by side."""
    result = Image.new("RGB", (sum(image.width + 8 for image in images) - 8, images[0].height), "white")
    left = 0
    for image in images:
        result.paste(image, (left, 0))
        left += image.width + 8
    return result


def _middle(image: Image.Image) -> Image.Image:
    """The subject of a screenshot of the first window, half as large."""
    middle = (image.width - PANEL) / 2
    return image.crop((round(middle - 280), 20, round(middle + 280), 770)).resize((280, 375))


@contextmanager
def _served(command: str, *arguments: str | Path) -> Iterator[tuple[Any, str]]:
    """A command that serves a page, and its address; it has copies of the paths, and nothing of this user."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with tempfile.TemporaryDirectory() as folder:
        own = []
        for number, argument in enumerate(arguments):
            if isinstance(argument, Path):
                place = Path(folder) / str(number) / argument.name
                shutil.copytree(argument, place)
                argument = place
            own.append(str(argument))
        called = [str(Path(sys.executable).with_name("luxel")), command, *own, "--port", str(port)]
        caches = {name: folder for name in ("XDG_CACHE_HOME", "XDG_STATE_HOME")}
        viewer = subprocess.Popen(called, env={**os.environ, **caches})
        try:
            _wait_for(address := f"http://127.0.0.1:{port}")
            yield viewer, address
        finally:
            viewer.terminate()
            viewer.wait()


def _wait_for(address: str) -> None:
    deadline = time.monotonic() + 120
    while True:
        try:
            return urllib.request.urlopen(address, timeout=2).close()
        except OSError:
            assert time.monotonic() < deadline, "the viewer does not answer"
            time.sleep(0.5)


def main(run: str, folder: str, single: str = "") -> None:
    """Walks and writes."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, headless=True, args=FLAGS)
        tour = Tour(browser, Path(run), Path(single) if single else None)
        for part in (tour.walk, tour.inspect, tour.train):
            part()
        browser.close()
    tour.write(Path(folder))


if __name__ == "__main__":
    main(*sys.argv[1:])
