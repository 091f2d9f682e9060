"""transforms.json of nerfstudio, instant-ngp, and the Blender scenes of NeRF and D-NeRF.

Poses are camera-to-world with OpenGL axes (x right, y up, z backward); intrinsics are in pixels with the
image's centre at w / 2, for the complete file or for each frame. A frame's ``time`` is its timestamp.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import numpy as np

from luxel.render.geometry.camera import Points
from luxel.scenes.captures.capture_format import CaptureFormat, ReadOptions
from luxel.scenes.captures.contents import IMAGE_SUFFIXES, CaptureContents, SourceImage, inside_capture
from luxel.scenes.captures.formats.colmap import elsewhere
from luxel.scenes.captures.formats.other_json import refuse_other_json
from luxel.scenes.captures.formats.transforms_keys import unread_keys
from luxel.scenes.captures.formats.transforms_lens import Document, lens_of, number_of
from luxel.scenes.captures.images.images import ImageHeader, for_each, read_header
from luxel.scenes.captures.path_lookup import actual_path, folded
from luxel.scenes.errors import CaptureError
from luxel.scenes.files.ply import load_points
from luxel.scenes.files.reading import read_bytes, reading
from luxel.scenes.files.scenes.ply_columns import unused_of_points
from luxel.scenes.geometry import OPENGL_TO_OPENCV, invert_rigid, rigid_from_matrix
from luxel.scenes.unused import LOST, OTHER, WRONG, Unused, recorded

FILES = ("transforms.json", "transforms_train.json")
POINT_FILES = ("points3D.ply", "points3d.ply", "sparse_pc.ply", "point_cloud.ply", "pointcloud.ply")
# Entries of a frame that name its depth map, and those that give the unit of its values: nerfstudio's, and those of
# instant-ngp and of luxel's own synthetic data.
DEPTH_UNITS = {
    "depth_file_path": ("depth_unit_scale_factor",),
    "depth_path": ("integer_depth_scale", "depth_unit"),
}


class Frame(NamedTuple):
    """A frame with its document and the file that holds it; ``test``: it is listed among the test_frames."""

    document: Document
    values: Document
    file: Path
    test: bool = False

    @property
    def where(self) -> str:
        """The beginning of messages."""
        return f"{self.file}: frame {self.values.get('file_path')!r}"


def transforms_mismatch(path: Path) -> str | None:
    """None for a .json file and for a folder with a file of this format, otherwise the reason."""
    if path.is_file():
        return None if path.suffix.lower() == ".json" else "its suffix is not .json"
    if any((path / name).is_file() for name in FILES):
        return None
    return f"there is no {' or '.join(FILES)}"


def read_transforms(path: Path, options: ReadOptions) -> CaptureContents:
    """The images that a transforms.json (or transforms_train.json and _test.json) lists.

    Args:
        path: the capture's folder, or one JSON file in it.
        options: not used.

    Raises:
        CaptureError: the file cannot be read, or a frame in it is invalid; the message names it.
    """
    left_out: Path | None = None
    if path.is_file() and not path.stem.startswith("transforms_t"):
        files = [path]
    else:
        folder = path if path.is_dir() else path.parent
        full = folder / "transforms.json"
        split = [folder / f"transforms_{part}.json" for part in ("train", "test", "val")]
        files = [file for file in split if file.is_file()] if split[0].is_file() else [full]
        left_out = files.pop() if len(files) == 3 else None  # with a test split, validation is in neither
    folder = files[0].parent
    documents = [load_document(file) for file in files]
    listed = [frame for d, file in zip(documents, files, strict=True) for frame in _frames(d, file)]
    frames, bad = _without_bad(listed)
    sources = _photos(folder, frames)
    contents = CaptureContents("transforms.json", sources)
    contents.used_files |= set(files)
    contents.used_files |= {_image_path(folder, frame, missing=True) for frame in bad}
    contents.used_files |= _files_of_frames(folder, frames)
    _check_times(contents, frames)
    contents.points = points_of(folder, documents[0], contents)
    if len(files) == 2:
        contents.test_names = {
            s.name for s, frame in zip(sources, frames, strict=True) if frame.file == files[1]
        }
        contents.rule = f"the data set's own test split ({files[1].name})"
    elif any(frame.test for frame in frames):
        contents.test_names = {s.name for s, frame in zip(sources, frames, strict=True) if frame.test}
        contents.rule = "the data set's own test split (test_frames)"
    else:
        _named_split(folder, documents[0], contents)
    if left_out is not None:
        _name_validation(folder, left_out, contents)
    if all("camera_angle_x" in d and "fl_x" not in d for d in documents):
        contents.format = "Blender transforms"
        contents.up = np.array([0.0, 0.0, 1.0])
    if (up := documents[0].get("up")) is not None:
        if (direction := _direction(up)) is not None:
            contents.up = direction
        else:
            contents.warnings.append(
                f'{files[0].name}: its "up" is no direction; up is where the cameras have it.'
            )
    given = [frame.values.get("file_path") for frame in frames]
    contents.warnings += elsewhere(folder, given, str(files[0]))
    contents.unused += [*_unused_frames(frames, bad), *unread_keys(files[0].name, documents, _values(frames))]
    return contents


def load_document(file: Path) -> Document:
    """The object in a file; it records which of its keys are read.

    Raises:
        CaptureError: the file is no JSON, or that of another program.
    """
    with reading(file, "JSON", "Export the file again; it may be cut short."):
        document = recorded(json.loads(read_bytes(file)))
    refuse_other_json(file, document)
    return document


def frames_of_document(document: Document, file: Path, key: str = "frames") -> list[Document]:
    """The frames of a document.

    Raises:
        CaptureError: they are no list of objects.
    """
    frames = document.get(key)
    if not isinstance(frames, list) or not frames or not all(isinstance(f, dict) for f in frames):
        raise CaptureError(
            f'{file}: "{key}" must be a list of objects that is not empty.', "Export the file again."
        )
    return frames


def _direction(value: object) -> np.ndarray | None:
    """A unit vector, [3], of the "up" that instant-ngp writes, in the coordinates of the poses; None: it is none."""
    if not isinstance(value, list) or len(value) != 3 or not all(type(x) in (int, float) for x in value):
        return None
    vector = np.array(value, np.float64)
    length = float(np.linalg.norm(vector))
    return vector / length if np.isfinite(length) and length > 0 else None


def _frames(document: Document, file: Path) -> list[Frame]:
    """The frames of a document, and those of ScanNet++'s test_frames."""
    frames = [Frame(document, values, file) for values in frames_of_document(document, file)]
    if file.name != FILES[1] and document.get("test_frames"):
        held_out = frames_of_document(document, file, "test_frames")
        frames += [Frame(document, values, file, test=True) for values in held_out]
    return frames


