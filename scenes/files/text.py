"""The text of files that people edit."""

from __future__ import annotations

import codecs

UTF_16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


def decode_text(data: bytes) -> str:
    """The text of a file in UTF-8, or with the byte order mark that editors of Windows write: UTF-8 or UTF-16.

    Bytes that are no text become replacement characters.
    """
    if data.startswith(UTF_16):
        return data.decode("utf-16", "replace")
    return data.decode("utf-8-sig", "replace")
