"""Panoramas without metadata, as editors and ffmpeg leave them: recognised by their borders, or the option is named."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from film_writing import write_film
from PIL import Image
from ray_cast_capture import camera_at, cast, pinhole_rays, surface_points

from luxel import scenes
from luxel.render.geometry.camera import Points
from luxel.scenes.captures.contents import CaptureContents, SourceImage, image_files
from luxel.scenes.captures.lenses.lens import Lens
from luxel.scenes.captures.open_capture import Capture
from luxel.scenes.captures.panorama_options import PanoramaOptions
from luxel.scenes.captures.panoramas import poses as panorama_poses
from luxel.scenes.captures.poses import sfm
from luxel.scenes.errors import CaptureError

SIZE = (384, 192)
EYES = [(1.6 + 0.1 * i, -1.2 + 0.25 * i, 0.15 + 0.05 * i) for i in range(6)]


def sphere_rays(width: int, height: int) -> np.ndarray:
    """Directions of the pixels of an equirectangular image, OpenCV axes."""
    longitude = 2 * np.pi * ((np.arange(width) + 0.5) / width - 0.5)
    latitude = np.pi * (0.5 - (np.arange(height) + 0.5) / height)
    lon, lat = np.meshgrid(longitude, latitude)
    return np.stack([np.cos(lat) * np.sin(lon), -np.sin(lat), np.cos(lat) * np.cos(lon)], -1)


def dressed(pixels: np.ndarray, directions: np.ndarray) -> np.ndarray:
    """A scene whose surroundings have detail in all directions but up."""
    unit = directions / np.linalg.norm(directions, axis=-1, keepdims=True)
    waves = np.sin(23 * unit[..., 0] + 3) * np.sin(19 * unit[..., 1]) * np.sin(29 * unit[..., 2] + 1)
    fade = np.clip(2 - 2.2 * unit[..., 2], 0, 1)
    return np.clip(pixels + (60 * waves * fade)[..., None], 0, 255).astype(np.uint8)


def level(eye: tuple[float, float, float], turn: float) -> np.ndarray:
    """A camera that looks along the horizon."""
    return camera_at(eye, (eye[0] + np.cos(turn), eye[1] + np.sin(turn), eye[2]))


def panoramas(turn: float = 2.0, size: tuple[int, int] = SIZE) -> list[np.ndarray]:
    """Equirectangular images of the scene from several places."""
    out = []
    for eye in EYES:
        pose, rays = level(eye, turn), sphere_rays(*size)
        out.append(dressed(cast(pose, rays)[0], rays @ pose[:3, :3].T))
    return out


def perspectives(size: tuple[int, int] = SIZE) -> list[np.ndarray]:
    """Images of a pinhole camera of the same shape, of the same places: sky at the top, ground at the bottom."""
    out = []
    for eye in EYES:
        pose, rays = level(eye, 2.0), pinhole_rays(*size, 0.6 * size[0])
        out.append(dressed(cast(pose, rays)[0], rays @ pose[:3, :3].T))
    return out


@pytest.fixture(autouse=True)
def calls(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Which estimate of poses was asked for; both give poses of a row of cameras, or fail where the test says so."""
    asked: list[str] = []

    def posed(kind: str, folder: Path) -> CaptureContents:
        asked.append(kind)
        images = []
        for number, file in enumerate(image_files(folder)):
            with Image.open(file) as image:
                width, height = image.size
            lens = (
                Lens.equirectangular(width, height, str(file))
                if kind == "panoramas"
                else Lens(width, height, float(width), float(width), 0.5 * width, 0.5 * height)
            )
            images.append(
                SourceImage(f"images/{file.name}", file, lens, np.linalg.inv(level(EYES[number % 6], 0)))
            )
        xyz, rgb = surface_points()
        return CaptureContents("", images, points=Points(xyz.astype(np.float32), rgb), pose_report="made up")

    def of_panoramas(path: Path, folder: Path, options: Any) -> CaptureContents:
        return posed("panoramas", folder)

    def of_images(path: Path, folder: Path, **options: Any) -> CaptureContents:
        return posed("images", folder)

    monkeypatch.setattr(panorama_poses, "estimate_panorama_poses", of_panoramas)
    monkeypatch.setattr(sfm, "estimate_poses", of_images)
    return asked


def folder_of(root: Path, images: list[np.ndarray], suffix: str = ".png") -> Path:
    for number, pixels in enumerate(images):
        Image.fromarray(pixels).save(root / f"{number:03d}{suffix}", quality=90)
    return root


def notes(capture: Capture) -> list[str]:
    """What is said, but of the masks of the nadir."""
    return [warning for warning in capture.warnings if "mask" not in warning]


TAKEN = "they are taken for panoramas of 360 degrees"