def _values(frames: list[Frame]) -> list[Document]:
    return [frame.values for frame in frames]


def _without_bad(frames: list[Frame]) -> tuple[list[Frame], list[Frame]]:
    """The frames that are usable, and those that ScanNet++ marks as blurred (is_bad)."""
    bad = [frame for frame in frames if str(frame.values.get("is_bad")).lower() in ("true", "1")]
    marked = {id(frame.values) for frame in bad}
    return [frame for frame in frames if id(frame.values) not in marked], bad


def _unused_frames(frames: list[Frame], bad: list[Frame]) -> list[Unused]:
    """Frames that are left out, and depth maps without a unit."""
    out = []
    if bad:
        example = str(bad[0].values.get("file_path"))
        total = len(frames) + len(bad)
        problem = f"{len(bad)} of {total} frames are marked is_bad and left out (the first is {example})."
        remedy = "Remove is_bad from the file where they are to be used."
        out.append(Unused("frames marked is_bad", len(bad), example, problem, remedy, OTHER))
    unscaled = [
        frame.values["depth_path"]
        for frame in frames
        if frame.values.get("depth_path") is not None
        and frame.values.get("depth_file_path") is None
        and all(dict.get(level, key) is None for level in frame[:2] for key in DEPTH_UNITS["depth_path"])
    ]
    if unscaled:
        problem = (
            f"{len(unscaled)} frames name a depth map as depth_path (the first is {unscaled[0]}), but the file has no "
            "integer_depth_scale, so that they are not used."
        )
        remedy = "Add integer_depth_scale, the length of a unit of their values in the units of the poses."
        out.append(Unused("depth maps", len(unscaled), str(unscaled[0]), problem, remedy, LOST))
    return out


