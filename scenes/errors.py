"""The error of captures and scene files."""

from __future__ import annotations

from luxel.render.errors import LuxelError


class CaptureError(LuxelError):
    """A capture or a scene file cannot be used; the message names the file or frame and the remedy."""
