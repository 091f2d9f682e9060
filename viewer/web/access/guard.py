"""Access control of the viewer: every connection is checked before it reaches viser.

viser serves a page and a websocket on one port without authentication. Two attacks follow: any web site open in the
same browser may connect to a websocket on a loopback port (the same-origin policy does not cover websockets), and
whatever is not bound to a loopback address is open to the network. Therefore:

* a websocket must name an Origin whose host and port are those it connects to;
* on a loopback address without a token the Host must be a loopback name, which a site cannot fake by pointing
  its own name at 127.0.0.1;
* with a token, the first request must carry ``?token=...`` and is redirected to ``/`` with a cookie; all other
  requests need the cookie. The cookie is a random number of this start of the viewer, so that it cannot be guessed
  and the token is not retained by the browser; wrong tokens are throttled by address;
* a malformed request gets 400, one of too many from an address 429, a page above the limit 503.

viser has no option for this, so its call of websockets' ``serve`` is wrapped while the server starts. If that call
does not happen, starting fails, so that the viewer is never unprotected. The handler is wrapped, too: it sees only
the messages that `luxel.viewer.web.access.messages` lets through.
"""

from __future__ import annotations

import errno
import hmac
import http
import ipaddress
import secrets
import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import parse_qs, unquote_to_bytes, urlsplit

import websockets.asyncio.server as websocket_server

from luxel.render.bounds import PORT
from luxel.render.errors import LuxelError
from luxel.viewer.web.access.limits import Limits, PacedConnection, Throttle
from luxel.viewer.web.access.messages import MessageFilter
from luxel.viewer.web.transport.routes import Routes
from luxel.viewer.web.transport.wire import STREAM_PATH

