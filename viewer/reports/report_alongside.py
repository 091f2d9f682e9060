"""The report of a run, whose images are made while its last evaluation renders them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from operator import is_
from pathlib import Path
from typing import Any

from torch import Tensor

from luxel.render.errors import LuxelError
from luxel.render.geometry.camera import View
from luxel.render.metrics.evaluate import Evaluation, ViewScore
from luxel.render.storage.folder import OutputFolder
from luxel.viewer.reports.evaluation_report import Report
from luxel.viewer.reports.scoring import means, reported


class ReportAlongside:
    """A report that is begun by an evaluation, and finished when the run is saved.

    A context; a report that is not finished when it ends is discarded, and an earlier one stays as it is.

    Args:
        folder: gives the folder of the report when the evaluation begins.
    """

    def __init__(self, folder: Callable[[], OutputFolder]) -> None:
        self._folder = folder
        self._report: Report | None = None
        self._scores: list[ViewScore] = []

    def __enter__(self) -> ReportAlongside:
        return self

    def __exit__(self, *_: object) -> None:
        self._discard()

    def begin(self, views: Sequence[View]) -> Callable[[View, ViewScore, Tensor, Tensor], None] | None:
        """Begins a report, in place of one that was begun before.

        Args:
            views: that will be evaluated.

        Returns:
            What adds a view, as `luxel.render.metrics.evaluate.evaluate` calls it. None: the report cannot be written.
        """
        self._discard()
        try:
            self._report = Report(self._folder(), [view.name for view in views])
        except (
            LuxelError
        ):  # an evaluation does not end for that; what writes the report later says what is wrong
            return None
        return self._add

    def finish(
        self, evaluation: Evaluation, *, title: str, facts: Mapping[str, Any], notes: Sequence[str] = ()
    ) -> Path | None:
        """Writes the page.

        Args:
            evaluation: that the report is about.
            title, facts, notes: see `luxel.viewer.reports.evaluation_report.Report.finish`.

        Returns:
            Its path; None: no report of this evaluation was begun.

        Raises:
            ForeignFileError: something that luxel did not make is at the path of a file of the report.
            LuxelError: the folder cannot be written.
        """
        known = evaluation.scores
        if self._report is None or len(self._scores) != len(known) or not all(map(is_, self._scores, known)):
            return None
        return self._report.finish(title=title, mean=means(evaluation), facts=facts, notes=notes)

    def _add(self, view: View, scores: ViewScore, image: Tensor, photograph: Tensor) -> None:
        if self._report is None:
            return
        try:
            self._report.add(reported(view, scores, image, photograph))
        except LuxelError:
            self._discard()
        else:
            self._scores.append(scores)

    def _discard(self) -> None:
        report, self._report, self._scores = self._report, None, []
        if report is not None:
            with report:
                pass
