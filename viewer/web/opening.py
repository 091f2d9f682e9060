"""Opens a run folder, a scene file or a mesh file as the session of a viewer."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from luxel.render.errors import LuxelError
from luxel.render.fields.application import Application
from luxel.render.primitives import Parameters
from luxel.render.raster import Backend
from luxel.render.raster.primitive_scene import Remake
from luxel.render.scene import About, Scene
from luxel.scenes import Capture
from luxel.scenes.large_coordinates import Shift, with_shift
from luxel.scenes.loading.loader import LoadOptions
from luxel.scenes.loading.loaders import open_scene
from luxel.scenes.loading.run_results import has_capture, is_field_run, is_run, trained_background
from luxel.scenes.measuring.measured_facts import run_of_result
from luxel.viewer.progress import opening
from luxel.viewer.reports.scoring import background_of, is_free
from luxel.viewer.scene_loading.capture_options import Origin, in_words, load_origin
from luxel.viewer.scene_loading.learned_views import refined_views
from luxel.viewer.web.session import StaticSession


def open_session(
    path: Path,
    device: torch.device,
    backend: Backend = "luxel",
    capture: Path | None = None,
    *,
    keep_non_finite: bool = False,
    axes: str | None = None,
    beside: About | None = None,
    run: Path | None = None,
) -> StaticSession:
    """The session of a scene.

    Args:
        path: run folder or scene file, of any primitive or a neural field, or a mesh file.
        device: that draws it.
        backend: rasterizer backend of primitives.
        capture: whose cameras are shown; None: the capture that the run was trained on, if it can be opened.
        keep_non_finite: of primitives, see `luxel.scenes.files.scene_files.finite_primitives`.
        axes: of a scene file, see `luxel.scenes.load_primitives`.
        run: folder of the run that a scene file is of, whose name and capture it has; None: that in ``path``.
        beside: of another scene, with whose shift of large coordinates primitives are shown; None: with their own.

    Raises:
        LuxelError: the path is neither or cannot be read, the capture cannot be opened, or the backend does not fit.
    """
    scene = open_scene(path, LoadOptions(keep_non_finite, axes, backend, device, measured=False))
    if beside is not None and (parameters := scene.part(Parameters)) is not None:
        moved = with_shift(parameters, scene.about.shift, beside.shift)
        scene = replace(scene.parts[Remake].scene(moved), about=replace(scene.about, shift=beside.shift))
    about = scene.about
    home = run or path
    opened = _open_capture(home, capture, about.shift)
    return StaticSession(
        scene,
        [*(opened.train if capture else refined_views(home, opened)), *opened.test] if opened else [],
        name=home.resolve().stem if home.is_file() else home.resolve().name,
        front=None if about.front is None else np.array(about.front),
        antialiased=bool(about.antialiased),
        folder=home.resolve() if is_run(home) else None,
        measured_in=run_of_result(home),
        trained_on=len(opened.train) if opened else None,
        source=path.resolve(),
        source_options=(
            *(("--scene-axes", axes) if axes else ()),
            *(("--keep-non-finite",) if keep_non_finite else ()),
        ),
        capture=None if capture is None else capture.resolve(),
        **_appearance(opened, scene, path),
    )


def _appearance(capture: Capture | None, scene: Scene, path: Path) -> dict[str, Any]:
    """Up direction and background that suit a capture; without one those of the scene."""
    up = None if scene.about.up is None else np.array(scene.about.up)
    if capture is None:
        return {"up": up, "background": scene.about.background}
    trained = trained_background(path)
    background = background_of(trained, capture)
    if capture.up is not None:
        up = capture.up
    elif Application in scene.parts:  # whose own is a convention: that of the views is better
        up = None
    return {"up": up, "background": background, "free_background": is_free(trained, capture)}


def _open_capture(path: Path, capture: Path | None, shift: Shift | None) -> Capture | None:
    """The capture to show, shifted as the scene is; None, with a message, if the run's own cannot be opened."""
    foreign = path.is_dir() and is_field_run(path) and not has_capture(path)  # trained on something else
    if capture is None and (not is_run(path) or foreign):
        return None
    try:
        origin = (
            Origin(str(capture), shift=shift or (0.0, 0.0, 0.0))
            if capture
            else load_origin(path, remedy=f"To show them: luxel view {path} --capture PATH.")
        )
        if shift is not None:
            origin.shift = shift
        with opening("opening the capture") as on_progress:
            return origin.open(on_progress)
    except LuxelError as error:
        if capture is not None:
            raise
        print(f"{path} is shown without the images of its capture: {in_words(error)}", file=sys.stderr)
        return None
