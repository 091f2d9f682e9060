"""What is known of a scene beside its primitives: of a run from its configuration, of a scene file from the file."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from luxel.render.errors import LuxelError
from luxel.render.fields.application import Application
from luxel.render.runs.folder.run_config import has_config
from luxel.render.runs.folder.run_folder import RunFolder
from luxel.render.surfaces.mesh_scene import MeshScene
from luxel.render.train.config import TrainConfig
from luxel.render.train.resume import read_config
from luxel.scenes import Capture
from luxel.scenes.files.scenes.scene_facts import facts_from
from luxel.scenes.files.scenes.scene_files import load_facts
from luxel.scenes.files.scenes.scene_format import SceneFacts
from luxel.viewer.progress import opening
from luxel.viewer.scene_loading.capture_options import in_words, load_origin
from luxel.viewer.scene_loading.drawable import Drawable
from luxel.viewer.scene_loading.runs import has_capture


def known_facts(
    path: Path,
    scene: Drawable,
    *,
    axes: str | None = None,
    open_capture: bool = False,
    capture: Path | None = None,
) -> SceneFacts:
    """The facts of a scene, in luxel's axes.

    Args:
        path: folder of a run, or scene file.
        scene: what it holds.
        axes: of the file, see `luxel.scenes.load_primitives`.
        open_capture: open the capture of a run whose configuration does not have the up direction.
        capture: in place of the one that the run names.

    Raises:
        LuxelError: the scene file or the configuration cannot be read.
    """
    if isinstance(scene, Application):
        return SceneFacts()
    if isinstance(scene, MeshScene):
        return SceneFacts(up=scene.up, metres=scene.metres)
    if not has_config(path):
        facts = SceneFacts() if path.is_dir() and not _is_scene(path) else load_facts(path, axes=axes)
    else:
        about = RunFolder.read_body(path).get("capture")
        facts = facts_from(about if isinstance(about, dict) else {})
        facts = SceneFacts(antialiased=read_config(path)[0].antialiased, up=facts.up)
        if facts.up is None and open_capture and has_capture(path):
            facts = replace(facts, up=_up_of_capture(path, capture))
    return facts if scene.antialiases else replace(facts, antialiased=None)


def facts_of_training(config: TrainConfig, capture: Capture, scene: Any) -> SceneFacts:
    """The facts of a scene that is trained on a capture."""
    return SceneFacts(antialiased=config.antialiased if scene.antialiases else None, up=as_up(capture.up))


def as_up(up: np.ndarray | None) -> tuple[float, float, float] | None:
    """The up direction of a capture as SceneFacts have it."""
    return facts_from({"up": None if up is None else np.asarray(up, float).tolist()}).up


def _is_scene(path: Path) -> bool:
    """Whether a folder is a scene itself, or has a scene.ply."""
    from luxel.scenes.files.scenes.registry import format_of

    return format_of(path) is not None or (path / "scene.ply").is_file()


def _up_of_capture(path: Path, capture: Path | None) -> tuple[float, float, float] | None:
    try:
        with opening("opening the capture") as on_progress:
            return as_up(load_origin(path, capture).open(on_progress).up)
    except LuxelError as error:
        print(f"The up direction is not known: {in_words(error)}", file=sys.stderr)
        return None
