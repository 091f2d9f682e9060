"""The evaluation page: what it shows, what it links to, and what cannot break it."""

from __future__ import annotations

import json
import math
import re
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from luxel.render.errors import LuxelError
from luxel.render.storage.folder import OutputFolder
from luxel.viewer.reports.evaluation_report import ERROR_SCALE, Report, ReportedView, error_image


def view(name: str, seed: int = 0, **scores: object) -> ReportedView:
    random = np.random.default_rng(seed)
    photograph = random.integers(0, 256, (20, 30, 3), dtype=np.uint8)
    given = {"psnr": 30.125, "ssim": 0.9, "lpips": 0.05, **scores}
    return ReportedView(name, photograph, np.roll(photograph, 1, 1), **given)  # type: ignore[arg-type]


class Links(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.targets: list[str] = []
        self.tags: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.targets += [value for name, value in attrs if name in ("src", "href") and value]


def finished(folder: Path, views: list[ReportedView], **options: object) -> Path:
    given = {"title": "A scene", "mean": {"psnr": 30.125, "ssim": 0.9, "lpips": 0.05}, "facts": {}, **options}
    with Report(OutputFolder(folder)) as report:
        for one in views:
            report.add(one)
        return report.finish(**given)  # type: ignore[arg-type]


def test_further_scores_are_shown_where_they_were_computed(tmp_path: Path) -> None:
    further = {"psnr_aligned": 33.5}
    mean = {"psnr": 30.125, "ssim": 0.9, "lpips": 0.05, **further}
    page = finished(tmp_path, [view("a.jpg", further=further)], mean=mean)
    assert "PSNR, aligned" in page.read_text() and "(aligned 33.50 dB)" in page.read_text()
    assert "refined" not in page.read_text()
    written = json.loads((tmp_path / "report.json").read_text())
    assert written["mean"]["psnr_aligned"] == written["views"][0]["psnr_aligned"] == 33.5


def test_the_page_shows_three_images_of_each_view(tmp_path: Path) -> None:
    page = finished(
        tmp_path, [view("a.jpg"), view("b.jpg", 1)], facts={"device": "a GPU"}, notes=["Careful."]
    )
    text = page.read_text()
    links = Links()
    links.feed(text)
    assert links.tags.count("img") == 6
    files = [target for target in links.targets if not target.startswith("#")]
    assert files and all((tmp_path / target).is_file() for target in files), "the target of a link is missing"
    assert (
        "30.12 dB" in text and "a GPU" in text and "Careful." in text and "prefers-color-scheme: dark" in text
    )
    assert not re.search(r"(src|href)=['\"]?(https?:)?//", text), "the page must need nothing from elsewhere"


def test_images_are_what_was_given(tmp_path: Path) -> None:
    flat = np.full((16, 16, 3), 100, np.uint8)
    finished(tmp_path, [ReportedView("x", flat, flat + 20, 10.0, 0.5)])
    shown = {
        path.stem.rsplit("-")[-1]: np.asarray(Image.open(path)) for path in (tmp_path / "images").iterdir()
    }
    assert abs(shown["photograph"].astype(int) - 100).max() <= 2
    assert abs(shown["render"].astype(int) - 120).max() <= 2
    assert np.ptp(shown["error"].reshape(-1, 3), axis=0).max() <= 4


def test_error_colours_grow_with_the_error_and_leave_out_what_does_not_count() -> None:
    photograph = np.zeros((1, 3, 3), np.uint8)
    render = np.array([[[0, 0, 0], [20, 20, 20], [255, 255, 255]]], np.uint8)
    colours = error_image(photograph, render)
    brightness = colours.astype(int).sum(axis=2)[0]
    assert brightness[0] < 20 < brightness[1] < brightness[2]
    full = error_image(photograph, np.full_like(render, math.ceil(255 / ERROR_SCALE)))
    assert np.array_equal(full[0, 0], colours[0, 2]), "a quarter of the range is the brightest colour"
    weight = np.array([[255, 255, 0]], np.uint8)
    assert np.array_equal(error_image(photograph, render, weight)[0, 2], [96, 96, 96])


def test_names_cannot_break_the_page_or_leave_the_folder(tmp_path: Path) -> None:
    evil = "../../<script>alert(1)</script>&'\".jpg"
    page = finished(tmp_path / "report", [view(evil), view(evil)], title="<b>$title</b>")
    text = page.read_text()
    assert "<script" not in text and "&lt;script&gt;" in text and "&lt;b&gt;$title" in text
    assert len(list((tmp_path / "report" / "images").iterdir())) == 6, (
        "views of one name must not share files"
    )
    assert [path.name for path in tmp_path.iterdir()] == ["report"]


def test_the_record_is_strict_json(tmp_path: Path) -> None:
    mean = {"psnr": math.inf, "ssim": 1.0, "lpips": math.nan}
    page = finished(tmp_path, [view("a", psnr=math.inf, lpips=None)], mean=mean)
    record = json.loads((tmp_path / "report.json").read_text(), parse_constant=pytest.fail)
    assert record["mean"] == {"psnr": None, "ssim": 1.0, "lpips": None}
    assert record["views"][0]["name"] == "a" and record["views"][0]["lpips"] is None
    assert "∞" in page.read_text() and "nan" not in page.read_text()


def test_a_second_report_replaces_the_first(tmp_path: Path) -> None:
    finished(tmp_path, [view("a"), view("b")])
    finished(tmp_path, [view("c")])
    assert len(list((tmp_path / "images").iterdir())) == 3


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(LuxelError, match=r"file.*cannot be written") as caught:
        Report(OutputFolder(tmp_path / "file" / "report"))
    assert "--out" in caught.value.remedy