MAX_TARGET = 2048  # characters of a request target

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
        limits: on pages, messages, requests and wrong tokens.
        tls: certificate and key of the server; None serves plain HTTP.

    Attributes:
        messages: what pages may send.
    """

    def __init__(
        self,
        *,
        loopback: bool,
        token: str | None,
        port: int,
        limits: Limits | None = None,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self.loopback, self.token, self.cookie = loopback, token, f"luxel-{port}"
        self.limits = Limits() if limits is None else limits
        self.tls = tls
        self.guesses = Throttle(1 / self.limits.wrong_token_seconds, self.limits.wrong_tokens)
        self.requests = Throttle(self.limits.request_rate, self.limits.request_burst)
        self.messages = MessageFilter(self.limits)
        self.installed = False
        self._session = secrets.token_urlsafe(32)

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
        given = _tokens(path)
        return self.token is not None and bool(given) and _same(given[0], self.token)

    def _cookie_matches(self, headers: Any) -> bool:
        if self.token is None:
            return False
        # Not http.cookies: it stops at the first malformed cookie that another program left for this host.
        pairs = (pair.strip().partition("=") for pair in headers.get("Cookie", "").split(";"))
        return any(name == self.cookie and _same(value, self._session) for name, _, value in pairs)

    def _early_refusal(self, connection: Any, request: Any) -> Any:
        """The response to a request that is malformed, one of too many, or guesses tokens; None to go on."""
        address = _address(connection)
        if not self.requests.allows(address):
            return _too_many(connection, "Too many requests", 1 / self.limits.request_rate)
        self.requests.count(address)
        if (problem := malformed(request.path, request.headers)) is not None:
            return connection.respond(http.HTTPStatus.BAD_REQUEST, f"Malformed request: {problem}.\n")
        if self.token is not None and _tokens(request.path):
            if not self.guesses.allows(address):
                return _too_many(connection, "Too many wrong tokens", self.limits.wrong_token_seconds)
            if not self.token_given(request.path):
                self.guesses.count(address)
        return None

    def _full(self, request: Any) -> bool:
        """Whether a request opens a page although as many as allowed are open."""
        own = urlsplit(request.path).path.startswith("/luxel/")  # of a page that is open already
        opens = request.headers.get("Upgrade", "").lower() == "websocket" and not own
        return opens and len(self.messages.open) >= self.limits.max_pages

    def wrap(self, inner: Any) -> Any:
        """A ``process_request`` for websockets' server that calls ``inner`` for accepted requests only."""

        def process_request(connection: Any, request: Any) -> Any:
            if (early := self._early_refusal(connection, request)) is not None:
                return early
            reason = self.refusal(request.path, request.headers)
            if reason is not None:
                return connection.respond(http.HTTPStatus.FORBIDDEN, reason + "\n")
            if self.token_given(request.path):  # keep the secret out of the address bar and the history
                response = connection.respond(http.HTTPStatus.SEE_OTHER, "")
                response.headers["Location"] = "/"
                secure = "; Secure" if self.tls else ""
                cookie = f"{self.cookie}={self._session}; Path=/; HttpOnly; SameSite=Lax{secure}"
                response.headers["Set-Cookie"] = cookie
                return response
            if self._full(request):
                text = (
                    f"This viewer has {self.limits.max_pages} pages open, as many as it may (--max-pages).\n"
                )
                return connection.respond(http.HTTPStatus.SERVICE_UNAVAILABLE, text)
            try:
                response = inner(connection, request)
            except (OSError, ValueError):  # a path that no file can have
                return connection.respond(http.HTTPStatus.NOT_FOUND, "There is no such file.\n")
            if response is not None:
                response.headers["X-Frame-Options"] = "SAMEORIGIN"
                if (
                    "Connection" not in response.headers
                ):  # websockets answers one request and waits for the end
                    response.headers["Connection"] = "close"
            return response

        return process_request

    def _paced(self, handler: Any) -> Any:
        """A connection handler whose image streams are read no faster than the limits allow."""

        async def paced(connection: Any) -> None:
            stream = urlsplit(connection.request.path).path == STREAM_PATH
            await handler(PacedConnection(connection, self.limits) if stream else connection)

        return paced

    @contextmanager
    def installed_on(self, sock: socket.socket, routes: Routes | None = None) -> Iterator[None]:
        """Within the context, the server that viser starts listens on ``sock`` behind this guard.

        Args:
            sock: where to listen.
            routes: paths that the viewer serves next to viser, behind this guard too.

        Raises:
            LuxelError: no such server was started within the context.
        """

        def serve(handler: Any, *args: Any, **options: Any) -> Any:
            inner = options.get("process_request")
            if getattr(inner, "__module__", "") != "viser.infra._infra":
                return original(handler, *args, **options)
            self.installed = True
            handler = self.messages.wrap(handler)
            if routes is not None:
                inner = routes.wrap_request(inner)
                handler = self._paced(routes.wrap_handler(handler))
            changed = {"process_request": self.wrap(inner), **self.limits.options()}
            if self.tls is not None:
                changed |= {"ssl": self.tls, "ssl_handshake_timeout": self.limits.request_seconds}
            return original(handler, sock=sock, **{**options, **changed})

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
        OutOfBounds: there is no such port.
    """
    PORT.require("port", port, whole=True)
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


def malformed(path: str, headers: Any) -> str | None:
    """What is wrong with the form of a request, or None.

    Args:
        path: request target with its query.
        headers: multi-dictionary of the request headers.
    """
    try:
        if len(path) > MAX_TARGET or not path.startswith("/"):
            return "its address is too long or no path"
        if not path.isascii() or not path.isprintable() or b"\0" in unquote_to_bytes(path):
            return "its address has characters that must be escaped"
        urlsplit(path)
        for name in ("Host", "Origin", "Cookie", "Upgrade"):
            value = headers.get(name, "")  # raises if it is there twice
            if not value.isascii() or not value.isprintable():
                return f"its {name} header has characters that it may not have"
        host = urlsplit(f"//{headers.get('Host', '')}")
        if not host.hostname or host.path or host.query or host.username is not None:
            return "its Host header is no host"
        _ = host.port, urlsplit(headers.get("Origin", "")).port
    except (ValueError, LookupError):
        return "its headers or its address cannot be read"
    return None


def _too_many(connection: Any, reason: str, seconds: float) -> Any:
    """A response that asks to wait."""
    response = connection.respond(http.HTTPStatus.TOO_MANY_REQUESTS, f"{reason}: wait, then try again.\n")
    response.headers["Retry-After"] = str(max(1, round(seconds)))
    return response


def _address(connection: Any) -> str:
    """Where a connection comes from; of an IPv6 address the first 64 bits, which one host may have to itself."""
    peer = connection.remote_address
    if not peer:
        return ""
    try:
        address = ipaddress.ip_address(str(peer[0]).partition("%")[0])
    except ValueError:
        return str(peer[0])
    if address.version == 6 and address.ipv4_mapped is None:
        return str(ipaddress.ip_network((address, 64), strict=False))
    return str(address)


def _tokens(path: str) -> list[str]:
    return parse_qs(urlsplit(path).query).get("token", [])


def _same(given: str, expected: str) -> bool:
    return hmac.compare_digest(given.encode(errors="surrogateescape"), expected.encode())
