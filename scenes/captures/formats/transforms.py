"""transforms.json of nerfstudio, instant-ngp, and the Blender scenes of NeRF and D-NeRF.

Poses are camera-to-world with OpenGL axes (x right, y up, z backward); intrinsics are in pixels with the
image's centre at w / 2, for the complete file or for each frame. A frame's ``time`` is its timestamp.
"""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np

from luxel.render.geometry.camera import Points
from luxel.scenes.captures.capture_format import CaptureFormat, ReadOptions
from luxel.scenes.captures.contents import IMAGE_SUFFIXES, CaptureContents, SourceImage, inside_capture
from luxel.scenes.captures.images.images import ImageHeader, for_each, read_header
from luxel.scenes.captures.lenses.lens import FISHEYE_ORDER, PLANAR_ORDER, Lens, fit_to_file
from luxel.scenes.captures.lenses.lens_models import EQUIRECTANGULAR
from luxel.scenes.errors import CaptureError
from luxel.scenes.files.ply import load_points
from luxel.scenes.files.reading import read_bytes, reading
from luxel.scenes.geometry import OPENGL_TO_OPENCV, invert_rigid, rigid_from_matrix

FILES = ("transforms.json", "transforms_train.json")
POINT_FILES = ("points3D.ply", "points3d.ply", "sparse_pc.ply", "point_cloud.ply", "pointcloud.ply")
# Entries of a frame that name its depth map, and those that give the unit of its values: nerfstudio's, and those of
# instant-ngp and of luxel's own synthetic data.
DEPTH_UNITS = {
    "depth_file_path": ("depth_unit_scale_factor",),
    "depth_path": ("integer_depth_scale", "depth_unit"),
}
PINHOLE_MODELS = ("PINHOLE", "SIMPLE_PINHOLE", "PERSPECTIVE")
PLANAR_MODELS = ("OPENCV", "FULL_OPENCV", "SIMPLE_RADIAL", "RADIAL", *PINHOLE_MODELS)
Document = dict[str, Any]


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
    unread: Path | None = None
    if path.is_file() and not path.stem.startswith("transforms_t"):
        files = [path]
    else:
        folder = path if path.is_dir() else path.parent
        full = folder / "transforms.json"
        split = [folder / f"transforms_{part}.json" for part in ("train", "test", "val")]
        files = [file for file in split if file.is_file()] if split[0].is_file() else [full]
        if len(files) == 3:
            unread = files.pop()  # with a test split, validation views are in neither split
    folder = files[0].parent
    documents = [load_document(file) for file in files]
    frames = [
        (d, f, file) for d, file in zip(documents, files, strict=True) for f in frames_of_document(d, file)
    ]
    sources = _photos(folder, frames)
    contents = CaptureContents("transforms.json", [source for source, _ in sources], used_files=set(files))
    if unread is not None:
        contents.used_files |= _files_of(unread)
    _check_times(contents, frames)
    contents.points = points_of(folder, documents[0], contents)
    if len(files) == 2:
        contents.test_names = {source.name for source, file in sources if file == files[1]}
        contents.rule = f"the data set's own test split ({files[1].name})"
    else:
        _named_split(folder, documents[0], contents)
    if all("camera_angle_x" in d and "fl_x" not in d for d in documents):
        contents.format = "Blender transforms"
        contents.up = np.array([0.0, 0.0, 1.0])
    return contents


def load_document(file: Path) -> Document:
    with reading(file, "JSON", "Export the file again; it may be cut short."):
        document = json.loads(read_bytes(file))
    if not isinstance(document, dict):
        raise CaptureError(f"{file}: the file must hold a JSON object.", "Export the file again.")
    return document


def frames_of_document(document: Document, file: Path) -> list[Document]:
    frames = document.get("frames")
    if not isinstance(frames, list) or not frames or not all(isinstance(f, dict) for f in frames):
        raise CaptureError(
            f'{file}: "frames" must be a list of objects that is not empty.', "Export the file again."
        )
    return frames


