"""Exported pages: what is in them, where their camera starts, and that a browser without network draws the scene."""

from __future__ import annotations

import base64
import html
import io
import json
import re
import shutil
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from knot_scene import knot
from PIL import Image
from sog_samples import losses

from luxel.render.geometry.camera import Camera
from luxel.render.primitives import Gaussians
from luxel.render.raster.rasterize import rasterize
from luxel.scenes import load_primitives, save_scene
from luxel.scenes.files.registry import readable_suffixes
from luxel.scenes.files.scene_format import SceneFacts
from luxel.scenes.files.sog import html_page
from luxel.scenes.files.sog.page_camera import pose_around, pose_of_view, upright

CHROMIUM = "/usr/bin/chromium"
FLAGS = ["--no-sandbox", "--use-gl=angle", "--use-angle=swiftshader", "--enable-unsafe-swiftshader"]
BACKGROUND = (0.1, 0.2, 0.3)


def start() -> Camera:
    return Camera.look_at((0.3, -1.1, -2), (0, -0.05, 0), (0, -1, 0), fov_y=0.8, width=480, height=360)


def few(count: int) -> Gaussians:
    """Some Gaussians of the knot and of the disc."""
    return knot().select(torch.linspace(0, 1999, count).long())


def settings(path: Path) -> dict[str, Any]:
    match = re.search(r'id="luxel-settings">(.*?)</script>', path.read_text(), re.DOTALL)
    assert match is not None
    return json.loads(match[1])


def scene_of(path: Path) -> Gaussians:
    text = re.search(r'id="luxel-scene">(.*?)</script>', path.read_text(), re.DOTALL)
    assert text is not None
    file = path.with_suffix(".sog")
    file.write_bytes(base64.b64decode(text[1], validate=True))
    scene = load_primitives(file)
    assert isinstance(scene, Gaussians)
    return scene


def test_a_page_holds_the_scene_its_title_and_the_licence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(html_page, "PIECE", 3 << 8)  # the scene is encoded in several pieces
    path = tmp_path / "my <b>knot</b> & more.html"
    save_scene(path, knot(), background=BACKGROUND)
    text = path.read_text()
    assert f"<title>{html.escape(path.stem)}</title>" in text and "<b>" not in text.split("<body>")[0]
    assert (html_page.VIEWER / "LICENSE.txt").read_text().strip() in text and "PlayCanvas Ltd" in text
    assert losses(knot(), scene_of(path))["position"][1] < 2.5e-5
    assert settings(path)["background"]["color"] == list(BACKGROUND)
    assert ".html" not in readable_suffixes()


def test_a_page_allows_no_requests(tmp_path: Path) -> None:
    save_scene(tmp_path / "a.html", few(25))
    text = (tmp_path / "a.html").read_text()
    policy = re.search(r'http-equiv="Content-Security-Policy" content="(.*?)"', text)
    assert policy is not None
    sources = html.unescape(policy[1])
    assert "default-src 'none'" in sources and not re.search(r"https?:|\*|'self'", sources)
    body = text[text.index("<style>") :]
    assert not re.search(r"<(link|img|iframe|base)\b[^>]*(href|src)=\"https?:", body)
    assert len(re.findall(r"<script[^>]*\bsrc=", text)) == 0
    hosts = set(re.findall(r"https?://([\w.-]+)", body))
    assert hosts == {"www.w3.org", "github.com"}  # names of XML, and the viewer's links to its own source


def test_the_camera_starts_at_a_view(tmp_path: Path) -> None:
    save_scene(tmp_path / "a.html", knot(), view=start())
    pose = settings(tmp_path / "a.html")["cameras"][0]["initial"]
    np.testing.assert_allclose(
        pose["position"], [-0.3, 1.1, -2], atol=1e-6
    )  # the viewer turns scenes about z
    forward = np.array(pose["target"]) - pose["position"]
    expected = np.array([0, 0.05, 0]) - [-0.3, 1.1, -2]
    np.testing.assert_allclose(
        forward / np.linalg.norm(forward), expected / np.linalg.norm(expected), atol=1e-6
    )
    assert 1.5 < np.linalg.norm(forward) < 3
    wide = 2 * np.degrees(np.arctan(np.tan(0.4) * 480 / 360))
    assert pose["fov"] == pytest.approx(wide, abs=1e-3)


