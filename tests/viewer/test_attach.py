"""Attaching to a run that trains: requests, secrets, and what is refused."""

from __future__ import annotations

import json
import os
import socket
import stat
import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from luxel.render.errors import LuxelError
from luxel.viewer.attach import FILE, LONGEST, RunEnded, RunServer, connect


class FakeRun:
    """Does at once what a run does between two steps."""

    def __init__(self, folder: Path) -> None:
        self.folder = SimpleNamespace(path=folder)
        self.done: list[Any] = []

    def status(self) -> dict[str, Any]:
        return {"step": 3}

    def pause(self) -> None:
        self.done.append("pause")

    def resume_training(self) -> None:
        self.done.append("continue")

    def step_once(self) -> None:
        self.done.append("step")

    def request_stop(self) -> None:
        self.done.append("stop")

    def save_checkpoint(self) -> str:
        return "step-00000003.json"

    def between_steps(self, action: Any) -> Any:
        return SimpleNamespace(result=lambda _: action())

    def reconfigure(self, overrides: dict[str, Any]) -> None:
        if "steps" not in overrides:
            raise LuxelError("unknown field.", "Name another.")
        self.done.append(overrides)


@pytest.fixture
def served(tmp_path: Path) -> Iterator[tuple[FakeRun, RunServer]]:
    run = FakeRun(tmp_path)
    server = RunServer(
        run, lambda options: f"http://127.0.0.1:{options['port']}/", lambda: run.done.append("hide")
    )
    server.start()
    yield run, server
    server.close()


def test_a_run_is_steered_from_another_connection(served: tuple[FakeRun, RunServer], tmp_path: Path) -> None:
    run, _ = served
    connection = connect(tmp_path)
    assert connection is not None
    assert connection.request("status") == {"step": 3}
    for do in ("pause", "step", "continue", "stop", "hide"):
        connection.request(do)
    connection.request("set", options={"steps": 500})
    assert run.done == ["pause", "step", "continue", "stop", "hide", {"steps": 500}]
    assert connection.request("save") == "step-00000003.json"
    assert connection.request("show", serve={"port": 9000}) == "http://127.0.0.1:9000/"
    with pytest.raises(LuxelError, match="unknown field") as refused:
        connection.request("set", options={"rate": 1})
    assert refused.value.remedy == "Name another."
    for wrong in ({"options": {}}, {"options": [1]}, {}):
        with pytest.raises(LuxelError, match="no options"):
            connection.request("set", **wrong)
    with pytest.raises(LuxelError, match="no request"):
        connection.request("fly")
    assert connection.request("status") == {"step": 3}, "a refusal ended the connection"


def test_only_who_can_read_the_run_folder_is_answered(
    served: tuple[FakeRun, RunServer], tmp_path: Path
) -> None:
    run, _ = served
    file = tmp_path / FILE
    assert stat.S_IMODE(os.stat(file).st_mode) == 0o600
    port = json.loads(file.read_text())["port"]
    for words in (b'{"token": "guess", "do": "stop"}', b'{"do": "stop"}', b"\xff\x00", b"[]", b"[" * LONGEST):
        with socket.create_connection(("127.0.0.1", port), 10) as raw:
            raw.sendall(words + b"\n")
            answer = raw.makefile("rb").readline()
            assert b"error" in answer and b'"ok"' not in answer
    assert run.done == []


def test_an_ended_run_is_told_from_a_refusal_and_leaves_no_file(
    served: tuple[FakeRun, RunServer], tmp_path: Path
) -> None:
    _, server = served
    connection = connect(tmp_path)
    assert connection is not None
    server.close()
    assert not (tmp_path / FILE).exists()
    with pytest.raises(RunEnded):
        connection.request("status")
    assert connect(tmp_path) is None


def test_a_file_left_by_a_killed_run_attaches_to_nothing(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:  # another program has the port by now
        (tmp_path / FILE).write_text(json.dumps({"pid": 1, "port": other.getsockname()[1], "token": "x"}))
        threading.Thread(target=lambda: other.accept()[0].close(), daemon=True).start()
        assert connect(tmp_path) is None
    for text in ("", "[]", "{}", '{"port": "a", "token": 1}', '{"port": 99999999, "token": ""}'):
        (tmp_path / FILE).write_text(text)
        assert connect(tmp_path) is None


def test_a_later_training_keeps_its_own_file(served: tuple[FakeRun, RunServer], tmp_path: Path) -> None:
    _, server = served
    (tmp_path / FILE).write_text(json.dumps({"token": "of another"}))
    server.close()
    assert (tmp_path / FILE).exists()


def test_options_of_a_field_do_not_change_while_it_trains(tmp_path: Path) -> None:
    field: Any = SimpleNamespace(folder=SimpleNamespace(path=tmp_path), status=lambda: {})
    server = RunServer(field, lambda options: "", lambda: None)
    with pytest.raises(LuxelError, match=r"field's options cannot be changed.*Stop and resume"):
        server._set({"options": {"rate": 1e-3}})
