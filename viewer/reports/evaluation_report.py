"""The evaluation report: image, render and error of each view with its scores, as plain HTML and image files."""

from __future__ import annotations

import html
import io
import json
import math
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from string import Template
from typing import Any

import cv2
import numpy as np
from PIL import Image

from luxel.render.errors import LuxelError
from luxel.render.metrics.evaluate import FURTHER
from luxel.render.runs.folder.run_folder import RunFolder
from luxel.render.runs.strict_json import LARGEST, JsonError, parse_object
from luxel.render.storage.batch import Batch
from luxel.render.storage.descriptors import open_regular
from luxel.render.storage.folder import OutputFolder
from luxel.render.storage.single import write_file

PAGE, RECORD = "index.html", "report.json"
VARIANTS = ("photograph", "render", "error")  # of images of a view
IMAGES = re.compile(rf"images/[0-9]{{3,}}-[A-Za-z0-9._-]{{0,60}}-({'|'.join(VARIANTS)})\.jpg")

MORE = {  # scores that are there only where they were computed: name and meaning
    "psnr_aligned": (
        "PSNR, aligned",
        "after an affine fit of each render's colours: without differences of exposure",
    ),
    "psnr_refined": (
        "PSNR, refined",
        "from the camera pose nearest to each image: without errors of the poses",
    ),
    "depth_mean": ("Depth, mean error", "absolute, in units of the capture, where the depth is known"),
    "depth_relative": ("Depth, relative error", "mean of the error divided by the known depth"),
    "depth_median": ("Depth, median error", "median of the error divided by the known depth"),
}
WRITERS = min(8, os.cpu_count() or 1)  # threads that make JPEG files while the next view is rendered
ERROR_SCALE = 4.0  # a mean absolute error of 1/4 is the brightest colour of an error image


@dataclass
class ReportedView:
    """One view of a report.

    Args:
        name: of the view.
        photograph, render: uint8 [H, W, 3], sRGB, composited on the same background.
        psnr, ssim, lpips: its scores (PSNR in dB); lpips may be absent.
        weight: gives uint8 [H, W], 0 for pixels that do not count, or None: all count.
        further: its other scores, see `luxel.render.metrics.evaluate.FURTHER`.
    """

    name: str
    photograph: np.ndarray
    render: np.ndarray
    psnr: float
    ssim: float
    lpips: float | None = None
    weight: Callable[[], np.ndarray | None] = lambda: None
    further: Mapping[str, float] = field(default_factory=dict)


def error_image(photograph: np.ndarray, render: np.ndarray, weight: np.ndarray | None = None) -> np.ndarray:
    """Mean absolute difference of the channels as a colour image: black 0, bright yellow 1/4 and more.

    Args:
        photograph, render: uint8 [H, W, 3].
        weight: uint8 [H, W]; pixels of weight 0 are grey.

    Returns:
        uint8 [H, W, 3], RGB.
    """
    difference = np.abs(photograph.astype(np.float32) - render.astype(np.float32)).mean(axis=2)
    level = np.clip(difference * ERROR_SCALE, 0, 255).astype(np.uint8)
    colour = np.ascontiguousarray(cv2.applyColorMap(level, cv2.COLORMAP_INFERNO)[..., ::-1])
    if weight is not None:
        colour[weight == 0] = 96
    return colour


