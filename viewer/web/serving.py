"""Starts the web viewer for a command and keeps it up until Ctrl-C."""

from __future__ import annotations

from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING

from luxel.render.primitives.gaussians import Gaussians
from luxel.render.raster.primitive_scene import primitive_scene
from luxel.viewer.web.access.credentials import read_token, tls_context
from luxel.viewer.web.access.limits import Limits
from luxel.viewer.web.app import ViewerApp
from luxel.viewer.web.session import Session, StaticSession

if TYPE_CHECKING:
    from luxel.viewer.options import Serve


def check_serving(serve: Serve) -> None:
    """Checks the options of the viewer before anything else begins.

    Raises:
        LuxelError: other machines can reach the address and there is no token, or its files cannot be read.
    """
    make_viewer(StaticSession(primitive_scene(Gaussians.empty())), serve)


def make_viewer(session: Session, serve: Serve) -> ViewerApp:
    """A viewer with the options of the command line, not started.

    Raises:
        LuxelError: other machines can reach the address and there is no token.
    """
    return ViewerApp(
        session,
        serve.host,
        serve.port,
        serve.share_of_time,
        read_token(serve.token, serve.token_file),
        limits=Limits(max_pages=serve.max_pages),
        tls=tls_context(serve.tls_cert, serve.tls_key),
    )


def start_viewer(session: Session, serve: Serve) -> ViewerApp:
    """Serves a session and prints its address on stdout.

    Args:
        session: the scene.
        serve: where to listen.

    Raises:
        LuxelError: the viewer cannot listen on the address, or other machines can reach it and there is no token.
    """
    app = make_viewer(session, serve)
    print(f"viewer: {app.start()}", flush=True)
    return app


def serve_until(app: ViewerApp, requests: SimpleQueue[int]) -> int | None:
    """Serves until Ctrl-C (None), or until there is a request, which is returned."""
    print("Ctrl-C ends the viewer.", flush=True)
    try:
        while not app.stopped:
            with suppress(Empty):
                return requests.get(timeout=0.5)
    except KeyboardInterrupt:
        print()
    return None


def serve_until_interrupted(app: ViewerApp) -> int:
    """Waits for Ctrl-C, stops the viewer, and returns the exit status 0."""
    print("Ctrl-C ends the viewer.", flush=True)
    try:
        app.wait()
    except KeyboardInterrupt:
        print()
    finally:
        app.stop()
    return 0
