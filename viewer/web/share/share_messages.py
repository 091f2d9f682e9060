"""The messages of the Share menu from page to server, within those of `luxel.viewer.web.shell.messages`.

``{"type": "share", "do": "start", "entry": "image", "options": {"size": "4K", "transparent": true}}``; ``do`` is one of
ACTIONS. "look": the menu shows this entry with these options, and asks for what has changed; "cancel", "download" and
"dismiss" have ``job``, its id, instead of entry and options.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

ACTIONS = ("look", "start", "cancel", "download", "dismiss")
MAX_OPTIONS = 16
MAX_TEXT = 100  # characters of a name or a value


@dataclass(frozen=True)
class ShareMessage:
    """What the page does in its menu; whether there is such an entry, job or option is not checked yet."""

    do: str
    entry: str = ""
    options: Mapping[str, str | bool] = field(default_factory=dict)
    job: str = ""


def parse_share(fields: dict[str, Any]) -> ShareMessage:
    """The message of a menu.

    Raises:
        ValueError: it is not of this protocol.
    """
    do, entry, options = fields.get("do"), fields.get("entry", ""), fields.get("options", {})
    job = fields.get("job", "")
    if do not in ACTIONS or not _short(entry) or not _short(job):
        raise ValueError("unknown action of the Share menu, or a name that is none")
    if not isinstance(options, dict) or len(options) > MAX_OPTIONS:
        raise ValueError("options must be an object of few names")
    if not all(
        _short(name) and (isinstance(value, bool) or _short(value)) for name, value in options.items()
    ):
        raise ValueError("an option must be a short text or a switch")
    return ShareMessage(do, entry, options, job)


def _short(value: Any) -> bool:
    return isinstance(value, str) and len(value) <= MAX_TEXT