def _image_path(folder: Path, frame: Document, where: str) -> Path:
    path = inside_capture(folder, frame.get("file_path"), where)
    if path.is_file():
        return path
    for suffix in IMAGE_SUFFIXES:
        for candidate in (path.with_name(path.name + suffix), path.with_name(path.name + suffix.upper())):
            if candidate.is_file():
                return candidate
    raise CaptureError(
        f"{where}: the image file {path} is missing.", "Put it there, or remove the frame from the file."
    )


def _photos(folder: Path, frames: list[tuple[Document, Document, Path]]) -> list[tuple[SourceImage, Path]]:
    wheres = [f"{file}: frame {f.get('file_path')!r}" for _, f, file in frames]
    paths = [_image_path(folder, f, where) for (_, f, _), where in zip(frames, wheres, strict=True)]
    headers: dict[int, ImageHeader] = {}
    for_each(lambda i: headers.__setitem__(i, read_header(paths[i])), len(paths))
    sources: list[tuple[SourceImage, Path]] = []
    visited: dict[Path, str] = {}
    for index, (document, frame, file) in enumerate(frames):
        where, path = wheres[index], paths[index]
        if path in visited:
            raise CaptureError(
                f"{where}: the image is listed twice ({visited[path]}).", "Remove one of the frames."
            )
        visited[path] = where
        pose = rigid_from_matrix(frame.get("transform_matrix"), where) @ OPENGL_TO_OPENCV
        lens, oriented = lens_of(document, frame, headers[index], where)
        mask = frame.get("mask_path")
        mask_file = None if mask is None else inside_capture(folder, mask, where)
        if mask_file is not None and not mask_file.is_file():
            raise CaptureError(
                f"{where}: the mask {mask_file} is missing.", "Put it there or remove mask_path."
            )
        time = _time(frame, where)
        name = path.relative_to(folder).as_posix()
        image = SourceImage(name, path, lens, invert_rigid(pose), time or 0.0, mask_file, oriented)
        image.exposure = headers[index].exposure
        image.depth, image.depth_scale = _depth(folder, document, frame, where)
        sources.append((image, file))
    _check_shared_intrinsics(frames, sources)
    return sources


def _files_of(file: Path) -> set[Path]:
    """A file of frames and its images as far as they are there."""
    out = {file}
    try:
        for frame in frames_of_document(load_document(file), file):
            out.add(_image_path(file.parent, frame, str(file)))
    except CaptureError:
        return out
    return out


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


def number_of(frame: Document, document: Document, key: str, where: str) -> float | None:
    value = frame.get(key, document.get(key))
    if value is None:
        return None
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    if isinstance(value, bool) or not math.isfinite(number):
        raise CaptureError(f"{where}: {key} must be a finite number, got {value!r}.", f"Correct {key}.")
    return number


def _time(frame: Document, where: str) -> float | None:
    """The frame's timestamp; None: it has none. Values that overflow float32 are refused."""
    time = number_of(frame, {}, "time", where)
    if time is not None and abs(time) > float(np.finfo(np.float32).max):
        raise CaptureError(f"{where}: time is too large: {time!r}.", "Give seconds, or values in [0, 1].")
    return time


def _check_times(contents: CaptureContents, frames: list[tuple[Document, Document, Path]]) -> None:
    """Warns where only some frames have a time: that of the others is 0."""
    without = [str(f.get("file_path")) for _, f, _ in frames if f.get("time") is None]
    if 0 < len(without) < len(frames):
        contents.warnings.append(
            f"{len(without)} of {len(frames)} frames have no time and count as time 0 (the first is {without[0]})."
        )


