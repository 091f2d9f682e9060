"""The queue of the Share menu: names, cancelling, failures, and what is left when the viewer ends."""

from __future__ import annotations

import gc
import threading
import weakref
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from page_driver import ball, until
from shown import StaticSession

from luxel.render.errors import LuxelError
from luxel.viewer.web.share import jobs as module
from luxel.viewer.web.share.jobs import Job, ShareJobs
from luxel.viewer.web.share.plan import Plan, Work
from luxel.viewer.web.share.shared_files import SCRIPTED


def plan_of(work: Work, suffix: str = ".txt", **options: Any) -> Plan:
    return Plan("scene", "Scene file", "scene", suffix, lambda: work, lambda _: "luxel export", **options)


def writing(text: str) -> Work:
    def work(file: Path, report: Callable[[float], None], cancelled: Callable[[], bool]) -> str:
        file.write_text(text)
        return ""

    return work


@pytest.fixture
def jobs(tmp_path: Path) -> Iterator[ShareJobs]:
    jobs = ShareJobs.of(StaticSession(ball(), folder=tmp_path))
    yield jobs
    jobs.close()


def ended(job: Job) -> Job:
    until(lambda: job.ended, "the job does not end")
    return job


def test_files_get_the_next_free_name_and_it_is_said(jobs: ShareJobs, tmp_path: Path) -> None:
    (tmp_path / "scene.compressed.ply").write_text("an earlier one")
    made = [ended(jobs.start(plan_of(writing(text), ".compressed.ply"))) for text in ("a", "b")]
    assert [job.describe()["file"] for job in made] == ["scene-2.compressed.ply", "scene-3.compressed.ply"]
    assert [job.describe()["size"] for job in made] == [1, 1]
    assert made[0].message == (
        f"There is another scene.compressed.ply, so this one is scene-2.compressed.ply. It is in {tmp_path}."
    )
    assert (tmp_path / "scene.compressed.ply").read_text() == "an earlier one"
    assert sorted(path.name for path in tmp_path.iterdir() if path.name.startswith("scene")) == [
        "scene-2.compressed.ply",
        "scene-3.compressed.ply",
        "scene.compressed.ply",
    ]


def test_a_job_waits_runs_and_reports_how_long_it_takes(jobs: ShareJobs) -> None:
    go, half = threading.Event(), threading.Event()

    def work(file: Path, report: Callable[[float], None], cancelled: Callable[[], bool]) -> str:
        report(0.5)
        half.set()
        go.wait(20)
        file.write_text("done")
        return "Two lines."

    first, second = jobs.start(plan_of(work)), jobs.start(plan_of(writing("second")))
    assert half.wait(20)
    shown = first.describe()
    assert (shown["state"], shown["share"]) == ("running", 0.5) and 0 <= shown["left"] < 5
    assert second.describe()["state"] == "waiting" and second.describe()["left"] is None
    go.set()
    assert ended(first).message.endswith("Two lines.") and ended(second).state == "done"


def test_a_job_without_progress_is_estimated_by_the_one_before(jobs: ShareJobs) -> None:
    assert jobs.start(plan_of(writing("a"), rate="slow", units=10)).seconds_left() is None
    until(lambda: jobs.jobs[-1].ended, "no end")
    go = threading.Event()

    def work(file: Path, report: Callable[[float], None], cancelled: Callable[[], bool]) -> str:
        go.wait(20)
        file.write_text("b")
        return ""

    jobs._estimates.measured("slow", 10, 4.0)
    second = jobs.start(plan_of(work, rate="slow", units=100))
    until(lambda: second.state == "running", "it does not begin")
    assert 30 < (second.seconds_left() or 0) <= 40
    go.set()
    ended(second)


@pytest.mark.parametrize("reports", [True, False])
def test_a_cancelled_job_leaves_no_file(jobs: ShareJobs, tmp_path: Path, reports: bool) -> None:
    began, go = threading.Event(), threading.Event()

    def work(file: Path, report: Callable[[float], None], cancelled: Callable[[], bool]) -> str:
        file.write_text("half of it")
        began.set()
        go.wait(20)
        if reports:
            report(0.7)
        return ""

    job, waits = jobs.start(plan_of(work)), jobs.start(plan_of(writing("never")))
    assert began.wait(20)
    jobs.cancel(job.id)
    jobs.cancel(waits.id)
    assert (job.state, waits.state) == ("cancelled", "cancelled"), "at once, whatever the work does"
    go.set()
    last = ended(jobs.start(plan_of(writing("last"))))
    assert last.file == tmp_path / "scene.txt" and job.file is None and waits.file is None
    jobs.cancel(last.id)
    assert last.state == "done", "it had ended"


