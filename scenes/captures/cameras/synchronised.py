"""The capture format of synchronised cameras: a film or a folder of frames for each camera, and their calibration.

The calibration is poses_bounds.npy, as Neural 3D Video (Li et al. 2022) has it, a transforms.json whose frames name
films or folders, or a COLMAP model with one image a camera, named after its film or folder.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from luxel.scenes.captures.caching.capture_cache import CaptureCache
from luxel.scenes.captures.cameras.films import CameraFrames, frame_count, frames_of, is_film
from luxel.scenes.captures.capture_format import CaptureFormat, ReadOptions
from luxel.scenes.captures.contents import (
    CaptureContents,
    SourceImage,
    image_files,
    inside_capture,
    natural_key,
)
from luxel.scenes.captures.formats import colmap, llff, transforms
from luxel.scenes.captures.images.images import ImageHeader, read_header
from luxel.scenes.captures.lenses.lens import Lens, fit_to_file
from luxel.scenes.errors import CaptureError
from luxel.scenes.files.reading import read_bytes, reading
from luxel.scenes.geometry import OPENGL_TO_OPENCV, invert_rigid, rigid_from_matrix

CAMERA_FOLDERS = (".", "videos", "cameras", "frames")  # where the films or folders of the cameras are
RESERVED = ("images", "input", "masks", "mask", "sparse", "colmap", "depth", "depths", "dense")
FEWEST, MOST = 2, 300  # cameras; frames of each where the number is not given
NO_CALIBRATION = "there are no films or folders of several cameras with a calibration"
Placement = Callable[[ImageHeader], SourceImage]


@dataclass
class CameraSource:
    """A camera of a capture.

    Args:
        name: unique, that of its film or folder.
        source: the film or folder.
        place: gives an image of a size its lens and pose.
    """

    name: str
    source: Path
    place: Placement


def cameras_mismatch(path: Path) -> str | None:
    """None where there are films or folders of at least two cameras and their calibration, otherwise the reason."""
    folder = path if path.is_dir() else path.parent
    if path.is_file() and path.name not in (transforms.FILES[0], llff.FILE):
        return "it is not a folder"
    named = path.name if path.is_file() else None
    if named != transforms.FILES[0] and (folder / llff.FILE).is_file():
        has_images = (folder / llff.IMAGES).is_dir() and bool(image_files(folder / llff.IMAGES))
        return NO_CALIBRATION if has_images or len(_sources(folder)) < FEWEST else None
    if (folder / transforms.FILES[0]).is_file():
        return None if _names_sources(folder) else "transforms.json names no films or folders"
    sources = _sources(folder)
    if len(sources) < FEWEST:
        return NO_CALIBRATION
    model = colmap.find_model(folder)
    return None if model and _matching(sources, colmap.image_names(model)) else NO_CALIBRATION


def _sources(folder: Path) -> dict[str, Path]:
    """Films or image folders of the first of CAMERA_FOLDERS that has several of them, by name in natural order."""
    for place in CAMERA_FOLDERS:
        if not (folder / place).is_dir():
            continue
        entries = [entry for entry in (folder / place).iterdir() if not entry.name.startswith(".")]
        films = [entry for entry in entries if is_film(entry)]
        folders = [
            entry
            for entry in entries
            if entry.is_dir() and entry.name.lower().split("_")[0] not in RESERVED and image_files(entry)
        ]
        chosen = films if len(films) >= FEWEST else folders
        if len(chosen) >= FEWEST:
            named = {entry.stem if entry.is_file() else entry.name: entry for entry in chosen}
            return dict(sorted(named.items(), key=lambda item: natural_key(item[0])))
    return {}


def _names_sources(folder: Path) -> bool:
    """Whether the first frame of transforms.json is a film or a folder; a file that cannot be read names none."""
    try:
        document = json.loads(read_bytes(folder / transforms.FILES[0]))
        given = folder / document["frames"][0]["file_path"]
        return is_film(given) or given.is_dir()
    except (CaptureError, OSError, ValueError, TypeError, LookupError, RecursionError):
        return False


def _matching(sources: dict[str, Path], names: list[str]) -> list[str]:
    """The images of a model that are named after cameras; none where fewer than two are."""
    matching = [name for name in names if Path(name).stem in sources]
    return matching if len(matching) >= FEWEST else []


def read_cameras(path: Path, options: ReadOptions) -> CaptureContents:
    """The frames of all cameras with their times.

    Frames of one number are taken to be of one time, that of the first camera.

    Args:
        path: the capture's folder, its transforms.json, or its poses_bounds.npy.
        options: ``frames`` is the number of frames of each camera; None: all, at most 300.

    Raises:
        CaptureError: a film, a folder or the calibration cannot be read, or they do not fit each other.
    """
    folder = path if path.is_dir() else path.parent
    chosen_json = path.is_file() and path.name == transforms.FILES[0]
    rate: float | None = None
    contents = CaptureContents("synchronised cameras", [])
    if (folder / llff.FILE).is_file() and not chosen_json:
        cameras = _of_llff(folder)
        contents.used_files.add(folder / llff.FILE)
    elif (folder / transforms.FILES[0]).is_file():
        cameras, rate = _of_transforms(folder, contents)
        contents.used_files.add(folder / transforms.FILES[0])
    else:
        cameras = _of_colmap(folder, contents)
    contents.used_files |= {camera.source for camera in cameras}
    counts = [frame_count(camera.source) for camera in cameras]
    total, longest = max(1, min(counts)), max(counts)
    if longest > total:
        contents.warnings.append(
            f"The cameras have {total} to {longest} frames; the first {total} of each are used. Frames of one "
            "number are taken to be of one time."
        )
    every = -(-total // (options.frames or MOST))
    cache = CaptureCache(folder, options.cache_dir)
    first: CameraFrames | None = None
    for row, camera in enumerate(cameras):

        def advance(share: float, row: int = row) -> None:
            options.on_progress("extracting frames", (row + share) / len(cameras))

        frames = frames_of(camera.source, -(-total // every), every, cache, rate=rate, on_progress=advance)
        first = first or frames
        contents.images += _images(folder, camera, frames, first)
    if (folder / llff.FILE).is_file() and not chosen_json:
        test_camera = cameras[0].name
        contents.test_names = {source.name for source in contents.images if source.group == test_camera}
        contents.rule = f"all frames of {test_camera}, the first camera, as is usual for Neural 3D Video"
    start = min(source.time for source in contents.images)
    contents.triangulated_names = {source.name for source in contents.images if source.time == start}
    return contents


def _images(
    folder: Path, camera: CameraSource, frames: CameraFrames, first: CameraFrames
) -> list[SourceImage]:
    """The images of a camera, whose lens and pose are placed once, by its first frame."""
    placed = camera.place(read_header(frames.files[0]))
    out = []
    for number, (file, time) in enumerate(zip(frames.files, first.times, strict=False)):
        header = read_header(file) if number else None
        size = (placed.lens.width, placed.lens.height)
        if header is not None and header.size(placed.oriented) != size:
            raise CaptureError(
                f"{file}: the frame is {header.width}x{header.height} pixels, the first of camera {camera.name} "
                f"{size[0]}x{size[1]}.",
                "Export all frames of a camera in one size.",
            )
        out.append(
            replace(placed, name=f"{camera.name}/{file.name}", path=file, time=time, group=camera.name)
        )
    return out


def _of_llff(folder: Path) -> list[CameraSource]:
    """Cameras of poses_bounds.npy: its rows are the films in the order of their names."""
    file = folder / llff.FILE
    with reading(file, "a numpy file of poses", llff.REMEDY):
        table = llff.read_table(file, read_bytes(file))
    sources = _sources(folder)
    if len(sources) != len(table):
        raise CaptureError(
            f"{file}: there are {len(table)} poses, but {len(sources)} films or folders of cameras.",
            "Keep exactly the films there that the poses were made of.",
        )
    return [
        CameraSource(
            name, source, lambda header, row=row, source=source: llff.place(file, source, header, row)
        )
        for (name, source), row in zip(sources.items(), table, strict=True)
    ]


def _of_transforms(folder: Path, contents: CaptureContents) -> tuple[list[CameraSource], float | None]:
    """Cameras of transforms.json, each a frame whose file_path is a film or folder; and frames a second, if given."""
    file = folder / transforms.FILES[0]
    document = transforms.load_document(file)
    out: dict[str, CameraSource] = {}
    for frame in transforms.frames_of_document(document, file):
        where = f"{file}: frame {frame.get('file_path')!r}"
        source = inside_capture(folder, frame.get("file_path"), where)
        if not (is_film(source) or (source.is_dir() and image_files(source))):
            raise CaptureError(
                f"{where}: this is neither a film nor a folder of images, as the first one is.",
                "Give each camera its film or folder, or remove the frame from the file.",
            )
        name = source.stem if source.is_file() else source.name
        if name in out:
            raise CaptureError(f"{where}: there are two cameras named {name}.", "Give them different names.")
        pose = invert_rigid(rigid_from_matrix(frame.get("transform_matrix"), where) @ OPENGL_TO_OPENCV)
        out[name] = CameraSource(name, source, _placed_by_transforms(document, frame, pose, source, where))
    if len(out) < FEWEST:
        raise CaptureError(
            f"{file}: one camera is too few.", "Add the other cameras, or train on the film alone."
        )
    contents.points = transforms.points_of(folder, document, contents)
    rate = transforms.number_of(document, {}, "fps", str(file))
    if rate is not None and not 0 < rate < 1e6:
        raise CaptureError(f"{file}: fps must be positive, got {rate}.", "Correct fps.")
    ordered = sorted(out.values(), key=lambda camera: natural_key(camera.name))
    return ordered, rate


def _placed_by_transforms(
    document: dict[str, Any], frame: dict[str, Any], pose: Any, source: Path, where: str
) -> Placement:
    def place(header: ImageHeader) -> SourceImage:
        lens, oriented = transforms.lens_of(document, frame, header, where)
        return SourceImage(source.name, source, lens, pose, oriented=oriented)

    return place


def _of_colmap(folder: Path, contents: CaptureContents) -> list[CameraSource]:
    """Cameras of a COLMAP model whose images are named after films or folders."""
    sparse = colmap.find_model(folder)
    assert sparse is not None
    model = colmap.read_model(sparse)
    sources = _sources(folder)
    out: dict[str, CameraSource] = {}
    for name, camera, pose in model.images:
        key = Path(name).stem
        if key in sources and key not in out:
            where = f"{sparse}: image {name!r}"
            place = _placed_by_colmap(model.lenses[camera], pose, sources[key], where)
            out[key] = CameraSource(key, sources[key], place)
    without = [name for name in sources if name not in out]
    if without:
        contents.used_files |= {sources[name] for name in without}
        contents.warnings.append(f"These cameras have no pose and are left out: {', '.join(without[:12])}.")
    contents.used_files |= {sparse / f"{n}{s}" for n in colmap.MODEL_FILES for s in (".bin", ".txt")}
    contents.points = model.points if len(model.points.xyz) else None
    contents.reprojection_error = model.reprojection_error
    return sorted(out.values(), key=lambda camera: natural_key(camera.name))


def _placed_by_colmap(lens: Lens, pose: Any, source: Path, where: str) -> Placement:
    def place(header: ImageHeader) -> SourceImage:
        return SourceImage(source.name, source, fit_to_file(lens, header.size(False), where), pose)

    return place


CAMERAS = CaptureFormat("synchronised cameras", cameras_mismatch, read_cameras)