def _image_path(folder: Path, frame: Frame, *, missing: bool = False) -> Path:
    """The image of a frame, whose path may lack its suffix.

    Args:
        folder: of the capture.
        frame: the frame.
        missing: whether a path is returned where there is no file.

    Raises:
        CaptureError: the path is invalid, or there is no file.
    """
    path = inside_capture(folder, frame.values.get("file_path"), frame.where)
    if path.is_file():
        return path
    for suffix in IMAGE_SUFFIXES:
        for ending in (suffix, suffix.upper()):
            candidate = actual_path(path.parent, path.name + ending)
            if candidate.is_file():
                return candidate
    if missing:
        return path
    raise CaptureError(
        f"{frame.where}: the image file {path} is missing.",
        "Put it there, or remove the frame from the file.",
    )


def _photos(folder: Path, frames: list[Frame]) -> list[SourceImage]:
    paths = [_image_path(folder, frame) for frame in frames]
    headers: dict[int, ImageHeader] = {}
    for_each(lambda i: headers.__setitem__(i, read_header(paths[i])), len(paths))
    sources: list[SourceImage] = []
    visited: dict[str, tuple[Path, str]] = {}
    for index, frame in enumerate(frames):
        where, path, (document, values, *_) = frame.where, paths[index], frame
        other, other_where = visited.setdefault(folded(str(path)), (path, where))
        if other is not path and (other == path or os.path.samefile(other, path)):
            raise CaptureError(
                f"{where}: the image is listed twice ({other_where}).", "Remove one of the frames."
            )
        pose = rigid_from_matrix(values.get("transform_matrix"), where) @ OPENGL_TO_OPENCV
        lens, oriented = lens_of(document, values, headers[index], where)
        mask = values.get("mask_path")
        mask_file = None if mask is None else inside_capture(folder, mask, where)
        if mask_file is not None and not mask_file.is_file():
            raise CaptureError(
                f"{where}: the mask {mask_file} is missing.", "Put it there or remove mask_path."
            )
        time = _time(values, where)
        name = path.relative_to(folder).as_posix()
        image = SourceImage(name, path, lens, invert_rigid(pose), time or 0.0, mask_file, oriented)
        image.exposure = headers[index].exposure
        image.depth, image.depth_scale = _depth(folder, document, values, where)
        sources.append(image)
    _check_shared_intrinsics(frames, sources)
    return sources


def _depth(folder: Path, document: Document, frame: Document, where: str) -> tuple[Path | None, float | None]:
    """The file of a frame's depth map and the unit of its values: as nerfstudio, or as instant-ngp names them."""
    key = next((key for key in DEPTH_UNITS if frame.get(key) is not None), "depth_file_path")
    scale = None
    for name in DEPTH_UNITS[key]:
        number = number_of(frame, document, name, where)
        if number is not None and not 0 < number < 1e9:
            raise CaptureError(
                f"{where}: {name} must be positive, got {number}.", "Give the length of a unit."
            )
        scale = number if scale is None else scale
    if frame.get(key) is None or (key == "depth_path" and scale is None):
        return None, scale
    path = inside_capture(folder, frame[key], where)
    if not path.is_file():
        raise CaptureError(f"{where}: the depth map {path} is missing.", f"Put it there or remove {key}.")
    return path, scale


def _time(frame: Document, where: str) -> float | None:
    """The frame's timestamp; None: it has none. Values that overflow float32 are refused."""
    time = number_of(frame, {}, "time", where)
    if time is not None and abs(time) > float(np.finfo(np.float32).max):
        raise CaptureError(f"{where}: time is too large: {time!r}.", "Give seconds, or values in [0, 1].")
    return time


def _check_times(contents: CaptureContents, frames: list[Frame]) -> None:
    """Warns where only some frames have a time: that of the others is 0."""
    without = [str(f.get("file_path")) for f in _values(frames) if f.get("time") is None]
    if 0 < len(without) < len(frames):
        contents.warnings.append(
            f"{len(without)} of {len(frames)} frames have no time and count as time 0 (the first is {without[0]})."
        )


