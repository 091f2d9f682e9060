"""Inspection of a capture: its measures, and what every check finds in them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import torch

from luxel.render.native import best_device
from luxel.scenes.captures.checks.blur import check_blur
from luxel.scenes.captures.checks.coverage import check_coverage
from luxel.scenes.captures.checks.depth_consistency import check_depth
from luxel.scenes.captures.checks.duplicates import check_duplicates
from luxel.scenes.captures.checks.exposure import check_exposure
from luxel.scenes.captures.checks.finding import Finding
from luxel.scenes.captures.checks.mask_consistency import check_masks
from luxel.scenes.captures.checks.measures import Measures, measure
from luxel.scenes.captures.checks.pose_consistency import check_poses
from luxel.scenes.captures.initial_points.plane_sweep import sweep
from luxel.scenes.captures.open_capture import Capture

# A new check is a function of capture and measures, and an entry here.
CHECKS: dict[str, Callable[[Capture, Measures], list[Finding]]] = {
    "poses": check_poses,
    "sharpness": check_blur,
    "exposure": check_exposure,
    "duplicates": check_duplicates,
    "coverage": check_coverage,
    "masks": check_masks,
    "depth": check_depth,
}


@dataclass
class Inspection:
    """What is known of a capture before it is trained on.

    Args:
        capture: that was inspected.
        measures: of its views.
        findings: in the order of CHECKS.
    """

    capture: Capture
    measures: Measures
    findings: list[Finding] = field(default_factory=list)

    @property
    def sound(self) -> bool:
        """Whether there is nothing to say: no finding, and no warning of what is not used or not as expected."""
        return not self.findings and not self.capture.warnings


def inspect(
    capture: Capture,
    on_progress: Callable[[str, float], None] | None = None,
    device: torch.device | None = None,
) -> Inspection:
    """Measures the views of a capture and runs every check.

    Args:
        capture: to be inspected; all of its views, those held out as well.
        on_progress: called with (stage, fraction done in [0, 1]).
        device: of a plane sweep; None: `luxel.render.native.best_device`.
    """
    say = on_progress or (lambda stage, share: None)
    measures = measure(
        capture.views, _compared_points(capture, device), lambda share: say("measuring images", share)
    )
    findings = [finding for check in CHECKS.values() for finding in check(capture, measures)]
    return Inspection(capture, measures, findings)


def _compared_points(capture: Capture, device: torch.device | None) -> np.ndarray:
    """Positions at which images are compared, [P, 3]: where the capture has random points, those of a plane sweep."""
    posed = [(view.camera, view.read) for view in capture.train if view.camera.lens is None]
    if len(capture.surface_points) or not posed:
        return capture.surface_points
    if capture.swept is not None:
        return capture.swept
    return sweep(posed, device or best_device()).xyz
