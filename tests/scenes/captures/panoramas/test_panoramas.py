"""Panoramas: how views are cut from them, which images are panoramas, and captures of them with and without poses."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pycolmap
import pytest
import textured_room as room
from PIL import Image

import luxel.scenes as scenes
from luxel.render.geometry.camera import Points
from luxel.scenes.captures.panorama_options import PanoramaOptions
from luxel.scenes.captures.panoramas.cutting import above, view_size
from luxel.scenes.captures.panoramas.layout import turns
from luxel.scenes.captures.panoramas.projection import Panorama, directions_to_pixels, view_directions
from luxel.scenes.captures.panoramas.recognition import are_panoramas, is_marked, is_panorama_video
from luxel.scenes.errors import CaptureError
from luxel.viewer.films.film import write_film

MARKED = PanoramaOptions(projection="equirectangular")


def smooth(directions: np.ndarray) -> np.ndarray:
    """A smooth image of directions, uint8 [..., 3]."""
    unit = directions / np.linalg.norm(directions, axis=-1, keepdims=True)
    waves = np.sin(unit @ np.array([[5.0, 1, -2], [0, 6, 3], [2, -3, 7]]) + [0.3, 1.0, 2.0])
    return np.round(127.5 + 120 * waves).astype(np.uint8)


def test_directions_are_imaged_where_colmap_images_them() -> None:
    camera = pycolmap.Camera(model="EQUIRECTANGULAR", width=200, height=100, params=[200.0, 100.0])
    directions = np.random.default_rng(0).normal(size=(200, 3))
    column, row = directions_to_pixels(directions, 200, 100)
    assert np.abs(camera.img_from_cam(directions) - np.stack([column, row], -1)).max() < 1e-6


def test_a_view_shows_the_directions_of_its_camera() -> None:
    image = Panorama(smooth(room.panorama_rays(720)))
    size, focal = view_size(720, 90.0)
    for turn in [*turns(8, 20.0), *turns(3, 80.0)]:
        expected = smooth(view_directions(turn, focal, size)).astype(float)
        error = np.abs(image.view(turn, focal, size) - expected)
        assert error.mean() < 0.6 and error.max() < 8, (error.mean(), error.max())


def test_the_first_views_look_ahead_up_and_to_the_right_down() -> None:
    first, second = turns(4, 30.0)[:2]
    assert np.allclose(first @ [0, 0, 1], [0, -0.5, np.sqrt(0.75)])
    assert np.allclose(second @ [0, 0, 1], [np.sqrt(0.75), 0.5, 0])
    assert all(np.allclose(t @ t.T, np.eye(3)) and np.linalg.det(t) > 0 for t in turns(5, 10.0))


@pytest.mark.parametrize("pitch", [0.0, 80.0])
def test_fine_noise_is_averaged_in_small_views(pitch: float) -> None:
    """Of noise of one pixel, a view of a quarter of the resolution shows its mean, nearly."""
    noise = np.random.default_rng(0).integers(0, 256, (512, 1024)).astype(np.uint8)
    size, focal = view_size(256, 90.0)
    view = Panorama(noise).view(turns(3, pitch)[0], focal, size).astype(float)
    assert abs(view.mean() - 127.5) < 4
    assert view.std() < 30, "a sample of one pixel has a deviation of 74, a mean of 16 pixels of 18"


def test_views_near_a_pole_are_not_noisier_than_others() -> None:
    noise = np.random.default_rng(0).integers(0, 256, (512, 1024)).astype(np.uint8)
    size, focal = view_size(1024, 90.0)
    deviations = [Panorama(noise).view(turns(3, pitch)[0], focal, size).std() for pitch in (0.0, 80.0)]
    assert deviations[1] < deviations[0]


def test_the_nadir_does_not_count() -> None:
    size, focal = view_size(256, 90.0)
    assert above(np.eye(3), focal, size, 60.0) is None
    mask = above(turns(2, 20.0)[1], focal, size, 60.0)
    assert mask is not None and mask[0].all() and not mask[-1, size // 2] and 0.9 < (mask > 0).mean() < 1


def test_panoramas_are_recognised_by_shape_and_metadata(tmp_path: Path) -> None:
    image = Image.new("RGB", (64, 32))
    image.save(tmp_path / "a.jpg", xmp=room.XMP)
    image.save(tmp_path / "plain.jpg")
    Image.new("RGB", (64, 48)).save(tmp_path / "other.jpg", xmp=room.XMP)
    element = room.XMP.replace(
        b' GPano:ProjectionType="equirectangular"/', b"><GPano:ProjectionType>equirectangular</"
    )
    image.save(tmp_path / "b.jpg", xmp=element)
    image.save(tmp_path / "c.tif", tiffinfo={700: room.XMP})
    assert [is_marked(tmp_path / n) for n in ("a.jpg", "b.jpg", "c.tif")] == [True] * 3
    assert not is_marked(tmp_path / "plain.jpg") and not is_marked(tmp_path / "other.jpg")
    a, plain = tmp_path / "a.jpg", tmp_path / "plain.jpg"
    assert are_panoramas([a], PanoramaOptions()) and not are_panoramas([plain], PanoramaOptions())
    assert are_panoramas([plain], MARKED) and not are_panoramas([a], PanoramaOptions("perspective"))
    with pytest.raises(CaptureError, match=r"plain.jpg: this is no panorama, but a.jpg is one"):
        are_panoramas([a, plain], PanoramaOptions())
    with pytest.raises(CaptureError, match="twice as wide as high, this image has 64x48"):
        are_panoramas([plain, tmp_path / "other.jpg"], MARKED)


def box(name: bytes, data: bytes) -> bytes:
    return (8 + len(data)).to_bytes(4, "big") + name + data


@pytest.mark.parametrize(
    ("index", "expected"),
    [
        (box(b"uuid", b"<GSpherical:ProjectionType>equirectangular</GSpherical:ProjectionType>"), True),
        (box(b"sv3d", box(b"proj", box(b"equi", bytes(20)))), True),
        (box(b"sv3d", box(b"proj", box(b"cbmp", bytes(20)))), False),
        (b"", False),
    ],
)
def test_videos_say_that_they_are_panoramas(tmp_path: Path, index: bytes, expected: bool) -> None:
    path = tmp_path / "film.mp4"
    path.write_bytes(box(b"ftyp", b"isom") + box(b"mdat", bytes(100)) + box(b"moov", box(b"trak", index)))
    assert is_panorama_video(path) is expected
    path.write_bytes(bytes(4096))
    assert not is_panorama_video(path)


@pytest.fixture
def posed(tmp_path: Path) -> Path:
    """Panoramas with poses in a transforms.json, and points."""
    placed = room.write_panoramas(tmp_path / "images", 5, 256, marked=False)
    frames = [
        {"file_path": f"images/pano{i:02d}.jpg", "transform_matrix": (p @ np.diag([1, -1, -1, 1])).tolist()}
        for i, p in enumerate(placed)
    ]
    document = {"camera_model": "EQUIRECTANGULAR", "frames": frames, "w": 256, "h": 128}
    (tmp_path / "transforms.json").write_text(json.dumps(document))
    points = Points(np.eye(3, dtype=np.float32), np.zeros((3, 3), np.uint8))
    scenes.save_points(tmp_path / "points3D.ply", points)
    return tmp_path


def test_views_of_posed_panoramas_show_the_room(posed: Path) -> None:
    capture = scenes.open(posed)
    assert len(capture.train) == 32 and len(capture.test) == 8
    assert {view.name[:6] for view in capture.test} == {"pano00"}, (
        "a panorama is held out with all of its views"
    )
    assert "panorama" in capture.holdout
    for view in capture.views[::7]:
        camera, pixels = view.camera, view.read()
        columns, rows = np.meshgrid(np.arange(camera.width), np.arange(camera.height))
        fx, fy, cx, cy = camera.intrinsics.double().tolist()
        rays = np.stack([(columns + 0.5 - cx) / fx, (rows + 0.5 - cy) / fy, np.ones(columns.shape)], -1)
        pose = camera.cam_to_world.double().numpy()
        expected = room.colours(pose[:3, 3], rays @ pose[:3, :3].T).astype(float)
        # Rays of single points against means over pixels: the walls are textured as finely as a pixel.
        assert np.abs(pixels.rgb - expected).mean() < 9, view.name
        assert np.abs(pixels.rgb[:, ::-1] - expected).mean() > 25, view.name
    masked = [view for view in capture.views if view.read().weight is not None]
    assert masked and all(view.name[-5] in "1357" for view in masked)


def test_views_are_cut_once_and_follow_the_options(posed: Path) -> None:
    names = {view.path for view in scenes.open(posed).views}
    assert {view.path for view in scenes.open(posed).views} == names
    before = {path: path.stat().st_mtime_ns for path in names if path}
    other = scenes.open(posed, panorama=PanoramaOptions(views=4, fov=100.0, nadir=90.0), holdout_every=0)
    assert len(other.train) == 20 and not {view.path for view in other.views} & names
    size = other.train[0].camera.width
    assert size == view_size(256, 100.0)[0] and all(v.read().weight is None for v in other.views)
    assert all(path.stat().st_mtime_ns == time for path, time in before.items())


def test_masks_of_panoramas_are_cut(posed: Path) -> None:
    (posed / "masks").mkdir()
    for index in range(5):
        mask = np.full((128, 256), 255, np.uint8)
        mask[:, :64] = 0  # the quarter behind, on the left
        Image.fromarray(mask).save(posed / "masks" / f"pano{index:02d}.png")
    capture = scenes.open(posed, masks="ignore", panorama=PanoramaOptions(views=4, nadir=90.0))
    weights = {v.name: v.read().weight for v in capture.views if v.name.startswith("pano01")}
    shares = [float((w > 0).mean()) if w is not None else 1.0 for _, w in sorted(weights.items())]
    assert shares[0] > 0.99 and shares[1] > 0.99, "ahead and right"
    assert 0.3 < shares[2] < 0.7, "behind"
    assert 0.3 < shares[3] < 0.7, "left"
    none = scenes.open(posed, masks="none")
    assert all(view.read().weight is None for view in none.views)


def test_a_split_of_panoramas_is_one_of_their_views(posed: Path) -> None:
    document = json.loads((posed / "transforms.json").read_text())
    document["test_filenames"] = ["images/pano03.jpg"]
    (posed / "transforms.json").write_text(json.dumps(document))
    capture = scenes.open(posed)
    assert len(capture.test) == 8 and {view.name[:6] for view in capture.test} == {"pano03"}


def test_too_few_panoramas_are_refused(tmp_path: Path) -> None:
    room.write_panoramas(tmp_path, 2, 64)
    with pytest.raises(CaptureError, match="2 panoramas are too few"):
        scenes.open(tmp_path)
    Image.new("RGB", (64, 32)).save(tmp_path / "pano02.jpg", xmp=room.XMP)
    with pytest.raises(CaptureError, match="no initial pair among 3 panoramas"):
        scenes.open(tmp_path)
    Image.new("RGB", (128, 64)).save(tmp_path / "pano02.jpg", xmp=room.XMP)
    with pytest.raises(CaptureError, match="the panoramas have different sizes"):
        scenes.open(tmp_path)


@pytest.mark.parametrize(("placed", "outcome"), [(5, "warned"), (3, "refused"), (2, "refused")])
def test_panoramas_that_could_not_be_placed(
    tmp_path: Path, own_cache: Path, monkeypatch: pytest.MonkeyPatch, placed: int, outcome: str
) -> None:
    from luxel.scenes.captures.panoramas import poses

    def reconstruct(*_: object) -> dict[str, np.ndarray]:
        return {
            "rows": np.arange(placed),
            "world_to_cam": np.stack(room.poses(placed)),
            "xyz": np.eye(3, dtype=np.float32),
            "rgb": np.zeros((3, 3), np.uint8),
            "error": np.array(0.5),
        }

    monkeypatch.setattr(poses, "_reconstruct", reconstruct)
    room.write_panoramas(tmp_path, 7, 64)
    problem = f"{placed} of 7 panoramas could be placed; not these: pano0{placed}.jpg"
    if outcome == "refused":
        with pytest.raises(CaptureError, match=problem):
            scenes.open(tmp_path)
        return
    capture = scenes.open(tmp_path)
    assert len(capture.views) == 8 * placed and capture.reprojection_error == 0.5
    assert any(problem in warning for warning in capture.warnings)
    kept = next((tmp_path / ".luxel").glob("panoramas-*.npz"))
    kept.write_bytes(kept.read_bytes()[:100])  # a damaged result is computed again
    assert len(scenes.open(tmp_path).views) == 8 * placed
    for entry in (tmp_path / ".luxel/panoramas").iterdir():
        for file in entry.iterdir():
            file.unlink()
    again = scenes.open(tmp_path)  # the views are cut again
    assert len(again.views) == 8 * placed and all(view.path.is_file() for view in again.views)
    assert kept.stat().st_size == 100 and len(list(own_cache.rglob(kept.name))) == 1


@pytest.mark.slow
def test_a_360_video_has_poses_and_times(tmp_path: Path) -> None:
    poses = room.poses(10)
    frames = [room.panorama(pose, 768) for pose in poses]
    write_film(tmp_path / "walk.mp4", frames, 5)
    options = PanoramaOptions(projection="equirectangular", views=4)
    capture = scenes.open(tmp_path / "walk.mp4", panorama=options, cache_dir=tmp_path / "cache")
    assert capture.format == "360 video (structure from motion)" and capture.name == "walk"
    assert len({view.time for view in capture.views}) == len(capture.views) // 4 >= 8
    assert max(view.time for view in capture.views) <= 9 / 5 + 1e-6


def aligned(placed: np.ndarray, truth: np.ndarray) -> np.ndarray:
    """Camera centres [N, 3] after the best similarity transform onto others (Umeyama 1991)."""
    a, b = placed - placed.mean(0), truth - truth.mean(0)
    u, s, vt = np.linalg.svd(b.T @ a)
    flip = np.diag([1, 1, np.sign(np.linalg.det(u @ vt))])
    scale = (s * np.diag(flip)).sum() / (a * a).sum()
    return scale * a @ (u @ flip @ vt).T + truth.mean(0)


@pytest.mark.slow
def test_poses_of_panoramas_are_estimated(tmp_path: Path) -> None:
    placed = room.write_panoramas(tmp_path, 10, 1024)
    capture = scenes.open(tmp_path, holdout_every=0)
    assert capture.format == "panoramas (structure from motion)"
    assert len(capture.train) == 80 and len(capture.points.xyz) > 300
    truth = np.stack([pose[:3, 3] for pose in placed])
    centres: dict[str, list[np.ndarray]] = {}
    for view in capture.train:
        centres.setdefault(view.name[:6], []).append(view.camera.position.double().numpy())
    assert all(np.ptp(np.stack(c), axis=0).max() < 1e-4 for c in centres.values()), "one centre each"
    ours = aligned(np.stack([c[0] for _, c in sorted(centres.items())]), truth)
    extent = np.ptp(truth, axis=0).max()
    errors = np.linalg.norm(ours - truth, axis=1) / extent
    assert errors.max() < 0.01, errors
    assert capture.up is not None