class Report:
    """Collects views one by one, then writes index.html, report.json and their images, which get their names together.

    Used in a ``with`` statement: where that ends with an exception, an earlier report stays as it is.

    Args:
        folder: made where it does not exist. The files of an earlier report are replaced; images that it had and this
            one has not are deleted, and nothing else is.
        names: of the views that will be added, in order, to check early whether their images can be written.

    Raises:
        ForeignFileError: something that luxel did not make is at the path of a file (also from its methods).
        LuxelError: the folder cannot be written (also from its methods).
    """

    def __init__(self, folder: OutputFolder, names: Sequence[str] = ()) -> None:
        self.folder = folder.path
        images = [image for number, name in enumerate(names) for image in image_names(name, number)]
        check_writable(folder, [PAGE, RECORD, *images])
        with writing(self.folder):
            folder.make_folder("images")
        self._earlier = folder.names(IMAGES)
        self._batch = Batch(folder)
        self._views: list[dict[str, Any]] = []
        self._cards: list[Future[str]] = []
        self._writers = ThreadPoolExecutor(WRITERS)
        self._rows: list[str] = []

    def __enter__(self) -> Report:
        return self

    def __exit__(self, *error: object) -> None:
        self._writers.shutdown(cancel_futures=True)
        self._batch.discard()

    def add(self, view: ReportedView) -> None:
        """Saves the images of a view meanwhile; the page shows views in the order of these calls."""
        number = len(self._views)
        with writing(self.folder):
            if number >= 2 * WRITERS:  # images that wait fill the memory
                self._cards[number - 2 * WRITERS].result()
            self._cards.append(self._writers.submit(_card, view, number, self._batch))
        self._rows.append(_row(number, view))
        scores = {name: _finite(getattr(view, name)) for name in ("psnr", "ssim", "lpips")}
        scores |= {name: _finite(value) for name, value in view.further.items()}
        self._views.append({"name": view.name, **scores})

    def finish(
        self,
        *,
        title: str,
        mean: Mapping[str, float | None],
        facts: Mapping[str, Any],
        notes: Sequence[str] = (),
    ) -> Path:
        """Writes the page and report.json; all files get their names.

        Args:
            title: heading of the page.
            mean: psnr, ssim, lpips and further scores over all views.
            facts: name and value of further facts (steps, device, hold-out rule).
            notes: sentences under the facts, such as warnings of the capture.

        Returns:
            The path of index.html.
        """
        with writing(self.folder), self._writers:
            cards = [card.result() for card in self._cards]
        page = _PAGE.substitute(
            title=html.escape(title),
            means="".join(_tile(*entry) for entry in _means(mean, len(self._views))),
            facts="".join(
                f"<dt>{html.escape(str(k))}</dt><dd>{html.escape(str(v))}</dd>" for k, v in facts.items()
            ),
            notes="".join(f"<p class=note>{html.escape(note)}</p>" for note in notes),
            rows="\n".join(self._rows),
            cards="\n".join(cards),
        )
        record = {
            "title": title,
            "mean": {name: _finite(value) for name, value in mean.items()},
            "facts": dict(facts),
            "notes": list(notes),
            "views": self._views,
        }
        written = {
            image for number, view in enumerate(self._views) for image in image_names(view["name"], number)
        }
        with writing(self.folder):
            self._batch.write(RECORD, (json.dumps(record, indent=2, default=str) + "\n").encode())
            self._batch.write(PAGE, encoded(page))
            self._batch.delete(name for name in self._earlier if name not in written)
            self._batch.commit()
        return self.folder / PAGE


def check_writable(folder: OutputFolder, names: Iterable[str]) -> None:
    """Checks that the files of a report can be written, before long work.

    Raises:
        ForeignFileError: something that luxel did not make has one of the names.
        LuxelError: the folder cannot be looked into.
    """
    with writing(folder.path):
        folder.require(names)


def encoded(text: str) -> bytes:
    """UTF-8; what a name has that is no text is written as its number."""
    return text.encode("utf-8", "backslashreplace")


@contextmanager
def writing(folder: Path) -> Iterator[None]:
    """Turns an OSError while a report is written into a LuxelError that names the folder."""
    try:
        yield
    except OSError as error:
        raise LuxelError(
            f"{folder}: the report cannot be written ({error.strerror or error}).",
            "Free some space, or give another folder with --out.",
        ) from error


def write_whole(path: Path, text: str) -> Path:
    """Writes a single file, which is on the disk when it has its name."""
    return write_file(path, encoded(text))


def report_of_run(run: Path, *, force: bool = False) -> OutputFolder:
    """The folder of the report of a run; what an earlier version of luxel wrote there counts as luxel's.

    Args:
        run: folder of the run.
        force: replace other files of the names that are written too.
    """
    output = OutputFolder(run, inside="eval", force=force)
    if not output.manifest.exists():
        with suppress(OSError, LuxelError):  # then nothing there counts as luxel's
            RunFolder.read_body(run, lambda message: None)
            adopt_earlier_report(output)
    return output


