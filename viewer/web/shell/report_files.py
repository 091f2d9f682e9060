"""The report of a run that has ended, as the viewer serves it."""

from __future__ import annotations

import re

from luxel.render.storage.descriptors import open_regular
from luxel.viewer.web.run_end import RunEnd

REPORT_PREFIX = "/luxel/report/"
NAME = re.compile(r"index\.html|images/[A-Za-z0-9._-]{1,200}\.jpg")
TYPES = {"html": "text/html; charset=utf-8", "jpg": "image/jpeg"}


def report_file(end: RunEnd | None, name: str) -> tuple[str, bytes] | None:
    """Type and content of a file of a report; None: there is no such file.

    Args:
        end: of the run whose report it is.
        name: below the folder of the report, as a browser asks for it.
    """
    if end is None or end.report is None or not NAME.fullmatch(name) or ".." in name:
        return None
    try:
        with open_regular(end.report.parent / name, follow=False) as file:
            return TYPES[name.rpartition(".")[2]], file.read()
    except OSError:
        return None
