"""The web viewer: one server, one stream of images per page."""

from __future__ import annotations

import logging
import ssl
import threading
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import quote

import numpy as np
import viser

from luxel.render.errors import LuxelError
from luxel.viewer.measure.shared_measurements import measured_up
from luxel.viewer.web.access.credentials import reachable
from luxel.viewer.web.access.free_memory import FreeMemory, limit_heaps
from luxel.viewer.web.access.guard import Guard, bind, is_loopback
from luxel.viewer.web.access.limits import Limits
from luxel.viewer.web.access.viser_events import make_buffers_safe
from luxel.viewer.web.editing.stroke_messages import STROKE_PATH
from luxel.viewer.web.editing.stroke_server import SCRIPTS_FOLDER as STROKE_SCRIPTS
from luxel.viewer.web.editing.stroke_server import STROKES
from luxel.viewer.web.images.first_image import FIRST_IMAGE_PATH, FirstImage
from luxel.viewer.web.images.thumbnails import Thumbnails
from luxel.viewer.web.navigate import Pose, find_extent, first_pose, orbit_point
from luxel.viewer.web.page import Page
from luxel.viewer.web.pair.session import PairSession
from luxel.viewer.web.panels import PANELS
from luxel.viewer.web.panels.panel import (
    AnyPanel,
    Panel,
    SharedPanel,
    fit_page_panels,
    open_page_panels,
    open_shared_panels,
)
from luxel.viewer.web.session import Session
from luxel.viewer.web.share.jobs import SCRIPTS_FOLDER as SHARE_SCRIPTS
from luxel.viewer.web.share.jobs import ShareJobs
from luxel.viewer.web.share.shared_files import SHARED_PATH
from luxel.viewer.web.shell.messages import SHELL_PATH
from luxel.viewer.web.shell.page_shell import PageShell
from luxel.viewer.web.shell.report_files import REPORT_PATH, answer_report
from luxel.viewer.web.shell.shell_server import SCRIPTS_FOLDER as SHELL_SCRIPTS
from luxel.viewer.web.shell.shell_server import ShellServer
from luxel.viewer.web.shell.start_view import head_of
from luxel.viewer.web.transport.routes import Routes
from luxel.viewer.web.transport.stream_server import StreamEnd, StreamServer

log = logging.getLogger("luxel.viewer")

MIN_TOKEN = 12  # characters
AMBIENT = 1.5  # intensity of the light on markers and handles
REFRESH = 0.5  # seconds between refreshes of shared panels


class _Server(viser.ViserServer):
    """viser without its share button, which would open a public tunnel to this machine."""

    def request_share_url(self, verbose: bool = True) -> str | None:
        return None


@dataclass
class OpenPage:
    """A page, its panels, what lies around its image, and the keys of its websockets if it was offered any."""

    page: Page
    panels: list[Panel]
    shell: PageShell
    key: str | None = None
    shell_key: str | None = None

    def close(self, wait: float = 0.0) -> None:
        """Closes the panels and stops rendering; returns after at most ``wait`` seconds."""
        for panel in self.panels:
            try:
                panel.detach()
            except Exception:
                log.exception("The panel %s failed to close.", type(panel).__name__)
        self.page.close(wait)


