"""A viewer of a training in another process that ends before it has saved anything."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from test_attach import FakeRun

from luxel.render.errors import LuxelError
from luxel.render.primitives import Gaussians
from luxel.scenes import load_primitives, save_scene
from luxel.viewer import received_scene
from luxel.viewer.attach import RunEnded, RunServer, connect
from luxel.viewer.commands import view
from luxel.viewer.commands.view import ViewScene
from luxel.viewer.received_scene import ReceivedScene


class CopyingRun(FakeRun):
    """Writes a scene when it is asked for one."""

    def copy_scene(self, path: Path) -> int:
        self.done.append("copy")
        save_scene(path, Gaussians.empty(0))
        return 40 + len(self.done)


@pytest.fixture(autouse=True)
def private_folder(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path_factory.mktemp("runtime")))


def test_scenes_are_received_until_the_run_has_saved_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(received_scene, "EVERY", 0.0)
    monkeypatch.setattr(received_scene, "SHARE", 1e9)
    run = CopyingRun(tmp_path)
    server = RunServer(run, lambda options: "", lambda: None)
    server.start()
    connection, received = connect(tmp_path), ReceivedScene(tmp_path)
    assert connection is not None and received.step is None
    received.follow(connection)
    received.follow(connection)
    assert received.step == 42 and load_primitives(received.path).count == 0
    (tmp_path / "scene.ply").touch()
    received.follow(connection)
    assert run.done == ["copy", "copy"] and not received.is_needed
    (tmp_path / "scene.ply").unlink()
    server.close()
    with pytest.raises(RunEnded):
        received.follow(connection)
    received.close()
    assert not received.path.exists()


def test_a_run_that_gives_no_copy_is_not_asked_again(tmp_path: Path) -> None:
    server = RunServer(FakeRun(tmp_path), lambda options: "", lambda: None, lambda: True)
    with pytest.raises(LuxelError, match="gives no copy of its scene"):
        server._copy({"path": "scene.ply"})
    with pytest.raises(LuxelError, match="gives no copy of its scene"):
        RunServer(CopyingRun(tmp_path), lambda options: "", lambda: None)._copy({"path": 5})
    asked: list[str] = []

    def refuse(do: str, **_: Any) -> None:
        asked.append(do)
        raise LuxelError("this is no request to a training.", "Use one version.")

    received = ReceivedScene(tmp_path)
    for _ in range(3):
        received.follow(SimpleNamespace(request=refuse))  # type: ignore[arg-type]
    assert asked == ["copy"] and received.step is None
    server.start()
    connection = connect(tmp_path)
    assert connection is not None and connection.request("stays") is True
    server.close()


def test_what_was_received_is_shown_and_its_absence_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    shown: list[tuple[Path, Path | None]] = []
    monkeypatch.setattr(ViewScene, "_show", lambda self, scene, run=None: shown.append((scene, run)) or 0)
    command, received = ViewScene(tmp_path), ReceivedScene(tmp_path)
    with pytest.raises(LuxelError, match=r"ended before it saved anything.*Start it again"):
        command._show_received(received)
    received.step = 1234
    assert command._show_received(received) == 0 and shown == [(received.path, tmp_path)]
    assert "its scene of step 1,234, as it was received last" in capsys.readouterr().out


def test_the_end_of_the_other_process_is_waited_for() -> None:
    assert view._runs(os.getpid()) and not view._runs(2**22 + 1)
