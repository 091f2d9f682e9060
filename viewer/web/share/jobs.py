"""The jobs of the Share menu: one queue for all pages of a session, which goes on when pages come and go."""

from __future__ import annotations

import logging
import secrets
import shutil
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar, Literal
from weakref import WeakKeyDictionary

from luxel.render.errors import LuxelError
from luxel.render.storage.journal import scratch_folder
from luxel.render.storage.single import writing_unused
from luxel.viewer.films.still import StillCancelledError
from luxel.viewer.web.session import Session
from luxel.viewer.web.share.estimates import Estimates
from luxel.viewer.web.share.plan import CancelledError, Plan, Work
from luxel.viewer.web.share.shared_files import SharedFiles

log = logging.getLogger("luxel.viewer")

State = Literal["waiting", "running", "done", "cancelled", "failed"]
SCRIPTS_FOLDER = Path(__file__).with_name("static")
MAX_WAITING = 8  # jobs that wait or run
MAX_ENDED = 12  # ended jobs that pages are offered
NOTIFY_EVERY = 0.25  # seconds between messages about the progress of a job
MAX_OPENED = 256 << 20  # bytes of a file that a window may open: it is sent in one piece
SURE = 0.02  # share of a job that must be done before it says how long the rest takes


class Job:
    """A file that is made for the pages of a session.

    Attributes:
        id: unguessable.
        plan: what is made.
        state: see `State`.
        share: fraction that is done, 0 to 1; 0 for work that does not report it.
        message: why it failed, or what there is to know about the file.
        file: that was made; None: none yet.
        companion: further file of the plan; None: none.
        link: address of the page that shows the file; empty: there is none.
    """

    def __init__(self, plan: Plan, work: Work, expected: float | None) -> None:
        self.id, self.work = secrets.token_urlsafe(12), work
        self.plan = replace(plan, begin=_begun)  # which holds the page
        self.state: State = "waiting"
        self.share, self.message, self.link = 0.0, "", ""
        self.file: Path | None = None
        self.companion: Path | None = None
        self.began, self._expected = 0.0, expected
        self.cancelled = threading.Event()

    @property
    def ended(self) -> bool:
        """Whether nothing changes any more."""
        return self.state in ("done", "cancelled", "failed")

    def seconds_left(self) -> float | None:
        """Until it is done; None: not known yet."""
        if self.state != "running":
            return None
        passed = time.monotonic() - self.began
        if self.share > SURE:
            return passed * (1 / self.share - 1)
        return None if self._expected is None or self.share else max(0.0, self._expected - passed)

    def describe(self) -> dict[str, Any]:
        """The job as JSON has it."""
        plan, left = self.plan, self.seconds_left()
        return {
            "id": self.id,
            "entry": plan.entry,
            "title": plan.title,
            "state": self.state,
            "share": round(self.share, 3),
            "left": None if left is None else round(left, 1),
            "message": self.message,
            "file": "" if self.file is None else self.file.name,
            "size": 0 if self.file is None or not self.file.exists() else self.file.stat().st_size,
            "link": self.link,
            "command": plan.command(self.companion),
            "note": plan.note,
        }


