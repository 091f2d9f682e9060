"""The capture format of synchronised cameras: a film or a folder of frames for each camera, and their calibration.

The calibration is poses_bounds.npy, as Neural 3D Video (Li et al. 2022) has it, a transforms.json whose frames name
films or folders, or a COLMAP model with one image a camera, named after its film or folder.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from luxel.scenes.captures.caching.capture_cache import CaptureCache
from luxel.scenes.captures.cameras.calibrations import (
    cameras_of_colmap,
    cameras_of_llff,
    cameras_of_transforms,
)
from luxel.scenes.captures.cameras.films import CameraFrames, frames_of_film, is_film, times_of_film
from luxel.scenes.captures.cameras.frame_times import (
    at_one_time,
    evenly_chosen,
    merged,
    report_films,
    times_of_numbered,
)
from luxel.scenes.captures.cameras.sources import FEWEST, CameraSource, camera_sources
from luxel.scenes.captures.capture_format import CaptureFormat, ReadOptions
from luxel.scenes.captures.contents import CaptureContents, SourceImage, image_files
from luxel.scenes.captures.films.film_state import film_unused, film_warnings
from luxel.scenes.captures.films.timestamps import FilmTimes
from luxel.scenes.captures.formats import colmap, llff, transforms
from luxel.scenes.captures.images.images import read_header
from luxel.scenes.errors import CaptureError
from luxel.scenes.files.reading import read_bytes

MOST = 300  # frames of each camera where the number is not given
NO_CALIBRATION = "there are no films or folders of several cameras with a calibration"


def cameras_mismatch(path: Path) -> str | None:
    """None where there are films or folders of at least two cameras and their calibration, otherwise the reason."""
    folder = path if path.is_dir() else path.parent
    if path.is_file() and path.name not in (transforms.FILES[0], llff.FILE):
        return "it is not a folder"
    named = path.name if path.is_file() else None
    if named != transforms.FILES[0] and (folder / llff.FILE).is_file():
        has_images = (folder / llff.IMAGES).is_dir() and bool(image_files(folder / llff.IMAGES))
        return NO_CALIBRATION if has_images or len(camera_sources(folder)) < FEWEST else None
    if (folder / transforms.FILES[0]).is_file():
        return None if _names_sources(folder) else "transforms.json names no films or folders"
    sources = camera_sources(folder)
    if len(sources) < FEWEST:
        return NO_CALIBRATION
    model = colmap.find_model(folder)
    return None if model and _matching(sources, colmap.image_names(model)) else NO_CALIBRATION


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

    Films begin together, unless their timestamps say otherwise, and each frame has its own time. Images of one number
    in their names are of one time.

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
        cameras = cameras_of_llff(folder, contents)
    elif (folder / transforms.FILES[0]).is_file():
        cameras, rate = cameras_of_transforms(folder, contents)
    else:
        cameras = cameras_of_colmap(folder, contents)
    contents.used_files |= {camera.source for camera in cameras}
    cache = CaptureCache(folder, options.cache_dir)
    frames = _frames(
        cameras,
        rate,
        options.frames or MOST,
        cache,
        contents,
        lambda s: options.on_progress("extracting frames", s),
    )
    times = merged({name: read.times for name, read in frames.items()})
    for camera in cameras:
        contents.images += _images(camera, frames[camera.name].files, times[camera.name])
    if (folder / llff.FILE).is_file() and not chosen_json:
        test_camera = cameras[0].name
        contents.test_names = {source.name for source in contents.images if source.group == test_camera}
        contents.rule = f"all frames of {test_camera}, the first camera, as is usual for Neural 3D Video"
    contents.triangulated_names = {
        f"{name}/{frames[name].files[index].name}" for name, index in at_one_time(times).items()
    }
    return contents


def _frames(
    cameras: Sequence[CameraSource],
    rate: float | None,
    limit: int,
    cache: CaptureCache,
    contents: CaptureContents,
    on_progress: Callable[[float], None],
) -> dict[str, CameraFrames]:
    """The frames of each camera that are used, with their common times; says what was noticed of films."""
    films = {
        camera.name: times_of_film(camera.source, cache) for camera in cameras if camera.source.is_file()
    }
    files = {camera.name: image_files(camera.source) for camera in cameras if camera.name not in films}
    starts = _starts(films, contents)
    times = {name: [time - starts[name] for time in film.times] for name, film in films.items()}
    if files:
        if films and rate is None:
            rate = _median_rate(list(times.values()))
        names = {name: [file.name for file in given] for name, given in files.items()}
        by_number = times_of_numbered(names, rate, contents.warnings)
        for name, values in by_number.items():
            order = np.argsort(values, kind="stable").tolist()
            files[name] = [files[name][row] for row in order]
            times[name] = [values[row] for row in order]
    chosen = evenly_chosen(times, limit)
    out: dict[str, CameraFrames] = {}
    for row, camera in enumerate(cameras):
        name = camera.name
        if name in files:
            out[name] = CameraFrames(
                [files[name][index] for index in chosen[name]], [times[name][index] for index in chosen[name]]
            )
            continue

        def advance(share: float, row: int = row) -> None:
            on_progress((row + share) / len(cameras))

        read = frames_of_film(camera.source, films[name], chosen[name], cache, advance)
        out[name] = replace(read, times=[time - starts[name] for time in read.times])
    states = {_film_name(camera): out[camera.name].state for camera in cameras}
    noticed = {name: state for name, state in states.items() if state is not None}
    contents.unused += film_unused(noticed)
    contents.warnings += film_warnings(noticed)
    if films:
        report_films({name: out[name].times for name in films}, contents.warnings)
    return out


def _film_name(camera: CameraSource) -> str:
    """The name of the camera's film, with its folder where that has the name of the camera."""
    name = camera.source.name
    return name if camera.source.stem == camera.name else f"{camera.name}/{name}"


def _starts(films: Mapping[str, FilmTimes], contents: CaptureContents) -> dict[str, float]:
    """The second of each film that is time 0: one of all films, unless by their timestamps some show no common time."""
    begin = {name: film.times[0] for name, film in films.items()}
    first = min(begin.values(), default=0.0)
    if films and max(begin.values()) > min(film.times[-1] for film in films.values()):
        late = max(begin, key=lambda name: begin[name])
        contents.warnings.append(
            f"By their timestamps the films show no common time ({late} begins {begin[late] - first:.2f} s after the "
            "first one); all are taken to begin together."
        )
        return begin
    return dict.fromkeys(films, first)


def _median_rate(times: Sequence[Sequence[float]]) -> float | None:
    """Frames a second of films; None where none has several frames."""
    intervals = [(values[-1] - values[0]) / (len(values) - 1) for values in times if len(values) > 1]
    return 1 / float(np.median(intervals)) if intervals else None


def _images(camera: CameraSource, files: Sequence[Path], times: Sequence[float]) -> list[SourceImage]:
    """The images of a camera, whose lens and pose are placed once, by its first frame."""
    placed = camera.place(read_header(files[0]))
    out = []
    for number, (file, time) in enumerate(zip(files, times, strict=True)):
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


CAMERAS = CaptureFormat("synchronised cameras", cameras_mismatch, read_cameras)
