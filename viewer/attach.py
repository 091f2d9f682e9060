"""Attaching to a run that trains in another process of this machine: `luxel view RUN` shows and steers it live.

A training listens on a Unix socket in a private folder of its user, under a name derived from the run folder, so
nothing in a run folder says where to connect. Both sides ask the kernel which user is at the other end and accept their
own only. A connection carries one JSON object a line, request and answer in turn:

    {"do": "status"}    ->  {"ok": {...}}  or  {"error": "...", "remedy": "..."}

``do`` is one of `RunServer.actions`. What changes the run is done between two steps, in the thread that trains. Lines
are limited in length and in the time that they may take.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import socket
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from luxel.render.errors import LuxelError
from luxel.render.storage.sockets import Listener, connections, listen, peer

MAX_REQUEST, MAX_ANSWER = 1 << 16, 1 << 20  # bytes of a line
MAX_CONNECTIONS = 32  # at once to a training
MAX_IDLE = 3600.0  # seconds without a request, after which a training ends a connection
TRANSFER = 10.0  # seconds that a line may take from its first byte, or to be sent
PATIENCE = 60.0  # seconds that an action between two steps may take; a checkpoint may come first
CONNECTING = 2.0  # seconds
NOTICE, NO_ANSWER = 3.0, 15.0  # seconds after which a wait for a status is announced, and given up


class RunServer:
    """Answers the requests of other processes to a run.

    Args:
        run: a Trainer or FieldTrainer.
        show: starts a web viewer in this process with the given options of `Serve`, unless one is there, and returns
            its address. With ``beside``, the path of a scene, that one is shown too; ``left``: whether the run is the
            left one.
        hide: ends the viewer that ``show`` started.
        stays: whether the viewer goes on after the training.
    """

    def __init__(
        self,
        run: Any,
        show: Callable[..., str],
        hide: Callable[[], None],
        stays: Callable[[], bool] = lambda: False,
    ) -> None:
        self._run = run
        self._listener: Listener | None = None
        self._connections: set[socket.socket] = set()
        self._lock = threading.Lock()
        self.actions: dict[str, Callable[[dict[str, Any]], Any]] = {
            "status": lambda _: run.status(),
            "pause": lambda _: run.pause(),
            "continue": lambda _: run.resume_training(),
            "step": lambda _: run.step_once(),
            "stop": lambda _: run.request_stop(),
            "save": lambda _: str(run.between_steps(run.save_checkpoint).result(PATIENCE)),
            "set": self._set,
            "copy": self._copy,
            "show": lambda request: show(
                dict(request.get("serve", {})), **{k: request[k] for k in ("beside", "left") if k in request}
            ),
            "hide": lambda _: hide(),
            "stays": lambda _: stays(),
        }

    def start(self) -> None:
        """Listens under the name of the run folder.

        Raises:
            OSError: there is no private folder for sockets, or another process listens for this run folder.
        """
        self._listener = listen(socket_name(Path(self._run.folder.path)))
        listening = self._listener.socket
        threading.Thread(target=self._accept, args=(listening,), name="luxel-attach", daemon=True).start()

    def close(self) -> None:
        """Stops listening, and ends all connections."""
        listener, self._listener = self._listener, None
        if listener is not None:
            listener.close()
        with self._lock:
            present = list(self._connections)
        for connection in present:
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

    def _copy(self, request: dict[str, Any]) -> int:
        """Writes the present scene to a file of the other process; returns its step."""
        path = request.get("path")
        if not hasattr(self._run, "copy_scene") or not isinstance(path, str):
            raise LuxelError("this run gives no copy of its scene.", "Wait for its first checkpoint.")
        return self._run.copy_scene(Path(path))

    def _accept(self, listening: socket.socket) -> None:
        while True:
            try:
                connection, _ = listening.accept()
            except OSError:
                if self._listener is None:
                    return
                time.sleep(0.5)  # such as a lack of descriptors
                continue
            if not self._accepts(connection):
                connection.close()
                continue
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _accepts(self, connection: socket.socket) -> bool:
        """Adds a connection of this user, unless there are too many."""
        if not is_own(connection):
            return False
        with self._lock:
            if self._listener is None or len(self._connections) >= MAX_CONNECTIONS:
                return False
            self._connections.add(connection)
        return True

    def _serve(self, connection: socket.socket) -> None:
        lines = Lines(connection)
        try:
            with connection:
                while line := lines.receive(MAX_REQUEST, MAX_IDLE):
                    lines.send(json.dumps(self._answer(line), default=str).encode())
        except (OSError, ValueError):
            pass  # the other process has gone, or sends no lines
        finally:
            with self._lock:
                self._connections.discard(connection)

    def _answer(self, line: bytes) -> dict[str, Any]:
        try:
            request = json.loads(line)
            action = self.actions[request["do"]]
        except (ValueError, KeyError, TypeError, RecursionError):
            return {
                "error": "this is no request to a training.",
                "remedy": "Use one version of luxel for both.",
            }
        try:
            return {"ok": action(request)}
        except LuxelError as error:
            return {"error": error.problem, "remedy": error.remedy}
        except Exception as error:  # whatever fails here, the training goes on
            return {"error": f"{type(error).__name__}: {error}", "remedy": ""}


class Lines:
    """Lines over a socket, limited in length and time."""

    def __init__(self, connection: socket.socket) -> None:
        self._socket, self._rest = connection, b""

    def receive(self, max_bytes: int, patience: float, on_wait: Callable[[], None] | None = None) -> bytes:
        """The next line without its end; empty: the other side has closed the connection.

        Args:
            max_bytes: of the line.
            patience: seconds until its first byte; the rest must follow within `TRANSFER`.
            on_wait: called once after `NOTICE` seconds without a byte.

        Raises:
            TimeoutError: it did not come in time.
            ValueError: it is longer.
            OSError: the connection is broken.
        """
        begin = time.monotonic()
        end = begin + patience
        parts, size = [self._rest], len(self._rest)
        while b"\n" not in parts[-1] and size <= max_bytes:
            until = begin + NOTICE if on_wait is not None and not size else end
            self._socket.settimeout(max(0.001, min(until, end) - time.monotonic()))
            try:
                part = self._socket.recv(1 << 16)
            except TimeoutError:
                if time.monotonic() >= end or on_wait is None or size:
                    raise
                on_wait()
                on_wait = None
                continue
            if not part:
                return b""
            if not size:
                end = time.monotonic() + TRANSFER
            elif time.monotonic() >= end:
                raise TimeoutError("a line takes too long")
            parts.append(part)
            size += len(part)
        line, _, self._rest = b"".join(parts).partition(b"\n")
        if len(line) > max_bytes:
            raise ValueError(f"a line has more than {max_bytes} bytes")
        return line

    def send(self, line: bytes) -> None:
        """Sends a line.

        Raises:
            OSError: the connection is broken, or the other side does not read.
        """
        self._socket.settimeout(TRANSFER)
        self._socket.sendall(line + b"\n")


class RunEnded(LuxelError):
    """The process that trained the run has ended it."""


class NoAnswerError(LuxelError):
    """The process that trains the run does not answer, as it was stopped."""


class RunConnection:
    """A connection to a run that trains in another process; see `connect`."""

    def __init__(self, connection: socket.socket, folder: Path) -> None:
        self._socket, self._folder = connection, folder
        self._lines = Lines(connection)
        self._lock = threading.Lock()

    def request(
        self,
        do: str,
        *,
        patience: float = 2 * PATIENCE,
        on_wait: Callable[[], None] | None = None,
        **values: Any,
    ) -> Any:
        """Sends a request and returns its answer.

        Args:
            do: one of `RunServer.actions`.
            patience: seconds to wait for the answer.
            on_wait: called once where the answer takes more than `NOTICE` seconds.

        Raises:
            RunEnded: the training is over.
            NoAnswerError: no answer came in time; the connection is of no more use.
            LuxelError: it refuses, or what it answers is no answer.
        """
        with self._lock:
            try:
                self._lines.send(json.dumps({"do": do, **values}).encode())
                line = self._lines.receive(MAX_ANSWER, patience, on_wait)
            except TimeoutError as error:
                raise NoAnswerError(
                    f"{self._folder}: the training does not answer.",
                    "Let the process go on if it was stopped (kill -CONT), or end it.",
                ) from error
            except OSError:
                line = b""
            except ValueError as error:
                raise self._malformed() from error
        if not line:
            raise RunEnded(f"{self._folder}: the training has ended.", f"luxel view {self._folder} shows it.")
        try:
            answer = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise self._malformed() from error
        if isinstance(answer, dict) and "ok" in answer:
            return answer["ok"]
        problem, remedy = (
            (answer.get("error"), answer.get("remedy", "")) if isinstance(answer, dict) else (0, 0)
        )
        if not isinstance(problem, str) or not isinstance(remedy, str):
            raise self._malformed()
        raise LuxelError(problem, remedy)

    def show(self, serve: dict[str, Any], **beside: Any) -> str:
        """Starts the viewer of the run and returns its address; see `RunServer`.

        Raises:
            LuxelError: as `request`.
        """
        address = self.request("show", serve=serve, **beside)
        if not isinstance(address, str) or not address.isprintable():
            raise self._malformed()
        return address

    def _malformed(self) -> LuxelError:
        return LuxelError(
            f"{self._folder}: what answers for its training is not luxel, or another version of it.",
            "End that process, or use one version of luxel for both.",
        )

    @property
    def process(self) -> int:
        """Number of the process that trains."""
        return peer(self._socket)[0]

    def close(self) -> None:
        """Ends the connection; the training goes on."""
        self._socket.close()


def socket_name(folder: Path) -> str:
    """The name of the socket of the training of a run folder.

    Raises:
        OSError: there is no such folder.
    """
    path = folder.resolve(strict=True)
    status = os.stat(path)
    identity = b"%d:%d:%s" % (status.st_dev, status.st_ino, os.fsencode(path))
    return f"run-{hashlib.sha256(identity).hexdigest()[:24]}"


def is_own(connection: socket.socket) -> bool:
    """Whether a process of this user is at the other end of a connection."""
    try:
        return peer(connection)[1] == os.getuid()
    except OSError:
        return False


def connect(folder: Path, say: Callable[[str], None] | None = None) -> RunConnection | None:
    """A connection to the training of a run folder; None where no process of this machine and user trains it.

    Args:
        folder: of the run.
        say: receives a message where the training lets wait for its answer.

    Raises:
        NoAnswerError: it does not answer within `NO_ANSWER` seconds.
        LuxelError: what answers is not luxel.
    """
    try:
        name = socket_name(Path(folder))
        for link in connections(name, CONNECTING):
            connection = RunConnection(link, Path(folder))
            try:
                if is_own(link) and check(connection, folder, say):
                    return connection
            except BaseException:
                connection.close()
                raise
            connection.close()
    except TimeoutError as error:
        raise NoAnswerError(
            f"{folder}: the training takes no connection.", "Let the process go on, or end it."
        ) from error
    except OSError:
        pass
    return None


def check(connection: RunConnection, folder: Path, say: Callable[[str], None] | None = None) -> bool:
    """Whether a training still runs.

    Args:
        connection: to it.
        folder: of the run, for the message.
        say: receives a message where it lets wait for its answer.

    Raises:
        NoAnswerError: it does not answer within `NO_ANSWER` seconds.
        LuxelError: what answers is not luxel.
    """

    def on_wait() -> None:
        if say is not None:
            say(
                f"{folder}: waiting for process {connection.process}, which trains this run and does not answer; "
                f"{NO_ANSWER:.0f} s at most."
            )

    try:
        connection.request("status", patience=NO_ANSWER, on_wait=on_wait)
    except RunEnded:
        return False
    return True
