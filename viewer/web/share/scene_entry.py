"""Share, Scene file: the primitives of a scene in the formats that `luxel export` writes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import torch

from luxel.render.primitives import Parameters
from luxel.scenes import save_scene
from luxel.scenes.files.registry import formats_for, writable_suffixes
from luxel.scenes.files.scene_files import lost_by
from luxel.viewer.web.page import Page
from luxel.viewer.web.share.commands import command_line
from luxel.viewer.web.share.coordinate_options import (
    chosen_coordinates,
    coordinate_options,
    coordinate_words,
)
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

ALL_TIMES, THIS_TIME = "all", "this"
ELSEWHERE = (".html",)  # has an entry of its own
NO_PRIMITIVES = "This scene has no primitives: scene files hold Gaussians, convexes and surfels."


class SceneEntry:
    """Writes the scene as it is edited, or a part of it."""

    name, label = "scene", "Scene file"

    def offer(self, page: Page) -> Offer:
        """What of the scene, the formats that hold it, and coordinates."""
        if not has_primitives(page):
            return Offer(problem=NO_PRIMITIVES)
        sample = sample_of(page)
        parts = parts_to_write(page)
        options = [Option("part", "What", SCENE, tuple(parts))] if len(parts) > 1 else []
        formats = _formats(sample)
        if sample.moves:
            times = ((ALL_TIMES, "all times"), (THIS_TIME, "this time, as a static scene"))
            still = _formats(sample.at(0.0))
            options.append(Option("times", "Times", ALL_TIMES, times))
            options.append(Option("format", "Format", ".ply", formats, when={"times": (ALL_TIMES,)}))
            options.append(Option("still_format", "Format", ".ply", still, when={"times": (THIS_TIME,)}))
        else:
            options.append(Option("format", "Format", ".ply", formats))
        halves = tuple(set(writable_suffixes("half")) & {suffix for suffix, _ in formats})
        if halves:
            options.append(Option("half", "Half precision, half as large", False, when={"format": halves}))
        options += coordinate_options(page.session)
        options.append(Option("name", "Name", "scene"))
        about = f"The {page.session.about.noun} for other programs."
        if page.session.trains:
            about = f"The {page.session.about.noun} as they are at this step, for other programs."
        return Offer(tuple(options), start="Save scene", about=about)

    def plan(self, page: Page, chosen: Chosen) -> Plan:
        """A scene file."""
        values = choices(self.offer(page), chosen)
        moment = page.stream.time if values.get("times") == THIS_TIME else None
        suffix = str(values["format" if moment is None else "still_format"])
        part, name = str(values.get("part", SCENE)), str(values["name"])
        half = bool(values.get("half")) and suffix in writable_suffixes("half")
        coordinates = chosen_coordinates(page.session, values)

        def begin() -> Work:
            primitives = taken(page, part, moment)

            def work(file: Path, report: Callable[[float], None], cancelled: Callable[[], bool]) -> str:
                scene = primitives()
                if coordinates.changed:
                    with torch.no_grad():
                        scene = scene.transformed(coordinates.transform)
                save_scene(file, scene, facts=coordinates.facts, half=half)
                lost = lost_by(file, scene, coordinates.stated)
                return f"The format does not hold {' and '.join(lost)}." if lost else ""

            return work

        time = () if moment is None else ("--time", f"{moment:.9g}")
        words = [*time, *coordinate_words(values), *(("--half",) if half else ())]
        command = command_line("export", page.session, *words, "--out", f"{name}{suffix}")
        return Plan(
            self.name,
            f"Scene file, {suffix}",
            name,
            suffix,
            begin,
            lambda _: command,
            difference_of_command(page, part) if command else "",
            rate=suffix,
            units=numbers_in(page),
        )


def _formats(scene: Parameters) -> tuple[tuple[str, str], ...]:
    """Suffixes of single files that hold such primitives, with what they are."""
    known = [each for each in formats_for(scene) if each.suffix.startswith(".")]
    return tuple((each.suffix, each.suffix) for each in known if each.suffix not in ELSEWHERE)
