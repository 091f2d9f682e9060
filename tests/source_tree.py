"""The rules of the source tree: functions that list what breaks them. `test_layout.py` compares with the known debt.

``python tests/source_tree.py`` prints what breaks a rule today; with ``--write`` it rewrites `layout_debt.json`.
"""

from __future__ import annotations

import ast
import io
import json
import re
import sys
import tokenize
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
DEBT = Path(__file__).with_name("layout_debt.json")
PRODUCTION = ("render", "scenes", "viewer")
FOLDERS = (*PRODUCTION, "cuda", "tests", "docs", "examples")
CODE = (".py", ".h", ".cuh", ".cu", ".cpp")
TEXT = (*CODE, ".md", ".js", ".css", ".html", ".cmake", ".txt")

# Production code that reads the plain references, each with its reason.
WITNESSES = {"viewer/bench/raster/quality.py": "the reference is the witness of measured quality"}
# Pairs of modules that import each other inside functions, each with its reason.
CYCLES: dict[str, str] = {}

# Inside render a module imports those of its own rank and of lower ranks.
RANKS = (
    ("errors", "bounds", "lazy_exports", "storage", "native", "geometry"),
    ("jit",),
    ("scene",),
    ("mesh",),
    ("ops",),
    ("primitives",),
    ("raster", "metrics", "replay", "backends"),
    ("runs",),
    ("surfaces",),
    ("train", "fields"),
    ("segment", "nets", "light"),
)
STRANGERS = ({"train", "fields"}, {"segment", "nets", "light"})  # of one rank, but none imports another
NEVER = {("runs", "primitives")}  # what any training is knows nothing of what is trained

# Names in code that the glossary has replaced.
IDENTIFIERS = {
    "Kind": "PrimitiveSpec",
    "KINDS": "the registry of primitives",
    "Kept": "AuxiliaryState",
    "Workbench": "StepContext",
    "Shelf": "ImageStack",
    "shelf": "image_stack",
    "Seen": "StepOutput",
    "Stepper": "StepQueue",
    "stepper": "step_queue",
    "Learning": "Trainer",
    "Learner": "FieldOptimizer",
    "Optimiser": "Optimizer",
    "Moment": "ScheduleValues",
    "ask": "submit",
    "hear": "poll",
    "settle": "synchronize",
    "heeds_live": "supports_live_count",
    "suited": "adapt_config",
    "kHeavy": "kMultiEdge",
    "heavy": "multi_edge",
    "unfinished": "raw_moments",
    "nowhere": "null_splat",
    "told": "stats",
    "found": "the quantity's name, or actual",
    "wanted": "expected",
    "who": "the name of the thing",
    "write_place": "write_courtyard",
    "place_scene": "courtyard_scene",
    "place_cameras": "courtyard_cameras",
    "place_solids": "make_courtyard_solids",
    "place_capture": "courtyard_capture",
    "rows_of_place": "courtyard_rows",
    "CachePlace": "CacheLocation",
    "kept_camera": "distorted_camera",
    "keep_lens": "retain_lens",
    "lens_kept": "lens_retained",
    "keeps_lenses": "retains_lenses",
    "seen_points": "visible_points",
    "count_seen": "count_visible",
    "SeenCount": "VisibilityCount",
    "SeenCounter": "VisibilityCounter",
    "shade_seen": "shade_visibility",
    "MIN_PHOTOGRAPHS": "MIN_SFM_IMAGES",
    "photographs_mismatch": "images_mismatch",
    "read_photographs": "read_images",
    "few_photographs": "few_images",
    "_check_photograph": "_check_image",
    "drawn_outputs": "rendered_outputs",
    "drawn_text": "rendered_text",
    "DrawnMessage": "DisplayedMessage",
    "KeptEmbeddings": "StoredEmbeddings",
    "obj_beside": "obj_companions",
    "_is_whole": "_is_complete",
    "save_beside": "save_alongside",
    "keep_most_opaque": "retain_most_opaque",
    "_drawn_in_full": "_rendered_in_full",
    "SeenFrame": "VisibilityFrame",
    "Photograph": "ViewImage",
    "InstanceRoom": "InstanceCapacity",
    "PHOTOGRAPHS": "IMAGE_LIST",
    "MAX_PHOTOGRAPHS": "MAX_IMAGES",
    "seen_at": "visible_at",
    "out_of_room": "over_capacity",
    "check_drawn": "check_request",
    "behind_straight_lens": "without_distortion",
    "depth_behind_lens": "depth_and_coverage",
    "well_seen": "well_observed",
    "FEWEST_PLACES": "MIN_SAMPLES",
    "_make_room": "_allocate",
    "_from_kept": "_from_stored",
    "check_place": "check_path",
    "kept_controls": "stored_controls",
    "_undrawn": "_not_displayed",
    "_drawn_version": "_rendered_version",
    "_kept_shape": "_saved_shape",
    "_kept_type": "_saved_type",
    "MAX_PLACES": "MAX_RAY_SAMPLES",
    "seen_cells": "observed_cells",
    "ALL_SEEN": "ALL_OBSERVED",
    "beside_directions": "with_directions",
    "begin_behind_nearest": "begin_before_nearest",
    "kept_samples": "stored_samples",
    "PHOTO": "SLOT",
    **dict.fromkeys(("Picture", "Pictures", "picture", "pictures"), "image"),
    **dict.fromkeys(("Photo", "Photos", "photo", "photos"), "image, or view"),
    **dict.fromkeys(("Shot", "Shots", "shot", "shots"), "camera sample, or view"),
}
# Words in any text: code, comments, messages and documentation.
PHRASES = {
    r"\bk?heavy polic": "multi-edge policy",
    r"\bheavy (primitive|kernel|element|splat|walk)": "multi-edge ...",
    r"\bworkbench": "step context",
    r"\bshel(f|ves)\b": "image stack",
    r"\bunfinished\b": "raw moments",
    r"\bnowhere\b": "null splat",
    r"\bsuited\b": "adapt_config",
    r"\bheeds?\b": "supports",
    r"\b(way|ways) of (a|the) rays?\b": "ray_t",
    r"\bso many[ -]th\b|\bevery so many": "every Nth",
    r"\bresolution is none\b": "invalid resolution",
    r"\bcomes? round\b": "recurs, or is due",
    r"\bwho (adds|draws|removes|trains|renders)\b": "densification strategy, rasterizer backend",
    r"\bkeep training waiting\b": "fraction of time that rendering for viewers may take",
    r"\bgoes on on\b": "Resumed on a different device type",
    r"\btold\b": "the name of what is passed",
    r"\b(hears?|heard)\b": "poll, receive",
    r"\bpictures?\b": "image",
    r"\bshots?\b": "camera sample, or view",
    r"\b(newest|previous|last) whole checkpoint": "complete checkpoint",
    r"<{7} |>{7} ": "one side of a merge conflict",
}
RETIRED_LIMITS = re.compile(
    r"_?(MOST|LEAST)_[A-Z0-9_]+|[A-Z_]+_(MOST|LEAST)|k(Most|Least)[A-Z]\w*"
)  # MAX_, MIN_
RETIRED_FILES = {
    *("kinds", "optimiser", "learner", "learning", "stepper", "known_facts", "learnt_views", "kept_lenses"),
    *("names_elsewhere", "page_start", "leftovers", "weak_method", "fair_turns", "plain", "origin"),
}


