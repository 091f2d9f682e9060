"""Whatever a capture or scene of any registered format holds is used or named: foreign files, keys and columns.

Random choices are seeded; LUXEL_FUZZ=N draws N further cases of each kind.
"""

from __future__ import annotations

import json
import os
import shutil
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from film_writing import write_film
from foreign_items import FAMILIES, SILENT, Family, image, noise, word
from foreign_scenes import Glb, some_gaussians, spz, write_ply
from ray_cast_capture import (
    FOCAL,
    HEIGHT,
    OPENGL,
    WIDTH,
    colmap_capture,
    ring,
    surface_points,
    transforms,
    transforms_capture,
    write_images,
)

from luxel.render.errors import LuxelError
from luxel.render.geometry.camera import Points
from luxel.scenes import load_primitives, save_scene
from luxel.scenes import open as open_capture
from luxel.scenes.captures.contents import CaptureContents, SourceImage, image_files
from luxel.scenes.captures.initial_points.choice import InitialPoints
from luxel.scenes.captures.lenses.lens import Lens
from luxel.scenes.captures.open_capture import Capture
from luxel.scenes.captures.registry import CAPTURE_FORMATS
from luxel.scenes.files.registry import SCENE_FORMATS
from luxel.scenes.files.scene_files import load_unused
from luxel.scenes.synthetic.toy import torus_knot
from luxel.scenes.unused import MAX_LINES, Unused
from luxel.viewer.cli import main

QUICK, LONG = 6, 60  # cases of each kind
MORE = int(os.environ.get("LUXEL_FUZZ", "0"))

# -- captures ----------------------------------------------------------------------------------------------------


def write_colmap_capture(folder: Path) -> Path:
    return colmap_capture(folder, 5, binary=True)


def write_transforms_capture(folder: Path) -> Path:
    return transforms_capture(folder, 5)


def write_llff(folder: Path) -> Path:
    poses = ring(5)
    write_images(folder / "images", poses)
    rows = []
    for pose in poses:  # columns: down, right, back, position, size and focal length
        axes = [pose[:3, 1], pose[:3, 0], -pose[:3, 2], pose[:3, 3], [HEIGHT, WIDTH, FOCAL]]
        rows.append([*np.stack(axes, 1).ravel(), 0.5, 9.0])
    np.save(folder / "poses_bounds.npy", np.array(rows))
    return folder


def write_polycam(folder: Path) -> Path:
    poses, base = ring(5), folder / "keyframes"
    write_images(base / "images", poses, "{:d}.png".format)
    (base / "cameras").mkdir()
    for row, pose in enumerate(poses):
        matrix = (pose @ OPENGL)[:3]
        entries = {f"t_{i}{j}": matrix[i, j] for i in range(3) for j in range(4)}
        lens = {
            "fx": FOCAL,
            "fy": FOCAL,
            "cx": 0.5 * WIDTH,
            "cy": 0.5 * HEIGHT,
            "width": WIDTH,
            "height": HEIGHT,
        }
        (base / f"cameras/{row}.json").write_text(json.dumps({**lens, **entries}))
    return folder


def write_cameras(folder: Path) -> Path:
    poses = ring(3)
    for camera, pose in enumerate(poses):
        write_images(folder / f"cam{camera}", [pose, pose])
    names = [f"cam{camera}" for camera in range(3)]
    (folder / "transforms.json").write_text(json.dumps(transforms(names, poses, fps=10)))
    return folder


def write_photographs(folder: Path) -> Path:
    write_images(folder / "images", ring(5))
    return folder


def write_video(folder: Path) -> Path:
    random = np.random.default_rng(0)
    frames = [random.integers(0, 256, (HEIGHT, WIDTH, 3), np.uint8) for _ in range(8)]
    write_film(folder / "film.mp4", frames)
    return folder


@dataclass(frozen=True)
class SampleCapture:
    """A small sound capture of a format.

    Args:
        write: makes it in a folder that does not exist, and returns it.
        keys: where foreign keys can be: (file, how to reach the objects, the kind by which they go).
        families: those of `FAMILIES` that make no other capture of the folder.
    """

    write: Callable[[Path], Path]
    keys: tuple[tuple[str, Callable[[Any], list[dict]], str], ...] = ()
    families: tuple[str, ...] = tuple(FAMILIES)