def adopt_earlier_report(output: OutputFolder) -> bool:
    """Adds a report of luxel 0.2.0 or earlier, which had no manifest, to the manifest of its folder.

    Args:
        output: eval/ of a run that is identified; never a folder that the user names.

    Returns:
        Whether it did: there was no manifest, and the files have the layout of luxel's reports.
    """
    if output.manifest.exists() or not (raw := _content(output, RECORD)):
        return False
    try:
        record = parse_object(raw)
    except JsonError:
        return False
    page = _content(output, PAGE)
    names = [RECORD] if page is None and _is_scores(record) else []  # of a neural field
    if page is not None and page.startswith(_HEAD) and _MARK in page and record.keys() == _KEYS:
        names = [PAGE, RECORD]
        for number, view in enumerate(record["views"] if isinstance(record["views"], list) else []):
            names += image_names(str(view.get("name")), number) if isinstance(view, dict) else []
    output.adopt(names)
    return bool(names)


def _content(output: OutputFolder, name: str) -> bytes | None:
    """Of a regular file in the folder; None: there is none, or it is larger than any of a report."""
    try:
        with output.opened(()) as handle, open_regular(name, folder=handle, follow=False) as file:
            raw = file.read(LARGEST + 1)
    except (OSError, LuxelError):
        return None
    return raw if len(raw) <= LARGEST else None


def _is_scores(record: Mapping[str, Any]) -> bool:
    return bool(record) and all(isinstance(value, int | float) for value in record.values())


def _finite(value: float | None) -> float | None:
    return float(value) if value is not None and math.isfinite(value) else None


def _number(value: float | None, digits: int) -> str:
    if value is None:
        return "–"
    return f"{value:.{digits}f}" if math.isfinite(value) else "∞" if value > 0 else "–"


def _further(name: str, value: float | None) -> str:
    """A score of `FURTHER` with its unit."""
    _, _, unit, digits = FURTHER[name]
    return _number(value, digits) + unit


def _means(mean: Mapping[str, float | None], count: int) -> list[tuple[str, str, str]]:
    return [
        ("PSNR", _number(mean.get("psnr"), 2) + " dB", f"mean of {count} held-out views, higher is better"),
        *((name, _further(key, mean[key]), about) for key, (name, about) in MORE.items() if key in mean),
        ("SSIM", _number(mean.get("ssim"), 4), "1 is identical"),
        ("LPIPS", _number(mean.get("lpips"), 4), "AlexNet, lower is better"),
    ]


def _tile(name: str, value: str, meaning: str) -> str:
    return f"<div class=tile><b>{value}</b><span>{name}</span><small>{meaning}</small></div>"


def _stem(name: str, number: int) -> str:
    return f"{number:03d}-" + re.sub(r"[^A-Za-z0-9._-]+", "_", Path(name).stem)[:60]


def image_names(name: str, number: int) -> list[str]:
    """Names of the images of a view in the folder of a report.

    Args:
        name: of the view.
        number: of the view in the report, from 0.
    """
    return [f"images/{_stem(name, number)}-{kind}.jpg" for kind in VARIANTS]


def _row(number: int, p: ReportedView) -> str:
    return (
        f"<tr><td><a href='#view-{number}'>{html.escape(p.name)}</a></td><td>{_number(p.psnr, 2)}</td>"
        f"<td>{_number(p.ssim, 4)}</td><td>{_number(p.lpips, 4)}</td></tr>"
    )