def files(*folders: str, suffixes: tuple[str, ...] = CODE) -> list[Path]:
    """Files of the folders with one of the suffixes, relative to the root, without caches and links."""
    return sorted(
        path.relative_to(ROOT)
        for folder in folders
        for path in (ROOT / folder).rglob("*")
        if path.suffix in suffixes and "__pycache__" not in path.parts and path.is_file()
    )


def module_name(path: Path) -> str:
    parts = path.with_suffix("").parts
    return ".".join(("luxel", *(parts[:-1] if parts[-1] == "__init__" else parts)))


@cache
def modules() -> dict[str, Path]:
    """The modules of the three folders of the package by their names."""
    return {module_name(path): path for path in files(*PRODUCTION, suffixes=(".py",))}


def imported(source: str, known: frozenset[str]) -> set[str]:
    """Modules among ``known`` that a source imports anywhere, except for type checkers alone."""
    names: set[str] = set()

    def visit(node: ast.AST) -> None:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test):
                continue
            if isinstance(child, ast.Import):
                names.update(alias.name for alias in child.names)
            elif isinstance(child, ast.ImportFrom) and child.module:
                full = [f"{child.module}.{alias.name}" for alias in child.names]
                names.update(name if name in known else child.module for name in full)
            visit(child)

    visit(ast.parse(source))
    return names & known


@cache
def import_graph() -> dict[str, set[str]]:
    known = frozenset(modules())
    return {name: imported((ROOT / path).read_text(), known) - {name} for name, path in modules().items()}


def circles(graph: dict[str, set[str]]) -> list[list[str]]:
    """Sets of modules that reach one another (strongly connected components of more than one, by Tarjan)."""
    order: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    result: list[list[str]] = []

    def visit(name: str) -> None:
        order[name] = low[name] = len(order)
        stack.append(name)
        for other in sorted(graph[name]):
            if other not in order:
                visit(other)
            if other in stack:
                low[name] = min(low[name], low[other])
        if low[name] == order[name]:
            start = stack.index(name)
            if len(stack) - start > 1:
                result.append(sorted(stack[start:]))
            del stack[start:]

    for name in sorted(graph):
        if name not in order:
            visit(name)
    return result