def test_failures_are_sentences_without_temporary_paths(jobs: ShareJobs) -> None:
    def refuses(file: Path, report: Callable[[float], None], cancelled: Callable[[], bool]) -> str:
        raise LuxelError(f"{file}: no room.", f"Free some space beside {file.name}.")

    def full(file: Path, report: Callable[[float], None], cancelled: Callable[[], bool]) -> str:
        raise OSError(28, "No space left on device", str(file))

    def broken(file: Path, report: Callable[[float], None], cancelled: Callable[[], bool]) -> str:
        raise UnicodeDecodeError("utf-8", b"\xee", 0, 1, "invalid continuation byte")

    messages = [ended(jobs.start(plan_of(work))).message for work in (refuses, full, broken)]
    assert messages == [
        "scene.txt: no room. Free some space beside scene.txt.",
        "The file cannot be written: No space left on device.",
        "It failed for a reason that was not expected: the terminal of the viewer shows it.",
    ]
    assert {job.state for job in jobs.jobs} == {"failed"}


def test_without_a_run_files_are_deleted_with_the_viewer() -> None:
    jobs = ShareJobs(StaticSession(ball()))
    job = ended(jobs.start(plan_of(writing("<p>page"), ".html", policy=SCRIPTED)))
    assert job.file is not None and job.file.read_text() == "<p>page" and "deleted" in job.message
    answer = jobs.files.answer(job.link)
    assert answer.body == b"<p>page" and answer.headers["Content-Security-Policy"].startswith("sandbox")
    assert "allow-same-origin" not in answer.headers["Content-Security-Policy"]
    jobs.dismiss(job.id)
    assert not job.file.exists() and jobs.files.answer(job.link).status_code == 404 and jobs.jobs == []
    other = ended(jobs.start(plan_of(writing("2"))))
    jobs.close()
    assert other.file is not None and not other.file.parent.exists()


def test_a_run_that_cannot_be_written_is_no_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = module.scratch_folder

    def refuses(near: Path | None = None) -> Any:
        if near == tmp_path:
            raise PermissionError(13, "Permission denied")
        return real(near)

    monkeypatch.setattr(module, "scratch_folder", refuses)
    jobs = ShareJobs(StaticSession(ball(), folder=tmp_path))
    job = ended(jobs.start(plan_of(writing("a"))))
    assert job.state == "done" and job.file is not None and job.file.parent != tmp_path
    jobs.close()


def test_a_companion_has_the_name_of_its_file(jobs: ShareJobs, tmp_path: Path) -> None:
    (tmp_path / "scene.txt").touch()
    (tmp_path / "scene-2.json").touch()
    plan = Plan(
        "film",
        "Film",
        "scene",
        ".txt",
        lambda: writing("a"),
        lambda file: f"--path {file}",
        companion=(".json", b"{}"),
    )
    job = ended(jobs.start(plan))
    assert job.file == tmp_path / "scene-2.txt" and job.companion == tmp_path / "scene-2-2.json"
    assert job.describe()["command"] == f"--path {tmp_path / 'scene-2-2.json'}"


def test_no_more_jobs_wait_than_are_allowed(jobs: ShareJobs, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_WAITING", 2)
    monkeypatch.setattr(module, "MAX_ENDED", 1)
    go = threading.Event()

    def work(file: Path, report: Callable[[float], None], cancelled: Callable[[], bool]) -> str:
        go.wait(20)
        file.write_text("a")
        return ""

    first, second = (jobs.start(plan_of(work)) for _ in range(2))
    with pytest.raises(LuxelError, match="2 files are being made"):
        jobs.start(plan_of(work))
    go.set()
    for job in (first, second):
        ended(job)
    until(lambda: jobs.jobs == [second], "the older one stays on the list")
    assert first.file is not None and first.file.exists(), "in the folder of the run it stays"
    assert jobs.find("unknown") is None


def test_an_ended_job_lets_the_page_go(jobs: ShareJobs) -> None:
    class Page:
        pass

    page = Page()
    gone = weakref.ref(page)

    def begin(page: Page = page) -> Work:
        def work(file: Path, report: Callable[[float], None], cancelled: Callable[[], bool]) -> str:
            file.write_text(type(page).__name__)
            return ""

        return work

    job = ended(jobs.start(replace(plan_of(writing("")), begin=begin)))
    del page, begin
    until(lambda: gc.collect() >= 0 and gone() is None, "the job holds the page")
    assert job.state == "done"
