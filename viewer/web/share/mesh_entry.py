"""Share, Mesh: the surface of a scene as triangles, as `luxel export --mesh` writes it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from luxel.render.fields.application import Application
from luxel.render.primitives import PRIMITIVES
from luxel.scenes.files.meshes.mesh_files import save_mesh, writable_mesh_suffixes
from luxel.viewer.exports.mesh_export import SPACINGS, seen_surface, write_field, write_hulls
from luxel.viewer.exports.mesh_options import MeshFinish
from luxel.viewer.web.page import Page
from luxel.viewer.web.session import Session
from luxel.viewer.web.share.commands import command_line, is_single, of_capture
from luxel.viewer.web.share.coordinate_options import (
    chosen_coordinates,
    coordinate_options,
    coordinate_words,
    facts_now,
)
from luxel.viewer.web.share.plan import Chosen, Offer, Option, Plan, Work, choices
from luxel.viewer.web.share.scene_snapshot import (
    SCENE,
    difference_of_command,
    has_primitives,
    parts_to_write,
    taken,
)

AUTO = "auto"
CELLS = (("auto", "usual"), ("128", "128 cells, coarse"), ("256", "256 cells"), ("512", "512 cells"))
STAGES = {"finding what the cameras see": 0.0, "reserving the grid": 0.45, "fusing depth": 0.55}


class MeshEntry:
    """Writes the surface that cameras see of primitives, the hulls of convexes, or the surface of a neural field."""

    name, label = "mesh", "Mesh"

    def __init__(self) -> None:
        self._surface: bool | None = None  # whether a field has one; None: it was not asked

    def offer(self, page: Page) -> Offer:
        """Formats, cells, and coordinates, where the scene has a surface."""
        if problem := self._problem(page):
            return Offer(problem=problem)
        suffixes = tuple((suffix, suffix) for suffix in writable_mesh_suffixes())
        parts = parts_to_write(page) if has_primitives(page) else []
        options = [Option("part", "What", SCENE, tuple(parts))] if len(parts) > 1 else []
        options.append(Option("format", "Format", ".glb", suffixes))
        if not _has_hulls(page):
            options.append(Option("cells", "Detail", AUTO, CELLS))
        options += [*coordinate_options(page.session), Option("name", "Name", "mesh")]
        about = "Triangles of the surface that the cameras of the capture see, with colours."
        if _has_hulls(page):
            about = "The convexes as triangles."
        elif not has_primitives(page):
            about = "Triangles of the surface of the field."
        return Offer(tuple(options), start="Make mesh", about=about)

    def _problem(self, page: Page) -> str:
        """Why there is no mesh of the scene; empty: there is one."""
        session = page.session
        if not is_single(session):
            return "Open one scene alone to write its mesh."
        if has_primitives(page):
            seen = _has_hulls(page) or len(session.views) > 0
            return "" if seen else "A mesh needs the cameras that the scene was trained from: open the run."
        if session.trains:
            return "A mesh of a field is written when its training has ended."
        if self._surface is None:  # it stays so, and to ask waits for an image
            with session.borrow() as scene:
                field = scene.part(Application)
            self._surface = field is not None and field.exports_surface()
        if not self._surface:
            return "A mesh is made of primitives or of a field with a surface: this scene is neither."
        return ""

    def plan(self, page: Page, chosen: Chosen) -> Plan:
        """A mesh."""
        values = choices(self.offer(page), chosen)
        session, part, name = page.session, str(values.get("part", SCENE)), str(values["name"])
        suffix, cells = str(values["format"]), str(values.get("cells", AUTO))
        resolution = None if cells == AUTO else int(cells)
        moment = page.stream.time if session.times is not None else None

        def begin() -> Work:
            if not has_primitives(page):
                return _of_field(page, values, resolution)
            return _of_primitives(page, values, resolution, part, moment)

        command = ""
        if _known_cameras(session) or not _needs_cameras(page):
            words = [*of_capture(session), "--mesh", *(("--resolution", cells) if resolution else ())]
            words += [*(("--time", f"{moment:.9g}") if moment is not None else ()), *coordinate_words(values)]
            command = command_line("export", session, *words, "--out", name + suffix)
        note = difference_of_command(page, part) if command and has_primitives(page) else ""
        return Plan(self.name, f"Mesh, {suffix}", name, suffix, begin, lambda _: command, note)


def _needs_cameras(page: Page) -> bool:
    """Whether its mesh is made of what cameras see."""
    return has_primitives(page) and not _has_hulls(page)


def _known_cameras(session: Session) -> bool:
    """Whether commands find the cameras of the session."""
    return session.folder is not None or session.capture is not None


def _has_hulls(page: Page) -> bool:
    """Whether the primitives have triangles of their own."""
    kind = page.session.primitives
    return has_primitives(page) and kind is not None and PRIMITIVES[kind.primitive].engine.to_mesh is not None


def _of_field(page: Page, values: Chosen, resolution: int | None) -> Work:
    with page.session.borrow() as scene:
        field = scene.parts[Application]
    facts, coordinates = facts_now(page.session), chosen_coordinates(page.session, values)

    def work(file: Path, report: Callable[[float], None], cancelled: Callable[[], bool]) -> str:
        return f"{write_field(file, field, resolution, None, MeshFinish(), coordinates, facts)}."

    return work


def _of_primitives(
    page: Page, values: Chosen, resolution: int | None, part: str, moment: float | None
) -> Work:
    session, hulls = page.session, _has_hulls(page)
    primitives = taken(page, part, moment)
    facts, coordinates = facts_now(session), chosen_coordinates(session, values)
    cameras = [view.camera for view in session.views]
    antialiased = session.antialiased

    def work(file: Path, report: Callable[[float], None], cancelled: Callable[[], bool]) -> str:
        with torch.no_grad():
            scene = primitives()
        if hulls:
            made, left_out = write_hulls(file, scene, None, facts, coordinates)
            return f"{made}; {left_out} were left out."

        def progress(stage: str, share: float) -> None:
            starts = [*STAGES.values(), 1.0]
            at = list(STAGES).index(stage) if stage in STAGES else len(STAGES) - 1
            report(starts[at] + share * (starts[at + 1] - starts[at]))

        options: dict[str, Any] = {"antialiased": antialiased} if scene.antialiases else {}
        mesh = seen_surface(
            scene,
            cameras,
            resolution or SPACINGS[scene.device.type],
            on_progress=progress,
            turn=session.borrow,
            **options,
        )
        mesh.facts = facts
        save_mesh(file, coordinates.moved(mesh))
        return f"{len(mesh.faces):,} triangles from {len(cameras)} cameras."

    return work