def _card(p: ReportedView, number: int, batch: Batch) -> str:
    """Saves the three images of a view and returns the section that shows them."""
    shown = (p.photograph, p.render, error_image(p.photograph, p.render, p.weight()))
    figures = []
    for kind, name, pixels in zip(VARIANTS, image_names(p.name, number), shown, strict=True):
        file = io.BytesIO()
        Image.fromarray(pixels).save(file, "JPEG", quality=92, subsampling=0)
        batch.write(name, file.getvalue())
        height, width = pixels.shape[:2]
        figures.append(
            f"<figure><a href='{name}'><img loading=lazy width={width} height={height} "
            f"src='{name}' alt='{kind} of {html.escape(p.name, quote=True)}'></a>"
            f"<figcaption>{kind}</figcaption></figure>"
        )
    further = "".join(f" ({FURTHER[name][1]} {_further(name, value)})" for name, value in p.further.items())
    scores = (
        f"PSNR {_number(p.psnr, 2)} dB{further} · SSIM {_number(p.ssim, 4)} · LPIPS {_number(p.lpips, 4)}"
    )
    return (
        f"<section id=view-{number}><h2>{html.escape(p.name)}<span>{scores}</span></h2>"
        f"<div class=trio>{''.join(figures)}</div></section>"
    )


_PAGE = Template("""<!doctype html>
<html lang=en><meta charset=utf-8><meta name=viewport content="width=device-width, initial-scale=1">
<title>$title</title>
<style>
:root { color-scheme: light dark; --page: #f6f7f9; --card: #fff; --ink: #1c2430; --soft: #5d6878; --line: #dde2e9;
  --mark: #2563c9; }
@media (prefers-color-scheme: dark) { :root { --page: #11151b; --card: #1a2029; --ink: #e6eaf0; --soft: #98a3b3;
  --line: #2b3442; --mark: #7db2ff; } }
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 2.5rem 1.25rem 4rem; max-width: 1180px; background: var(--page); color: var(--ink);
  font: 15px/1.5 system-ui, sans-serif; }
h1 { font-size: 1.6rem; margin: 0 0 1.25rem; overflow-wrap: anywhere; }
h2 { font-size: 1rem; margin: 0 0 .6rem; display: flex; flex-wrap: wrap; gap: .25rem 1rem; align-items: baseline;
  overflow-wrap: anywhere; }
h2 span { font-weight: 400; color: var(--soft); font-variant-numeric: tabular-nums; }
a { color: var(--mark); }
.tiles { display: grid; grid-template-columns: repeat(auto-fit, minmax(190px, 1fr)); gap: 1rem; }
.tile, section, details { background: var(--card); border: 1px solid var(--line); border-radius: 10px; padding: 1rem; }
.tile b { display: block; font-size: 1.7rem; line-height: 1.2; font-variant-numeric: tabular-nums; }
.tile span { font-weight: 600; margin-right: .5rem; }
.tile small, .note, figcaption { color: var(--soft); }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .15rem 1.25rem; margin: 1.5rem 0; }
dt { color: var(--soft); } dd { margin: 0; overflow-wrap: anywhere; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
th, td { text-align: right; padding: .3rem .6rem; border-bottom: 1px solid var(--line); }
th:first-child, td:first-child { text-align: left; overflow-wrap: anywhere; }
summary { cursor: pointer; font-weight: 600; }
section, details { margin-top: 1rem; }
.trio { display: grid; grid-template-columns: repeat(3, 1fr); gap: .6rem; }
figure { margin: 0; } figcaption { font-size: .85rem; text-align: center; padding-top: .25rem; }
img { display: block; width: 100%; height: auto; border-radius: 6px; background: #8884; }
@media (max-width: 640px) { .trio { grid-template-columns: 1fr; } }
</style>
<h1>$title</h1>
<div class=tiles>$means</div>
<dl>$facts</dl>
$notes
<details open><summary>Scores of every view</summary>
<table><thead><tr><th>view<th>PSNR (dB)<th>SSIM<th>LPIPS</tr></thead><tbody>
$rows
</tbody></table></details>
<p class=note>Error: mean absolute difference of the channels; black is 0, bright yellow is 1/4 and more, grey pixels
do not count.</p>
$cards
</html>
""")
_HEAD, _MARK = (
    _PAGE.template.partition("$title")[0].encode(),
    b"<details open><summary>Scores of every view</summary>",
)
_KEYS = {"title", "mean", "facts", "notes", "views"}  # of report.json
