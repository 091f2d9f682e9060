"""What is known of a scene file or a run without drawing it, for `luxel inspect`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from torch import Tensor

from luxel.render.fields.files import is_field
from luxel.render.primitives import Parameters
from luxel.scenes.captures.registry import CAPTURE_FORMATS
from luxel.scenes.captures.unposed.image_list import IMAGE_LIST
from luxel.scenes.files.meshes.mesh_files import is_mesh
from luxel.scenes.files.registry import OTHER_PROGRAMS, format_of
from luxel.scenes.files.scene_facts import facts_to
from luxel.scenes.files.scene_files import load_facts, load_primitives, load_unused
from luxel.scenes.files.scene_format import FACTS, SceneFacts
from luxel.scenes.loading.loaders import facts_of, open_scene
from luxel.scenes.loading.run_results import is_run
from luxel.scenes.loading.scene_files import measured_scene
from luxel.scenes.unused import Unused, unused_lines

MIDDLE = 98  # percent of the centres, of which bounds are given beside those of all


@dataclass(frozen=True)
class SceneInspection:
    """What is known of a scene.

    Args:
        facts: for a person, by name.
        values: the same for programs.
        unused: what the file holds that is not used, most harmful first.
    """

    facts: dict[str, str]
    values: dict[str, Any]
    unused: list[Unused] = field(default_factory=list)

    def as_json(self) -> dict[str, Any]:
        """All of it, for programs."""
        return {
            "facts": self.facts,
            "scene": self.values,
            "unused": [entry.as_json() for entry in self.unused],
        }


def is_scene(path: Path) -> bool:
    """Whether a path is a scene, and not a capture, by what is there.

    A folder of images with the index of a SOG scene is one; a folder that is a capture of another kind is none, also
    where it has files of runs in it.
    """
    if not path.exists():
        return False
    if path.is_file() and format_of(path) is not None:  # lod-meta.json is JSON, as transforms.json is
        return True
    posed = (known for known in CAPTURE_FORMATS if known is not IMAGE_LIST)
    if any(known.mismatch(path) is None for known in posed):
        return False
    if format_of(path) is not None or (path.is_file() and path.suffix.lower() in OTHER_PROGRAMS):
        return True
    if path.is_dir():
        return is_run(path) and IMAGE_LIST.mismatch(path) is not None
    return is_mesh(path) or is_field(path)


def inspect_scene(path: Path) -> SceneInspection:
    """Reads a scene.

    Raises:
        LuxelError: it cannot be read.
    """
    known = None if is_mesh(path) or is_run(path) or _is_field(path) else format_of(path)
    if known is None:
        scene, unused, facts = (
            open_scene(path),
            [],
            {"format": "run" if path.is_dir() else path.suffix.lower()},
        )
    else:
        parameters = load_primitives(path, log_unused=False)
        scene, unused = measured_scene(path, parameters, load_facts(path)), load_unused(path)
        facts = {"format": known.suffix}
    values: dict[str, Any] = {"format": facts["format"], "noun": scene.about.noun, **scene.numbers()}
    facts["content"] = f"{scene.count:,} {scene.about.noun}"
    if primitives := scene.part(Parameters):
        values["primitive"] = primitives.primitive
        if (degree := getattr(primitives, "sh_degree", None)) is not None:
            values["sh_degree"] = degree
            facts["spherical harmonics"] = f"degree {degree}"
    if scene.about.times is not None:
        values["times"] = list(scene.about.times)
        facts["times"] = "from {:g} to {:g}".format(*scene.about.times)
    for name, key, percent in (("bounds", "bounds", 100), (f"bounds of {MIDDLE} %", "middle", MIDDLE)):
        if (box := _bounds(scene.centres(), percent)) is not None and box != values.get("bounds"):
            values[key] = box
            facts[name] = ", ".join(
                f"{axis} {low:.4g} to {high:.4g}" for axis, low, high in zip("xyz", *box, strict=True)
            )
    known_facts = facts_of(scene)
    values |= dict.fromkeys(FACTS) | facts_to(known_facts)
    return SceneInspection(facts | _in_words(known_facts), values, unused)


def _is_field(path: Path) -> bool:
    return path.is_file() and path.suffix.lower() == ".safetensors" and is_field(path)


def _bounds(centres: Tensor, percent: int) -> list[list[float]] | None:
    """The least and the greatest coordinates of the finite centres, or of those in the middle of each axis."""
    centres = centres.detach().float().cpu()
    centres = centres[centres.isfinite().all(1)]
    if not len(centres):
        return None
    aside = len(centres) * (100 - percent) // 200
    ordered = centres.sort(0).values
    return [ordered[aside].tolist(), ordered[len(centres) - 1 - aside].tolist()]


def _in_words(facts: SceneFacts) -> dict[str, str]:
    """The facts of a file, also those that it does not state."""
    said = {True: "yes", False: "no", None: "not stated"}
    up = "not stated" if facts.up is None else ", ".join(f"{x:.4g}" for x in facts.up)
    metres = "not stated" if facts.metres is None else f"{facts.metres:g} m"
    out = {"antialiased": said[facts.antialiased], "up": up, "length of a unit": metres}
    if facts.shift is not None:
        out["shift"] = (
            f"{', '.join(f'{x:.10g}' for x in facts.shift)} are to be added for the capture's coordinates"
        )
    return out


def sentences(inspection: SceneInspection, path: Path) -> Iterator[str]:
    """What is not used, or that there is nothing of the kind."""
    if inspection.unused:
        yield from unused_lines(inspection.unused, f"luxel inspect {path} --json")
    else:
        yield "Nothing was found in it that luxel does not use."