class ShareJobs:
    """Makes files one after another in a thread; its methods may be called from any thread.

    They get a name in the folder of the run when they are complete, NAME-2, NAME-3, ... where something has it.
    Without a run, or where its folder cannot be written, they are in a temporary folder until the viewer ends.

    Args:
        session: whose folder they are written into.

    Attributes:
        files: what pages may open in their browser.
    """

    _all: ClassVar[WeakKeyDictionary[Session, ShareJobs]] = WeakKeyDictionary()
    _all_lock = threading.Lock()

    def __init__(self, session: Session) -> None:
        self._folder = session.folder
        self._jobs: list[Job] = []
        self._callbacks: list[Callable[[], None]] = []
        self._lock, self._work = threading.Lock(), threading.Condition()
        self._scratch = ExitStack()
        self._own: Path | None = None  # temporary folder of the session
        self._thread: threading.Thread | None = None
        self._notified = 0.0
        self._estimates = Estimates()
        self.files = SharedFiles()
        self._closed = False
        self._viewers = 0

    @staticmethod
    def of(session: Session) -> ShareJobs:
        """Those of a session, made when they are first asked for, and anew after `close`."""
        with ShareJobs._all_lock:
            known = ShareJobs._all.get(session)
            if known is None or known._closed:
                known = ShareJobs._all[session] = ShareJobs(session)
            return known

    @property
    def jobs(self) -> list[Job]:
        """Those that wait, run or have ended, in the order in which they were begun."""
        return list(self._jobs)

    def find(self, name: str) -> Job | None:
        """The job with an id; None: there is none."""
        return next((job for job in self._jobs if job.id == name), None)

    def start(self, plan: Plan) -> Job:
        """Makes a file when the jobs before it have ended.

        Raises:
            LuxelError: too many jobs wait, or the plan cannot begin.
        """
        if sum(not job.ended for job in self._jobs) >= MAX_WAITING:
            raise LuxelError(f"{MAX_WAITING} files are being made.", "Wait for one of them, or cancel it.")
        job = Job(plan, plan.begin(), self._estimates.seconds(plan.rate, plan.units))
        with self._work:
            self._jobs.append(job)
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="luxel-share", daemon=True)
                self._thread.start()
        self._notify()
        return job

    def cancel(self, name: str) -> None:
        """Ends a job: nothing is left of its file. One whose present step cannot be interrupted ends after it."""
        job = self.find(name)
        with self._lock:
            if job is None or job.ended:
                return
            job.cancelled.set()
            job.state = "cancelled"
        self._notify()

    def dismiss(self, name: str) -> None:
        """Takes an ended job off the list; its file stays where it is in a run folder."""
        job = self.find(name)
        if job is not None and job.ended:
            self._remove(job)
            self._notify()

    def _remove(self, job: Job) -> None:
        self._jobs = [other for other in self._jobs if other is not job]
        self.files.withdraw(job.link)
        if self._own is not None:
            for file in (job.file, job.companion):
                if file is not None and file.parent == self._own:
                    file.unlink(missing_ok=True)

    def on_change(self, callback: Callable[[], None]) -> None:
        """Calls ``callback`` whenever a job has changed, until `forget`."""
        with self._lock:
            self._callbacks = [*self._callbacks, callback]

    def forget(self, callback: Callable[[], None]) -> None:
        """The reverse of `on_change`."""
        with self._lock:
            self._callbacks = [each for each in self._callbacks if each != callback]

    def hold(self) -> None:
        """Another viewer serves the session."""
        with self._lock:
            self._viewers += 1

    def release(self) -> None:
        """The reverse of `hold`: without a viewer the jobs are closed."""
        with self._lock:
            self._viewers -= 1
            last = self._viewers == 0
        if last:
            self.close()

    def close(self, wait: float = 2.0) -> None:
        """Cancels all jobs and deletes files outside of a run folder; returns after at most ``wait`` seconds."""
        self._closed = True
        for job in self.jobs:
            self.cancel(job.id)
        if (thread := self._thread) is not None:
            thread.join(wait)
        self._scratch.close()

    def _notify(self) -> None:
        self._notified = time.monotonic()
        for callback in self._callbacks:
            try:
                callback()
            except Exception:  # a page that is being closed must not affect the others
                log.debug("a page could not show the jobs", exc_info=True)

    def _run(self) -> None:
        """Works on the jobs until none waits."""
        while True:
            with self._work:
                job = next((job for job in self._jobs if job.state == "waiting"), None)
                if job is None:
                    self._thread = None
                    return
            self._make(job)
            job.work = _ended  # it holds the page and its scene
            for old in [job for job in self._jobs if job.ended][:-MAX_ENDED]:
                self._remove(old)
            self._notify()

    def _make(self, job: Job) -> None:
        with self._lock:
            if job.ended:
                return
            job.state, job.began = "running", time.monotonic()
        self._notify()
        inside = ""
        try:
            folder = self._writable_folder()
            with scratch_folder(folder) as scratch:
                inside = f"{scratch}/"
                made = scratch / (job.plan.name + job.plan.suffix)
                note = job.work(made, self._reporter(job), job.cancelled.is_set)
                if job.cancelled.is_set():
                    raise CancelledError
                size = made.stat().st_size
                job.file = _place(made, folder, job.plan.name, job.plan.suffix)
            self._estimates.measured(job.plan.rate, job.plan.units, time.monotonic() - job.began)
            job.companion = self._write_companion(job, job.file)
            if job.plan.policy and size <= MAX_OPENED:
                job.link = self.files.offer({job.file.name: job.file}, job.file.name, job.plan.policy)
            said = (_renamed(job.plan, job.file), self._where(job.file), note)
            job.share, job.message = 1.0, " ".join(filter(None, said))
            self._end(job, "done")
        except (CancelledError, StillCancelledError):
            self._end(job, "cancelled")
        except LuxelError as error:
            job.message = f"{error.problem} {error.remedy}".strip().replace(inside, "")
            self._end(job, "failed")
        except OSError as error:
            log.warning("A file could not be made: %s", error)
            job.message = f"The file cannot be written: {error.strerror or 'the system gives no reason'}."
            self._end(job, "failed")
        except Exception:  # whatever a job raises, the pages and the other jobs go on
            log.exception("A file could not be made.")
            job.message = "It failed for a reason that was not expected: the terminal of the viewer shows it."
            self._end(job, "failed")

    def _end(self, job: Job, state: State) -> None:
        """Ends a job; one that was cancelled meanwhile stays so, and what was made of it is deleted."""
        with self._lock:
            if not job.ended:
                job.state = state
                return
        for file in (job.file, job.companion):
            if file is not None:
                file.unlink(missing_ok=True)
        self.files.withdraw(job.link)
        job.file = job.companion = None
        job.link = job.message = ""

    def _reporter(self, job: Job) -> Callable[[float], None]:
        """Takes the share of a job that is done.

        Raises:
            CancelledError: raised by the function where the job was cancelled.
        """

        def report(share: float) -> None:
            if job.cancelled.is_set():
                raise CancelledError
            job.share = min(max(share, 0.0), 1.0)
            if time.monotonic() - self._notified > NOTIFY_EVERY:
                self._notify()

        return report

    def _writable_folder(self) -> Path:
        """The folder of the run, or the temporary one of the session."""
        if self._folder is not None:
            try:
                with scratch_folder(self._folder):
                    return self._folder
            except OSError:
                log.info("%s cannot be written: files are offered to the pages alone.", self._folder)
        if self._own is None:
            self._own = self._scratch.enter_context(scratch_folder())
        return self._own

    def _where(self, file: Path) -> str:
        if file.parent == self._own:
            return "Download it: it is deleted when the viewer ends."
        return f"It is in {file.parent}."

    def _write_companion(self, job: Job, file: Path) -> Path | None:
        if job.plan.companion is None:
            return None
        suffix, content = job.plan.companion
        with writing_unused(file.parent, file.name.removesuffix(job.plan.suffix), suffix) as draft:
            draft.file.write(content)
        return draft.target


def _begun() -> Work:
    """Of a plan that has begun."""
    raise AssertionError("a plan begins once")


def _ended(file: Path, report: Callable[[float], None], cancelled: Callable[[], bool]) -> str:
    """Of a job that has ended."""
    raise AssertionError("a job runs once")


def _renamed(plan: Plan, file: Path) -> str:
    """A sentence where a file got another name than it was to get."""
    name = plan.name + plan.suffix
    return "" if file.name == name else f"There is another {name}, so this one is {file.name}."


def _place(made: Path, folder: Path, name: str, suffix: str) -> Path:
    """Gives a complete file the first name of NAME, NAME-2, ... that nothing has in a folder."""
    with made.open("rb") as source, writing_unused(folder, name, suffix) as draft:
        shutil.copyfileobj(source, draft.file, 1 << 20)
    assert draft.target is not None
    return draft.target
