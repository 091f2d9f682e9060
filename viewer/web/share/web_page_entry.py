"""Share, Web page: the scene as one HTML file that any browser opens without a network."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from luxel.render.runs.folder.run_config import has_config
from luxel.scenes import save_scene
from luxel.scenes.captures.contents import natural_key
from luxel.scenes.files.registry import find_format
from luxel.viewer.exports.coordinates import Coordinates
from luxel.viewer.exports.page_settings import run_background
from luxel.viewer.web.page import Page
from luxel.viewer.web.session import Session
from luxel.viewer.web.share.commands import command_line
from luxel.viewer.web.share.coordinate_options import chosen_coordinates
from luxel.viewer.web.share.plan import Chosen, Offer, Option, Plan, Work, choices
from luxel.viewer.web.share.scene_snapshot import (
    SCENE,
    difference_of_command,
    has_primitives,
    numbers_in,
    parts_to_write,
    sample_of,
    taken,
)
from luxel.viewer.web.share.shared_files import SCRIPTED

SUFFIX = ".html"


class WebPageEntry:
    """Writes the page of `luxel export --out page.html`."""

    name, label = "page", "Web page"

    def offer(self, page: Page) -> Offer:
        """A page of Gaussians, of a dynamic scene at the time that is shown."""
        known = find_format(SUFFIX)
        assert known is not None
        sample = sample_of(page) if has_primitives(page) else None
        still = sample if sample is None or not sample.moves else sample.at(0.0)
        if still is None or not known.stores(still):
            return Offer(problem="A web page shows Gaussians, and this scene is made of something else.")
        parts = parts_to_write(page)
        options = [Option("part", "What", SCENE, tuple(parts))] if len(parts) > 1 else []
        options.append(Option("name", "Name", "page"))
        when = " at the time shown" if still is not sample else ""
        about = f"One file with the scene{when} and a viewer in it: any browser opens it, without a network."
        return Offer(tuple(options), start="Make web page", about=about)

    def plan(self, page: Page, chosen: Chosen) -> Plan:
        """A page that begins at the first view of the capture."""
        values = choices(self.offer(page), chosen)
        session, part, name = page.session, str(values.get("part", SCENE)), str(values["name"])
        moment = page.stream.time if session.times is not None else None
        coordinates = chosen_coordinates(session, {})

        def begin() -> Work:
            primitives, start = taken(page, part, moment), _start(session, coordinates)

            def work(file: Path, report: Callable[[float], None], cancelled: Callable[[], bool]) -> str:
                with torch.no_grad():
                    scene = primitives()
                save_scene(file, scene, facts=coordinates.facts, **start)
                return ""

            return work

        time = () if moment is None else ("--time", f"{moment:.9g}")
        command = command_line("export", session, *time, "--out", name + SUFFIX)
        return Plan(
            self.name,
            "Web page",
            name,
            SUFFIX,
            begin,
            lambda _: command,
            difference_of_command(page, part) if command else "",
            rate=SUFFIX,
            units=numbers_in(page),
            policy=SCRIPTED,
        )


def _start(session: Session, coordinates: Coordinates) -> dict[str, Any]:
    """Where the page begins, and its background: as `luxel.viewer.exports.page_settings.page_start` has it."""
    if session.folder is None or not has_config(session.folder):
        return {}
    start: dict[str, Any] = {"background": run_background(session.folder)}
    if session.views:
        first = min(session.views, key=lambda view: natural_key(view.name))
        start["view"] = coordinates.transform.camera(first.camera)
    return start
