"""Opens a run folder or a scene file as the session of a viewer."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from luxel.render.backends import Backend
from luxel.render.errors import LuxelError
from luxel.render.fields.application import Application
from luxel.render.runs.run_config import has_config
from luxel.render.train.resume import read_config
from luxel.scenes import Capture
from luxel.viewer.progress import opening
from luxel.viewer.runs import Origin, has_capture, is_field_run, load_drawable, load_origin
from luxel.viewer.web.drawable import field_orientation, render_function
from luxel.viewer.web.session import StaticSession


def open_session(
    path: Path,
    device: torch.device,
    backend: Backend = "luxel",
    capture: Path | None = None,
    *,
    keep_non_finite: bool = False,
) -> tuple[StaticSession, Callable[..., Any]]:
    """The session of a scene, and the function that draws it.

    Args:
        path: run folder or scene file, of any primitive or a neural field.
        device: that draws it.
        backend: rasterizer backend of primitives.
        capture: whose cameras are shown; None: the capture that the run was trained on, if it can be opened.
        keep_non_finite: of primitives, see `luxel.scenes.files.scene_files.finite_primitives`.

    Raises:
        LuxelError: the path is neither or cannot be read, the capture cannot be opened, or the backend does not fit.
    """
    scene = load_drawable(path, keep_non_finite=keep_non_finite).to(device)
    render = render_function(scene, backend)
    orientation = field_orientation(scene) if isinstance(scene, Application) else {}
    opened = _open_capture(path, capture)
    session = StaticSession(
        scene,
        [*opened.train, *opened.test] if opened else [],
        name=path.resolve().stem if path.is_file() else path.resolve().name,
        **{**orientation, **_appearance(opened)},
        antialiased=_trained_antialiased(path),
        folder=path.resolve() if path.is_dir() else None,
        trained_on=len(opened.train) if opened else None,
    )
    return session, render


def _appearance(capture: Capture | None) -> dict[str, Any]:
    """Up direction and background that suit a capture."""
    if capture is None:
        return {}
    return {"up": capture.up, "background": (1.0, 1.0, 1.0) if capture.cutout else (0.0, 0.0, 0.0)}


def _trained_antialiased(path: Path) -> bool:
    """Whether a scene comes from a run that was trained with antialiasing."""
    if not has_config(path) or is_field_run(path):
        return False
    return read_config(path)[0].antialiased


def _open_capture(path: Path, capture: Path | None) -> Capture | None:
    """The capture to show; None, with a message, if the run's own cannot be opened."""
    foreign = path.is_dir() and is_field_run(path) and not has_capture(path)  # trained on something else
    if capture is None and (not path.is_dir() or foreign):
        return None
    try:
        origin = Origin(str(capture)) if capture else load_origin(path)
        with opening("opening the capture") as on_progress:
            return origin.open(on_progress)
    except LuxelError as error:
        if capture is not None:
            raise
        print(f"{path} is shown without the images of its capture: {error.problem}", file=sys.stderr)
        return None