def _check_shared_intrinsics(frames: list[Frame], sources: list[SourceImage]) -> None:
    """Refuses images of different sizes where all frames of a file share one set of intrinsics."""
    first: dict[Path, SourceImage] = {}
    for (_, frame, file, _), source in zip(frames, sources, strict=True):
        if any(key in frame for key in ("fl_x", "camera_angle_x", "w")):
            continue
        other = first.setdefault(file, source)
        if (other.lens.width, other.lens.height) != (source.lens.width, source.lens.height):
            raise CaptureError(
                f"{file}: {source.name} is {source.lens.width}x{source.lens.height} pixels, {other.name} "
                f"{other.lens.width}x{other.lens.height}, but all frames share one set of intrinsics.",
                "Give each frame its own fl_x, fl_y, cx, cy, w and h, or use images of one size.",
            )


def points_of(folder: Path, document: Document, contents: CaptureContents) -> Points | None:
    """The points of the file that a document names, or else of one of the usual names; None: there is none.

    Raises:
        CaptureError: the path is invalid, or the file.
    """
    given = document.get("ply_file_path")
    path = None if given is None else inside_capture(folder, given, "ply_file_path")
    if path is not None and not path.is_file():
        contents.warnings.append(f"The point cloud {path} that transforms.json names is missing.")
        path = None
    path = path or next((folder / name for name in POINT_FILES if (folder / name).is_file()), None)
    if path is None:
        return None
    contents.used_files.add(path)
    contents.unused += unused_of_points(path)
    return load_points(path, double=True)


def _named_split(folder: Path, document: Document, contents: CaptureContents) -> None:
    """Applies nerfstudio's train_filenames, val_filenames and test_filenames."""
    by_path: dict[Path, set[str]] = {path: set() for path in contents.used_files}
    for source in contents.images:
        for path in {source.path, source.path.with_suffix("")}:
            by_path.setdefault(path, set()).add(source.name)
    absent: list[str] = []

    def names(key: str) -> set[str]:
        given = document.get(key)
        out: set[str] = set()
        for entry in given if isinstance(given, list) else ():
            of_entry = by_path.get(inside_capture(folder, entry, key))
            if of_entry is None:
                absent.append(entry)
            out |= of_entry or set()
        return out

    train, val, test = (names(f"{part}_filenames") for part in ("train", "val", "test"))
    if absent:
        problem = (
            f"{len(absent)} names in the split of transforms.json are of no frame (the first is {absent[0]})."
        )
        remedy = "Write them as the file_path of the frames, or remove them."
        contents.unused.append(Unused("names in the split", len(absent), absent[0], problem, remedy, WRONG))
    part, held_out = ("test", test) if test else ("val", val)
    if not held_out:
        return
    contents.test_names = held_out - train
    contents.rule = f"the data set's own test split ({part}_filenames)"
    if train:
        contents.unused_names = {source.name for source in contents.images} - train - held_out


def _files_of_frames(folder: Path, frames: Iterable[Frame]) -> set[Path]:
    """Files of depth and of what made-up scenes know of their pixels that frames name, whether they are used or not."""
    given = [frame.values.get(key) for frame in frames for key in (*DEPTH_UNITS, "ids_path", "normals_path")]
    return {folder / os.path.normpath(name) for name in given if isinstance(name, str) and "\0" not in name}


def _name_validation(folder: Path, file: Path, contents: CaptureContents) -> None:
    """Says that the views of a validation split are not used; nothing where its file cannot be read."""
    try:
        document = load_document(file)
        frames = [Frame(document, values, file) for values in frames_of_document(document, file)]
        paths = [_image_path(folder, frame, missing=True) for frame in frames]
    except CaptureError:
        return
    contents.used_files |= {file, *paths, *_files_of_frames(folder, frames)}
    example = str(frames[0].values.get("file_path"))
    problem = f"{len(frames)} validation views ({file.name}) are used neither to train nor to test."
    contents.unused.append(Unused("validation views", len(frames), example, problem, harm=OTHER))


TRANSFORMS = CaptureFormat("transforms.json", transforms_mismatch, read_transforms)
