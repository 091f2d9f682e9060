"""The report of a run that has ended, as the viewer serves it."""

from __future__ import annotations

import http
import re

from websockets.datastructures import Headers
from websockets.http11 import Response

from luxel.render.storage.descriptors import open_regular
from luxel.viewer.web.run_end import RunEnd

REPORT_PATH = "/luxel/report/"
NAME = re.compile(r"index\.html|images/[A-Za-z0-9._-]{1,200}\.jpg")
TYPES = {"html": "text/html; charset=utf-8", "jpg": "image/jpeg"}
POLICY = "default-src 'none'; img-src 'self'; style-src 'unsafe-inline'"  # no script of a file runs here


def answer_report(end: RunEnd | None, path: str) -> Response:
    """The response to a request for a path below REPORT_PATH.

    Args:
        end: of the run whose report it is.
        path: as a browser asks for it.
    """
    name = path.removeprefix(REPORT_PATH)
    content = _content(end, name)
    headers = {
        "Content-Type": "text/plain" if content is None else TYPES[name.rpartition(".")[2]],
        "Content-Length": str(len(content or b"")),
        "Cache-Control": "no-store",
        "X-Content-Type-Options": "nosniff",
        "Content-Security-Policy": POLICY,
    }
    status = http.HTTPStatus.NOT_FOUND if content is None else http.HTTPStatus.OK
    return Response(status, status.phrase, Headers(headers), content or b"")


def _content(end: RunEnd | None, name: str) -> bytes | None:
    """A file of the report; None: there is no such file."""
    if end is None or end.report is None or not NAME.fullmatch(name):
        return None
    try:
        with open_regular(end.report.parent / name, follow=False) as file:
            return file.read()
    except OSError:
        return None
