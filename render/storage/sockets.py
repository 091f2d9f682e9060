"""Unix sockets in a private folder of the user: only processes of this user can connect, and both sides check it."""

from __future__ import annotations

import contextlib
import errno
import os
import socket
import stat
import struct
import time
from collections.abc import Iterator
from pathlib import Path

from luxel.render.storage.descriptors import FOLDER
from luxel.render.storage.places import socket_folders

MAX_PATH = 107  # bytes of a path that the address of a Unix socket holds
_CREDENTIALS = struct.Struct("3i")  # process, user, group


class Listener:
    """A socket that listens under a name; see `listen`."""

    def __init__(self, listening: socket.socket, path: Path) -> None:
        self.socket, self.path = listening, path
        self._file = _file_at(path)

    def close(self) -> None:
        """Stops listening and removes the name, unless another process has it by now."""
        with contextlib.suppress(OSError):
            self.socket.shutdown(socket.SHUT_RDWR)  # ends an accept() that waits in another thread
        self.socket.close()
        if self._file is not None and _file_at(self.path) == self._file:
            with contextlib.suppress(OSError):
                self.path.unlink()


def listen(name: str, backlog: int = 16) -> Listener:
    """Listens under a name in the first private folder for sockets that allows it.

    The socket of a process that was killed is replaced; one where a process listens is not.

    Raises:
        OSError: there is no private folder, or something else has the name.
    """
    problem = OSError(errno.ENOENT, "there is no private folder for sockets")
    for folder in _private_folders():
        try:
            return _listen_at(folder / name, backlog)
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                raise
            problem = error
    raise problem


def connections(name: str, timeout: float) -> Iterator[socket.socket]:
    """A connection to each process of this user that listens under a name.

    Args:
        timeout: seconds that a connection, and then each read and write, may take.

    Raises:
        TimeoutError: a process listens, but does not take connections.
    """
    for folder in _private_folders():
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        connection.settimeout(timeout)
        try:
            with _address(folder / name) as address:
                _connect(connection, address, timeout)
            is_own = peer(connection)[1] == os.getuid()
        except (BlockingIOError, TimeoutError) as error:  # its queue is full
            connection.close()
            raise TimeoutError(errno.ETIMEDOUT, os.strerror(errno.ETIMEDOUT), str(folder / name)) from error
        except OSError:
            is_own = False
        if is_own:
            yield connection
        else:
            connection.close()


def peer(connection: socket.socket) -> tuple[int, int]:
    """Process and user at the other end of a connection, as the kernel knows them.

    Raises:
        OSError: this system does not know them.
    """
    if not hasattr(socket, "SO_PEERCRED"):
        raise OSError(errno.ENOTSUP, "this system does not say which user is at the other end of a socket")
    raw = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    pid, uid, _ = _CREDENTIALS.unpack(raw)
    return pid, uid


def _connect(connection: socket.socket, address: str, timeout: float) -> None:
    """Connects; unlike other sockets, those of Unix refuse at once where the queue of the other end is full."""
    end = time.monotonic() + timeout
    while True:
        try:
            return connection.connect(address)
        except BlockingIOError:
            if time.monotonic() >= end:
                raise
            time.sleep(0.02)


def _private_folders() -> Iterator[Path]:
    """The folders for sockets that other users can neither read nor enter."""
    for folder in socket_folders():
        with contextlib.suppress(OSError):
            if not os.lstat(folder).st_mode & 0o077:
                yield folder


def _listen_at(path: Path, backlog: int) -> Listener:
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        if not hasattr(socket, "SO_PEERCRED"):
            raise OSError(errno.ENOTSUP, "this system does not say which user connects")
        with _address(path) as address:
            try:
                listening.bind(address)
            except OSError as error:
                if error.errno != errno.EADDRINUSE or not _is_stale(path, address):
                    raise
                path.unlink()
                listening.bind(address)
            os.chmod(path, 0o600)
        listening.listen(backlog)  # nobody can connect before
        return Listener(listening, path)
    except BaseException:
        listening.close()
        raise


def _is_stale(path: Path, address: str) -> bool:
    """Whether a path is that of a socket at which no process listens."""
    status = os.lstat(path)
    if not stat.S_ISSOCK(status.st_mode) or status.st_uid != os.getuid():
        return False
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.setblocking(False)
        return probe.connect_ex(address) == errno.ECONNREFUSED


@contextlib.contextmanager
def _address(path: Path) -> Iterator[str]:
    """An address of a socket by its path, or by a descriptor of its folder where the path is too long.

    Raises:
        OSError: the folder cannot be opened.
    """
    if len(os.fsencode(path)) <= MAX_PATH:
        yield str(path)
        return
    handle = os.open(path.parent, FOLDER)
    try:
        yield f"/proc/self/fd/{handle}/{path.name}"
    finally:
        os.close(handle)


def _file_at(path: Path) -> tuple[int, int, int] | None:
    """What identifies a file, with the time of its last change: numbers of files are used again."""
    try:
        status = os.lstat(path)
    except OSError:
        return None
    return status.st_dev, status.st_ino, status.st_ctime_ns
