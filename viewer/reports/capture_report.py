"""The page about a capture: what was found, cameras and points to be turned, and all images."""

from __future__ import annotations

import base64
import html
import io
import json
from collections.abc import Mapping
from pathlib import Path
from string import Template
from typing import Any

import numpy as np
from PIL import Image

from luxel.render.storage.folder import OutputFolder
from luxel.scenes.captures.checks import Inspection
from luxel.scenes.captures.checks.coverage import level_axes
from luxel.scenes.captures.images.images import for_each, resize
from luxel.viewer.reports.evaluation_report import encoded, writing

PAGE, RECORD = "inspect.html", "inspect.json"
THUMBNAIL = 180  # pixels of the longer side
MAX_SHOWN = 400  # images; of more, those with findings and some of the others
POINTS = 4000


def write_report(
    folder: OutputFolder, inspection: Inspection, facts: Mapping[str, str], record: Mapping[str, Any]
) -> Path:
    """Writes inspect.html, which loads no other files, and inspect.json.

    Args:
        folder: is made where it does not exist; the files of an earlier inspection are replaced.
        inspection: of the capture.
        facts: by name, for the head of the page.
        record: what inspect.json holds.

    Returns:
        The path of the page.

    Raises:
        ForeignFileError: something that luxel did not make is at the path of a file.
        LuxelError: the folder cannot be written to.
    """
    page = _PAGE.substitute(
        title=html.escape(inspection.capture.name),
        facts="".join(f"<dt>{html.escape(k)}</dt><dd>{html.escape(v)}</dd>" for k, v in facts.items()),
        findings=_findings(inspection),
        scene=json.dumps(_scene(inspection)).replace("<", "\\u003c"),
        photographs=_photographs(inspection),
    )
    with writing(folder.path), folder.batch() as batch:
        batch.write(RECORD, (json.dumps(record, indent=1) + "\n").encode())
        batch.write(PAGE, encoded(page))
    return folder.path / PAGE


def _findings(inspection: Inspection) -> str:
    if inspection.sound:
        return "<p class=good>Nothing was found that training would suffer from.</p>"
    notes = [
        f"<p class=note><b>note</b> {html.escape(warning)}</p>" for warning in inspection.capture.warnings
    ]
    return "".join(notes) + "".join(
        f"<p class=bad><b>{html.escape(f.check)}</b> {html.escape(f.problem)} <i>{html.escape(f.remedy)}</i></p>"
        for f in inspection.findings
    )


def _checks_by_view(inspection: Inspection) -> dict[str, list[str]]:
    """The checks that found something about a view, by its name."""
    failed: dict[str, list[str]] = {}
    for finding in inspection.findings:
        for name in finding.views:
            failed.setdefault(name, []).append(finding.check)
    return failed


def _scene(inspection: Inspection) -> dict[str, Any]:
    """Cameras and points around the middle of the capture, in its extents; the y axis of the page is up."""
    capture, measures = inspection.capture, inspection.measures
    up, first, second = level_axes(capture)
    axes = np.stack([first, up, -second])
    xyz, rgb = capture.points.xyz, capture.points.rgb
    rows = np.sort(np.random.default_rng(0).permutation(len(xyz))[:POINTS])
    points = (xyz[rows].astype(float) - capture.centre) / capture.extent @ axes.T
    near = np.linalg.norm(points, axis=1) < 6
    bad = _checks_by_view(inspection)
    cameras = []
    for view, pose in zip(capture.views, measures.poses, strict=True):
        fx, fy = view.camera.intrinsics[:2].tolist()
        half = 0.12 * np.array([0.5 * view.camera.width / fx, 0.5 * view.camera.height / fy])
        eye = (pose[:3, 3] - capture.centre) / capture.extent
        corners = [eye + pose[:3, :3] @ [sx * half[0], sy * half[1], 0.12] for sx, sy in _CORNERS]
        at = np.stack([eye, *corners]) @ axes.T
        cameras.append({"at": at.round(4).tolist(), "name": view.name, "bad": view.name in bad})
    colours = rgb[rows][near]
    return {"points": points[near].round(4).tolist(), "colours": colours.tolist(), "cameras": cameras}


_CORNERS = ((-1, -1), (1, -1), (1, 1), (-1, 1))


