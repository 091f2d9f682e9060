"""`luxel export RUN --out page.html`, and SOG files on the command line."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from luxel.scenes import load_primitives
from luxel.scenes import open as open_capture
from luxel.scenes.files.sog.page_camera import upright
from luxel.viewer.cli import main


def initial(page: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """The viewer's settings in a page, and the pose in them."""
    text = re.search(r'id="luxel-settings">(.*?)</script>', page.read_text(), re.DOTALL)
    assert text is not None
    settings = json.loads(text[1])
    return settings, settings["cameras"][0]["initial"]


def test_a_page_starts_at_the_first_view_of_the_run(run: Path, sound: Path, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    assert main(["export", str(run), "--out", str(page)]) == 0
    settings, pose = initial(page)
    capture = open_capture(sound)
    up = None if capture.up is None else tuple(capture.up.tolist())
    x, y, z = upright(up).apply(capture.views[0].camera.position).tolist()
    np.testing.assert_allclose(pose["position"], [-x, -y, z], atol=1e-4)
    body = json.loads((run / "config.json").read_text())
    assert settings["background"]["color"] == [0.0 if body["background"] == "black" else 1.0] * 3


def test_a_page_of_a_run_whose_capture_is_gone(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from luxel.scenes.errors import CaptureError
    from luxel.viewer.scene_loading.capture_options import Origin

    def gone(*arguments: object) -> None:
        raise CaptureError("capture: there is no such folder.", "Check the path.")

    monkeypatch.setattr(Origin, "open", gone)
    assert main(["export", str(run), "--out", str(tmp_path / "page.html")]) == 0
    assert "The page frames the scene, as its capture cannot be opened" in capsys.readouterr().err
    assert initial(tmp_path / "page.html")[1]["fov"] == 60.0


def test_files_become_pages_and_bundles(run: Path, tmp_path: Path) -> None:
    scene = tmp_path / "scene.sog"
    assert main(["export", str(run), "--out", str(scene)]) == 0
    assert load_primitives(scene).count == load_primitives(run / "scene.ply").count
    assert main(["export", str(scene), "--out", str(tmp_path / "page.html")]) == 0
    assert initial(tmp_path / "page.html")[0]["background"]["color"] == [0, 0, 0]
