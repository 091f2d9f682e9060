"""Share, Film: the camera path of the page as a film."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from luxel.scenes.paths import CameraPath, path_json, resized
from luxel.viewer.films.film_format import FORMATS, FilmOptions, check_options
from luxel.viewer.web.camera_path.path_video import write_page_film
from luxel.viewer.web.page import Page
from luxel.viewer.web.share.commands import command_line
from luxel.viewer.web.share.plan import Chosen, Offer, Option, Plan, Work, choices
from luxel.viewer.web.share.scene_snapshot import difference_of_command

SIZES = {"720p": (1280, 720), "1080p": (1920, 1080), "4K": (3840, 2160)}
RATES = ("24", "30", "60")
NO_PATH = (
    "There is no camera path yet: open the panel Camera path, and press Add keyframe at two places at least."
)
LARGE = (".gif", ".apng")  # suffixes of formats whose files are large


class FilmEntry:
    """Renders the path through the keyframes of the page."""

    name, label = "film", "Film"

    def offer(self, page: Page) -> Offer:
        """Formats, sizes and frame rates, where there is a path."""
        if page.share.keyframes() < 2:
            return Offer(problem=NO_PATH)
        pose = page.pose()
        sizes = [("window", f"As the window, {pose.width} × {pose.height}")]
        sizes += [(name, f"{name}, {width} × {height}") for name, (width, height) in SIZES.items()]
        formats = [(suffix, f"{suffix}{', large' if suffix in LARGE else ''}") for suffix in FORMATS]
        options = (
            Option("format", "Format", ".mp4", tuple(formats)),
            Option("size", "Size", "window", tuple(sizes)),
            Option("rate", "Frames a second", "30", tuple((rate, rate) for rate in RATES)),
            Option("name", "Name", "film"),
        )
        about = "The camera path of this page, without panels, selection and marks."
        return Offer(options, start="Make film", about=about)

    def plan(self, page: Page, chosen: Chosen) -> Plan:
        """A film of the path as it is now."""
        values = choices(self.offer(page), chosen)
        session = page.session
        name, suffix = str(values["name"]), str(values["format"])
        path = page.share.path(float(str(values["rate"])))
        if (size := SIZES.get(str(values["size"]))) is not None:
            path = replace(path, cameras=resized(path.cameras, *size))
        first, settings = path.cameras[0], page.stream.settings
        check_options(Path(name + suffix), FilmOptions(path.fps), first.width, first.height)

        def begin() -> Work:
            def work(file: Path, report: Callable[[float], None], cancelled: Callable[[], bool]) -> str:
                frames = write_page_film(session, path, settings, file, report)
                return f"{frames} frames, {frames / path.fps:.3g} s."

            return work

        def command(companion: Path | None) -> str:
            json = companion or f"{name}.json"
            return command_line("render", session, "--path", json, "--out", name + suffix)

        notes = [difference_of_command(page)]
        if settings.output != "colour":
            notes.append("The command writes colours.")
        if session.folder is None:
            notes.append("Download the path first: Camera path, Download.")
        return Plan(
            self.name,
            f"Film, {first.width} × {first.height}",
            name,
            suffix,
            begin,
            command,
            " ".join(filter(None, notes)) if command(None) else "",
            companion=(".json", _as_json(page, path)) if session.folder is not None else None,
        )


def _as_json(page: Page, path: CameraPath) -> bytes:
    return path_json(path.cameras, fps=path.fps, times=path.times, shift=page.session.about.shift)
