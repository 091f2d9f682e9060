"""What is known of a scene alongside its primitives: of a run from its configuration, of a scene file from the file."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from luxel.render.errors import LuxelError
from luxel.render.train.config import TrainConfig
from luxel.scenes import Capture
from luxel.scenes.files.scene_facts import facts_from
from luxel.scenes.files.scene_format import SceneFacts
from luxel.scenes.loading.run_results import has_capture
from luxel.viewer.progress import opening
from luxel.viewer.scene_loading.capture_options import in_words, load_origin


def with_up_of_capture(facts: SceneFacts, path: Path, capture: Path | None = None) -> SceneFacts:
    """Facts with the up direction of the capture of a run, where they do not have one and it can be opened.

    Args:
        facts: of the scene.
        path: folder of the run, or a scene file.
        capture: instead of the one that the run names.
    """
    if facts.up is not None or not has_capture(path):
        return facts
    return replace(facts, up=_up_of_capture(path, capture))


def facts_of_training(config: TrainConfig, capture: Capture, scene: Any) -> SceneFacts:
    """The facts of a scene that is trained on a capture."""
    return SceneFacts(
        antialiased=config.antialiased if scene.antialiases else None,
        up=as_up(capture.up),
        shift=as_shift(capture.shift),
    )


def as_up(up: np.ndarray | None) -> tuple[float, float, float] | None:
    """The up direction of a capture as SceneFacts have it."""
    return facts_from({"up": None if up is None else np.asarray(up, float).tolist()}).up


def as_shift(shift: np.ndarray) -> tuple[float, float, float] | None:
    """The shift of a capture as SceneFacts have it; None: it is 0."""
    return facts_from({"shift": np.asarray(shift, float).tolist()}).shift


def _up_of_capture(path: Path, capture: Path | None) -> tuple[float, float, float] | None:
    try:
        with opening("opening the capture") as on_progress:
            return as_up(load_origin(path, capture).open(on_progress).up)
    except LuxelError as error:
        print(f"The up direction is not known: {in_words(error)}", file=sys.stderr)
        return None
