"""COLMAP models, binary and text: cameras, images and points3D.

Counts in the files are checked against the number of bytes that follow.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from luxel.render.geometry.camera import Points
from luxel.scenes.captures.capture_format import CaptureFormat, ReadOptions
from luxel.scenes.captures.contents import CaptureContents, SourceImage, inside_capture
from luxel.scenes.captures.images.images import ImageHeader, for_each, read_header
from luxel.scenes.captures.lenses.lens import Lens, fit_to_file, lens_of_colmap
from luxel.scenes.captures.path_lookup import folded, is_of_another_folder
from luxel.scenes.errors import CaptureError
from luxel.scenes.files.reading import read_bytes, reading
from luxel.scenes.files.text import decode_text
from luxel.scenes.geometry import rotation_from_quaternion

# By model number in binary files: name and number of parameters.
MODEL_NUMBERS = (
    ("SIMPLE_PINHOLE", 3),
    ("PINHOLE", 4),
    ("SIMPLE_RADIAL", 4),
    ("RADIAL", 5),
    ("OPENCV", 8),
    ("OPENCV_FISHEYE", 8),
    ("FULL_OPENCV", 12),
    ("FOV", 5),
    ("SIMPLE_RADIAL_FISHEYE", 4),
    ("RADIAL_FISHEYE", 5),
    ("THIN_PRISM_FISHEYE", 12),
    ("RAD_TAN_THIN_PRISM_FISHEYE", 16),
    ("SIMPLE_DIVISION", 4),
    ("DIVISION", 5),
    ("SIMPLE_FISHEYE", 3),
    ("FISHEYE", 4),
    ("EUCM", 6),
    ("EQUIRECTANGULAR", 2),
)
MODEL_FILES = ("cameras", "images", "points3D")
# A point in points3D.bin, before its track.
POINT = np.dtype(
    [("id", "<u8"), ("xyz", "<f8", 3), ("rgb", "u1", 3), ("error", "<f8"), ("track length", "<u8")]
)
POINTS_AT_ONCE = 1 << 14
CUT_SHORT = "Copy or export the model again."


@dataclass
class ColmapModel:
    """A sparse model: lenses by camera id, images as (name, camera id, world_to_cam [4, 4]), points, and the mean
    distance in pixels of points from where they were observed (None: not known). Names have forward slashes."""

    folder: Path
    lenses: dict[int, Lens]
    images: list[tuple[str, int, np.ndarray]]
    points: Points
    reprojection_error: float | None = None


def find_model(path: Path) -> Path | None:
    """The folder of the largest model in a capture: sparse/0, sparse, colmap/sparse/0, or the path itself.

    Raises:
        CaptureError: a file of the model is missing.
    """
    candidates = [path]
    for parent in (path / "sparse", path / "colmap" / "sparse", path / "colmap", path / "sparse_pc"):
        if parent.is_dir():
            candidates += [parent, *sorted(entry for entry in parent.iterdir() if entry.is_dir())]
    models = [folder for folder in candidates if _is_model(folder)]
    for folder in candidates if not models else []:
        present = [
            f"{n}{s}"
            for s in (".bin", ".txt")
            for n in ("cameras", "images")
            if (folder / f"{n}{s}").exists()
        ]
        if present:
            raise CaptureError(
                f"{folder}: the COLMAP model is incomplete: it has {', '.join(present)}, but not both cameras and "
                "images.",
                "Copy the missing file, or remove the folder to estimate poses from the images.",
            )

    def size(folder: Path) -> int:
        return max((folder / f"images{s}").stat().st_size for s in (".bin", ".txt") if _has(folder, s))

    # Text is larger than binary: sizes are compared only between numbered models of one parent.
    siblings = [folder for folder in models if folder.parent == models[0].parent]
    return max(siblings, key=size) if siblings else None


def colmap_mismatch(path: Path) -> str | None:
    """None where there is a model, otherwise the reason.

    Raises:
        CaptureError: a file of the model is missing.
    """
    if path.is_file():
        return "it is not a folder"
    return None if find_model(path) else "there are no cameras and images, .bin or .txt, in it or in sparse/0"


def _has(folder: Path, suffix: str) -> bool:
    return all((folder / f"{name}{suffix}").is_file() for name in ("cameras", "images"))


def _is_model(folder: Path) -> bool:
    return _has(folder, ".bin") or _has(folder, ".txt")


def read_colmap(
    path: Path, *, images: Path | None = None, model: Path | None = None, oriented: bool | None = None
) -> CaptureContents:
    """The images and points of a COLMAP model.

    Args:
        path: the capture's folder, or the folder of the model in it.
        images: the folder of the images; None: ``images`` near the model.
        model: the model's folder; None: the largest in the capture.
        oriented: whether the model was made from images with their EXIF orientation applied; None: decided for each
            image by its size.

    Raises:
        CaptureError: a file is missing, cut short, or invalid.
    """
    folder = model or find_model(path)
    if folder is None:
        raise CaptureError(
            f"{path}: there is no COLMAP model.", "Put cameras and images, .bin or .txt, into sparse/0."
        )
    read = read_model(folder)
    root = images or _image_folder(path, folder, read)
    sources: list[SourceImage] = []
    paths: list[Path] = []
    listed: dict[str, tuple[str, Path]] = {}
    for name, _, _ in read.images:
        where = f"{folder}: image {name!r}"
        file = _image_file(root, name, where)
        if not file.is_file():
            raise CaptureError(f"{where}: the image {file} is missing.", "Put all images of the model there.")
        other, other_file = listed.setdefault(folded(str(file)), (name, file))
        if (
            len(paths)
            and other_file is not file
            and (other_file == file or os.path.samefile(other_file, file))
        ):
            same = "" if other == name else f", also as {other!r}"
            raise CaptureError(f"{where}: the image is listed twice{same}.", CUT_SHORT)
        paths.append(file)
    headers: dict[int, ImageHeader] = {}
    for_each(lambda i: headers.__setitem__(i, read_header(paths[i])), len(paths))
    sizes: dict[int, Lens] = {}
    for index, (name, camera, world_to_cam) in enumerate(read.images):
        lens, header = read.lenses[camera], headers[index]
        size = (lens.width, lens.height)
        turned = header.size(False) != size and header.size(True) == size if oriented is None else oriented
        lens = fit_to_file(lens, header.size(turned), f"{folder}: image {name!r}")
        first = sizes.setdefault(camera, lens)
        if first != lens:
            raise CaptureError(
                f"{folder}: image {name!r} is {lens.width}x{lens.height} pixels, others of its camera are "
                f"{first.width}x{first.height}.",
                "Use the images that the model was made from, all of one size.",
            )
        path_in_root = paths[index].relative_to(root).as_posix()
        sources.append(
            SourceImage(
                path_in_root, paths[index], lens, world_to_cam, oriented=turned, exposure=header.exposure
            )
        )
    points = read.points if len(read.points.xyz) else None
    error = read.reprojection_error
    contents = CaptureContents(COLMAP.name, sources, points=points, reprojection_error=error)
    contents.used_files |= {folder / f"{name}{suffix}" for name in MODEL_FILES for suffix in (".bin", ".txt")}
    contents.warnings += elsewhere(root, [name for name, _, _ in read.images], f"The COLMAP model {folder}")
    return contents


def elsewhere(folder: Path, given: Sequence[object], what: str) -> list[str]:
    """A sentence where a file states absolute paths of another folder, for which files of the capture were taken.

    Args:
        folder: of the capture.
        given: the paths.
        what: the file, the beginning of the sentence.
    """
    foreign = [path for path in given if isinstance(path, str) and is_of_another_folder(folder, path)]
    if not foreign:
        return []
    return [
        f"{what} has {len(foreign)} absolute paths of another folder (the first is {foreign[0]}); the files with the "
        "same ends of their paths in the capture are used."
    ]


def _image_file(root: Path, name: str, where: str) -> Path:
    file = inside_capture(root, name, where)
    literal = root / name.replace("/", "\\")  # on Linux a backslash may be part of a name
    return literal if os.sep == "/" and not file.is_file() and literal.is_file() else file


def _image_folder(path: Path, folder: Path, read: ColmapModel) -> Path:
    roots = [path, *list(folder.parents)[: len(folder.relative_to(path).parts) if folder != path else 3]]
    for root in dict.fromkeys(roots):
        for name in ("images", "input", "."):
            candidate = root / name
            if read.images and candidate.is_dir() and _has_image(candidate, read.images[0][0]):
                return candidate
    return path / "images"


def _has_image(folder: Path, name: str) -> bool:
    try:
        return _image_file(folder, name, str(folder)).is_file()
    except CaptureError:
        return False


def read_model(folder: Path) -> ColmapModel:
    """Reads the files of a model, binary ones where there are both.

    Raises:
        CaptureError: a file is missing, cut short, or invalid.
    """
    with reading(folder, "a COLMAP model", CUT_SHORT):
        return _model(folder, _has(folder, ".bin"))


def image_names(folder: Path) -> list[str]:
    """Names of the images of a model, without reading its cameras and points.

    Raises:
        CaptureError: the file of images is missing, cut short, or invalid.
    """
    with reading(folder, "a COLMAP model", CUT_SHORT):
        if _has(folder, ".bin"):
            return [name for name, _, _ in _images_binary(folder / "images.bin")]
        return [name for name, _, _ in _images_text(folder / "images.txt")]


def _model(folder: Path, binary: bool) -> ColmapModel:
    """The model in a folder, from its binary or its text files."""
    suffix = ".bin" if binary else ".txt"
    cameras = folder / f"cameras{suffix}"
    lenses = _cameras_binary(cameras) if binary else _cameras_text(cameras)
    file = folder / f"images{suffix}"
    images = _images_binary(file) if binary else _images_text(file)
    for name, camera, _ in images:
        if camera not in lenses:
            raise CaptureError(
                f"{file}: image {name!r} has camera {camera}, which is not in {cameras.name}.", CUT_SHORT
            )
    file = folder / f"points3D{suffix}"
    points, errors = Points(np.zeros((0, 3), np.float32), np.zeros((0, 3), np.uint8)), np.zeros(0)
    if file.is_file():
        points, errors = _points_binary(file) if binary else points_of_text(file)
    errors = errors[np.isfinite(errors) & (errors > 0)]
    return ColmapModel(folder, lenses, images, points, float(errors.mean()) if len(errors) else None)


def _pose(values: Sequence[float], where: str) -> np.ndarray:
    out = np.eye(4)
    out[:3, :3] = rotation_from_quaternion(values[:4], where)
    out[:3, 3] = values[4:7]
    if not (np.abs(out) < 1e15).all():
        raise CaptureError(f"{where}: the position is not finite.", "Export the model again.")
    return out


class Cursor:
    """Reads packed little-endian values; errors name the file."""

    def __init__(self, path: Path) -> None:
        self.path, self.data, self.position = path, read_bytes(path), 0

    def short(self, what: str) -> CaptureError:
        return CaptureError(f"{self.path}: cut short or damaged: {what}.", CUT_SHORT)

    def take(self, layout: str) -> tuple:
        size = struct.calcsize(layout)
        if self.position + size > len(self.data):
            raise self.short(f"the file ends at byte {len(self.data)}")
        values = struct.unpack_from(layout, self.data, self.position)
        self.position += size
        return values

    def count(self, smallest: int, what: str) -> int:
        """A 64-bit count of records of at least ``smallest`` bytes each."""
        (number,) = self.take("<Q")
        remaining = len(self.data) - self.position
        if number * smallest > remaining:
            raise self.short(f"the header counts {number} {what}, but only {remaining} bytes follow")
        return number

    def text(self) -> str:
        end = self.data.find(b"\0", self.position)
        if end < 0:
            raise self.short("a name does not end")
        value = self.data[self.position : end].decode("utf-8", "replace")
        self.position = end + 1
        return value


def _cameras_binary(path: Path) -> dict[int, Lens]:
    cursor = Cursor(path)
    lenses = {}
    for _ in range(cursor.count(24, "cameras")):
        number, model, width, height = cursor.take("<iiQQ")
        where = f"{path}: camera {number}"
        if not 0 <= model < len(MODEL_NUMBERS):
            raise CaptureError(f"{where}: unknown camera model number {model}.", CUT_SHORT)
        name, parameters = MODEL_NUMBERS[model]
        lenses[number] = lens_of_colmap(name, width, height, cursor.take(f"<{parameters}d"), where)
    return lenses


def _images_binary(path: Path) -> list[tuple[str, int, np.ndarray]]:
    cursor = Cursor(path)
    images = []
    for _ in range(cursor.count(73, "images")):
        number, *pose, camera = cursor.take("<i7di")
        name = cursor.text().replace("\\", "/")
        observations = cursor.count(24, "points of an image")
        cursor.position += 24 * observations
        images.append((name, camera, _pose(pose, f"{path}: image {name or number!r}")))
    return images


def _points_binary(path: Path) -> tuple[Points, np.ndarray]:
    """The points, and their reprojection errors in pixels."""
    cursor = Cursor(path)
    total = cursor.count(POINT.itemsize, "points")
    data, position, end = cursor.data, cursor.position, len(cursor.data)
    track_length, starts = struct.Struct("<Q").unpack_from, []
    for index in range(total):
        if position + POINT.itemsize > end:
            raise cursor.short(f"point {index} of {total} is not complete")
        starts.append(position)
        position += POINT.itemsize + 8 * track_length(data, position + POINT.itemsize - 8)[0]
    if position > end:
        raise cursor.short("the last track is not complete")
    rows, values = np.empty(total, POINT), np.frombuffer(data, np.uint8)
    for first in range(0, total, POINTS_AT_ONCE):
        chunk = np.array(starts[first : first + POINTS_AT_ONCE])
        rows[first : first + len(chunk)] = values[chunk[:, None] + np.arange(POINT.itemsize)].view(POINT)[
            :, 0
        ]
    return _finite(rows["xyz"].copy(), rows["rgb"].copy()), rows["error"].copy()


def _finite(xyz: np.ndarray, rgb: np.ndarray) -> Points:
    keep = (np.abs(xyz) < 1e30).all(axis=1)
    return Points(xyz[keep], rgb[keep])


def text_lines(path: Path) -> list[tuple[int, str]]:
    text = decode_text(read_bytes(path))
    numbered = enumerate(text.splitlines(), start=1)
    return [(number, line.strip()) for number, line in numbered if not line.lstrip().startswith("#")]


def bad_line(path: Path, number: int, what: str) -> CaptureError:
    return CaptureError(f"{path}: line {number} is not a valid {what}.", CUT_SHORT)


def _cameras_text(path: Path) -> dict[int, Lens]:
    lenses = {}
    for number, line in text_lines(path):
        if not line:
            continue
        try:
            camera, model, width, height, *values = line.split()
            size, numbers = (int(width), int(height)), [float(value) for value in values]
            key = int(camera)
        except (ValueError, OverflowError):
            raise bad_line(path, number, "camera") from None
        lenses[key] = lens_of_colmap(model, *size, numbers, f"{path}: camera {camera}")
    return lenses


def image_lines(path: Path) -> Iterator[tuple[int, list[str]]]:
    """Numbers of the lines of images in images.txt, and their words: id, pose, id of the camera, name.

    The line of 2D points after each of them may be absent, as programs and people write it who have none.

    Raises:
        CaptureError: a line is neither.
    """
    after_image = False
    for number, line in text_lines(path):
        words = line.split(maxsplit=9)
        points = after_image and _is_point_list(words)
        after_image = not points and bool(words)
        if points or not words:
            continue
        if len(words) != 10:
            raise bad_line(path, number, "image")
        words[9] = words[9].replace("\\", "/")
        yield number, words


def _is_point_list(words: Sequence[str]) -> bool:
    """Whether a line of images.txt, in at most ten words, has x, y and the id of a point, any number of times."""
    rest = words[9].split(maxsplit=1) if len(words) == 10 else []
    if rest and (len(rest) < 2 or not _is_number(words[9].rsplit(maxsplit=1)[-1])):
        return False  # the name of an image
    first = [*words[:9], *rest[:1]]
    return (len(words) == 10 or len(words) % 3 == 0) and all(_is_number(word) for word in first)


def _is_number(word: str) -> bool:
    try:
        float(word)
    except ValueError:
        return False
    return True


def _images_text(path: Path) -> list[tuple[str, int, np.ndarray]]:
    images = []
    for number, (_, *values, camera, name) in image_lines(path):
        try:
            pose, key = [float(value) for value in values], int(camera)
        except (ValueError, OverflowError):
            raise bad_line(path, number, "image") from None
        images.append((name, key, _pose(pose, f"{path}: image {name!r}")))
    return images


def points_of_text(path: Path) -> tuple[Points, np.ndarray]:
    """The points of a points3D.txt whose coordinates are finite, and the error of every point, -1 where it has none.

    Raises:
        CaptureError: a line is no point; it is named.
    """
    lines = [(number, line) for number, line in text_lines(path) if line]
    if not lines:
        return Points(np.zeros((0, 3)), np.zeros((0, 3), np.uint8)), np.zeros(0)
    try:
        values = np.loadtxt([line for _, line in lines], usecols=range(1, 8), comments=None, ndmin=2)
        if (values[:, 3:6] % 1).any():
            raise ValueError
    except ValueError:  # a line that is wrong, or has no error of its point
        values = np.array([_point(path, number, line) for number, line in lines])
    return _finite(values[:, :3], values[:, 3:6].clip(0, 255).astype(np.uint8)), values[:, 6]


def _point(path: Path, number: int, line: str) -> list[float]:
    """Position, colour, and error of a line of points3D.txt; -1 where it has no error."""
    try:
        words = line.split(maxsplit=8)
        x, y, z = (float(value) for value in words[1:4])
        r, g, b = (int(value) for value in words[4:7])
        return [x, y, z, *(float(min(255, max(0, value))) for value in (r, g, b)), float([*words, "-1"][7])]
    except (ValueError, OverflowError):
        raise bad_line(path, number, "point") from None


def _read(path: Path, options: ReadOptions) -> CaptureContents:
    return read_colmap(path)


COLMAP = CaptureFormat("COLMAP model", colmap_mismatch, _read)