DOCUMENT = ("transforms.json", lambda document: [document], "keys of transforms.json")
FRAMES = ("transforms.json", lambda document: document["frames"], "keys of frames")
CAPTURES = {
    "transforms.json": SampleCapture(write_transforms_capture, (DOCUMENT, FRAMES)),
    "COLMAP model": SampleCapture(write_colmap_capture),
    "LLFF": SampleCapture(write_llff),
    "Polycam raw export": SampleCapture(write_polycam),
    "synchronised cameras": SampleCapture(write_cameras),
    "photographs": SampleCapture(write_photographs),
    "video": SampleCapture(write_video, families=("other files", "raw images", "clouds")),
}
COLMAP_FILES_OF_SFM = Lens(WIDTH, HEIGHT, FOCAL, FOCAL, 0.5 * WIDTH, 0.5 * HEIGHT)


@pytest.fixture(autouse=True)
def no_structure_from_motion(monkeypatch: pytest.MonkeyPatch) -> None:
    """Poses and points are given, where they would be estimated: that takes seconds."""

    def estimate(path: Path, folder: Path, **options: object) -> CaptureContents:
        files = image_files(folder)
        sources = [
            SourceImage(file.name, file, COLMAP_FILES_OF_SFM, np.linalg.inv(pose))
            for file, pose in zip(files, ring(len(files)), strict=True)
        ]
        out = CaptureContents("photographs (structure from motion)", sources, points=points())
        out.used_files, out.pose_report = set(files), "given"
        return out

    def points(*given: object, **options: object) -> Points:
        xyz, rgb = surface_points(50)
        return Points(xyz.astype(np.float32), rgb)

    def initial(*given: object, **options: object) -> InitialPoints:
        return InitialPoints(points(), "")

    monkeypatch.setattr("luxel.scenes.captures.poses.sfm.estimate_poses", estimate)
    monkeypatch.setattr("luxel.scenes.captures.initial_points.choice.initial_points", initial)


