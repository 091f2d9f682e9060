"""Share, Image: what the page shows as a file, at any size."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from luxel.viewer.films.output_file import OutputFile
from luxel.viewer.films.still import ALPHA
from luxel.viewer.films.view_link import encode_view
from luxel.viewer.web.images.still_image import MAX_SIDE, write_page_still
from luxel.viewer.web.navigate import Pose
from luxel.viewer.web.page import Page
from luxel.viewer.web.shading.shading import DisplaySettings
from luxel.viewer.web.share.commands import command_line, is_single
from luxel.viewer.web.share.plan import Chosen, Offer, Option, Plan, Work, choices
from luxel.viewer.web.share.scene_snapshot import difference_of_command

FORMATS = ((".png", "PNG"), (".jpg", "JPEG"), (".webp", "WebP"))
LONG_SIDES = {"4K": 3840, "8K": MAX_SIDE}
BACKGROUNDS = {(0.0, 0.0, 0.0): "black", (1.0, 1.0, 1.0): "white"}


class ImageEntry:
    """Renders the view of the page."""

    name, label = "image", "Image"

    def offer(self, page: Page) -> Offer:
        """Sizes, formats, and a transparent background where the scene has alpha."""
        pose = page.pose()
        sizes = tuple(
            (name, f"{label}, {width} × {height}") for name, label, width, height in image_sizes(pose)
        )
        options = [
            Option("size", "Size", sizes[0][0], sizes),
            Option("format", "Format", ".png", FORMATS),
            Option("name", "Name", "view"),
        ]
        if "alpha" in page.session.about.layers and is_single(page.session):
            options.insert(2, Option("transparent", "Transparent background", False, when={"format": ALPHA}))
        about = "The view of this page, without panels, selection and marks."
        return Offer(tuple(options), start="Save image", about=about)

    def plan(self, page: Page, chosen: Chosen) -> Plan:
        """An image of the present view."""
        values = choices(self.offer(page), chosen)
        pose, settings = page.pose(), page.stream.settings
        width, height = next(
            (width, height) for name, _, width, height in image_sizes(pose) if name == values["size"]
        )
        suffix = str(values["format"])
        transparent = bool(values.get("transparent")) and suffix in ALPHA
        time = page.stream.time if page.session.times is not None else 0.0
        camera = pose.camera(width, height, settings.near, settings.far)

        def begin() -> Work:
            def work(file: Path, report: Callable[[float], None], cancelled: Callable[[], bool]) -> str:
                write_page_still(
                    page.session,
                    camera,
                    replace(settings, time=time),
                    OutputFile(file),
                    transparent=transparent,
                    quality=None if suffix == ".png" else 90,
                    on_progress=report,
                    cancelled=cancelled,
                )
                return ""

            return work

        command, note = _command(
            page, pose, (width, height), settings, transparent, f"{values['name']}{suffix}"
        )
        title = f"Image, {width} × {height}"
        return Plan(self.name, title, str(values["name"]), suffix, begin, lambda _: command, note)


def image_sizes(pose: Pose) -> list[tuple[str, str, int, int]]:
    """Names, labels, widths and heights of the images that a page offers."""
    width, height = pose.width, pose.height
    longer = max(width, height)
    sizes = [("window", "As the window", width, height)]
    if 2 * longer <= MAX_SIDE:
        sizes.append(("2x", "Twice the window", 2 * width, 2 * height))
    for name, side in LONG_SIDES.items():
        scale = side / longer
        sizes.append((name, name, max(1, round(width * scale)), max(1, round(height * scale))))
    return sizes


def _command(
    page: Page,
    pose: Pose,
    size: tuple[int, int],
    settings: DisplaySettings,
    transparent: bool,
    out: str,
) -> tuple[str, str]:
    """The command and what sets it apart from the image."""
    session = page.session
    if not command_line("render", session):
        return "", "There is no command for this scene: it is not that of one file or run."
    if settings.output != "colour":
        return (
            "",
            f"There is no command: `luxel render` writes colours, and the page shows {settings.output}.",
        )
    if session.about.flat:
        command = command_line("render", session, "--out", out)
        return command, "The command writes the whole image, in its own size."
    background = None if transparent else BACKGROUNDS.get(settings.background)
    time = page.stream.time if session.times is not None else None
    command = command_line(
        "render",
        session,
        *("--view", "#" + encode_view(pose.position, pose.rotation, pose.fov_y, time)),
        *("--width", size[0], "--height", size[1]),
        *(("--background", background) if background else ()),
        *(("--transparent",) if transparent else ()),
        *("--quality", 90) if not out.endswith(".png") else (),
        *("--out", out),
    )
    notes = [difference_of_command(page)]
    if background is None and not transparent:
        notes.append("The command has the background of the run, black or white.")
    if settings.splat_scale != 1:
        notes.append("Splat size is that of this page alone.")
    return command, " ".join(filter(None, notes))