def test_a_view_that_looks_away_has_its_target_in_front_of_it() -> None:
    camera = Camera.look_at((0, 0, -3), (0, 0, -9), (0, -1, 0))
    pose = pose_of_view(camera, knot())
    assert pose.target[2] < -3


@pytest.mark.parametrize("up", [(0.0, -1.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0), (0.6, -0.64, 0.48)])
def test_the_scene_stands_upright(tmp_path: Path, up: tuple[float, float, float]) -> None:
    source = few(80)
    save_scene(tmp_path / "a.html", source, facts=SceneFacts(up=up, antialiased=True), view=start())
    actual = scene_of(tmp_path / "a.html")
    turn = upright(up)
    np.testing.assert_allclose(turn.apply(torch.tensor(up)), [0, -1, 0], atol=1e-6)
    assert losses(source.transformed(turn), actual)["position"][1] < 1e-4
    pose = settings(tmp_path / "a.html")["cameras"][0]["initial"]
    eye = turn.apply(torch.tensor([0.3, -1.1, -2])).tolist()
    np.testing.assert_allclose(pose["position"], [-eye[0], -eye[1], eye[2]], atol=1e-5)


def test_directions_that_are_none_turn_nothing() -> None:
    assert not any(upright(up).turns for up in (None, (0.0, 0.0, 0.0), (0.0, float("nan"), 0.0)))


def test_without_a_view_most_of_the_scene_is_seen() -> None:
    for scene in (knot(), few(1), Gaussians.empty()):
        pose = pose_around(scene)
        camera = Camera.look_at(
            pose.position, pose.target, (0, -1, 0), fov_y=np.radians(36), width=160, height=90
        )
        if not scene.count:
            continue
        points = scene.means @ camera.world_to_cam[:3, :3].float().T + camera.world_to_cam[:3, 3].float()
        pixels = points[:, :2] / points[:, 2:] * camera.intrinsics[:2] + camera.intrinsics[2:]
        inside = (pixels > 0).all(1) & (pixels < torch.tensor([160, 90])).all(1) & (points[:, 2] > 0)
        assert inside.double().mean() > 0.9


@pytest.mark.slow
def test_a_browser_without_network_draws_the_scene(tmp_path: Path) -> None:
    api = pytest.importorskip("playwright.sync_api", reason="page test not run: playwright is not installed")
    if shutil.which(CHROMIUM) is None:
        pytest.skip(f"page test not run: there is no {CHROMIUM}")
    scene = knot()
    save_scene(tmp_path / "knot.html", scene, view=start(), background=BACKGROUND)
    problems: list[str] = []
    requests: list[str] = []
    with api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, headless=True, args=FLAGS)
        page = browser.new_context(viewport={"width": 480, "height": 360}, offline=True).new_page()
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.on("console", lambda line: problems.append(line.text) if line.type == "error" else None)
        page.on("request", lambda request: requests.append(request.url))
        page.goto(f"{(tmp_path / 'knot.html').as_uri()}?noui")
        end = time.monotonic() + 120
        while not page.evaluate("window.luxelViewer?.state?.loaded ?? false") and time.monotonic() < end:
            page.wait_for_timeout(200)
        page.wait_for_timeout(1500)
        drawn = np.asarray(Image.open(io.BytesIO(page.screenshot())).convert("RGB"), float) / 255
        assert page.title() == "knot"
        browser.close()
    assert problems == []
    assert [url for url in requests if not url.startswith(("blob:", "file:", "data:"))] == []
    with torch.no_grad():
        expected = rasterize(scene, start(), background=torch.tensor(BACKGROUND)).rgb.numpy().clip(0, 1)
    psnr = -10 * np.log10(np.mean((drawn - expected) ** 2))
    empty = -10 * np.log10(np.mean((np.array(BACKGROUND) - expected) ** 2))
    assert psnr > 30 > 15 > empty, (
        psnr,
        empty,
    )  # measured: 33.0, where the rest is antialiasing and quantisation
