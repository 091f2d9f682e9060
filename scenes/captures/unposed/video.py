"""The capture format of a video: its best frames are retained as images, whose poses structure from motion
estimates."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from luxel.scenes.captures.caching.capture_cache import CaptureCache, content_key
from luxel.scenes.captures.capture_format import CaptureFormat, ReadOptions
from luxel.scenes.captures.contents import CaptureContents, image_files
from luxel.scenes.captures.films.film_state import FilmState, film_unused, film_warnings
from luxel.scenes.captures.images.images import check_images
from luxel.scenes.captures.images.video_frames import choose_frames, decode_frames
from luxel.scenes.captures.lenses.lens_models import EQUIRECTANGULAR
from luxel.scenes.captures.panoramas.recognition import are_panoramas, is_panorama_video
from luxel.scenes.captures.unposed.estimation import estimated
from luxel.scenes.captures.unposed.image_list import image_folder
from luxel.scenes.errors import CaptureError
from luxel.scenes.files.reading import read_bytes

SUFFIXES = (".mp4", ".mov", ".m4v", ".mkv", ".webm", ".avi", ".mts", ".m2ts")
VERSION = 2  # increased when a change of the selection invalidates cached frames
QUALITY = 96  # of the JPEG files of frames without transparency
ENDS = 1 << 20  # bytes at the beginning and at the end by which a video is known
FEWEST = 3
MIN_USABLE = 0.5  # of the chosen frames; where more are left out, a warning says so
ADVICE = "Move the camera slowly around what is to be seen, without standing still, in good light."


def video_file(path: Path) -> Path | None:
    """The video at a path: the file itself, or the only one in a folder without images; None: there is none."""
    if path.is_file():
        return path if path.suffix.lower() in SUFFIXES else None
    if not path.is_dir() or image_folder(path) is not None:
        return None
    videos = [entry for entry in path.iterdir() if _is_video(entry)]
    return videos[0] if len(videos) == 1 else None


def _is_video(entry: Path) -> bool:
    return entry.suffix.lower() in SUFFIXES and entry.is_file() and not entry.name.startswith(".")


def video_mismatch(path: Path) -> str | None:
    """None where there is a video, otherwise the reason."""
    if video_file(path) is not None:
        return None
    if path.is_file():
        return f"its suffix is none of {', '.join(SUFFIXES)}"
    count = sum(_is_video(entry) for entry in path.iterdir())
    return f"there are {count} videos" if count > 1 else "there is no video"


def read_video(path: Path, options: ReadOptions) -> CaptureContents:
    """Poses, intrinsics, points and times of the best frames, computed once and stored in the cache.

    Raises:
        CaptureError: the video cannot be read, too few of its frames are sharp and differ, or too few of them could be
            placed.
    """
    video = video_file(path)
    assert video is not None
    folder, retained = CaptureCache(path, options.cache_dir).result(
        f"video-{_key(video, options.frames)}",
        _read_frames,
        lambda target: _extract(video, options.frames, target, options.on_progress),
        check=lambda entry: check_images(image_files(entry / "images")),
    )
    chosen = options.panorama.projection
    marked = chosen == "equirectangular" or (chosen == "auto" and is_panorama_video(video))
    if marked:
        sure = replace(options.panorama, projection="equirectangular")
        are_panoramas(image_files(folder / "images")[:1], sure)  # raises for another shape
    contents = estimated(folder, folder / "images", options, panoramas=marked)
    panoramic = any(source.lens.model == EQUIRECTANGULAR for source in contents.images)
    format_name = f"{'360 video' if panoramic else 'video'} (structure from motion)"
    interval = frame_interval(retained["times"])
    for source in contents.images:
        source.time = float(retained["times"][source.path.name])
        source.frame_interval = interval
    contents.format, contents.name = format_name, video.stem
    states = {video.name: FilmState.from_json(retained["film"])}
    contents.warnings[:0] = [*retained["warnings"], *film_warnings(states)]
    contents.unused += film_unused(states)
    contents.used_files.add(video)
    return contents


def _read_frames(folder: Path) -> tuple[Path, dict[str, Any]]:
    """The folder of the chosen frames, and what is known of them: times by name, warnings.

    Raises:
        ValueError: they are not what was written there.
    """
    known = json.loads(read_bytes(folder / "frames.json"))
    times, warnings = known["times"], known["warnings"]
    if set(times) != {file.name for file in image_files(folder / "images")} or len(times) < FEWEST:
        raise ValueError(f"{folder} does not have the frames that it names")
    if not all(isinstance(time, (int, float)) and math.isfinite(time) for time in times.values()):
        raise ValueError(f"{folder} has no times")
    if not all(isinstance(warning, str) for warning in warnings):
        raise ValueError(f"{folder} has no warnings")
    FilmState.from_json(known["film"])
    frame_interval(times)
    return folder, known


def frame_interval(times: Mapping[str, float]) -> float | None:
    """Mean seconds between frames of a video, from the times of some, which are named by their numbers; None of one."""
    numbers = sorted((int(Path(name).stem.rpartition("-")[2]), time) for name, time in times.items())
    (first, start), (last, end) = numbers[0], numbers[-1]
    return (end - start) / (last - first) if last > first and end > start else None


def _key(video: Path, frames: int | None) -> str:
    """A hash of the video, by its size and ends, and of how frames are chosen."""
    size = video.stat().st_size
    with video.open("rb") as file:
        head = file.read(ENDS)
        file.seek(max(0, size - ENDS))
        return content_key(["video", VERSION, frames, size, head, file.read(ENDS)])


def _extract(video: Path, count: int | None, folder: Path, on_progress: Callable[[str, float], None]) -> None:
    """Writes the chosen frames as images, with their times and warnings."""
    selection = choose_frames(video, count, lambda share: on_progress("looking for sharp frames", share))
    chosen = selection.frames
    left_out = selection.blurred + selection.repeated
    why = f"{selection.blurred} were blurred and {selection.repeated} repeated the one before"
    if len(chosen) < FEWEST:
        raise CaptureError(
            f"{video}: only {len(chosen)} of {selection.total} frames can be used ({why}).", ADVICE
        )
    warnings = []
    if len(chosen) < MIN_USABLE * (len(chosen) + left_out):
        warnings.append(f"Only {len(chosen)} of {selection.total} frames are used: {why}. {ADVICE}")
    images = folder / "images"
    images.mkdir()
    times = {}
    for done, (measure, pixels) in enumerate(decode_frames(video, chosen), 1):
        name = save_frame(pixels, images, f"frame-{measure.index:06d}")
        times[name] = measure.time - chosen[0].time
        on_progress("writing frames", done / len(chosen))
    film = selection.state.as_json()
    retained = {"times": times, "warnings": warnings, "total": selection.total, "film": film}
    (folder / "frames.json").write_text(json.dumps(retained))


def save_frame(pixels: np.ndarray, folder: Path, stem: str) -> str:
    """Writes a frame, as JPEG or, with alpha, as PNG; the name of the file.

    Args:
        pixels: uint8 [H, W, 3] or [H, W, 4].
    """
    from PIL import Image

    if pixels.shape[2] == 4:
        Image.fromarray(pixels).save(folder / f"{stem}.png", compress_level=1)
        return f"{stem}.png"
    Image.fromarray(pixels).save(folder / f"{stem}.jpg", quality=QUALITY, subsampling=0)
    return f"{stem}.jpg"


VIDEO = CaptureFormat("video", video_mismatch, read_video)