@pytest.fixture(scope="module")
def originals(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A capture of each format, written once."""
    root = tmp_path_factory.mktemp("originals")
    out = {}
    for number, (name, sample) in enumerate(CAPTURES.items()):
        (root / str(number)).mkdir()
        out[name] = sample.write(root / str(number) / "capture")
    return out


def fresh(originals: dict[str, Path], name: str, folder: Path) -> Path:
    """A copy of a capture."""
    return Path(shutil.copytree(originals[name], folder / "capture", dirs_exist_ok=False))


def seeds(count: int) -> list[Any]:
    """Seeds of the quick cases, and of the slow ones."""
    slow = [pytest.param(seed, marks=pytest.mark.slow) for seed in range(QUICK, count + MORE)]
    return [*range(min(count, QUICK)), *slow]


def by_kind(unused: list[Unused]) -> dict[str, Unused]:
    kinds = {entry.kind: entry for entry in unused}
    assert len(kinds) == len(unused), "one entry a kind"
    return kinds


def check_entries(unused: list[Unused], lines: list[str]) -> None:
    """At most eight lines, the most harmful first, each a sentence with its example."""
    assert len(lines) <= MAX_LINES and all(line.endswith(".") for line in lines)
    assert [entry.harm for entry in unused] == sorted((entry.harm for entry in unused), reverse=True)
    for entry in unused:
        assert entry.count >= 1 and entry.problem.endswith(".") and "\n" not in entry.problem
        assert len(entry.sentence()) < 500


def test_every_capture_format_has_a_sample(originals: dict[str, Path]) -> None:
    """A format that is registered later needs one here."""
    assert {known.name for known in CAPTURE_FORMATS} == set(CAPTURES)
    for name, path in originals.items():
        (known,) = [known for known in CAPTURE_FORMATS if known.name == name]
        assert known.mismatch(path) is None
        assert next(k.name for k in CAPTURE_FORMATS if k.mismatch(path) is None) == name


@pytest.mark.parametrize("name", CAPTURES)
def test_sound_captures_name_nothing(name: str, originals: dict[str, Path]) -> None:
    assert open_capture(originals[name]).unused == []


@pytest.mark.parametrize("name", CAPTURES)
def test_what_systems_leave_everywhere_is_silent(
    name: str, originals: dict[str, Path], tmp_path: Path
) -> None:
    path = fresh(originals, name, tmp_path)
    for number, file in enumerate(SILENT):
        (path / file).parent.mkdir(parents=True, exist_ok=True)
        (path / file).write_bytes(noise(np.random.default_rng(number)))
    before, after = open_capture(originals[name]), open_capture(path)
    assert after.unused == [] and after.warnings == before.warnings
    assert [view.name for view in after.views] == [view.name for view in before.views]


def add_files(random: np.random.Generator, family: Family, path: Path) -> list[Path]:
    """One to five files of a family, in folders and beside each other."""
    count, files = int(random.integers(1, 6)), set()
    while len(files) < count:
        files.add(family.write(random, path))
    return sorted(files)


def check_files(capture: Capture, path: Path, family: Family, files: list[Path]) -> None:
    """All of the files of a family go by its kinds, with their number and an example."""
    entries = [entry for entry in capture.unused if entry.kind in family.kinds]
    assert sum(entry.count for entry in entries) == len(files), (entries, files)
    names = {str(file.relative_to(path)) for file in files}
    for entry in entries:
        assert entry.example in names
        assert Path(entry.example).name[:40] in entry.problem


CASES = [(name, family) for name, sample in CAPTURES.items() for family in sample.families]


@pytest.mark.parametrize("seed", seeds(LONG))
def test_foreign_files_are_named(seed: int, originals: dict[str, Path], tmp_path: Path) -> None:
    """Of each family in each format."""
    for number, (name, sort) in enumerate(CASES):
        random = np.random.default_rng([seed, number])
        path = fresh(originals, name, tmp_path / str(number))
        files = add_files(random, FAMILIES[sort], path)
        capture = open_capture(path)
        assert capture.format.split(" (")[0] == open_capture(originals[name]).format.split(" (")[0], (
            name,
            files,
        )
        check_files(capture, path, FAMILIES[sort], files)
        assert {entry.kind for entry in capture.unused} <= set(FAMILIES[sort].kinds), (name, capture.unused)
        check_entries(capture.unused, capture.warnings)
        shutil.rmtree(path)


@pytest.mark.parametrize("seed", seeds(LONG))
@pytest.mark.parametrize("name", [name for name, sample in CAPTURES.items() if sample.keys])
def test_foreign_keys_are_named(name: str, seed: int, originals: dict[str, Path], tmp_path: Path) -> None:
    """Of any value and nesting, in some or all of the objects."""
    random = np.random.default_rng(seed)
    path = fresh(originals, name, tmp_path)
    for file, objects, kind in CAPTURES[name].keys:
        document = json.loads((originals[name] / file).read_text())
        levels = objects(document)
        keys = list({word(random, int(random.integers(4, 12))) for _ in range(random.integers(1, 5))})
        for key in keys:
            chosen = [level for level in levels if random.random() < 0.5] or levels[-1:]
            for level in chosen:
                level[key] = some_value(random)
        (path / file).write_text(json.dumps(document))
        capture = open_capture(path)
        entry = by_kind(capture.unused)[kind]
        assert entry.count == len(keys) and entry.example in keys and entry.example in entry.problem
        assert [other.kind for other in capture.unused] == [kind]
        check_entries(capture.unused, capture.warnings)


def some_value(random: np.random.Generator, depth: int = 0) -> Any:
    """A value of JSON that says something."""
    number = float(random.normal()) or 1.0
    values: list[Any] = [number, int(random.integers(1, 9)), word(random), True]
    if depth < 3:
        values += [[some_value(random, depth + 1)] * 2, {word(random): some_value(random, depth + 1)}]
    return values[int(random.integers(len(values)))]


@pytest.mark.parametrize("name", CAPTURES)
def test_everything_at_once_is_at_most_eight_lines(
    name: str, originals: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The lines of inspect are those of the capture, and --json has all."""
    path, random = fresh(originals, name, tmp_path), np.random.default_rng(5)
    files = {sort: add_files(random, FAMILIES[sort], path) for sort in CAPTURES[name].families}
    for file, objects, _ in CAPTURES[name].keys:
        document = json.loads((path / file).read_text())
        objects(document)[0]["blrghfk"] = {"a": [1, 2]}
        (path / file).write_text(json.dumps(document))
    capture = open_capture(path)
    named = {kind for sort in files for kind in FAMILIES[sort].kinds} | {
        kind for *_, kind in CAPTURES[name].keys
    }
    assert {entry.kind for entry in capture.unused} <= named
    total = sum(len(each) for each in files.values()) + len(CAPTURES[name].keys)
    assert sum(entry.count for entry in capture.unused) == total
    check_entries(capture.unused, capture.warnings)
    assert main(["inspect", str(path), "--no-estimate", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["unused"] == [entry.as_json() for entry in capture.unused]


LINKS = {"a link to nothing": "gone", "a link to itself": "{}", "a link to the folder above": ".."}


@pytest.mark.parametrize("link", LINKS)
@pytest.mark.parametrize("name", CAPTURES)
def test_links_that_lead_nowhere_are_named(
    name: str, link: str, originals: dict[str, Path], tmp_path: Path
) -> None:
    """Whatever they are called; those in a circle are no error, and links to folders are not followed."""
    path = fresh(originals, name, tmp_path)
    places = ("zz", "zz.dat", "zz.json", "extra/zz.jpg", "extra/zz.mp4", "masks", "zz.png.png")
    for place in places:
        (path / place).parent.mkdir(exist_ok=True)
        os.symlink(LINKS[link].format(Path(place).name), path / place)
    capture = open_capture(path)
    assert len(capture.views) == len(open_capture(originals[name]).views)
    if "above" in link:
        assert capture.unused == []
        return
    (entry,) = capture.unused
    assert (entry.kind, entry.count, entry.example in places) == ("broken links", len(places), True)
    check_entries(capture.unused, capture.warnings)


NAMES = (
    "transforms.json", "transforms_train.json", "cameras.txt", "images.bin", "poses_bounds.npy", "points3D.ply",
    "sparse/0/cameras.txt", "masks/0000.png", "depth/0000.png", "images/0000.JPG", "mask.mp4", "cam0/0003.png",
    "cameras.json", "keyframes/cameras/9.json", "images_2/0000.png", "metadata.json", "a.mp4", "calibration.xml",
)  # fmt: skip


@pytest.mark.parametrize("seed", seeds(2 * LONG))
def test_opening_raises_nothing_else(seed: int, originals: dict[str, Path], tmp_path: Path) -> None:
    """Files of any bytes under names that mean something, in a capture of each format."""
    for number, name in enumerate(CAPTURES):
        random = np.random.default_rng([seed, number])
        path = fresh(originals, name, tmp_path / str(number))
        for place in random.choice(NAMES, 3, replace=False).tolist():
            (path / place).parent.mkdir(parents=True, exist_ok=True)
            content: list[Callable[[np.random.Generator], bytes]] = [
                noise, image, lambda _: b"{}", lambda _: b"[]", lambda _: b"", lambda _: b'{"frames": [{}]}',
            ]  # fmt: skip
            (path / place).write_bytes(content[int(random.integers(len(content)))](random))
        try:
            capture = open_capture(path)
        except LuxelError as error:
            assert str(path) in str(error) and error.remedy, str(error)
        else:
            check_entries(capture.unused, [])
        shutil.rmtree(path)


# -- scenes ------------------------------------------------------------------------------------------------------

Injected = list[list[str]]  # items of each kind
DATA = Path(__file__).resolve().parents[1] / "scenes" / "data"


def words(random: np.random.Generator, lower: bool = False) -> list[str]:
    """One to four names that mean nothing."""
    out = dict.fromkeys(word(random, int(random.integers(4, 14))) for _ in range(random.integers(1, 5)))
    return list(dict.fromkeys(name.lower() for name in out)) if lower else list(out)


def inject_ply(random: np.random.Generator, path: Path) -> Injected:
    """Columns of several types at any place, and an element after the primitives."""
    columns, names = list(some_gaussians(20).items()), words(random, lower=True)
    types = {name: str(random.choice(["f4", "f8", "u1", "i4"])) for name in names}
    for name in names:
        values = random.integers(0, 9, 20).astype(types[name])
        columns.insert(int(random.integers(len(columns) + 1)), (name, values))
    element, kind = (
        word(random).lower(),
        str(random.choice(["ascii", "binary_little_endian", "binary_big_endian"])),
    )
    after = b"3\n" if kind == "ascii" else b"\3"
    before = [f"element {element} 1", "property uchar q"]
    write_ply(path, dict(columns), kind=kind, types=types, before=before, after=after)
    return [names, [element]]


def inject_compressed_ply(random: np.random.Generator, path: Path) -> Injected:
    data, element = (DATA / "edge16.compressed.ply").read_bytes(), word(random).lower()
    head, body = data.split(b"end_header\n", 1)
    path.write_bytes(head + f"element {element} 1\nproperty uchar q\nend_header\n".encode() + body + b"\1")
    return [[element]]


def inject_spz(random: np.random.Generator, path: Path) -> Injected:
    kinds = [int(kind) for kind in dict.fromkeys(random.integers(1 << 28, 1 << 31, 2).tolist())]
    version = int(random.integers(2, 5))
    extensions = [(kind, noise(random)) for kind in kinds]
    path.write_bytes(spz(20, 1, version=version, extensions=extensions))
    return [[hex(kind)] for kind in kinds]


def inject_sog(random: np.random.Generator, path: Path) -> Injected:
    """Entries of meta.json at both depths, and files of the archive."""
    plain = path.with_name("plain.sog")
    save_scene(plain, torus_knot(30))
    keys, files = words(random), [f"{name}.webp" for name in words(random)]
    with zipfile.ZipFile(plain) as source, zipfile.ZipFile(path, "w") as target:
        for name in source.namelist():
            data = source.read(name)
            if name == "meta.json":
                meta = json.loads(data)
                items = []
                for key in keys:
                    inside = bool(random.random() < 0.5)
                    (meta["means"] if inside else meta)[key] = some_value(random)
                    items.append(f"means.{key}" if inside else key)
                data = json.dumps(meta).encode()
            target.writestr(name, data)
        for name in files:
            target.writestr(name, noise(random))
    return [items, files]


def inject_streamed(random: np.random.Generator, path: Path) -> Injected:
    """Entries of the index of a scene with one part."""
    save_scene(path.with_name("part.sog"), torus_knot(30))
    keys = words(random)
    leaf = {"lods": {"0": {"file": 0, "offset": 0, "count": 30}}}
    index = {"version": 1, "lodLevels": 1, "filenames": ["part.sog"], "tree": leaf}
    path.write_text(json.dumps(index | {key: some_value(random) for key in keys}))
    return [keys]


def inject_glb(random: np.random.Generator, path: Path) -> Injected:
    """Attributes, properties of the extension, and extensions of the file."""
    file, attributes, properties, extensions = Glb(), words(random), words(random), words(random)
    more = {f"_{name.upper()}": random.normal(size=(20, 3)) for name in attributes}
    file.gaussians(20, about={name: some_value(random) for name in properties}, more=more)
    file.document["extensionsUsed"] = [*file.document.get("extensionsUsed", []), *extensions]
    file.write(path)
    return [list(more), properties, extensions]


def inject_safetensors(random: np.random.Generator, path: Path) -> Injected:
    from safetensors.torch import load_file, save_file

    save_scene(path, torus_knot(20))
    tensors, names, keys = load_file(path), words(random, lower=True), words(random)
    shapes = [(20,), (20, 3), (2, 2, 2), (0,)]
    for name in names:
        tensors[name] = torch.zeros(shapes[int(random.integers(len(shapes)))])
    save_file(tensors, path, {"format": "pt", "primitive": "gaussians", **dict.fromkeys(keys, "x")})
    return [names, keys]


def inject_checkpoint(random: np.random.Generator, path: Path) -> Injected:
    """Tensors of the splats, and entries of the checkpoint of gsplat."""
    scene, names, keys = torus_knot(20).tensors(), words(random, lower=True), words(random)
    own = {
        "means": "means",
        "scales": "log_scales",
        "quats": "quats",
        "opacities": "opacity_logits",
        "sh0": "sh_dc",
    }
    splats = {name: scene[parameter] for name, parameter in own.items()}
    splats |= {name: torch.zeros(20, int(random.integers(1, 5))) for name in names}
    torch.save({"step": 7, "splats": splats, **{key: some_value(random) for key in keys}}, path)
    return [names, keys]


# By the suffix of every format that is read: what is put into it, None where it has no place for anything else.
SCENES: dict[str, Callable[[np.random.Generator, Path], Injected] | None] = {
    ".ply": inject_ply,
    ".compressed.ply": inject_compressed_ply,
    ".splat": None,
    ".ksplat": None,
    ".spz": inject_spz,
    ".sog": inject_sog,
    "lod-meta.json": inject_streamed,
    ".glb": inject_glb,
    ".safetensors": inject_safetensors,
    ".pt": inject_checkpoint,
}
OPEN = [suffix for suffix, inject in SCENES.items() if inject]


def test_every_scene_format_has_a_sample() -> None:
    """A format that is registered later needs one here, and has no place for more only where it says so."""
    readable = {known.suffix: known for known in SCENE_FORMATS if known.load}
    assert set(readable) == set(SCENES)
    for suffix, known in readable.items():
        assert (known.read_unused is None) == (SCENES[suffix] is None), suffix


@pytest.mark.parametrize("seed", seeds(LONG))
@pytest.mark.parametrize("suffix", OPEN)
def test_foreign_parts_of_scenes_are_named(suffix: str, seed: int, tmp_path: Path) -> None:
    """Each kind by one entry, with the number of items and one of them."""
    path = tmp_path / (f"scene{suffix}" if suffix.startswith(".") else suffix)
    inject = SCENES[suffix]
    assert inject is not None
    injected = inject(np.random.default_rng(seed), path)
    assert load_primitives(path).count > 0
    unused = load_unused(path)
    by_kind(unused)
    for items in injected:
        (entry,) = [entry for entry in unused if entry.example in items]
        assert entry.count == len(items) and entry.example in entry.problem
    assert len(unused) == len(injected)
    check_entries(unused, [entry.sentence() for entry in unused])


@pytest.mark.parametrize("suffix", OPEN)
def test_inspect_has_all_of_a_scene(suffix: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / (f"scene{suffix}" if suffix.startswith(".") else suffix)
    inject = SCENES[suffix]
    assert inject is not None
    inject(np.random.default_rng(9), path)
    assert main(["inspect", str(path), "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["unused"] == [entry.as_json() for entry in load_unused(path)] != []


@pytest.mark.parametrize("suffix", [known.suffix for known in SCENE_FORMATS if known.load and known.save])
def test_luxel_s_own_scenes_name_nothing(suffix: str, tmp_path: Path) -> None:
    path = tmp_path / f"scene{suffix}"
    save_scene(path, torus_knot(30))
    assert load_unused(path) == []


@pytest.mark.parametrize("seed", seeds(2 * LONG))
@pytest.mark.parametrize("suffix", OPEN)
def test_damaged_scenes_raise_nothing_else(suffix: str, seed: int, tmp_path: Path) -> None:
    """What is named is looked up in files of any bytes, too."""
    random = np.random.default_rng(seed)
    path = tmp_path / (f"scene{suffix}" if suffix.startswith(".") else suffix)
    inject = SCENES[suffix]
    assert inject is not None
    inject(random, path)
    data = bytearray(path.read_bytes())
    for _ in range(int(random.integers(1, 5))):
        at = int(random.integers(len(data)))
        data[at : at + int(random.integers(0, 4))] = random.bytes(int(random.integers(0, 4)))
    path.write_bytes(bytes(data[: int(random.integers(1, len(data) + 1))] if random.random() < 0.3 else data))
    for read in (load_primitives, load_unused):
        try:
            read(path)
        except LuxelError as error:
            assert path.name in str(error) or "part.sog" in str(error), str(error)
