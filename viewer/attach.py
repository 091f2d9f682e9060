"""Attaching to a run that trains in another process of this machine: `luxel view RUN` shows and steers it live.

A training listens on a loopback port and writes port and secret to attach.json in its run folder, readable by its user
only. A connection carries one JSON object a line, request and answer in turn; the first must hold the secret:

    {"token": "...", "do": "status"}    ->  {"ok": {...}}  or  {"error": "...", "remedy": "..."}

``do`` is one of `RunServer.actions`. What changes the run is done between two steps, in the thread that trains.
"""

from __future__ import annotations

import contextlib
import hmac
import json
import os
import secrets
import socket
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from luxel.render.errors import LuxelError

FILE = "attach.json"
LONGEST = 65_536  # bytes of a request
PATIENCE = 60.0  # seconds that an answer may take; a step of training, and a checkpoint, may come first
CONNECTING = 2.0  # seconds


class RunServer:
    """Answers the requests of other processes to a run.

    Args:
        run: a Trainer or FieldTrainer.
        show: starts a web viewer in this process with the given options of `Serve`, unless one is there, and returns
            its address. With ``beside``, the path of a scene, that one is shown too; ``left``: whether the run is the
            left one.
        hide: ends the viewer that ``show`` started.
    """

    def __init__(self, run: Any, show: Callable[..., str], hide: Callable[[], None]) -> None:
        self._run, self._token = run, secrets.token_urlsafe(24)
        self._file = Path(run.folder.path) / FILE
        self._listener: socket.socket | None = None
        self._connections: set[socket.socket] = set()
        self.actions: dict[str, Callable[[dict[str, Any]], Any]] = {
            "status": lambda _: run.status(),
            "pause": lambda _: run.pause(),
            "continue": lambda _: run.resume_training(),
            "step": lambda _: run.step_once(),
            "stop": lambda _: run.request_stop(),
            "save": lambda _: str(run.between_steps(run.save_checkpoint).result(PATIENCE)),
            "set": self._set,
            "show": lambda request: show(
                dict(request.get("serve", {})), **{k: request[k] for k in ("beside", "left") if k in request}
            ),
            "hide": lambda _: hide(),
        }

    def start(self) -> None:
        """Listens, and writes attach.json.

        Raises:
            OSError: there is no loopback port, or the file cannot be written.
        """
        listener = socket.create_server(("127.0.0.1", 0))
        self._listener = listener
        body = {"pid": os.getpid(), "port": listener.getsockname()[1], "token": self._token}
        part = self._file.with_name(f".{FILE}.part")
        part.unlink(missing_ok=True)
        with open(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            json.dump(body, file)
        os.replace(part, self._file)
        threading.Thread(target=self._accept, args=(listener,), name="luxel-attach", daemon=True).start()

    def close(self) -> None:
        """Removes attach.json and ends all connections."""
        if self._listener is not None:
            self._listener.close()
            self._listener = None
        with contextlib.suppress(OSError, ValueError, KeyError):
            if json.loads(self._file.read_text())["token"] == self._token:  # not that of a later training
                self._file.unlink()
        for connection in list(self._connections):
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def _set(self, request: dict[str, Any]) -> None:
        overrides = request.get("options")
        if not isinstance(overrides, dict) or not overrides:
            raise LuxelError("there are no options to change.", "Name them, such as rates.means.")
        if not hasattr(self._run, "reconfigure"):
            raise LuxelError(
                "a neural field's options cannot be changed while it trains.", "Stop and resume it."
            )
        self._run.between_steps(lambda: self._run.reconfigure(overrides)).result(PATIENCE)

    def _accept(self, listener: socket.socket) -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        self._connections.add(connection)
        try:
            with connection, connection.makefile("rwb") as lines:
                known = False
                while line := lines.readline(LONGEST):
                    answer, known = self._answer(line, known)
                    lines.write(json.dumps(answer, default=str).encode() + b"\n")
                    lines.flush()
                    if not known:
                        return
        except (OSError, ValueError):
            pass  # the other process has gone
        finally:
            self._connections.discard(connection)

    def _answer(self, line: bytes, known: bool) -> tuple[dict[str, Any], bool]:
        """The answer to a line, and whether the connection has shown the secret."""
        try:
            request = json.loads(line)
            known = known or hmac.compare_digest(str(request["token"]).encode(), self._token.encode())
            action = self.actions[request["do"]] if known else None
        except (ValueError, KeyError, TypeError, RecursionError):
            return {
                "error": "this is no request to a training.",
                "remedy": "Use one version of luxel for both.",
            }, known
        if action is None:
            return {
                "error": "the token is wrong.",
                "remedy": f"Read it from {FILE} in the run folder.",
            }, False
        try:
            return {"ok": action(request)}, True
        except LuxelError as error:
            return {"error": error.problem, "remedy": error.remedy}, True
        except Exception as error:  # whatever fails here, the training goes on
            return {"error": f"{type(error).__name__}: {error}", "remedy": ""}, True


class RunEnded(LuxelError):
    """The process that trained the run has ended it."""


class RunConnection:
    """A connection to a run that trains in another process; see `connect`."""

    def __init__(self, connection: socket.socket, token: str, folder: Path) -> None:
        self._socket, self._token, self._folder = connection, token, folder
        self._lines = connection.makefile("rwb")
        self._lock = threading.Lock()

    def request(self, do: str, **values: Any) -> Any:
        """Sends a request and returns its answer.

        Args:
            do: one of `RunServer.actions`.

        Raises:
            RunEnded: the training is over.
            LuxelError: it refuses.
        """
        with self._lock:
            try:
                self._lines.write(json.dumps({"token": self._token, "do": do, **values}).encode() + b"\n")
                self._lines.flush()
                answer = json.loads(self._lines.readline() or b"null")
            except (OSError, ValueError):
                answer = None
        if answer is None:
            raise RunEnded(f"{self._folder}: the training has ended.", f"luxel view {self._folder} shows it.")
        if "error" in answer:
            raise LuxelError(answer["error"], answer["remedy"])
        return answer["ok"]

    def close(self) -> None:
        """Ends the connection; the training goes on."""
        with contextlib.suppress(OSError, ValueError):
            self._lines.close()
        self._socket.close()


def connect(folder: Path) -> RunConnection | None:
    """A connection to the training of a run folder; None where no process of this machine and user trains it."""
    try:
        body = json.loads((Path(folder) / FILE).read_text())
        port, token = int(body["port"]), str(body["token"])
        link = socket.create_connection(("127.0.0.1", port), CONNECTING)
    except (OSError, ValueError, KeyError, TypeError, OverflowError):
        return None
    link.settimeout(2 * PATIENCE)
    connection = RunConnection(link, token, Path(folder))
    try:
        connection.request("status")
    except LuxelError:  # the port belongs to another program by now
        connection.close()
        return None
    return connection
