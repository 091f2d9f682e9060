"""Self-contained HTML pages: the SuperSplat viewer (PlayCanvas, MIT) with a SOG scene inside.

A page opens from a disk, without network: its content security policy forbids every request but those to itself.
"""

from __future__ import annotations

import base64
import gzip
import html
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch

from luxel.render.geometry.camera import Camera
from luxel.render.primitives.gaussians import Gaussians
from luxel.scenes.files.ply import write_atomically
from luxel.scenes.files.scene_format import SceneFacts, SceneFormat
from luxel.scenes.files.sog.encode import say_left_out, sog_bundle
from luxel.scenes.files.sog.page_camera import Pose, pose_around, pose_of_view, upright

VIEWER = Path(__file__).parents[2] / "data" / "supersplat-viewer"
POLICY = (
    "default-src 'none'; script-src 'unsafe-inline' 'wasm-unsafe-eval' blob:; style-src 'unsafe-inline'; "
    "worker-src blob:; connect-src blob: data:; img-src blob: data:; media-src blob: data:; font-src data:; "
    "base-uri 'none'; form-action 'none'"
)
PIECE = 3 << 20  # bytes that are encoded at a time; a multiple of 3
SCRIPT = """
const text = document.getElementById("luxel-scene").textContent;
const bytes = Uint8Array.from(atob(text.trim()), (letter) => letter.charCodeAt(0));
const query = new URLSearchParams(location.search);
SuperSplatViewer.createViewer({
  container: document.body,
  settings: JSON.parse(document.getElementById("luxel-settings").textContent),
  contentUrl: URL.createObjectURL(new Blob([bytes])),
  contentFilename: "scene.sog",
  contents: Promise.resolve(new Response(bytes)),
  renderer: query.has("webgpu") ? "webgpu" : "webgl",
  ui: !query.has("noui"),
  noanim: true,
  exposeGlobals: true,
}).then((viewer) => { window.luxelViewer = viewer; });
"""


def save_html_page(
    path: str | Path,
    gaussians: Gaussians,
    facts: SceneFacts | None = None,
    view: Camera | None = None,
    background: tuple[float, float, float] | None = None,
) -> None:
    """Writes a page that shows the scene in any browser with WebGL 2.

    The URL of the page may end in ``?webgpu``, which chooses WebGPU, or ``?noui``, without the viewer's buttons.

    Args:
        path: of the page; its name without the suffix is the title.
        gaussians: of the scene.
        facts: ``up`` is turned upwards; ``antialiased`` is stored.
        view: where the camera starts, in the axes of the scene; without roll. None: where it sees the scene.
        background: colour behind the scene, sRGB in [0, 1]; None: black.

    Raises:
        CaptureError: the file cannot be written.
    """
    path = Path(path)
    turn = upright(facts.up if facts is not None else None)
    pose = None if view is None else pose_of_view(view, gaussians)
    if turn.turns:
        with torch.no_grad():
            gaussians = gaussians.transformed(turn)
        pose = None if pose is None else pose.turned(turn)
    pose = pose or pose_around(gaussians)
    scene = sog_bundle(gaussians, facts)
    write_atomically(path, _page(path.stem, scene, settings(pose, background or (0.0, 0.0, 0.0))))
    say_left_out(path, gaussians)


def settings(pose: Pose, background: tuple[float, float, float]) -> dict[str, Any]:
    """The viewer's settings, version 2 of its schema ("Experience Settings" of PlayCanvas's user manual).

    The viewer shows a scene turned by half a turn about z: x' = -x, y' = -y, z' = z.
    """
    turned = [[-x, -y, z] for x, y, z in (pose.position, pose.target)]
    return {
        "version": 2,
        "tonemapping": "none",
        "highPrecisionRendering": False,
        "background": {"color": list(background)},
        "postEffectSettings": {
            "sharpness": {"enabled": False, "amount": 0},
            "bloom": {"enabled": False, "intensity": 0.1, "blurLevel": 2},
            "grading": {"enabled": False, "brightness": 1, "contrast": 1, "saturation": 1, "tint": [1, 1, 1]},
            "vignette": {"enabled": False, "intensity": 0.5, "inner": 0.3, "outer": 0.75, "curvature": 1},
            "fringing": {"enabled": False, "intensity": 0.5},
        },
        "animTracks": [],
        "cameras": [{"initial": {"position": turned[0], "target": turned[1], "fov": pose.fov}}],
        "annotations": [],
        "startMode": "default",
    }


def _page(title: str, scene: bytes, options: dict[str, Any]) -> Iterator[bytes]:
    """The page in parts."""
    licence = (VIEWER / "LICENSE.txt").read_text().strip()
    colour = ", ".join(str(round(255 * channel)) for channel in options["background"]["color"])
    style = f"html, body {{ height: 100%; margin: 0; overflow: hidden; background: rgb({colour}); }}"
    yield f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1, viewport-fit=cover">
<meta http-equiv="Content-Security-Policy" content="{html.escape(POLICY, quote=True)}">
<meta name="generator" content="luxel">
<title>{html.escape(title)}</title>
<!--
SuperSplat Viewer and PlayCanvas Engine

{licence}
-->
<style>{style}</style>
<style>""".encode("utf-8", "backslashreplace")
    yield gzip.decompress((VIEWER / "viewer.css.gz").read_bytes())
    text = json.dumps(options, allow_nan=False).replace("<", "\\u003c")
    yield f'</style>\n</head>\n<body>\n<script type="application/json" id="luxel-settings">{text}</script>\n'.encode()
    yield b'<script type="text/plain" id="luxel-scene">'
    for start in range(0, len(scene), PIECE):
        yield base64.b64encode(scene[start : start + PIECE])
    yield b"</script>\n<script>"
    yield gzip.decompress((VIEWER / "viewer.js.gz").read_bytes())
    yield f"</script>\n<script>{SCRIPT}</script>\n</body>\n</html>\n".encode()


HTML = SceneFormat(
    ".html",
    "Gaussians in a page with a viewer, which any browser shows without network",
    save=save_html_page,
    primitives=(Gaussians,),
    options=("view", "background"),
    holds=("antialiased", "up"),
)
