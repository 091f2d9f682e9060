"""The calibrations of synchronised cameras: poses_bounds.npy, transforms.json and COLMAP models."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from luxel.scenes.captures.cameras.camera_order import ordered_as_rows
from luxel.scenes.captures.cameras.films import frames_source
from luxel.scenes.captures.cameras.sources import (
    FEWEST,
    CameraSource,
    Placement,
    camera_name,
    camera_sources,
)
from luxel.scenes.captures.contents import CaptureContents, SourceImage, inside_capture, natural_key
from luxel.scenes.captures.formats import colmap, llff, transforms
from luxel.scenes.captures.formats.transforms_keys import unread_keys
from luxel.scenes.captures.formats.transforms_lens import LENS_KEYS, PANORAMA_FLAGS, lens_of, number_of
from luxel.scenes.captures.images.images import ImageHeader
from luxel.scenes.captures.lenses.lens import Lens, fit_to_file
from luxel.scenes.errors import CaptureError
from luxel.scenes.files.reading import read_bytes, reading
from luxel.scenes.geometry import OPENGL_TO_OPENCV, invert_rigid, rigid_from_matrix


def cameras_of_llff(folder: Path, contents: CaptureContents) -> list[CameraSource]:
    """Cameras of poses_bounds.npy: its rows are the films in the order of their names as text, see `camera_order`."""
    file = folder / llff.FILE
    with reading(file, "a numpy file of poses", llff.REMEDY):
        table = llff.read_table(file, read_bytes(file))
    sources = camera_sources(folder)
    if len(sources) != len(table):
        raise CaptureError(
            f"{file}: there are {len(table)} poses, but {len(sources)} films or folders of cameras.",
            "Keep exactly the films there that the poses were made of.",
        )
    contents.used_files.add(file)
    return [
        CameraSource(
            name, source, lambda header, row=row, source=source: llff.place(file, source, header, row)
        )
        for (name, source), row in zip(
            ordered_as_rows(file, sources, table, contents.warnings), table, strict=True
        )
    ]


def cameras_of_transforms(folder: Path, contents: CaptureContents) -> tuple[list[CameraSource], float | None]:
    """Cameras of transforms.json, each a frame whose file_path is a film or folder; and frames a second, if given."""
    file = folder / transforms.FILES[0]
    document = transforms.load_document(file)
    out: dict[str, CameraSource] = {}
    for frame in transforms.frames_of_document(document, file):
        where = f"{file}: frame {frame.get('file_path')!r}"
        entry = inside_capture(folder, frame.get("file_path"), where)
        source = frames_source(entry)
        if source is None:
            raise CaptureError(
                f"{where}: this is neither a film nor a folder of images, as the first one is.",
                "Give each camera its film or folder, or remove the frame from the file.",
            )
        name = camera_name(entry)
        if name in out:
            raise CaptureError(f"{where}: there are two cameras named {name}.", "Give them different names.")
        pose = invert_rigid(rigid_from_matrix(frame.get("transform_matrix"), where) @ OPENGL_TO_OPENCV)
        out[name] = CameraSource(name, source, _placed_by_transforms(document, frame, pose, source, where))
    if len(out) < FEWEST:
        raise CaptureError(
            f"{file}: one camera is too few.", "Add the other cameras, or train on the film alone."
        )
    contents.points = transforms.points_of(folder, document, contents)
    contents.used_files.add(file)
    rate = number_of(document, {}, "fps", str(file))
    if rate is not None and not 0 < rate < 1e6:
        raise CaptureError(f"{file}: fps must be positive, got {rate}.", "Correct fps.")
    later = (*LENS_KEYS, *PANORAMA_FLAGS)  # when the size of the frames is known
    frames = transforms.frames_of_document(document, file)
    contents.unused += unread_keys(file.name, [document], frames, later)
    ordered = sorted(out.values(), key=lambda camera: natural_key(camera.name))
    return ordered, rate


def _placed_by_transforms(
    document: dict[str, Any], frame: dict[str, Any], pose: Any, source: Path, where: str
) -> Placement:
    def place(header: ImageHeader) -> SourceImage:
        lens, oriented = lens_of(document, frame, header, where)
        return SourceImage(source.name, source, lens, pose, oriented=oriented)

    return place


def cameras_of_colmap(folder: Path, contents: CaptureContents) -> list[CameraSource]:
    """Cameras of a COLMAP model whose images are named after films or folders."""
    sparse = colmap.find_model(folder)
    assert sparse is not None
    model = colmap.read_model(sparse)
    sources = camera_sources(folder)
    out: dict[str, CameraSource] = {}
    for name, camera, pose in model.images:
        key = Path(name).stem
        if key in sources and key not in out:
            where = f"{sparse}: image {name!r}"
            place = _placed_by_colmap(model.lenses[camera], pose, sources[key], where)
            out[key] = CameraSource(key, sources[key], place)
    without = [name for name in sources if name not in out]
    if without:
        contents.warnings.append(f"These cameras have no pose and are left out: {', '.join(without[:12])}.")
    contents.points = model.points if len(model.points.xyz) else None
    contents.reprojection_error = model.reprojection_error
    contents.used_files |= {sparse, *(sources[name] for name in without)}
    contents.used_files |= {folder / place / name for name, *_ in model.images for place in ("images", ".")}
    return sorted(out.values(), key=lambda camera: natural_key(camera.name))


def _placed_by_colmap(lens: Lens, pose: Any, source: Path, where: str) -> Placement:
    def place(header: ImageHeader) -> SourceImage:
        return SourceImage(source.name, source, fit_to_file(lens, header.size(False), where), pose)

    return place
