"""The database of affine features, which COLMAP's mapping reads."""

from __future__ import annotations

from pathlib import Path

import cv2
import numpy as np
import pytest
from test_simulated_views import grain

from luxel.scenes.captures.colmap_process import features
from luxel.scenes.captures.colmap_process.affine.database import NEIGHBOURS, match_affine, pairs_of
from luxel.scenes.captures.colmap_process.affine.simulated_views import AffineFeatures
from luxel.scenes.captures.colmap_process.two_view import read_pairs

pycolmap = pytest.importorskip("pycolmap", reason="pycolmap is not installed: no database was written")
NAMES = [f"{number}.png" for number in range(4)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three views of a plane that turns away, one of another plane, and the database of ordinary features."""
    root = tmp_path_factory.mktemp("affine")
    (root / "images").mkdir()
    (root / "masks").mkdir()
    corners = np.array([[0, 0], [200, 0], [200, 150], [0, 150]], np.float32)
    for number, name in enumerate(NAMES):
        plane = grain((150, 200), seed=number // 3)
        turned = corners + np.float32([[0, 9], [-35, 0], [-35, 0], [0, -9]]) * np.float32(number % 3)
        view = cv2.warpPerspective(plane, cv2.getPerspectiveTransform(corners, turned), (200, 150))
        cv2.imwrite(str(root / "images" / name), view)
    with features.quiet(pycolmap):
        features.extract(
            pycolmap,
            root / "database.db",
            root / "images",
            NAMES,
            masks=None,
            mode=pycolmap.CameraMode.SINGLE,
            model="SIMPLE_RADIAL",
            on_progress=lambda share: None,
        )
        match_affine(
            pycolmap, root, root / "database.db", root / "affine.db", NAMES, lambda stage, share: None
        )
    return root


def test_views_of_one_plane_are_verified_pairs(folder: Path) -> None:
    pairs = read_pairs(pycolmap, folder / "affine.db")
    counts = dict(zip(map(tuple, pairs.ids.tolist()), pairs.counts.tolist(), strict=True))
    with pycolmap.Database.open(str(folder / "affine.db")) as opened:
        ids = {image.name: image.image_id for image in opened.read_all_images()}
    same = [tuple(sorted((ids[NAMES[a]], ids[NAMES[b]]))) for a, b in ((0, 1), (1, 2), (0, 2))]
    assert set(counts) == set(same) and min(counts.values()) >= 60


def test_the_ordinary_features_stay_and_the_cameras_are_the_same(folder: Path) -> None:
    contents = []
    for name in ("database.db", "affine.db"):
        with pycolmap.Database.open(str(folder / name)) as opened:
            contents.append((opened.num_descriptors(), [c.todict() for c in opened.read_all_cameras()]))
    assert contents[0][0] > 0 and contents[1][0] == 0
    assert str(contents[0][1]) == str(contents[1][1])


def test_a_mask_drops_features(folder: Path) -> None:
    mask = np.zeros((150, 200), np.uint8)
    mask[:, :100] = 255
    cv2.imwrite(str(folder / "masks" / f"{NAMES[0]}.png"), mask)
    target = folder / "masked.db"
    match_affine(pycolmap, folder, folder / "database.db", target, NAMES[:1], lambda stage, share: None)
    with pycolmap.Database.open(str(target)) as opened:
        image = opened.read_image_with_name(NAMES[0])
        at = np.asarray(opened.read_keypoints(image.image_id))[:, 0]
    assert len(at) > 50 and at.max() < 100


def test_neighbours_in_order_are_matched_however_they_look() -> None:
    random = np.random.default_rng(3)
    empty = AffineFeatures(np.zeros((0, 2)), np.zeros((0, 128), np.float32), np.zeros(0, np.int64))
    rows = random.random((300, 128)).astype(np.float32)
    full = AffineFeatures(random.random((300, 2)), rows, np.arange(300))
    pairs = pairs_of([full, empty, empty, empty, full])
    assert (0, 4) in pairs and {
        (a, a + step) for step in range(1, NEIGHBOURS + 1) for a in range(5 - step)
    } <= set(pairs)