def _photographs(inspection: Inspection) -> str:
    views, measures, failed = inspection.capture.views, inspection.measures, _checks_by_view(inspection)
    rows = [row for row, view in enumerate(views) if view.name in failed]
    others = [row for row, view in enumerate(views) if view.name not in failed]
    step = max(1, -(-len(others) // max(1, MAX_SHOWN - len(rows))))
    rows = rows[:MAX_SHOWN] + others[::step]
    figures = [""] * len(rows)

    def work(index: int) -> None:
        row = rows[index]
        pixels = views[row].read().rgb
        scale = THUMBNAIL / max(pixels.shape[:2])
        small = resize(pixels, max(1, round(pixels.shape[1] * scale)), max(1, round(pixels.shape[0] * scale)))
        file = io.BytesIO()
        Image.fromarray(small).save(file, "JPEG", quality=80)
        data = base64.b64encode(file.getvalue()).decode()
        name, checks = html.escape(views[row].name), failed.get(views[row].name, [])
        figures[index] = (
            f"<figure{' class=bad' if checks else ''}><img width={small.shape[1]} height={small.shape[0]} alt='' "
            f"src='data:image/jpeg;base64,{data}'><figcaption>{name}<br><small>sharpness "
            f"{measures.sharpness[row]:.0f}, brightness {measures.luminance[row]:.0f}"
            f"{', <b>' + html.escape(', '.join(checks)) + '</b>' if checks else ''}</small></figcaption></figure>"
        )

    for_each(work, len(rows))
    left = len(views) - len(rows)
    return "".join(figures) + (f"<p>{left} more are not shown.</p>" if left else "")


_PAGE = Template("""<!doctype html><html lang=en><meta charset=utf-8>
<meta name=viewport content="width=device-width,initial-scale=1"><title>$title</title><style>
:root{color-scheme:light dark}body{font:15px/1.5 system-ui,sans-serif;margin:2rem auto;max-width:76rem;padding:0 1rem}
dl{display:grid;grid-template-columns:max-content 1fr;gap:.1rem 1rem}dt{opacity:.65}dd{margin:0}
p.bad{border-left:4px solid #d33;padding:.3rem .8rem;background:#d331}
p.note{border-left:4px solid #c80;padding:.3rem .8rem;background:#c801}
p.good{border-left:4px solid #2a2;padding:.3rem .8rem}
canvas{width:100%;height:28rem;background:#1118;border-radius:.5rem;touch-action:none;cursor:grab}
.photographs{display:flex;flex-wrap:wrap;gap:.7rem}figure{margin:0;width:180px;font-size:.8rem;overflow-wrap:anywhere}
figure.bad img{outline:3px solid #d33}</style>
<h1>$title</h1><dl>$facts</dl>$findings
<h2>Cameras and points</h2><canvas id=view></canvas>
<p><small>Drag to turn, scroll to zoom. Red: images with findings.</small></p>
<h2>Photographs</h2><div class=photographs>$photographs</div>
<script id=scene type=application/json>$scene</script><script>
const scene=JSON.parse(document.getElementById('scene').textContent),canvas=document.getElementById('view')
let turn=.6,tilt=.5,zoom=1,drag=null
function draw(){
 const ratio=devicePixelRatio||1,w=canvas.width=canvas.clientWidth*ratio,h=canvas.height=canvas.clientHeight*ratio
 const context=canvas.getContext('2d'),s=Math.min(w,h)*.38*zoom
 const ct=Math.cos(turn),st=Math.sin(turn),cp=Math.cos(tilt),sp=Math.sin(tilt)
 const at=([x,y,z])=>{const a=ct*x+st*z,b=-st*x+ct*z,d=6/(6+cp*b-sp*y);return[w/2+s*a*d,h/2-s*(cp*y+sp*b)*d]}
 scene.points.forEach((p,i)=>{const[x,y]=at(p);context.fillStyle=`rgb($${scene.colours[i]})`;context.fillRect(x,y,2*ratio,2*ratio)})
 context.lineWidth=ratio
 for(const camera of scene.cameras){
  const c=camera.at.map(at);context.strokeStyle=camera.bad?'#f44':'#5af'
  context.beginPath()
  for(let k=1;k<5;k++){context.moveTo(...c[0]);context.lineTo(...c[k]);context.lineTo(...c[k%4+1])}context.stroke()}
}
canvas.onpointerdown=e=>{drag=[e.clientX,e.clientY];canvas.setPointerCapture(e.pointerId)}
canvas.onpointerup=()=>drag=null
canvas.onpointermove=e=>{if(!drag)return;turn-=(e.clientX-drag[0])/150
 tilt=Math.max(-1.5,Math.min(1.5,tilt+(e.clientY-drag[1])/150));drag=[e.clientX,e.clientY];draw()}
canvas.onwheel=e=>{e.preventDefault();zoom=Math.max(.1,Math.min(20,zoom*Math.exp(-e.deltaY/500)));draw()}
addEventListener('resize',draw);draw()
</script></html>
""")
