"""Secrets and addresses of the viewer: token from an option, a file or the environment; TLS; the address to open."""

from __future__ import annotations

import os
import socket
import ssl
from pathlib import Path

from luxel.render.errors import LuxelError
from luxel.render.storage.descriptors import open_regular

TOKEN_VARIABLE = "LUXEL_TOKEN"
LONGEST_TOKEN_FILE = 1 << 16  # bytes that are read of one


def read_token(token: str | None, file: Path | None) -> str | None:
    """The token of the viewer: the option, else the first line of a file, else LUXEL_TOKEN; None if there is none.

    A token on the command line is visible to all users of the machine; a file or the environment is not.

    Raises:
        LuxelError: there is an option and a file, or the file cannot be read or is empty.
    """
    if token is not None and file is not None:
        raise LuxelError("--token and --token-file: only one of them can be the token.", "Leave one out.")
    if token is not None:
        return token
    if file is None:
        return os.environ.get(TOKEN_VARIABLE) or None
    try:
        with open_regular(file) as opened:
            lines = opened.read(LONGEST_TOKEN_FILE).decode("utf-8").splitlines()
    except (OSError, UnicodeError) as error:
        raise LuxelError(f"--token-file {file}: {error}.", "Give a text file with the token in it.") from None
    if not lines or not lines[0].strip():
        raise LuxelError(
            f"--token-file {file}: there is no token in it.", "Write the token in its first line."
        )
    return lines[0].strip()


def tls_context(cert: Path | None, key: Path | None) -> ssl.SSLContext | None:
    """A server's TLS settings from a certificate chain and its key, PEM; None without files.

    Raises:
        LuxelError: one of the files is missing or they do not belong together.
    """
    if cert is None and key is None:
        return None
    if cert is None or key is None:
        raise LuxelError("--tls-cert and --tls-key: one is missing.", "Give both, or neither.")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        context.load_cert_chain(cert, key)
    except (OSError, ValueError) as error:
        raise LuxelError(
            f"--tls-cert {cert}, --tls-key {key}: {error}.", "Give a certificate and its key as PEM files."
        ) from None
    return context


def reachable(host: str) -> str:
    """An address that a browser can open for a host that the viewer listens on.

    Args:
        host: name or address; 0.0.0.0 and :: mean all addresses, of which that of the default route is returned.
    """
    targets = {"0.0.0.0": (socket.AF_INET, "192.0.2.1"), "::": (socket.AF_INET6, "2001:db8::1")}
    if host not in targets:
        return host
    family, target = targets[host]
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as sock:
            sock.connect((target, 9))  # a datagram socket sends nothing here, it only picks a route
            return str(sock.getsockname()[0])
    except OSError:
        return "127.0.0.1" if family == socket.AF_INET else "::1"