class ViewerApp:
    """Serves a scene to browsers.

    Each page has its own camera, rendered on this machine and sent as images. Pages may come and go, and a
    render may fail, without any effect on other pages or on training.

    Args:
        session: StaticSession or TrainingSession.
        host: address to listen on; anything but a loopback address needs a token.
        port: preferred port; if it is in use, the next free one is taken (see ``url``) and a line is logged.
        share_of_time: largest fraction of wall time that rendering for pages may take from training, in (0, 1].
        token: secret of at least 12 characters that a browser must send; it is part of ``url``.
        panels: tools of the pages, in their order.
        limits: on pages, messages and wrong tokens.
        tls: certificate and key (see `luxel.viewer.web.access.credentials.tls_context`); None serves plain HTTP.

    Attributes:
        guard: access control; after ``start()``.
        url: address to open, with the token if there is one; after ``start()``.
        extent: centre, size and up direction of the scene; after ``start()``.

    Raises:
        LuxelError: other machines can reach the host and there is no token, or the token is short.
    """

    def __init__(
        self,
        session: Session,
        host: str = "127.0.0.1",
        port: int = 8080,
        share_of_time: float = 0.3,
        token: str | None = None,
        panels: Sequence[AnyPanel] = PANELS,
        limits: Limits | None = None,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        if not 0 < share_of_time <= 1:
            raise LuxelError(
                f"--share-of-time {share_of_time}: it must be above 0 and at most 1.", "Leave it out: 0.3."
            )
        if token is None and not is_loopback(host):
            raise LuxelError(
                f"--host {host}: other machines can reach this address, and anyone who reaches the viewer can use it.",
                "Give a token of at least 12 characters, or keep 127.0.0.1 and forward the port: "
                f"ssh -L {port}:127.0.0.1:{port} this-machine.",
            )
        if token is not None and (len(token) < MIN_TOKEN or not token.isascii() or not _plain(token)):
            raise LuxelError(
                "--token: too short, or with characters that an address cannot contain.",
                f"Use at least {MIN_TOKEN} letters, digits, - or _.",
            )
        session.share_of_time = share_of_time
        self.session = session
        self.url = ""
        self._host, self._port, self._token = host, port, token
        self._limits = Limits() if limits is None else limits
        self._tls = tls
        self.guard: Guard | None = None
        self._server: _Server | None = None
        self._panels = panels
        self._shared: list[SharedPanel] = []
        self._pages: dict[int, OpenPage] = {}
        self._pages_lock, self._fitting = threading.Lock(), threading.RLock()
        self._logged: set[str] = set()
        self._thumbnails = Thumbnails()
        self._streams, self._shells = StreamServer(), ShellServer()
        if (on_change := getattr(session, "on_change", None)) is not None:  # it is trained
            on_change(self._fit_pages)
        self._first_image: FirstImage | None = None
        self._memory = FreeMemory()
        self._done = threading.Event()
        self._serving = False  # whether it holds the jobs of the session

    def start(self) -> str:
        """Starts serving.

        Returns:
            The address to open, with the token where there is one.

        Raises:
            LuxelError: the viewer cannot listen on this host and port, or the version of viser does not fit.
        """
        if self._server is not None:
            return self.url
        limit_heaps()
        self._serving = True
        ShareJobs.of(self.session).hold()
        with self.session.borrow() as scene:
            session = self.session
            self.extent = find_extent(session.views, scene.centres, session.up, session.front)
        self._scene_up = self.extent.up
        self._follow_level()
        self._served_up = self.extent.up
        if not isinstance(session, PairSession):  # whose pages begin with a tool that draws both
            self._first_image = FirstImage(session, self.extent)
        # A page may be closed between the check that it is open and the message to it.
        warnings.filterwarnings("ignore", message="Queued a .* on a closed connection")
        make_buffers_safe()
        sock = bind(self._host, self._port)
        port = int(sock.getsockname()[1])
        guard = Guard(
            loopback=is_loopback(self._host), token=self._token, port=port, limits=self._limits, tls=self._tls
        )
        with _quiet(), guard.installed_on(sock, self._routes()):
            server = _Server(host=self._host, port=port, label=self.session.name, verbose=False)
        self._server, self.guard = server, guard
        try:
            guard.messages.attach(server)
        except LuxelError:
            self.stop()
            raise
        if self._port not in (0, port):
            log.warning("Port %d is in use: the viewer listens on port %d.", self._port, port)
        shown = reachable(self._host)
        shown = f"[{shown}]" if ":" in shown else shown
        scheme = "https" if self._tls else "http"
        self.url = f"{scheme}://{shown}:{port}/" + (f"?token={quote(self._token)}" if self._token else "")
        self._set_up(server)
        return self.url

    def _follow_level(self) -> None:
        """Makes the up direction that was measured, or that of the scene where there is none, the one of new pages."""
        measured = measured_up(self.session)
        self.extent = replace(self.extent, up=self._scene_up if measured is None else measured)

    def _routes(self) -> Routes:
        """What this server serves next to viser."""
        servers = {STROKE_PATH: STROKES, SHELL_PATH: self._shells}
        images = {} if self._first_image is None else {FIRST_IMAGE_PATH: self._first_image.answer}
        head = head_of(self.session, self.extent)
        scripts = (STROKE_SCRIPTS, SHELL_SCRIPTS, SHARE_SCRIPTS)
        answers = {
            SHARED_PATH: lambda path: ShareJobs.of(self.session).files.answer(path),
            REPORT_PATH: lambda path: answer_report(self.session.run_end, path),
        }
        return Routes(self._streams, servers, scripts, images, head, answers)

    def _set_up(self, server: _Server) -> None:
        server.gui.configure_theme(
            dark_mode=True, show_logo=False, show_share_button=False, brand_color=(214, 118, 36)
        )
        server.gui.main_panel.dock_right()  # next to the image, not on it
        server.scene.configure_environment_map(hdri=None)  # see static/hook.js
        server.scene.add_light_ambient("/luxel-light", intensity=AMBIENT)
        start = first_pose(self.session.views, self.extent)
        server.scene.set_up_direction(self.extent.up)
        server.initial_camera.position = start.position
        server.initial_camera.look_at = orbit_point(start, self.extent)
        server.initial_camera.fov = start.fov_y
        server.initial_camera.near = 1e-3 * self.extent.radius
        server.initial_camera.far = 1e3 * self.extent.radius
        self._shared = open_shared_panels(self._panels, self.session, server.gui)
        threading.Thread(target=self._refresh_shared, daemon=True).start()
        if self._first_image is not None:
            self._first_image.prepare()
        server.on_client_connect(self._open)
        server.on_client_disconnect(self._close)

    def _refresh_shared(self) -> None:
        """Refreshes the shared panels until the viewer stops; one that fails is logged once and tried again."""
        while not self._done.wait(REFRESH):
            self._memory.trim_when_due(self.pages)
            for panel in self._shared:
                try:
                    panel.refresh()
                except Exception as error:
                    if (message := f"{type(panel).__name__}: {error}") not in self._logged:
                        self._logged.add(message)
                        log.exception("The panel %s could not be refreshed.", type(panel).__name__)

    def open_page(self, client: Any) -> OpenPage:
        """Makes a page for a client and starts to render for it.

        Args:
            client: viser ClientHandle, or an `luxel.viewer.web.offline.OfflineClient`.
        """
        self._follow_level()
        page = Page(client, self.session, self.extent, self._thumbnails, self._logged, self._scene_up)
        panels = open_page_panels(self._panels, page)
        opened = OpenPage(page, panels, PageShell(page, panels))

        async def moved(camera: Any) -> None:  # async: on the event loop, where a pose is never half updated
            page.follow(Pose.of_client(camera))

        client.camera.on_update(moved)
        if not np.array_equal(page.up, self._served_up):  # measured since the viewer started
            page.turn_up(page.up)
        page.stream.move(page.pose())
        # First, as the page may be closed as soon as it is listed.
        opened.key = self._streams.offer(
            client, StreamEnd(page.sink, page.stream.move, page.connection_changed)
        )
        if opened.key is not None:
            page.sink.expect_stream()
        opened.shell_key = self._shells.offer(client, opened.shell)
        with self._pages_lock:
            self._pages[client.client_id] = opened
        self._fit(opened)  # what has changed while the panels were being built
        page.start()
        return opened

    def _fit_pages(self) -> None:
        """Gives all pages the panels that the session has a use for now."""
        with self._pages_lock:
            pages = list(self._pages.values())
        for opened in pages:
            self._fit(opened)

    def _fit(self, opened: OpenPage) -> None:
        with self._fitting:
            try:
                fit_page_panels(self._panels, opened.page, opened.panels)
                opened.shell.fit()
            except Exception:  # the page may be gone
                log.exception("The panels of a page could not be changed.")

    def _open(self, client: Any) -> None:
        self.open_page(client)
        gone = self._server is None or client.client_id not in self._server.get_clients()
        if gone or self._done.is_set():  # closed while the panels were being built
            self._close(client)

    def _close(self, client: Any) -> None:
        with self._pages_lock:
            opened = self._pages.pop(client.client_id, None)
        if opened is not None:
            self._end(opened)
            self._memory.page_closed()

    def _end(self, opened: OpenPage, wait: float = 0.0) -> None:
        if opened.key is not None:
            self._streams.withdraw(opened.key)
        if opened.shell_key is not None:
            self._shells.withdraw(opened.shell_key)
        opened.close(wait)

    @property
    def server(self) -> viser.ViserServer:
        """viser's server, after ``start()``."""
        assert self._server is not None, "start() comes first"
        return self._server

    def open_pages(self) -> list[Page]:
        """The open pages."""
        with self._pages_lock:
            return [opened.page for opened in self._pages.values()]

    @property
    def pages(self) -> int:
        """How many pages are open."""
        return len(self._pages)

    @property
    def stopped(self) -> bool:
        """Whether `stop` was called."""
        return self._done.is_set()

    def wait(self) -> None:
        """Returns after ``stop`` from another thread, or raises KeyboardInterrupt on Ctrl-C."""
        while not self._done.wait(0.5):
            pass

    def stop(self) -> None:
        """Stops serving; training goes on."""
        self._done.set()
        with self._pages_lock:
            pages = list(self._pages.values())
            self._pages.clear()
        for page in pages:
            self._end(page, wait=1.0)  # a thread that renders while Python ends may crash it
        for panel in self._shared:
            panel.detach()
        self._shared = []
        self._shells.close()
        if self._serving:
            self._serving = False
            ShareJobs.of(self.session).release()
        if self._first_image is not None:
            self._first_image.close()
        if self.guard is not None:
            self.guard.messages.stopping = True
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
