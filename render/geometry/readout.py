"""The direction in which a rolling shutter reads an image; `luxel.render.geometry.shutter` has the mathematics."""

from __future__ import annotations

from typing import Literal

Readout = Literal["down", "up", "right", "left"]
