"""Images of distorted lenses that are opened at a smaller size: as exact as at full size, without maps of that size."""

from __future__ import annotations

import threading
import tracemalloc
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import cv2
import numpy as np
import pytest
from PIL import Image
from ray_cast_capture import ring, write_colmap

from luxel import scenes
from luxel.scenes.captures.depth.depth_maps import DepthReader
from luxel.scenes.captures.images import images
from luxel.scenes.captures.images.images import ImageReader
from luxel.scenes.captures.lenses import undistortion
from luxel.scenes.captures.lenses.lens import Lens, distort_points, pinhole_of
from luxel.scenes.captures.lenses.undistortion import undistorted_at, undistortion_maps

WIDTH, HEIGHT = 480, 360
PLANAR = ("OPENCV", (400.0, 390.0, 245.0, 176.0, -0.12, 0.03, 1e-3, -8e-4))
LENSES: dict[str, tuple[str, Sequence[float]]] = {
    "planar": PLANAR,
    "pincushion": ("SIMPLE_RADIAL", (420.0, 240.0, 180.0, 0.08)),
    "rational": ("FULL_OPENCV", (400.0, 400.0, 240.0, 180.0, -0.1, 0.02, 0, 0, 0, 0.01, 0, 0)),
    "fisheye": ("OPENCV_FISHEYE", (300.0, 300.0, 238.0, 181.0, -0.02, 0.004, 0, 0)),
}
Shade = Callable[[np.ndarray, np.ndarray], np.ndarray]


