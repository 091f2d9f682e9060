"""The beginning of a page: what stands in its head, before viser's own script, and runs before the first paint."""

from __future__ import annotations

import hashlib
import json
import math
from pathlib import Path

import numpy as np

from luxel.viewer.web.navigate import WIDENED_FOV, SceneExtent, first_pose, orbit_point, upright
from luxel.viewer.web.session import Session
from luxel.viewer.web.shading.backdrop import Colour, backdrop

STATIC = Path(__file__).with_name("static")
# Before the first image is asked for, as the width of a phone's window is unknown until then.
VIEWPORT = '<meta name="viewport" content="width=device-width, initial-scale=1">'
STYLES = ("start.css",)
SCRIPTS = ("shell-start.js", "scheme.js", "start-view.js", "skeleton.js", "first.js")


def head_of(session: Session, extent: SceneExtent) -> bytes:
    """The part of a page's head that shows the beginning of a session: styles and scripts, all in line."""
    styles = "".join(f"<style>{(STATIC / name).read_text()}</style>" for name in STYLES)
    scripts = "".join(f"<script>{(STATIC / name).read_text()}</script>" for name in SCRIPTS)
    start = f"<script>window.luxelStart = {json.dumps(start_of(session, extent))};</script>"
    return (VIEWPORT + styles + start + scripts).encode()


def start_of(session: Session, extent: SceneExtent) -> dict[str, object]:
    """What the page needs for `luxel.viewer.web.navigate.start_pose`, whatever the size of its window.

    Returns:
        ``scene``: `scene_key`; ``position``, ``target``, ``up`` [3] and ``half``, the tangent of half the field
        of view, of the first pose; ``own``: its width by its height; ``widened``: the tangent that it is widened to;
        ``background``: of the image, as CSS has colours, and ``dark``: where the colours of the page are dark.
    """
    pose = first_pose(session.views, extent)
    return {
        "scene": scene_key(session, extent),
        "position": pose.position.tolist(),
        "target": orbit_point(pose, extent).tolist(),
        "up": upright(pose.rotation, extent.up).tolist(),
        "half": math.tan(0.5 * pose.fov_y),
        "own": pose.width / pose.height if session.views else 1.0,
        "background": _css(session.background),
        "dark": _css(backdrop(session, True) or session.background),
        "widened": math.tan(0.5 * WIDENED_FOV),
    }


def _css(colour: Colour) -> str:
    return f"rgb({', '.join(str(round(255 * part)) for part in colour)})"


def scene_key(session: Session, extent: SceneExtent) -> str:
    """A key under which a browser stores views: that of the run, while it trains and when it is viewed later, or of the
    scene; the same after the viewer was started again."""
    if session.folder is not None:
        text = f"run {session.folder.resolve()}"
    else:
        position = np.round([*extent.centre, extent.radius], 2).tolist()
        text = f"{session.name} {session.about.noun} {position if session.views else ''}"
    return hashlib.sha256(text.encode()).hexdigest()[:16]
