"""What an exported page takes from a run: where its camera starts, and its background."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from luxel.render.errors import LuxelError
from luxel.render.runs.folder.run_folder import RunFolder
from luxel.viewer.exports.coordinates import Coordinates
from luxel.viewer.progress import opening
from luxel.viewer.reports.scoring import COLOURS
from luxel.viewer.scene_loading.capture_options import in_words, load_origin


def run_background(folder: Path) -> tuple[float, float, float]:
    """The colour in [0, 1] behind the scene of a run that a page shows."""
    return COLOURS["black" if RunFolder.read_body(folder).get("background") == "black" else "white"]


def page_start(folder: Path, coordinates: Coordinates, capture: Path | None = None) -> dict[str, Any]:
    """Options of `luxel.scenes.files.sog.html_page.save_html_page` for the scene of a run.

    The camera starts at the first view of the run's capture. Where that cannot be opened, a line on stderr says so, and
    the page frames the scene.

    Args:
        folder: of the run.
        coordinates: of the page.
        capture: instead of the one that the run names.
    """
    options: dict[str, Any] = {"background": run_background(folder)}
    try:
        with opening("opening the capture") as on_progress:
            opened = load_origin(folder, capture).open(on_progress)
    except LuxelError as error:
        print(
            f"The page frames the scene, as its capture cannot be opened: {in_words(error)}", file=sys.stderr
        )
        return options
    return {**options, "view": coordinates.transform.camera(opened.views[0].camera)}