def lens_of(document: Document, frame: Document, header: ImageHeader, where: str) -> tuple[Lens, bool]:
    """Intrinsics of a frame, in pixels of its stored image, and whether its EXIF orientation is applied."""

    def number(key: str) -> float | None:
        return number_of(frame, document, key, where)

    model = str(frame.get("camera_model", document.get("camera_model", "OPENCV")))
    if model.upper() == EQUIRECTANGULAR:
        return Lens.equirectangular(*header.size(False), where), False
    fisheye = "FISHEYE" in model.upper() or bool(document.get("is_fisheye"))
    if not fisheye and model.upper() not in PLANAR_MODELS:
        raise CaptureError(
            f"{where}: the camera model {model} is not supported.",
            "Export with PINHOLE, OPENCV, OPENCV_FISHEYE or EQUIRECTANGULAR, or undistort the images beforehand.",
        )
    w, h = number("w"), number("h")
    stated = (round(w), round(h)) if w and h else None
    oriented = stated is not None and header.size(False) != stated and header.size(True) == stated
    width, height = stated or header.size(False)
    fx, fy = number("fl_x"), number("fl_y")
    angles = number("camera_angle_x"), number("camera_angle_y")
    for angle in angles:
        if angle is not None and not 0 < angle < math.pi:
            raise CaptureError(f"{where}: camera_angle must be between 0 and pi, got {angle}.", "Correct it.")
    if fx is None and angles[0] is not None:
        fx = 0.5 * width / math.tan(0.5 * angles[0])
    if fy is None and angles[1] is not None and number("fl_x") is None:
        fy = 0.5 * height / math.tan(0.5 * angles[1])
    if fx is None and fy is None:
        raise CaptureError(
            f"{where}: there are no intrinsics (neither fl_x nor camera_angle_x).",
            "Add fl_x, fl_y, cx, cy, w and h, or delete the file to estimate poses from the images.",
        )
    focal = (fx if fx is not None else fy or 0.0, fy if fy is not None else fx or 0.0)
    cx, cy = number("cx"), number("cy")
    centre = (0.5 * width if cx is None else cx, 0.5 * height if cy is None else cy)
    coefficients = {} if model.upper() in PINHOLE_MODELS else {k: number(k) or 0.0 for k in PLANAR_ORDER}
    if fisheye:
        coefficients = {k: number(k) or 0.0 for k in FISHEYE_ORDER}
    elif model.upper() != "FULL_OPENCV":
        coefficients = {k: v for k, v in coefficients.items() if k in ("k1", "k2", "p1", "p2", "k3")}
    lens = Lens.create(width, height, focal, centre, coefficients, fisheye=fisheye, where=where)
    return fit_to_file(lens, header.size(oriented), where), oriented


def _check_shared_intrinsics(
    frames: list[tuple[Document, Document, Path]], sources: list[tuple[SourceImage, Path]]
) -> None:
    """Refuses images of different sizes where all frames of a file share one set of intrinsics."""
    first: dict[Path, SourceImage] = {}
    for (_document, frame, file), (source, _) in zip(frames, sources, strict=True):
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
    given = document.get("ply_file_path")
    if given is not None:
        path = inside_capture(folder, given, "ply_file_path")
        if path.is_file():
            contents.used_files.add(path)
            return load_points(path)
        contents.warnings.append(f"The point cloud {path} that transforms.json names is missing.")
    path = next((folder / name for name in POINT_FILES if (folder / name).is_file()), None)
    if path is None:
        return None
    contents.used_files.add(path)
    return load_points(path)


def _named_split(folder: Path, document: Document, contents: CaptureContents) -> None:
    """Applies nerfstudio's train_filenames, val_filenames and test_filenames."""

    def names(key: str) -> set[str]:
        given = document.get(key)
        if not isinstance(given, list):
            return set()
        paths = {inside_capture(folder, name, key) for name in given}
        return {
            source.name for source in contents.images if {source.path, source.path.with_suffix("")} & paths
        }

    train, val, test = (names(f"{part}_filenames") for part in ("train", "val", "test"))
    part, held_out = ("test", test) if test else ("val", val)
    if not held_out:
        return
    contents.test_names = held_out - train
    contents.rule = f"the data set's own test split ({part}_filenames)"
    if train:
        contents.unused_names = {source.name for source in contents.images} - train - held_out


TRANSFORMS = CaptureFormat("transforms.json", transforms_mismatch, read_transforms)
