"""Starts the web viewer for a command and keeps it up until Ctrl-C."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from luxel.render.primitives.gaussians import Gaussians
from luxel.viewer.web.app import ViewerApp
from luxel.viewer.web.session import Session, StaticSession

if TYPE_CHECKING:
    from luxel.viewer.commands.options import Serve


def check_serving(serve: Serve) -> None:
    """Refuses options that no viewer could start with, before anything else is begun.

    Raises:
        LuxelError: the address is open to others without a token, or an option is out of range.
    """
    ViewerApp(StaticSession(Gaussians.empty()), serve.host, serve.port, serve.share_of_time, serve.token)


def start_viewer(session: Session, serve: Serve, render: Callable[..., Any] | None = None) -> ViewerApp:
    """Serves a session, drawn by ``render`` (luxel's own rasterizer if None), and prints its address on stdout.

    Raises:
        LuxelError: the address cannot be listened on, or is open to others without a token.
    """
    app = ViewerApp(session, serve.host, serve.port, serve.share_of_time, serve.token, render)
    print(f"viewer: {app.start()}", flush=True)
    return app


def serve_until_interrupted(app: ViewerApp) -> int:
    """Waits for Ctrl-C, stops the viewer, and returns the exit status of an orderly end."""
    print("Ctrl-C ends the viewer.", flush=True)
    try:
        app.wait()
    except KeyboardInterrupt:
        print()
    finally:
        app.stop()
    return 0
