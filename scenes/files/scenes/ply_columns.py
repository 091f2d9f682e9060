"""What PLY files of other programs hold besides the columns that luxel reads: columns, elements and comments.

Names are those of the published formats: Spacetime Gaussians (Li et al. 2024) and 4DGS (Yang et al. 2024) for motion,
Mip-Splatting (Yu et al. 2024) for filter_3D, Deformable Beta Splatting (Liu et al. 2025) for kernels, Gaussian Grouping
(Ye et al. 2024) for features.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import NamedTuple

from luxel.render.primitives import Gaussians, PrimitiveSpec
from luxel.scenes.errors import CaptureError
from luxel.scenes.files.ply import HEADER_LIMIT, PlyHeader, read_header
from luxel.scenes.files.reading import check_file, open_file
from luxel.scenes.files.scene_facts import COMMENT, RENDER_MODE, VERTICAL, antialiasing_mark
from luxel.scenes.files.scene_format import FACTS, LABEL
from luxel.scenes.unused import LOST, OTHER, WRONG, Unused, things_are

FILTER = "filter_3D"  # standard deviation of the filter of each Gaussian
FILTERED = Gaussians.primitive  # the primitive that it is applied to
STATIC = "Write one time of it as a static .ply with the program that made it."
SILENT = re.compile(r"n[xyz]|normal_?[xyz]|pad(ding)?_?\d*|f_rest_\d+", re.IGNORECASE)
CAMERA_ELEMENTS = {"extrinsic", "intrinsic", "image_size", "frame", "disparity", "color_space", "version"}
SETTING = re.compile(r"\s*([A-Za-z][\w .-]{0,40}?)\s*[:=]\s*\S|\s*(\w+)\s+[-+\d.eE]+(\s+[-+\d.eE]+)*\s*$")
PLACEMENT = re.compile(
    r"epsg|crs|wkt|offset|shift|origin|translat|scale|unit|transform|matrix", re.IGNORECASE
)
# Keys of comments that say where a file comes from, or what its columns say as well.
ORIGIN = re.compile(
    r"(creat|generat|export|author|written|made|date|time|software|version|copyright|licen[cs]e|source|https?|"
    r"training|iteration|step|sh.?degree|number|count|file|name|title|description)",
    re.IGNORECASE,
)


class Meaning(NamedTuple):
    """What columns of other programs mean.

    Args:
        kind: see `Unused`.
        names: of the columns, all of the name.
        problem: a sentence with {columns}, such as "3 columns, such as trbf_center,".
        remedy: see `Unused`.
        harm: see `Unused`.
    """

    kind: str
    names: re.Pattern[str]
    problem: str
    remedy: str
    harm: int


def _names(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern, re.IGNORECASE)


MEANINGS = (
    Meaning(
        "motion",
        _names(
            r"(trbf|motion|omega)_.*|t|(scale|scaling)_t|t_scale|rot_r_\d|rotor_\d|"  # Spacetime, 4D Gaussians
            r"v[xyz]|vel_?[xyz\d]|velocit(y|ies)(_?[xyz\d])?|lifetime"
        ),
        "The scene moves, but {columns} of motion are not read: it stands still, with the primitives of all times at "
        "once.",
        STATIC,
        WRONG,
    ),
    Meaning(
        "3D filter",
        _names(FILTER),
        "The filter of Mip-Splatting, {columns}, is not applied: primitives are too thin and too opaque.",
        "Write the scene with the filter fused into scales and opacities.",
        WRONG,
    ),
    Meaning(
        "kernel",
        _names(r"beta|sb_params_\d+|shape|nu|df"),
        "The primitives have a kernel of their own ({columns}), but are drawn as Gaussians.",
        "Convert it to Gaussians with the program that made it.",
        WRONG,
    ),
    Meaning(
        "materials",
        _names(
            r"(albedo|base_?colou?r|diffuse|specular|metallic|metalness|roughness|reflect\w*|f_asg)(_\w+)?"
        ),
        "Materials, {columns}, are not read: the scene shows the colours of its spherical harmonics.",
        "",
        LOST,
    ),
    Meaning(
        "features",
        _names(
            r"(obj_dc|semantics?|sem|features?|feat|f_feat|f_lang|lang\w*|ins_feat|clip|dino|embed\w*)_?\d*"
        ),
        "Features of the primitives, {columns}, are not read.",
        "",
        LOST,
    ),
    Meaning(
        "labels",
        _names(rf"{LABEL}s?|class(_?id)?|instance(_?id)?|object(_?id)?|segment(_?id)?"),
        "Labels of the primitives, {columns}, are not read.",
        "",
        OTHER,
    ),
    Meaning(
        "colours of points",
        _names(r"red|green|blue|alpha|r|g|b|a"),
        "Colours of points, {columns}, are not read: those of the spherical harmonics count.",
        "",
        OTHER,
    ),
)
UNKNOWN = Meaning("columns", _names(".*"), "luxel does not know and does not read {columns}.", "", LOST)


def header_of(path: Path) -> PlyHeader:
    """The header of a file.

    Raises:
        CaptureError: it cannot be read.
    """
    check_file(path)
    with open_file(path) as file:
        return read_header(path, file.read(HEADER_LIMIT))


def read_columns(header: PlyHeader, spec: PrimitiveSpec) -> set[str]:
    """The columns of a file that the reader of a primitive uses, or that are of no use to any reader."""
    plain = {name for part in spec.columns if not part.repeats for name in part.names}
    repeated = [name for part in spec.columns if part.repeats for name in part.names]
    patterns = [re.compile(re.escape(name).replace(r"\{\}", r"\d+")) for name in repeated]
    names = {name for name, _ in header.properties}
    used = {name for name in names if name in plain or any(p.fullmatch(name) for p in patterns)}
    return used | ({FILTER} & names if spec.name == FILTERED else set())


def unused_in(header: PlyHeader, spec: PrimitiveSpec) -> list[Unused]:
    """What the header of a file of primitives announces that luxel does not read."""
    used = read_columns(header, spec)
    return [
        *unused_columns([name for name, _ in header.properties if name not in used]),
        *unused_elements(header.elements),
        *unused_comments(header.comments),
    ]


def unused_columns(names: Iterable[str], noun: str = "column") -> list[Unused]:
    """Columns that are not read, by what they mean; the noun is what the format has instead of columns."""
    groups: dict[Meaning, list[str]] = {}
    for name in names:
        if not SILENT.fullmatch(name):
            meaning = next((m for m in MEANINGS if m.names.fullmatch(name)), UNKNOWN)
            groups.setdefault(meaning, []).append(name)
    return [
        Unused(
            m.kind, len(group), group[0], m.problem.format(columns=_columns(group, noun)), m.remedy, m.harm
        )
        for m, group in groups.items()
    ]


def _columns(names: list[str], noun: str = "column") -> str:
    """In words: the column x, or 3 columns such as x."""
    one = len(names) == 1
    return f"the {noun} {names[0][:60]}" if one else f"{len(names)} {noun}s such as {names[0][:60]}"


def unused_elements(elements: dict[str, int]) -> list[Unused]:
    """Elements besides those of the primitives."""
    names = [name for name, count in elements.items() if count]
    if not names:
        return []
    camera = CAMERA_ELEMENTS.issuperset(names)
    about = ": the camera of the image that it was made of" if camera else ""
    said = f"{things_are(names, 'element')} not read{about}."
    return [Unused("elements", len(names), names[0], said, harm=OTHER if camera else LOST)]


def unused_comments(comments: Collection[str]) -> list[Unused]:
    """Comments that state settings, and that luxel does not read."""
    out = []
    modes = [text for text in comments if text.lower().split()[:1] == [RENDER_MODE]]
    strange = [text for text in modes if antialiasing_mark(text.lower().split()) is None]
    if strange:
        out.append(
            Unused(
                "render mode",
                len(strange),
                strange[-1],
                f'The comment "{strange[-1][:80]}" of the header names a mode of rendering that luxel does not know.',
                "It is drawn as a scene of 3DGS; write it in the mode default or mip.",
                WRONG,
            )
        )
    placed, others = [], []
    for text in comments:
        words = text.lower().split()
        match = SETTING.match(text)
        if text in modes or antialiasing_mark(words) is not None or _is_fact(words):
            continue
        if words[:1] == [COMMENT] and len(words) > 2:  # a fact of a later version
            others.append(text)
            continue
        if match is None:
            continue
        key = match[1] or match[2]
        if PLACEMENT.search(key):
            placed.append(text)
        elif not ORIGIN.match(key):
            others.append(text)
    if placed:
        out.append(
            Unused(
                "placement",
                len(placed),
                placed[0],
                f'{_comments(placed)} on where the scene stands or how large it is: "{placed[0][:80]}".',
                "Positions are read as the columns have them.",
                LOST,
            )
        )
    if others:
        out.append(Unused("comments", len(others), others[0], f'{_comments(others)}: "{others[0][:80]}".'))
    return out


def _comments(texts: list[str]) -> str:
    return "A comment of the header is not read" if len(texts) == 1 else f"{len(texts)} comments are not read"


def _is_fact(words: list[str]) -> bool:
    """Whether the words of a comment, in lower case, are a fact that luxel reads."""
    if tuple(words[:2]) == VERTICAL:
        return len(words) == 3 and words[2] in ("x", "y", "z")
    return len(words) > 2 and words[0] == COMMENT and words[1] in FACTS


def unused_of_points(path: Path) -> list[Unused]:
    """Columns and elements of a point cloud that `luxel.scenes.files.ply.load_points` does not read.

    Raises:
        CaptureError: the header cannot be read.
    """
    header = header_of(path)
    names = {name for name, _ in header.properties}
    colours = {"red", "green", "blue"} if {"red", "green", "blue"} <= names else {"r", "g", "b"}
    if not colours <= names:
        colours = {"f_dc_0", "f_dc_1", "f_dc_2"}
    used = {"x", "y", "z", *colours}
    left = [name for name, _ in header.properties if name not in used and not SILENT.fullmatch(name)]
    out = []
    for kind, noun, group in (
        ("columns of points", "column", left),
        ("elements of points", "element", [name for name, count in header.elements.items() if count]),
    ):
        if group:
            said = f"{things_are(group, noun, of=f' of the points {path.name}')} not read: positions and colours count."
            out.append(Unused(kind, len(group), group[0], said))
    return out


class OtherScene(NamedTuple):
    """Files of primitives that luxel does not have.

    Args:
        names: columns of which one is enough.
        problem: a clause, after the path.
        remedy: what to do.
    """

    names: re.Pattern[str]
    problem: str
    remedy: str


OTHER_SCENES = (
    OtherScene(
        _names(r"f_(offset|anchor_feat)_\d+"),
        "these are anchors (Scaffold-GS), of which a network makes the Gaussians for each view, and the file does not "
        "have that network",
        "Train its capture with `luxel train`, or give a scene of Gaussians.",
    ),
    OtherScene(
        _names(r"(trbf|motion|omega)_.*"),
        "these are Spacetime Gaussians, whose colours a network makes of features",
        "Write one time of it as a static .ply of 3DGS with the program that made it.",
    ),
)


def refuse_other_scenes(path: Path, names: Collection[str], spec: PrimitiveSpec) -> None:
    """Refuses files that lack columns of the primitive and have those of another one, or of a point cloud.

    Raises:
        CaptureError: this is such a file.
    """
    needed = [name for part in spec.columns if part.parameter and not part.repeats for name in part.names]
    missing = [name for name in needed if name not in names]
    if not missing:
        return
    for other in OTHER_SCENES:
        if any(other.names.fullmatch(name) for name in names):
            raise CaptureError(f"{path}: {other.problem}.", other.remedy)
    if {"x", "y", "z"} <= set(names) and len(missing) == len(needed) - 3:
        raise CaptureError(
            f"{path}: {spec.noun} need the properties {', '.join(missing)}; this is a point cloud, not a scene.",
            "Train a scene on the capture that it belongs to: luxel train CAPTURE.",
        )
