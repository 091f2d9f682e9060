"""The Share menu of one page: what it offers, what is chosen in it, and the jobs of the session."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any

from luxel.render.errors import LuxelError
from luxel.viewer.web.share.share_messages import ShareMessage

if TYPE_CHECKING:
    from luxel.scenes.paths import CameraPath
    from luxel.viewer.web.page import Page
    from luxel.viewer.web.share.jobs import ShareJobs
    from luxel.viewer.web.share.plan import Entry, Offer

log = logging.getLogger("luxel.viewer")

# Modules and classes of the entries, in the order of the menu: a line for each.
ENTRIES = (
    ("luxel.viewer.web.share.image_entry", "ImageEntry"),
    ("luxel.viewer.web.share.web_page_entry", "WebPageEntry"),
    ("luxel.viewer.web.share.scene_entry", "SceneEntry"),
    ("luxel.viewer.web.share.mesh_entry", "MeshEntry"),
    ("luxel.viewer.web.share.film_entry", "FilmEntry"),
    ("luxel.viewer.web.share.link_entry", "LinkEntry"),
    ("luxel.viewer.web.share.report_entry", "ReportEntry"),
)
Send = Callable[[dict[str, Any]], None]


def all_entries() -> list[Entry]:
    """The entries in the order of the menu."""
    return [getattr(import_module(module), name)() for module, name in ENTRIES]


class Share:
    """The menu of a page; its methods may be called from any thread.

    Args:
        page: a Page, to whose view and scene it belongs.
        entries: of the menu; None: all.
    """

    def __init__(self, page: Any, entries: Sequence[Entry] | None = None) -> None:
        self._page: Page = page
        self._entries = entries
        self._send: Send = _discard
        self._path: tuple[Callable[[float], CameraPath], Callable[[], int]] | None = None
        self._sent: dict[str, Any] = {}  # the newest message of each type

    def follow_path(self, path: Callable[[float], CameraPath], keyframes: Callable[[], int]) -> None:
        """Takes where the camera path of the page is: for a number of frames a second, and its keyframes' number."""
        self._path = path, keyframes

    def keyframes(self) -> int:
        """How many keyframes the camera path of the page has."""
        return 0 if self._path is None else self._path[1]()

    def path(self, fps: float) -> CameraPath:
        """The camera path of the page, with ``fps`` frames per second.

        Raises:
            LuxelError: there are fewer than two keyframes.
        """
        assert self._path is not None
        return self._path[0](fps)

    def open(self, entry: str | None = None) -> None:
        """Opens the menu on the page.

        Args:
            entry: "image", "page", "scene", "mesh", "film", "link" or "report"; None: the one that was open last.
        """
        self._send({"type": "share-open", "entry": entry or ""})

    def connect(self, send: Send) -> None:
        """Sends through ``send`` from now on, first the jobs of the session."""
        self._send, self._sent = send, {}
        self._jobs().forget(self._show_jobs)  # of a connection that this one takes the place of
        self._jobs().on_change(self._show_jobs)
        self._show_jobs()

    def disconnect(self) -> None:
        """Stops sending; jobs go on."""
        self._send = _discard
        self._jobs().forget(self._show_jobs)

    def receive(self, message: ShareMessage) -> None:
        """Does what the page asks for."""
        jobs = self._jobs()
        if message.do == "look":
            self._show_offers()
            self._show_command(message)
        elif message.do == "start":
            self._start(message)
        elif message.do == "cancel":
            jobs.cancel(message.job)
        elif message.do == "dismiss":
            jobs.dismiss(message.job)
        elif message.do == "download":
            self._download(message.job)

    def _start(self, message: ShareMessage) -> None:
        entry = self._entry(message.entry)
        if entry is None or entry.offer(self._page).problem:
            return
        try:
            self._jobs().start(entry.plan(self._page, message.options))
        except LuxelError as error:
            self._send(
                {
                    "type": "share-problem",
                    "entry": message.entry,
                    "problem": f"{error.problem} {error.remedy}",
                }
            )

    def _download(self, name: str) -> None:
        job = self._jobs().find(name)
        if job is None or job.file is None:
            return
        try:
            content = job.file.read_bytes()
        except OSError:
            problem = f"{job.file.name} is not there any more."
            self._send({"type": "share-problem", "entry": job.plan.entry, "problem": problem})
            return
        self._page.client.send_file_download(job.file.name, content, save_immediately=True)

    def _all(self) -> Sequence[Entry]:
        if self._entries is None:
            self._entries = all_entries()
        return self._entries

    def _entry(self, name: str) -> Entry | None:
        return next((entry for entry in self._all() if entry.name == name), None)

    def _jobs(self) -> ShareJobs:
        from luxel.viewer.web.share.jobs import ShareJobs

        return ShareJobs.of(self._page.session)

    def _show_jobs(self) -> None:
        self._send({"type": "share-jobs", "jobs": [job.describe() for job in self._jobs().jobs]})

    def _show_offers(self) -> None:
        entries = [_described(entry, entry.offer(self._page)) for entry in self._all()]
        self._send_once({"type": "share", "entries": entries})

    def _show_command(self, message: ShareMessage) -> None:
        entry, command, note, problem = self._entry(message.entry), "", "", ""
        if entry is not None and message.entry != "link" and not entry.offer(self._page).problem:
            try:
                plan = entry.plan(self._page, message.options)
                command, note = plan.command(None), plan.note
            except LuxelError as error:
                problem = f"{error.problem} {error.remedy}"
        self._send_once(
            {
                "type": "share-command",
                "entry": message.entry,
                "command": command,
                "note": note,
                "problem": problem,
            }
        )

    def _send_once(self, message: dict[str, Any]) -> None:
        if self._sent.get(message["type"]) != message:
            self._sent[message["type"]] = message
            self._send(message)


def _described(entry: Entry, offer: Offer) -> dict[str, Any]:
    return {
        "name": entry.name,
        "label": entry.label,
        "problem": offer.problem,
        "about": offer.about,
        "start": offer.start,
        "link": offer.link,
        "options": [option.describe() for option in offer.options],
    }


def _discard(message: dict[str, Any]) -> None:
    pass
