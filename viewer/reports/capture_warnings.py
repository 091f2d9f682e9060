"""Checks of a capture while it is trained on: what is wrong with it is said once, and training takes no notice."""

from __future__ import annotations

import contextlib
import logging
import os
import threading
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from luxel.render.geometry.camera import View, pixel_count
from luxel.scenes import Capture
from luxel.scenes.captures.checks import CHECKS, Finding
from luxel.scenes.captures.checks.coverage import check_coverage
from luxel.scenes.captures.checks.measures import measure, unmeasured

MAX_VIEWS = 120  # that are looked at, evenly spread
MAX_READ = 400e6  # pixels that are read again for it, where images are not stored in memory
FEWEST_VIEWS = 12  # below which nothing can be said
LOWEST_PRIORITY = 19  # as of `nice`

log = logging.getLogger(__name__)


class _Stopped(Exception):
    """Training has ended."""


class CaptureWarnings:
    """Runs the checks of `luxel inspect` on some views in a thread of the lowest priority, one image after another.

    What they find is added to ``capture.warnings``, which reports and the viewer show, and said. Neither views nor
    random numbers of the training are touched, and a failure of a check is only logged.

    Args:
        capture: that is trained on.
        say: receives what was found.
    """

    def __init__(self, capture: Capture, say: Callable[[str], None]) -> None:
        self._capture, self._say = capture, say
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="luxel-checks", daemon=True)

    def __enter__(self) -> CaptureWarnings:
        """Starts the checks."""
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Ends them after the image that is being read."""
        self._over.set()
        self._thread.join()

    def wait(self, seconds: float) -> bool:
        """Waits until the checks have ended; whether they have."""
        self._thread.join(seconds)
        return not self._thread.is_alive()

    def _run(self) -> None:
        with contextlib.suppress(OSError, AttributeError):  # on Linux this is the priority of the thread
            os.setpriority(os.PRIO_PROCESS, 0, LOWEST_PRIORITY)
        try:
            for finding in self._findings():
                message = f"{finding.problem} {finding.remedy}"
                if message not in self._capture.warnings:
                    self._capture.warnings.append(message)
                    self._say(f"{finding.check}: {message}")
        except _Stopped:
            pass
        except Exception:
            log.info("the capture could not be checked; training continues", exc_info=True)

    def _findings(self) -> list[Finding]:
        views = self._capture.views
        findings = check_coverage(self._capture, unmeasured(views))
        chosen = chosen_views(views)
        if not chosen:
            return findings
        some = replace(self._capture, train=chosen, test=[])
        measures = measure(some.views, self._capture.surface_points, self._go_on, workers=1)
        for check in CHECKS.values():
            self._go_on()
            if check is not check_coverage:  # which needs all views
                findings += check(some, measures)
        return findings

    def _go_on(self, _: float = 0.0) -> None:
        if self._over.is_set():
            raise _Stopped


def chosen_views(views: Sequence[View]) -> list[View]:
    """Views that are looked at, evenly spread: fewer of images that must be read, none where too few could be."""
    most = MAX_VIEWS
    if not all(getattr(view.read, "cached", None) is not None for view in views):
        most = min(most, int(MAX_READ * len(views) / max(1, pixel_count(views))))
    if min(most, len(views)) < FEWEST_VIEWS:
        return []
    rows = np.unique(np.linspace(0, len(views) - 1, most).round().astype(int))
    return [views[row] for row in rows]
