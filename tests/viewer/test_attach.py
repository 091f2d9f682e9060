"""Attaching to a run that trains: requests, the check of the user at the other end, and what is refused."""

from __future__ import annotations

import json
import os
import socket
import stat
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from luxel.render.errors import LuxelError
from luxel.render.storage import sockets
from luxel.render.storage.sockets import connections, listen, peer
from luxel.viewer import attach
from luxel.viewer.attach import (
    MAX_ANSWER,
    MAX_CONNECTIONS,
    MAX_REQUEST,
    NoAnswerError,
    RunEnded,
    RunServer,
    connect,
    socket_name,
)
from luxel.viewer.cli import main
from luxel.viewer.commands.view import ViewScene
from luxel.viewer.received_scene import ReceivedScene


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


@pytest.fixture(autouse=True)
def private_folder(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sockets of these tests are not among those of the user."""
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path_factory.mktemp("runtime")))


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
    refusals: list[dict[str, Any]] = [{"options": {}}, {"options": [1]}, {}]
    for wrong in refusals:
        with pytest.raises(LuxelError, match="no options"):
            connection.request("set", **wrong)
    with pytest.raises(LuxelError, match="no request"):
        connection.request("fly")
    assert connection.request("status") == {"step": 3}, "a refusal ended the connection"


def raw_connection(folder: Path) -> socket.socket:
    """A connection of a program that is not luxel."""
    return next(connections(socket_name(folder), 10))


def test_only_this_user_is_answered(
    served: tuple[FakeRun, RunServer], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, server = served
    assert server._listener is not None
    path = server._listener.path
    assert (
        stat.S_IMODE(os.stat(path).st_mode) == 0o600 and stat.S_IMODE(os.stat(path.parent).st_mode) == 0o700
    )
    assert not list(tmp_path.glob("attach*")), "nothing in a run folder says where to connect"
    monkeypatch.setattr(attach, "peer", lambda connection: (1, os.getuid() + 1))
    with raw_connection(tmp_path) as other, suppress(ConnectionError):
        other.sendall(b'{"do": "stop"}\n')
        assert other.recv(100) == b""
    assert connect(tmp_path) is None, "a training of another user was accepted"
    monkeypatch.setattr(attach, "peer", peer)
    monkeypatch.setattr(sockets, "peer", lambda connection: (1, os.getuid() + 1))
    assert not list(connections(socket_name(tmp_path), 10))
    assert run.done == []


def test_malformed_requests_are_refused(served: tuple[FakeRun, RunServer], tmp_path: Path) -> None:
    run, _ = served
    for words in (
        b'{"token": "stop"}',
        b"\xff\x00",
        b"[]",
        b"[" * (MAX_REQUEST - 1),
        b"5",
        b'{"do": ["stop"]}',
    ):
        with raw_connection(tmp_path) as raw:
            raw.sendall(words + b"\n")
            answer = raw.makefile("rb").readline()
            assert b"no request" in answer and b'"ok"' not in answer
    with raw_connection(tmp_path) as endless, suppress(OSError):
        for _ in range(200):  # the connection is closed long before
            endless.sendall(b"[" * MAX_REQUEST)
        pytest.fail("a line without end was read")
    assert run.done == []


def test_the_number_of_connections_is_limited(served: tuple[FakeRun, RunServer], tmp_path: Path) -> None:
    with ExitStack() as stack:
        many = [stack.enter_context(raw_connection(tmp_path)) for _ in range(MAX_CONNECTIONS + 1)]
        with suppress(ConnectionError):
            assert many[-1].recv(1) == b""
        many[0].sendall(b'{"do": "status"}\n')
        assert b"ok" in many[0].recv(1000)


@contextmanager
def peer_that_sends(folder: Path, *answers: bytes, endless: bytes = b"") -> Iterator[None]:
    """A program of this user that listens in place of the training of a folder, and is not luxel."""
    listener = listen(socket_name(folder))

    def serve() -> None:
        with suppress(OSError):
            connection, _ = listener.socket.accept()
            with connection:
                for answer in answers:
                    connection.recv(1 << 16)
                    connection.sendall(answer)
                while endless:
                    connection.sendall(endless)
                while connection.recv(1 << 16):
                    pass

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    try:
        yield
    finally:
        listener.close()
        thread.join(20)
        assert not thread.is_alive()


@pytest.mark.parametrize(
    "answer",
    [
        b"[1]\n",
        b"5\n",
        b"{}\n",
        b"null\n",
        b"\xff\n",
        b'{"error": 5}\n',
        b'{"error": "x", "remedy": {}}\n',
        b"[" * 100_000 + b"\n",
        b"1" * (MAX_ANSWER + 2),
    ],
)
def test_malformed_answers_are_one_line(tmp_path: Path, answer: bytes) -> None:
    with (
        peer_that_sends(tmp_path, answer),
        pytest.raises(LuxelError, match="is not luxel, or another version"),
    ):
        connect(tmp_path)


def test_a_line_without_end_is_not_read(tmp_path: Path) -> None:
    with (
        peer_that_sends(tmp_path, b"[", endless=b"[" * (1 << 20)),
        pytest.raises(LuxelError, match="is not luxel"),
    ):
        connect(tmp_path)


def test_an_address_with_control_characters_is_not_shown(tmp_path: Path) -> None:
    answers = b'{"ok": {}}\n', b'{"ok": "http://evil.example/\\u001b[2J"}\n'
    with peer_that_sends(tmp_path, *answers):
        connection = connect(tmp_path)
        assert connection is not None
        with pytest.raises(LuxelError, match="is not luxel"):
            connection.show({})
        connection.close()


def test_a_training_that_does_not_answer_is_announced_and_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(attach, "NOTICE", 0.05)
    monkeypatch.setattr(attach, "NO_ANSWER", 0.2)
    lines: list[str] = []
    with peer_that_sends(tmp_path), pytest.raises(NoAnswerError, match="does not answer"):
        connect(tmp_path, lines.append)
    assert len(lines) == 1 and f"waiting for process {os.getpid()}" in lines[0] and str(tmp_path) in lines[0]
    listener = listen(
        socket_name(tmp_path), backlog=0
    )  # its queue is full: a stopped process that accepts nothing
    with raw_connection(tmp_path), pytest.raises(NoAnswerError, match="takes no connection"):
        connect(tmp_path)
    listener.close()


def test_an_ended_run_is_told_from_a_refusal(served: tuple[FakeRun, RunServer], tmp_path: Path) -> None:
    _, server = served
    assert server._listener is not None
    path = server._listener.path
    connection = connect(tmp_path)
    assert connection is not None
    server.close()
    assert not path.exists()
    with pytest.raises(RunEnded):
        connection.request("status")
    assert connect(tmp_path) is None
    assert connect(tmp_path / "gone") is None


def test_the_socket_of_a_killed_run_attaches_to_nothing_and_is_replaced(tmp_path: Path) -> None:
    killed = listen(socket_name(tmp_path))
    killed.socket.close()
    assert killed.path.exists() and connect(tmp_path) is None
    server = RunServer(FakeRun(tmp_path), lambda options: "", lambda: None)
    server.start()
    try:
        connection = connect(tmp_path)
        assert connection is not None and connection.request("status") == {"step": 3}
        with pytest.raises(OSError):  # a training that lives keeps its name
            RunServer(FakeRun(tmp_path), lambda options: "", lambda: None).start()
        killed.close()
        assert connection.request("status") == {"step": 3} and killed.path.exists()
        connection.close()
    finally:
        server.close()
    assert not killed.path.exists()


def test_a_file_in_the_place_of_the_socket_stays(tmp_path: Path) -> None:
    listener = listen(socket_name(tmp_path))
    listener.close()
    listener.path.write_text("a file")
    try:
        with pytest.raises(OSError):
            listen(socket_name(tmp_path))
        assert connect(tmp_path) is None and listener.path.read_text() == "a file"
    finally:
        listener.path.unlink()


def test_an_attach_file_in_a_run_folder_is_not_opened(
    served: tuple[FakeRun, RunServer], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, _ = served
    stranger = tmp_path / "stranger"
    stranger.mkdir()
    with socket.create_server(("127.0.0.1", 0)) as port:
        port.settimeout(0.2)
        address = {"pid": 1, "port": port.getsockname()[1], "token": "chosen by the stranger"}
        for folder, answers in ((stranger, False), (tmp_path, True)):
            (folder / "attach.json").write_text(json.dumps(address))
            connection = connect(folder)
            assert (connection is not None) == answers
            if connection is not None:
                connection.close()
        with pytest.raises(TimeoutError):
            port.accept()
    for kind in (lambda path: os.mkfifo(path), lambda path: path.symlink_to("/dev/zero")):
        (stranger / "attach.json").unlink()
        kind(stranger / "attach.json")
        assert connect(stranger) is None
    assert run.done == []


def test_folders_for_sockets_that_others_can_enter_are_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sockets, "socket_folders", lambda: iter([tmp_path]))
    tmp_path.chmod(0o711)
    with pytest.raises(OSError, match="no private folder"):
        RunServer(FakeRun(tmp_path), lambda options: "", lambda: None).start()
    tmp_path.chmod(0o700)
    long = tmp_path / ("n" * 100)
    long.mkdir(mode=0o700)
    monkeypatch.setattr(sockets, "socket_folders", lambda: iter([long]))
    server = RunServer(FakeRun(tmp_path), lambda options: "", lambda: None)
    server.start()  # longer than the address of a socket may be
    connection = connect(tmp_path)
    assert connection is not None and connection.request("status") == {"step": 3}
    connection.close()
    server.close()
    assert not list(long.iterdir())


def test_options_of_a_field_do_not_change_while_it_trains(tmp_path: Path) -> None:
    field: Any = SimpleNamespace(folder=SimpleNamespace(path=tmp_path), status=lambda: {})
    server = RunServer(field, lambda options: "", lambda: None)
    with pytest.raises(LuxelError, match=r"field's options cannot be changed.*Stop and resume"):
        server._set({"options": {"rate": 1e-3}})


def test_view_goes_on_with_the_files_of_a_run_whose_training_is_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(attach, "NOTICE", 0.05)
    monkeypatch.setattr(attach, "NO_ANSWER", 0.2)
    with peer_that_sends(tmp_path):
        assert ViewScene(tmp_path)._attach() is None
    waiting, given_up = capsys.readouterr().err.splitlines()
    assert "waiting for process" in waiting
    assert given_up == f"{tmp_path}: the training does not answer. The run is shown as it was last saved."
    answers = b'{"ok": {}}\n', b'{"ok": "http://127.0.0.1:1/"}\n', b'{"ok": false}\n'
    with peer_that_sends(tmp_path, *answers):  # stopped while it is shown
        attached = ViewScene(tmp_path)._attach()
        assert attached is not None
        end = ViewScene(tmp_path)._show_training(*attached, ReceivedScene(tmp_path))
    assert end == f"{tmp_path}: the training does not answer. Its scene stays as it was last saved."


def test_a_training_without_a_folder_for_sockets_says_so_and_goes_on(
    toy_capture: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sockets, "socket_folders", lambda: iter([]))
    run = tmp_path / "run"
    assert (
        main(["train", str(toy_capture), "--run", str(run), "--steps", "2", "--device", "cpu", "--no-lpips"])
        == 0
    )
    output = capsys.readouterr()
    assert (
        f"luxel view {run}` cannot attach to this run (there is no private folder" in output.out + output.err
    )