def import_cycles() -> list[str]:
    return [line for circle in circles(import_graph()) if (line := " <-> ".join(circle)) not in CYCLES]


def reads_reference() -> list[str]:
    return [
        str(modules()[name])
        for name, others in import_graph().items()
        if not name.startswith("luxel.render.reference")
        and any(other.startswith("luxel.render.reference") for other in others)
        and str(modules()[name]) not in WITNESSES
    ]


def room(name: str) -> str:
    """The first part below luxel.render, or nothing for the package itself and other folders."""
    parts = name.split(".")
    return parts[2] if parts[1] == "render" and len(parts) > 2 else ""


def may_import(importer: str, other: str) -> bool:
    """Whether a room of render may import another one."""
    ranks = {name: rank for rank, names in enumerate(RANKS) for name in names}
    if importer == other or any({importer, other} <= strangers for strangers in STRANGERS):
        return importer == other
    if (importer, other) in NEVER:
        return False
    return ranks.get(importer, len(RANKS)) >= ranks.get(other, len(RANKS))


def wrong_way() -> list[str]:
    return [
        f"{name} -> {other}"
        for name, others in import_graph().items()
        for other in sorted(others)
        if room(name)
        and other.startswith("luxel.render")
        and "reference" not in (room(name), room(other))
        and not (room(other) and may_import(room(name), room(other)))
    ]


def unranked() -> list[str]:
    """Rooms of render of which RANKS says nothing."""
    ranked = {name for names in RANKS for name in names} | {"reference", ""}
    return sorted({room(name) for name in modules()} - ranked)


def without_topic() -> list[str]:
    """Packages whose `__init__.py` does not begin with a sentence about them, and folders of cuda/ that its README.md
    does not list."""
    packages = [path for path in modules().values() if path.name == "__init__.py"]
    silent = [
        str(path.parent) for path in packages if not ast.get_docstring(ast.parse((ROOT / path).read_text()))
    ]
    listed = (ROOT / "cuda" / "README.md").read_text()
    folders = {
        path.parent.relative_to(ROOT / "cuda") for path in (ROOT / "cuda").rglob("*") if path.is_file()
    }
    return silent + sorted(f"cuda/{f}" for f in folders if f.name and f"| `{f}/` |" not in listed)


def names_in(path: Path) -> set[str]:
    """Identifiers of a source file, without those in comments and strings."""
    text = (ROOT / path).read_text()
    if path.suffix == ".py":
        tokens = tokenize.generate_tokens(io.StringIO(text).readline)
        return {token.string for token in tokens if token.type == tokenize.NAME}
    text = re.sub(r'//[^\n]*|/\*.*?\*/|"(\\.|[^"\\\n])*"', " ", text, flags=re.DOTALL)
    return set(re.findall(r"[A-Za-z_]\w*", text))


def written_files(suffixes: tuple[str, ...]) -> Iterator[Path]:
    """What the glossary holds for: everything but the lists of its words and their test."""
    lists = [Path(__file__).resolve().relative_to(ROOT), Path("tests/test_layout.py")]
    yield from (path for path in files(*FOLDERS, suffixes=suffixes) if path not in lists)


def retired_names() -> list[str]:
    named = [
        f"{path}: {name}"
        for path in written_files(CODE)
        for name in sorted(names_in(path))
        if name in IDENTIFIERS or RETIRED_LIMITS.fullmatch(name)
    ]
    return named + [str(path) for path in written_files(CODE) if path.stem in RETIRED_FILES]


def retired_words() -> list[str]:
    lines = []
    for path in (*written_files(TEXT), Path("README.md")):
        text = (ROOT / path).read_text()
        words = {m.group().lower() for p in PHRASES for m in re.finditer(p, text, re.IGNORECASE)}
        lines += [f"{path}: {' '.join(word.split())}" for word in sorted(words)]
    return lines


RULES: dict[str, Callable[[], list[str]]] = {
    "production imports nothing from render/reference": reads_reference,
    "modules do not import each other in a circle": import_cycles,
    "rooms of render import what stands before them": wrong_way,
    "every room of render has a rank": unranked,
    "every package says its topic": without_topic,
    "names are those of the glossary": retired_names,
    "words are those of the glossary": retired_words,
}


def debt() -> dict[str, list[str]]:
    """What is known to break the rules; nothing where the file is not there."""
    return json.loads(DEBT.read_text()) if DEBT.exists() else {}


def main() -> None:
    broken = {rule: sorted(check()) for rule, check in RULES.items()}
    broken = {rule: lines for rule, lines in broken.items() if lines}
    if "--write" not in sys.argv:
        print(json.dumps(broken, indent=1))
    elif broken:
        DEBT.write_text(json.dumps(broken, indent=1) + "\n")
    else:
        DEBT.unlink(missing_ok=True)


if __name__ == "__main__":
    main()
