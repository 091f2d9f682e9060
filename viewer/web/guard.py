"""Access control of the viewer: every connection is checked before it reaches viser.

viser serves a page and a websocket on one port without authentication. Two attacks follow: any web site open in the
same browser may connect to a websocket on a loopback port (the same-origin policy does not cover websockets), and
whatever is not bound to a loopback address is open to the network. Therefore:

* a websocket must name an Origin whose host and port are those it connects to;
* on a loopback address without a token the Host must be a loopback name, which a site cannot fake by pointing
  its own name at 127.0.0.1;
* with a token, the first request must carry ``?token=...`` and is redirected to ``/`` with a cookie; all other
  requests need the cookie.

viser has no option for this, so its call of websockets' ``serve`` is wrapped while the server starts. If that call
does not happen, starting fails, so that the viewer is never unprotected.
"""

from __future__ import annotations

import errno
import hmac
import http
import ipaddress
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import parse_qs, urlsplit

import websockets.asyncio.server as websocket_server

from luxel.render.errors import LuxelError
from luxel.viewer.web.routes import Routes

_patching = threading.Lock()


def is_loopback(host: str) -> bool:
    """Whether ``host`` (a name or an address, without a port) can only mean this machine."""
    host = host.strip("[]").rstrip(".").lower()
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


class Guard:
    """Accepts or refuses requests.

    Args:
        loopback: whether the server listens on a loopback address only.
        token: secret that every client must send, or None.
        port: port of the server; cookies are shared between ports, so their name carries it.
    """

    def __init__(self, *, loopback: bool, token: str | None, port: int) -> None:
        self.loopback, self.token, self.cookie = loopback, token, f"luxel-{port}"
        self.installed = False

    def refusal(self, path: str, headers: Any) -> str | None:
        """The reason to refuse a request, or None to accept it.

        Args:
            path: request target with its query.
            headers: case-insensitive mapping of the request headers.
        """
        host = headers.get("Host", "")
        if self.loopback and self.token is None and not is_loopback(urlsplit(f"//{host}").hostname or ""):
            return "This viewer is available on this machine only: open it as http://127.0.0.1 or http://localhost."
        if headers.get("Upgrade", "").lower() == "websocket":
            origin = urlsplit(headers.get("Origin", ""))
            if origin.scheme not in ("http", "https") or origin.netloc.lower() != host.lower():
                return "Pages of other sites may not connect to this viewer."
        if self.token is not None and not (self.token_given(path) or self._cookie_matches(headers)):
            return "This viewer needs its token: open the complete address that it printed when it started."
        return None

    def token_given(self, path: str) -> bool:
        """Whether the query of ``path`` carries the right token."""
        given = parse_qs(urlsplit(path).query).get("token", [""])[0]
        return self.token is not None and _same(given, self.token)

    def _cookie_matches(self, headers: Any) -> bool:
        if self.token is None:
            return False
        # Not http.cookies: it stops at the first malformed cookie that another program left for this host.
        pairs = (pair.strip().partition("=") for pair in headers.get("Cookie", "").split(";"))
        return any(name == self.cookie and _same(value, self.token) for name, _, value in pairs)

    def wrap(self, inner: Any) -> Any:
        """A ``process_request`` for websockets' server that calls ``inner`` for accepted requests only."""

        def process_request(connection: Any, request: Any) -> Any:
            reason = self.refusal(request.path, request.headers)
            if reason is not None:
                return connection.respond(http.HTTPStatus.FORBIDDEN, reason + "\n")
            if self.token_given(request.path):  # keep the secret out of the address bar and the history
                response = connection.respond(http.HTTPStatus.SEE_OTHER, "")
                response.headers["Location"] = "/"
                response.headers["Set-Cookie"] = f"{self.cookie}={self.token}; Path=/; HttpOnly; SameSite=Lax"
                return response
            response = inner(connection, request)
            if response is not None:
                response.headers["X-Frame-Options"] = "SAMEORIGIN"
            return response

        return process_request

    @contextmanager
    def installed_on(self, sock: socket.socket, routes: Routes | None = None) -> Iterator[None]:
        """Within the context, the server that viser starts listens on ``sock`` behind this guard.

        Args:
            sock: where to listen.
            routes: paths that the viewer serves beside viser, behind this guard too.

        Raises:
            LuxelError: no such server was started within the context.
        """

        def serve(handler: Any, *args: Any, **options: Any) -> Any:
            inner = options.get("process_request")
            if getattr(inner, "__module__", "") != "viser.infra._infra":
                return original(handler, *args, **options)
            self.installed = True
            if routes is not None:
                handler, inner = routes.wrap_handler(handler), routes.wrap_request(inner)
            return original(handler, sock=sock, **{**options, "process_request": self.wrap(inner)})

        with _patching:
            original: Any = websocket_server.serve
            websocket_server.serve = serve  # type: ignore[assignment]
            try:
                yield
            finally:
                websocket_server.serve = original
        if not self.installed:
            raise LuxelError(
                "luxel cannot check the connections of this version of viser.",
                "Install the version that luxel is tested with: pip install 'viser==1.1.1'.",
            )


def bind(host: str, port: int, attempts: int = 50) -> socket.socket:
    """A socket bound to the first free port from ``port`` on.

    Args:
        host: name or address of this machine.
        port: preferred port; 0 for any free one.
        attempts: number of ports to try before taking any free one.

    Raises:
        LuxelError: the address is not one of this machine, or the port needs privileges.
    """
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    except (OSError, OverflowError, UnicodeError) as error:
        raise LuxelError(
            f"cannot listen on {host!r}, port {port}: {error}.", "Give an address of this machine."
        ) from None
    for candidate in [*range(port, min(port + attempts, 65536)), 0] if port else [0]:
        sock = socket.socket(family, kind, protocol)
        try:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            sock.bind((address[0], candidate, *address[2:]))
            sock.listen(64)  # Linux reports a port in use here at the latest
            return sock
        except OSError as error:
            sock.close()
            if error.errno != errno.EADDRINUSE:
                raise LuxelError(
                    f"cannot listen on {host}, port {candidate}: {error.strerror or error}.",
                    "Give an address of this machine and a port above 1023.",
                ) from None
    raise LuxelError(f"no free port on {host}.", "End a program that listens, or give another --port.")


def _same(given: str, expected: str) -> bool:
    return hmac.compare_digest(given.encode(), expected.encode())
