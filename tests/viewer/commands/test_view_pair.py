"""`luxel view A B`: what is refused, the viewer of a run beside a scene, and both in processes of their own."""

from __future__ import annotations

import signal
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from shown import TrainingSession
from test_cli_serving import Running

from luxel.render.errors import LuxelError
from luxel.render.runs.fair_lock import FairLock
from luxel.scenes import save_primitive_ply
from luxel.scenes.synthetic.toy import torus_knot
from luxel.viewer.attach import connect
from luxel.viewer.cli import main
from luxel.viewer.options import Serve
from luxel.viewer.training.live_viewer import LiveViewer
from luxel.viewer.web.pair.session import PairSession


@pytest.fixture
def scenes(tmp_path: Path) -> tuple[Path, Path]:
    paths = tmp_path / "first.ply", tmp_path / "second.ply"
    for path, count in zip(paths, (50, 40), strict=True):
        save_primitive_ply(path, torus_knot(count))
    return paths


def test_a_second_scene_that_is_absent_or_the_first_is_refused(
    scenes: tuple[Path, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    first, _ = scenes
    for second, words in ((first.with_name("gone.ply"), "no such file"), (first, "the first scene again")):
        assert main(["view", str(first), str(second), "--device", "cpu"]) == 2
        message = capsys.readouterr().err
        assert str(second) in message and words in message and "Traceback" not in message
    first.with_name("bad.ply").write_text("no scene")
    assert main(["view", str(first), str(first.with_name("bad.ply")), "--device", "cpu"]) == 2
    assert "bad.ply" in capsys.readouterr().err


@pytest.fixture
def live(tmp_path: Path) -> Iterator[LiveViewer]:
    trainer: Any = SimpleNamespace(
        lock=FairLock(), scene=torus_knot(30), paused=True, status=lambda: {"count": 30}
    )
    viewer = LiveViewer(lambda: TrainingSession(trainer, name="run", folder=tmp_path / "run"))
    yield viewer
    viewer.stop()


def test_a_run_that_trains_is_shown_beside_a_scene(live: LiveViewer, scenes: tuple[Path, Path]) -> None:
    options = {"port": 0}

    def names() -> list[str]:
        assert live._app is not None
        session = live._app.session
        return [side.name for side in session.sides] if isinstance(session, PairSession) else [session.name]

    first = live.show(options, beside=str(scenes[1]))
    assert names() == ["run", "second.ply"] and live.show(options, beside=str(scenes[1])) == first
    live.show(options, beside=str(scenes[0]), left=False)
    assert names() == ["first.ply", "run"], "the viewer of another pair stays"
    live.show(options)
    assert names() == ["run"]
    with pytest.raises(LuxelError, match="gone"):
        live.show(options, beside=str(scenes[0].with_name("gone.ply")))
    live.stop()
    live.start(Serve(port=0))
    with pytest.raises(LuxelError, match="without a second scene"):
        live.show(options, beside=str(scenes[0]))
    assert live.show(options).startswith("http")


@pytest.mark.slow
def test_view_serves_two_scenes_and_says_what_does_not_fit(scenes: tuple[Path, Path], tmp_path: Path) -> None:
    away = torus_knot(20)
    away.means += 100
    save_primitive_ply(tmp_path / "away.ply", away)
    view = Running("view", str(scenes[0]), str(tmp_path / "away.ply"), "--port", "0", "--device", "cpu")
    try:
        url = view.wait_for(r"viewer: (\S+)")[1]
        with urllib.request.urlopen(url, timeout=20) as answer:
            assert b"<html" in answer.read().lower()
        view.wait_for("do not overlap")
        assert "50 Gaussians" in view.text and "20 Gaussians" in view.text
        assert view.end(signal.SIGINT) == 0 and "Traceback" not in view.text
    finally:
        view.process.kill()


@pytest.mark.slow
def test_view_attaches_to_the_one_that_trains(
    toy_capture: Path, scenes: tuple[Path, Path], tmp_path: Path
) -> None:
    folder = tmp_path / "run"
    options = ("--device", "cpu", "--no-lpips", "--max-gaussians", "300", "--eval-every", "0")
    training = Running("train", str(toy_capture), "--run", str(folder), "--steps", "400", *options)
    try:
        deadline = time.monotonic() + 60
        while (connection := connect(folder)) is None:
            assert time.monotonic() < deadline, "the run does not listen"
            time.sleep(0.02)
        connection.request("pause")
        view = Running("view", str(scenes[0]), str(folder), "--port", "0", "--device", "cpu")
        url = view.wait_for(r"viewer: (\S+)")[1]
        with urllib.request.urlopen(url, timeout=20) as answer:
            assert b"first.ply | run" in answer.read() or answer.status == 200
        view.wait_for("is training")
        assert view.end(signal.SIGINT) == 0 and training.process.poll() is None
        connection.request("stop")
        connection.request("continue")
        training.process.wait(120)
    finally:
        training.process.kill()
    assert connect(folder) is None and "Traceback" not in training.text
