"""The web viewer: one server, one stream of images per page."""

from __future__ import annotations

import logging
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

import viser

from luxel.render.errors import LuxelError
from luxel.viewer.web.guard import Guard, bind, is_loopback
from luxel.viewer.web.navigate import Pose, first_pose, orbit_point, survey
from luxel.viewer.web.panels import ClientPanel, Thumbnails, TrainingPanel, tick
from luxel.viewer.web.session import Session
from luxel.viewer.web.shading import Render
from luxel.viewer.web.stream import ClientStream, ViserSink

log = logging.getLogger("luxel.viewer")

MIN_TOKEN = 12  # characters


class _Server(viser.ViserServer):
    """viser without its share button: a scene leaves this machine only by the address it listens on."""

    def request_share_url(self, verbose: bool = True) -> str | None:
        return None


@dataclass
class _Page:
    stream: ClientStream
    sink: ViserSink


class ViewerApp:
    """Serves a scene to browsers.

    Each page has its own camera, rendered on this machine and sent as images. Pages may come and go, and a
    render may fail, without an effect on each other or on training.

    Args:
        session: StaticSession or TrainingSession.
        host: address to listen on; anything but a loopback address needs a token.
        port: first choice; the next free one is taken where it is in use (``url`` has it; a line is logged).
        share_of_time: upper bound of the fraction of wall time that images may keep training waiting.
        token: secret of at least 12 characters that a browser must bring; it is part of ``url``.
        render: drawing function; luxel.render.rasterize if None.

    Raises:
        LuxelError: the host is open to others and there is no token, or the token is short.
    """

    def __init__(
        self,
        session: Session,
        host: str = "127.0.0.1",
        port: int = 8080,
        share_of_time: float = 0.3,
        token: str | None = None,
        render: Render | None = None,
    ) -> None:
        if not 0 < share_of_time <= 1:
            raise LuxelError(f"share_of_time must be above 0 and at most 1, got {share_of_time}.")
        if token is None and not is_loopback(host):
            raise LuxelError(
                f"{host} can be reached by other machines, and whoever reaches the viewer can use it.",
                "Give a token of at least 12 characters, or keep 127.0.0.1 and forward the port: "
                f"ssh -L {port}:127.0.0.1:{port} this-machine.",
            )
        if token is not None and (len(token) < MIN_TOKEN or not token.isascii() or not _plain(token)):
            raise LuxelError(
                "the token is too short or has characters that an address cannot carry.",
                f"Use at least {MIN_TOKEN} letters, digits, - or _.",
            )
        session.share_of_time = share_of_time
        self.session = session
        self.url = ""
        self._host, self._port, self._token = host, port, token
        self._render = render
        self._server: _Server | None = None
        self._pages: dict[int, _Page] = {}
        self._pages_lock = threading.Lock()
        self._logged: set[str] = set()
        self._thumbnails = Thumbnails()
        self._done = threading.Event()

    def start(self) -> str:
        """Starts serving.

        Returns:
            The address to open, with the token where there is one.

        Raises:
            LuxelError: nothing can listen on this host and port, or viser does not fit.
        """
        if self._server is not None:
            return self.url
        if self._render is None:
            from luxel.render.rasterize import rasterize

            self._render = rasterize
        with self.session.borrow() as scene:
            self._around = survey(self.session.views, scene, self.session.up, self.session.front)
        # A page may leave between the question whether it is there and the message to it.
        warnings.filterwarnings("ignore", message="Queued a .* on a closed connection")
        sock = bind(self._host, self._port)
        port = int(sock.getsockname()[1])
        guard = Guard(loopback=is_loopback(self._host), token=self._token, port=port)
        with _quiet(), guard.installed_on(sock):
            server = _Server(host=self._host, port=port, label=self.session.name, verbose=False)
        self._server = server
        if self._port not in (0, port):
            log.warning("Port %d is in use: the viewer listens on port %d.", self._port, port)
        shown = f"[{self._host}]" if ":" in self._host else self._host
        self.url = f"http://{shown}:{port}/" + (f"?token={quote(self._token)}" if self._token else "")
        self._furnish(server)
        return self.url

    def _furnish(self, server: _Server) -> None:
        server.gui.configure_theme(
            dark_mode=True, show_logo=False, show_share_button=False, brand_color=(214, 118, 36)
        )
        server.gui.main_panel.dock_right()  # beside the image, not on it
        start = first_pose(self.session.views, self._around)
        server.scene.set_up_direction(self._around.up)
        server.initial_camera.position = start.position
        server.initial_camera.look_at = orbit_point(start, self._around)
        server.initial_camera.fov = start.fov_y
        server.initial_camera.near = 1e-3 * self._around.radius
        server.initial_camera.far = 1e3 * self._around.radius
        panel = TrainingPanel(server.gui, self.session)
        threading.Thread(target=tick, args=(panel.refresh, self._done), daemon=True).start()
        server.on_client_connect(self._open)
        server.on_client_disconnect(self._close)

    def _open(self, client: Any) -> None:
        assert self._render is not None
        panel = ClientPanel(client, self.session, self._around, self._thumbnails)
        sink = ViserSink(client)
        stream = ClientStream(self.session, self._render, sink, panel.report, self._logged)
        panel.attach(stream)

        async def moved(camera: Any) -> None:  # async: on the event loop, where a pose is never half new
            stream.move(Pose.of_client(camera))

        client.camera.on_update(moved)
        if self.session.views:  # a window narrower than the photograph shows all of it, too
            aspect = client.camera.image_width / max(1, client.camera.image_height)
            client.camera.fov = Pose.of_camera(self.session.views[0].camera, aspect).fov_y
        stream.move(Pose.of_client(client.camera))
        with self._pages_lock:
            self._pages[client.client_id] = _Page(stream, sink)
        stream.start()
        gone = self._server is None or client.client_id not in self._server.get_clients()
        if gone or self._done.is_set():  # it left while it was being furnished
            self._close(client)

    def _close(self, client: Any) -> None:
        with self._pages_lock:
            page = self._pages.pop(client.client_id, None)
        if page is not None:
            page.stream.stop()
            page.sink.close()

    @property
    def pages(self) -> int:
        """How many pages are open."""
        return len(self._pages)

    def wait(self) -> None:
        """Returns after ``stop`` from another thread, or raises KeyboardInterrupt on Ctrl-C."""
        while not self._done.wait(0.5):
            pass

    def stop(self) -> None:
        """Stops serving; training is left alone."""
        self._done.set()
        with self._pages_lock:
            pages = list(self._pages.values())
            self._pages.clear()
        for page in pages:
            page.stream.stop(wait=1.0)  # a thread that renders while Python ends may bring it down
            page.sink.close()
        if self._server is not None:
            with _quiet():
                self._server.stop()
            self._server = None

    def __enter__(self) -> ViewerApp:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


def _plain(token: str) -> bool:
    return all(c.isalnum() or c in "-_" for c in token)


@contextmanager
def _quiet() -> Iterator[None]:
    """viser prints a table of addresses when it starts, but no token; the command line prints its own."""
    import rich

    console = rich.get_console()
    before, console.quiet = console.quiet, True
    try:
        yield
    finally:
        console.quiet = before
