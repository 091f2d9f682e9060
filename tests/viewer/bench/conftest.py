"""What the tests of `luxel bench` start from: a small measurement, a peer without a GPU, and readers of reports."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from luxel.render.backends import gsplat
from luxel.render.geometry.camera import Camera
from luxel.render.primitives.gaussians import Gaussians
from luxel.render.raster.rasterize import Frame, rasterize
from luxel.viewer.bench.raster import roofline
from luxel.viewer.cli import main

SMALL = ["--counts", "300", "600", "--sizes", "48x32", "64x48", "--device", "cpu", "--quick"]


def stand_in(inputs: gsplat.Activated, camera: Camera, *, sh_degree: int, error: float, **_: Any) -> Frame:
    """What gsplat is asked, answered by luxel, off by ``error`` in every pixel."""
    gaussians = Gaussians(
        inputs.means,
        inputs.quats,
        inputs.scales.log(),
        inputs.opacities.logit(),
        inputs.colors[:, 0],
        inputs.colors[:, 1:],
    )
    frame = rasterize(gaussians, camera, sh_degree=sh_degree, max_alpha=gsplat.MAX_ALPHA)
    frame.rgb = frame.rgb + error
    return frame


@pytest.fixture
def peer(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Lets `--against gsplat` work here: drawn by luxel, with an error that a test chooses."""

    def install(error: float = 0.0) -> None:
        draw = functools.partial(stand_in, error=error)

        def from_raw(gaussians: Gaussians, camera: Camera, **options: Any) -> Frame:
            options = {**options, "max_alpha": gsplat.MAX_ALPHA}
            frame = rasterize(gaussians, camera, **options)
            frame.rgb = frame.rgb + error
            return frame

        monkeypatch.setattr(gsplat, "require", lambda device=None: None)
        monkeypatch.setattr(gsplat, "rasterize_activated", draw)
        monkeypatch.setattr(gsplat, "rasterize", from_raw)

    return install


@pytest.fixture(scope="session", autouse=True)
def small_ceilings() -> Iterator[None]:
    """Measures the machine's ceilings on small blocks: their values matter to no test."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(roofline, "CPU_CEILINGS", (1 << 18, 128))
        yield


@pytest.fixture(scope="session")
def measured(tmp_path_factory: pytest.TempPathFactory, small_ceilings: None) -> Path:
    """The folder of a small measurement of the rasterizer."""
    folder = tmp_path_factory.mktemp("bench")
    assert main(["bench", "raster", *SMALL, "--out", str(folder)]) == 0
    return folder


def strict_json(path: Path) -> dict[str, Any]:
    """JSON without NaN or Infinity."""

    def refuse(name: str) -> None:
        raise AssertionError(f"{path} holds {name}")

    return json.loads(path.read_text(), parse_constant=refuse)


class Tags(HTMLParser):
    """Checks that tags nest, and keeps what a page would load."""

    VOID = ("meta", "circle", "line", "polyline", "br", "p", "html")

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.loads: list[str] = []
        self.count: dict[str, int] = {}

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.count[tag] = self.count.get(tag, 0) + 1
        self.loads += [str(value) for name, value in attrs if name in ("src", "href")]
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.count[tag] = self.count.get(tag, 0) + 1

    def handle_endtag(self, tag: str) -> None:
        if tag not in self.VOID:
            assert self.open and self.open.pop() == tag, f"</{tag}> closes what is not open"


def tags_of(text: str) -> Tags:
    """The tags of a page or a part of one, which must nest."""
    tags = Tags()
    tags.feed(text)
    assert not tags.open, f"{tags.open} stay open"
    return tags


def page_of(path: Path) -> Tags:
    """The tags of a whole page, which must load nothing."""
    text = path.read_text()
    tags = tags_of(text)
    assert not tags.loads and "url(" not in text and "<script" not in text
    return tags


@pytest.fixture(scope="session")
def strict() -> Callable[[Path], dict[str, Any]]:
    """`strict_json`."""
    return strict_json


@pytest.fixture(scope="session")
def read_tags() -> Callable[[str], Tags]:
    """`tags_of`."""
    return tags_of


@pytest.fixture(scope="session")
def read_page() -> Callable[[Path], Tags]:
    """`page_of`."""
    return page_of