def distorted(
    model: str, values: Sequence[float], x: np.ndarray, y: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Pixels (the first centre at 0.5) of directions by the formulas of OpenCV's documentation."""
    focal = (values[0], values[0] if model == "SIMPLE_RADIAL" else values[1])
    cx, cy, *k = values[1:] if model == "SIMPLE_RADIAL" else values[2:]
    if model == "OPENCV_FISHEYE":
        r = np.hypot(x, y)
        t = np.arctan(r)
        ratio = t * (1 + k[0] * t**2 + k[1] * t**4 + k[2] * t**6 + k[3] * t**8) / np.maximum(r, 1e-12)
        return focal[0] * x * ratio + cx, focal[1] * y * ratio + cy
    k1, k2, p1, p2, k3, k4, k5, k6 = (*k, *(0.0,) * 8)[:8]
    r2 = x * x + y * y
    ratio = (1 + k1 * r2 + k2 * r2**2 + k3 * r2**3) / (1 + k4 * r2 + k5 * r2**2 + k6 * r2**3)
    u = x * ratio + 2 * p1 * x * y + p2 * (r2 + 2 * x * x)
    v = y * ratio + p1 * (r2 + 2 * y * y) + 2 * p2 * x * y
    return focal[0] * u + cx, focal[1] * v + cy


def directions(
    model: str, values: Sequence[float], column: np.ndarray, row: np.ndarray
) -> tuple[np.ndarray, ...]:
    """Directions of pixels, by iterating on the formulas of `distorted`."""
    focal = (values[0], values[0] if model == "SIMPLE_RADIAL" else values[1])
    x, y = (column - WIDTH / 2) / focal[0], (row - HEIGHT / 2) / focal[1]
    for _ in range(60):
        u, v = distorted(model, values, x, y)
        x, y = x + (column - u) / focal[0], y + (row - v) / focal[1]
    return x, y


def grid(width: int, height: int, at: tuple[float, float]) -> list[np.ndarray]:
    return list(np.meshgrid(np.arange(width) + at[0], np.arange(height) + at[1]))


def over_pixels(count: int) -> Iterator[tuple[float, float]]:
    for step in range(count * count):
        yield (step % count + 0.5) / count, (step // count + 0.5) / count


def smooth(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    return np.stack(
        [127 + 110 * np.sin(4 * x + y), 127 + 110 * np.cos(3 * y), 127 + 110 * np.sin(3 * (x - y))], -1
    )


def chequered(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Squares with edges in all directions to the pixels."""
    a = np.floor(7.3 * (0.95 * x + 0.3 * y)) + np.floor(6.1 * (0.95 * y - 0.3 * x))
    return np.stack(
        [np.where(a % 2 == 0, 30.0, 220.0), np.where(a % 2 == 0, 200.0, 90.0), np.floor(4 * x) % 2 * 240], -1
    )


def stored_image(lens: str, shade: Shade, samples: int = 3) -> np.ndarray:
    """The distorted image, each pixel averaged over its area, uint8 [H, W, 3]."""
    total = sum(shade(*directions(*LENSES[lens], *grid(WIDTH, HEIGHT, at))) for at in over_pixels(samples))
    return np.floor(total / samples**2 + 0.5).astype(np.uint8)


def straight_image(
    intrinsics: Sequence[float], width: int, height: int, shade: Shade, samples: int
) -> np.ndarray:
    """What a pinhole camera images, each pixel averaged over its area, float64 [height, width, 3]."""
    fx, fy, cx, cy = intrinsics
    total = 0.0
    for at in over_pixels(samples):
        column, row = grid(width, height, at)
        total = total + shade((column - cx) / fx, (row - cy) / fy)
    return np.asarray(total) / samples**2


def capture_of(folder: Path, lens: str, pixels: np.ndarray, suffix: str = ".png") -> Path:
    (folder / "images").mkdir(parents=True)
    names = [f"{row}{suffix}" for row in range(3)]
    for name in names:
        Image.fromarray(pixels).save(folder / "images" / name)
    model, values = LENSES[lens]
    write_colmap(folder / "sparse/0", names, ring(3), cameras={1: (model, WIDTH, HEIGHT, values)})
    return folder


def rms(image: np.ndarray, truth: np.ndarray) -> float:
    return float(np.sqrt(np.square(image - truth).mean()))


@pytest.mark.parametrize("size", [64, *(pytest.param(size, marks=pytest.mark.slow) for size in (60, 160))])
@pytest.mark.parametrize("lens", LENSES)
def test_smooth_images_are_those_of_the_pinhole_and_of_full_size(
    lens: str, size: int, tmp_path: Path
) -> None:
    folder = capture_of(tmp_path, lens, stored_image(lens, smooth))
    view, full = scenes.open(folder, max_size=size).views[0], scenes.open(folder).views[0]
    pixels, (width, height) = view.read(), (size, round(HEIGHT * size / WIDTH))
    assert pixels.rgb.shape == (height, width, 3) and pixels.weight is None and pixels.alpha is None
    truth = straight_image(view.camera.intrinsics.tolist(), width, height, smooth, 6)
    assert (
        np.abs(pixels.rgb - truth).max() < 1.6 and rms(pixels.rgb, truth) < 0.45
    )  # 0.29 is that of rounding
    averaged = cv2.resize(full.read().rgb, (width, height), interpolation=cv2.INTER_AREA)
    assert np.abs(pixels.rgb.astype(int) - averaged).max() <= 1


# Ratios of 10, 7.5 and 2.5.
@pytest.mark.parametrize("size", [64, *(pytest.param(size, marks=pytest.mark.slow) for size in (48, 192))])
@pytest.mark.parametrize("lens", ["planar", "fisheye"])
def test_edges_are_at_least_as_exact_as_at_full_size(lens: str, size: int, tmp_path: Path) -> None:
    folder = capture_of(tmp_path, lens, stored_image(lens, chequered))
    view, full = scenes.open(folder, max_size=size).views[0], scenes.open(folder).views[0]
    width, height = view.camera.width, view.camera.height
    truth = straight_image(view.camera.intrinsics.tolist(), width, height, chequered, 24)
    averaged = cv2.resize(full.read().rgb, (width, height), interpolation=cv2.INTER_AREA)
    assert rms(view.read().rgb, truth) <= 1.01 * rms(averaged, truth)
    assert rms(averaged, truth) < 12


@pytest.mark.parametrize("size", [(96, 72), (64, 48), (30, 22), (200, 150)])
@pytest.mark.parametrize("name", LENSES)
def test_positions_are_exact_to_a_hundredth_of_a_pixel(name: str, size: tuple[int, int]) -> None:
    model, values = LENSES[name]
    lens = scenes_lens(model, values)
    column, row = (plane.astype(np.float32) for plane in np.meshgrid(np.arange(WIDTH), np.arange(HEIGHT)))
    planes, known = undistorted_at(lens, *size, (WIDTH, HEIGHT), lambda a, b: [column[a:b], row[a:b]])
    assert known is None or known[1:-1, 1:-1].all()
    target, samples = pinhole_of(lens).resized(*size), max(1, int(np.ceil(WIDTH / size[0] - 0.25)))
    mean = 0.0
    for at in over_pixels(samples):
        x, y = grid(*size, at)
        mean = mean + np.stack(
            distorted(model, values, (x - target.cx) / target.fx, (y - target.cy) / target.fy)
        )
    mean = np.asarray(mean) / samples**2 - 0.5
    inner = np.s_[1:-1, 1:-1]  # beyond the outermost centres positions are clamped
    # OpenCV takes positions to a 32nd of a pixel; their mean over a pixel is more exact.
    for plane, expected in zip(planes, mean, strict=True):
        assert np.abs(plane[inner] - expected[inner]).max() < 0.01 + 1 / 64
        assert abs((plane[inner] - expected[inner]).mean()) < 0.01


def scenes_lens(model: str, values: Sequence[float]) -> Lens:
    focal = (values[0], values[0] if model == "SIMPLE_RADIAL" else values[1])
    cx, cy, *k = values[1:] if model == "SIMPLE_RADIAL" else values[2:]
    return Lens(WIDTH, HEIGHT, *focal, cx, cy, tuple(k), fisheye=model == "OPENCV_FISHEYE")


def half(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """1 on one side of a slanted line near the middle."""
    return (x + 0.4 * y < 0.05).astype(float)


@pytest.mark.parametrize("use", ["cutout", "ignore"])
def test_masks_go_through_the_same_positions(use: str, tmp_path: Path) -> None:
    colours = stored_image("planar", smooth)
    inside = half(*directions(*PLANAR, *grid(WIDTH, HEIGHT, (0.5, 0.5)))) > 0
    colours[~inside] = 255  # must not bleed into what is kept
    folder = capture_of(tmp_path, "planar", colours)
    (folder / "masks").mkdir()
    for row in range(3):
        Image.fromarray(inside).save(folder / f"masks/{row}.png")
    view = scenes.open(folder, max_size=64, masks=use).views[0]
    pixels, intrinsics = view.read(), view.camera.intrinsics.tolist()
    covered = straight_image(intrinsics, 64, 48, lambda x, y: half(x, y)[..., None], 16)[..., 0]
    truth = straight_image(intrinsics, 64, 48, smooth, 6)
    if use == "cutout":
        assert pixels.alpha is not None and pixels.weight is None
        assert np.abs(pixels.alpha / 255.0 - covered).max() < 0.09  # the stored mask has steps of a pixel
        counts = covered == 1
        assert np.abs(pixels.rgb[pixels.alpha > 30] - truth[pixels.alpha > 30]).max() < 12
    else:
        assert (
            pixels.alpha is None and pixels.weight is not None and set(np.unique(pixels.weight)) == {0, 255}
        )
        counts = pixels.weight == 255
        assert (covered[counts] > 0.97).all() and counts.sum() > 0.95 * (covered == 1).sum()
    assert np.abs(pixels.rgb[counts] - truth[counts]).max() < 2


def test_alpha_of_images_goes_through_them_too(tmp_path: Path) -> None:
    inside = half(*directions(*PLANAR, *grid(WIDTH, HEIGHT, (0.5, 0.5)))) > 0
    pixels = np.dstack([stored_image("planar", smooth), np.where(inside, 255, 0)]).astype(np.uint8)
    view = scenes.open(capture_of(tmp_path, "planar", pixels), max_size=96).views[0]
    covered = straight_image(view.camera.intrinsics.tolist(), 96, 72, lambda x, y: half(x, y)[..., None], 16)
    alpha = view.read().alpha
    assert alpha is not None and np.abs(alpha / 255.0 - covered[..., 0]).max() < 0.12


def test_what_a_wide_fisheye_does_not_image_has_no_weight() -> None:
    lens = Lens(400, 400, 400 / np.pi, 400 / np.pi, 200.0, 200.0, (0.0,) * 4, fisheye=True)
    narrow = Lens(400, 300, 400 / np.pi, 400 / np.pi, 200.0, 150.0, (0.0,) * 4, fisheye=True)
    for given in (lens, narrow):
        size = (100, given.height // 4)
        planes, known = undistorted_at(
            given, *size, (given.width, given.height), lambda a, b: [np.ones((b - a, 400), np.float32)]
        )
        target = pinhole_of(given).resized(*size)
        x, y = grid(*size, (0.5, 0.5))
        centre = distort_points(
            given, np.stack([(x - target.cx) / target.fx, (y - target.cy) / target.fy], -1)
        )
        beyond = np.maximum(-centre, centre - [given.width - 1, given.height - 1]).max(-1)
        seen = np.ones(size[::-1], bool) if known is None else known
        assert seen[beyond < -4].all() and not seen[beyond > 4].any() and planes[0].min() == 1


def test_maps_are_computed_once_for_all_threads_and_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    calls, compute, started = [], undistortion._computed_maps, threading.Barrier(4)

    def counted(*key: object) -> undistortion.Maps:
        calls.append(key)
        return compute(*key)  # type: ignore[arg-type]

    monkeypatch.setattr(undistortion, "_computed_maps", counted)
    monkeypatch.setattr(undistortion, "_maps", undistortion.OrderedDict())
    lens = Lens(90, 70, 80.0, 80.0, 45.0, 35.0, (0.05,))

    def work(_: int) -> undistortion.Maps:
        started.wait(20)
        return undistortion_maps(lens)

    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(work, range(4)))
    assert len(calls) == 1 and all(result is results[0] for result in results)
    monkeypatch.setattr(undistortion, "MAP_BYTES", 2 * sum(plane.nbytes for plane in results[0][:2]))
    others = [Lens(90, 70, 80.0, 80.0 + row, 45.0, 35.0, (0.05,)) for row in range(1, 5)]
    for other in others:
        undistortion_maps(other)
    assert [key[0] for key in undistortion._maps] == others[-2:]
    monkeypatch.setattr(undistortion, "MAP_BYTES", 1)
    undistortion_maps(lens)
    assert [key[0] for key in undistortion._maps] == [lens]
    folded = Lens(90, 70, 80.0, 80.0, 45.0, 35.0, (-9.0,))
    for _ in range(2):
        with pytest.raises(scenes.CaptureError, match="cannot be inverted"):
            undistortion_maps(folded)
    assert folded not in [key[0] for key in undistortion._maps]


def test_memory_is_that_of_the_result_and_of_some_rows() -> None:
    lens = Lens(3000, 2000, 2200.0, 2200.0, 1500.0, 1000.0, (-0.05, 0.01))
    stored = np.zeros((2000, 3000, 3), np.uint8)
    tracemalloc.start()
    try:
        undistorted_at(lens, 400, 267, (3000, 2000), lambda a, b: [stored[a:b]])
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 20e6  # maps of the stored size are 48 MB


def test_large_jpeg_files_are_decoded_smaller(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where that leaves four times the pixels of the result along a side, twice."""
    path, asked = tmp_path / "image.jpg", []
    Image.fromarray(stored_image("planar", smooth)).save(path, quality=97, subsampling=0)
    decode = images.decode

    def noted(file: Path, *, oriented: bool = False, least: int | None = None) -> np.ndarray:
        pixels = decode(file, oriented=oriented, least=least)
        asked.append(pixels.shape[1])
        return pixels

    monkeypatch.setattr(images, "decode", noted)
    lens = scenes_lens(*PLANAR)
    small, large = (ImageReader(path, lens, width, width * 3 // 4)() for width in (24, 60))
    assert asked == [WIDTH // 2, WIDTH]
    for pixels, width in ((small, 24), (large, 60)):
        pinhole = pinhole_of(lens).resized(width, width * 3 // 4)
        truth = straight_image(
            (pinhole.fx, pinhole.fy, pinhole.cx, pinhole.cy), width, width * 3 // 4, smooth, 8
        )
        assert np.abs(pixels.rgb - truth).max() < 2.5


def test_depth_is_read_at_the_positions_of_the_result(tmp_path: Path) -> None:
    lens = scenes_lens(*PLANAR)
    row = np.arange(HEIGHT, dtype=np.float32)[:, None] + 1
    np.save(tmp_path / "depth.npy", np.broadcast_to(row, (HEIGHT, WIDTH)))
    depth = DepthReader(tmp_path / "depth.npy", 1.0, lens, 96, 72)()
    target = pinhole_of(lens).resized(96, 72)
    x, y = grid(96, 72, (0.5, 0.5))
    _, expected = distorted(*PLANAR, (x - target.cx) / target.fx, (y - target.cy) / target.fy)
    assert np.abs(depth - (expected + 0.5)).max() <= 0.51
