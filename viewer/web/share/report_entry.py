"""Share, Report: the evaluation of a run on its held-out views."""

from __future__ import annotations

import zipfile
from collections.abc import Callable
from pathlib import Path

from luxel.viewer.reports.evaluation_report import PAGE, RECORD
from luxel.viewer.web.page import Page
from luxel.viewer.web.share.commands import command_line, of_capture
from luxel.viewer.web.share.jobs import ShareJobs
from luxel.viewer.web.share.plan import Chosen, Offer, Option, Plan, Work, choices
from luxel.viewer.web.share.shared_files import IMAGES

FOLDER = "eval"  # of a run
IMAGE_FOLDER = "images"
IMAGE_SUFFIXES = (".jpg", ".png", ".webp")


class ReportEntry:
    """Opens the report of the run, or packs it into one file."""

    name, label = "report", "Report"

    def offer(self, page: Page) -> Offer:
        """The report, where there is one."""
        files = report_files(page.session.folder)
        if not files:
            if page.session.folder is None:
                return Offer(problem="Only runs have a report.")
            how = f"`{command_line('eval', page.session)}` makes one."
            return Offer(problem=f"This run has no report yet. {how}")
        stamp = files[PAGE].stat().st_mtime_ns
        address = ShareJobs.of(page.session).files.keep("report", stamp, files, PAGE, IMAGES)
        options = (Option("name", "Name", "report"),)
        about = "The held-out views with their scores, photographs, renders and errors."
        return Offer(options, start="Pack as .zip", about=about, link=address)

    def plan(self, page: Page, chosen: Chosen) -> Plan:
        """The report with its images in one file."""
        values = choices(self.offer(page), chosen)
        name, files = str(values["name"]), report_files(page.session.folder)

        def begin() -> Work:
            def work(file: Path, report: Callable[[float], None], cancelled: Callable[[], bool]) -> str:
                with zipfile.ZipFile(file, "w") as packed:
                    for number, (inside, path) in enumerate(files.items()):
                        packed.write(path, f"{name}/{inside}")
                        report((number + 1) / len(files))
                return f"Unpack it, and open {name}/{PAGE}."

            return work

        command = command_line("eval", page.session, *of_capture(page.session))
        note = "The command evaluates the run anew and writes the report into its folder." if command else ""
        return Plan(self.name, "Report", name, ".zip", begin, lambda _: command, note)


def report_files(run: Path | None) -> dict[str, Path]:
    """The files of the report of a run, by their names in it; empty: there is none."""
    folder = None if run is None else run / FOLDER
    if folder is None or not (folder / PAGE).is_file():
        return {}
    images = sorted((folder / IMAGE_FOLDER).glob("*")) if (folder / IMAGE_FOLDER).is_dir() else []
    candidates = [folder / PAGE, folder / RECORD, *(path for path in images if path.suffix in IMAGE_SUFFIXES)]
    return {
        path.relative_to(folder).as_posix(): path
        for path in candidates
        if path.is_file() and not path.is_symlink()
    }