@pytest.mark.parametrize("name", ["pano.mp4", "pano.mov", "pano.mkv", "pano.webm"])
@pytest.mark.parametrize("quality", ["4", "30"])
def test_a_film_without_metadata_is_recognised(
    tmp_path: Path, calls: list[str], name: str, quality: str
) -> None:
    codec = "libvpx-vp9" if name.endswith("webm") else "libx264"
    options = {"crf": quality, "b": "0"} if codec == "libvpx-vp9" else {"crf": quality}
    capture = scenes.open(write_film(tmp_path / name, panoramas(), codec=codec, options=options))
    assert calls == ["panoramas"] and capture.format == "360 video (structure from motion)"
    assert len(capture.views) == 8 * len(EYES), "each panorama is cut into eight views"
    assert len(notes(capture)) == 1 and TAKEN in notes(capture)[0]
    assert "--panorama.projection perspective" in notes(capture)[0]


@pytest.mark.parametrize("suffix", [".png", ".jpg"])
@pytest.mark.parametrize("turn", [0.3, 1.0, 4.0])
def test_a_folder_without_metadata_is_recognised(
    tmp_path: Path, calls: list[str], suffix: str, turn: float
) -> None:
    capture = scenes.open(folder_of(tmp_path, panoramas(turn), suffix))
    assert calls == ["panoramas"] and TAKEN in capture.warnings[0]


@pytest.mark.parametrize("film", [False, True])
def test_perspectives_twice_as_wide_as_high_are_no_panoramas(
    tmp_path: Path, calls: list[str], film: bool
) -> None:
    path = write_film(tmp_path / "wide.mp4", perspectives()) if film else folder_of(tmp_path, perspectives())
    capture = scenes.open(path)
    assert calls == ["images"] and capture.warnings == []


@pytest.mark.parametrize("level_of_grey", [0, 255])
def test_a_uniform_border_says_nothing(tmp_path: Path, calls: list[str], level_of_grey: int) -> None:
    """An object before black or white: its borders meet, but have no detail."""
    framed = perspectives()
    for pixels in framed:
        pixels[:24], pixels[-24:], pixels[:, :48], pixels[:, -48:] = (level_of_grey,) * 4
    capture = scenes.open(folder_of(tmp_path, framed))
    assert calls == ["images"] and capture.warnings == []


@pytest.mark.parametrize("size", [(384, 216), (384, 288), (200, 192)])
def test_other_shapes_are_not_looked_at(tmp_path: Path, calls: list[str], size: tuple[int, int]) -> None:
    capture = scenes.open(folder_of(tmp_path, panoramas(size=size)))
    assert calls == ["images"] and capture.warnings == []


def test_the_option_decides(tmp_path: Path, calls: list[str]) -> None:
    path = write_film(tmp_path / "pano.mp4", panoramas())
    capture = scenes.open(path, panorama=PanoramaOptions(projection="perspective"))
    assert calls == ["images"] and capture.warnings == []
    capture = scenes.open(path, panorama=PanoramaOptions(projection="equirectangular"))
    assert calls == ["images", "panoramas"] and notes(capture) == []


def test_where_poles_are_not_uniform_the_option_is_named(tmp_path: Path, calls: list[str]) -> None:
    """Titles over both poles: they may be panoramas."""
    titled = panoramas()
    for pixels in titled:
        pixels[:4, ::2], pixels[-4:, ::2], pixels[:4, :190], pixels[-4:, :190] = 255, 255, 0, 0
    capture = scenes.open(folder_of(tmp_path, titled))
    assert calls == ["images"]
    assert capture.warnings == [
        "The images are twice as wide as high, and their left and right borders continue each other. If they are "
        "panoramas of 360 degrees: --panorama.projection equirectangular."
    ]


@pytest.mark.parametrize(
    ("images", "advice"),
    [
        (panoramas, "were taken for equirectangular panoramas"),
        (
            perspectives,
            "If the images, twice as wide as high, are panoramas of 360 degrees: --panorama.",
        ),
    ],
)
def test_a_failed_estimate_names_the_option(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, images: Any, advice: str
) -> None:
    def fails(*_: object, **__: object) -> None:
        raise CaptureError("2 of 6 images could be placed.", "Take more.")

    monkeypatch.setattr(panorama_poses, "estimate_panorama_poses", fails)
    monkeypatch.setattr(sfm, "estimate_poses", fails)
    path = write_film(tmp_path / "pano.mp4", images())
    with pytest.raises(CaptureError, match="2 of 6 images") as caught:
        scenes.open(path)
    assert caught.value.remedy.startswith("Take more. ") and advice in caught.value.remedy


def test_a_failed_estimate_of_other_shapes_names_no_panoramas(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object, **__: object) -> None:
        raise CaptureError("2 of 6 images could be placed.", "Take more.")

    monkeypatch.setattr(sfm, "estimate_poses", fails)
    with pytest.raises(CaptureError) as caught:
        scenes.open(folder_of(tmp_path, perspectives((384, 216))))
    assert "panorama" not in str(caught.value)
