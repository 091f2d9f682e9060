"""Files of a capture's folder that are not used: each kind is named in one line, and what is harmless is not."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from ray_cast_capture import (
    FOCAL,
    HEIGHT,
    OPENGL,
    WIDTH,
    colmap_capture,
    ring,
    transforms,
    transforms_capture,
    write_colmap,
    write_images,
    write_ply_points,
)

from luxel import scenes
from luxel.scenes.captures.contents import CaptureContents, SourceImage, image_files
from luxel.scenes.captures.lenses.lens import Lens
from luxel.scenes.captures.poses.workspace import suffix_for
from luxel.scenes.captures.unposed.image_list import image_folder, images_mismatch
from luxel.scenes.captures.unused_files import unused_files
from luxel.scenes.unused import LOST, OTHER, WRONG, Unused
from luxel.viewer.cli import main

POSED = ["colmap", "transforms"]


def write_grey(path: Path, bits: int = 16) -> None:
    """A depth map of 2 m, of 16 bits in mm, or with 8 bits."""
    path.parent.mkdir(parents=True, exist_ok=True)
    value, dtype = (2000, np.uint16) if bits == 16 else (90, np.uint8)
    Image.fromarray(np.full((HEIGHT, WIDTH), value, dtype)).save(path)


def write_colour(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", (WIDTH, HEIGHT), (90, 120, 150)).save(path, "JPEG")


def write_file(path: Path, text: str = "{}") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def sound(folder: Path, kind: str) -> Path:
    return colmap_capture(folder) if kind == "colmap" else transforms_capture(folder)


def unused_of(folder: Path) -> list[Unused]:
    capture = scenes.open(folder)
    assert capture.warnings == [entry.sentence() for entry in capture.unused]
    return capture.unused


def unused_of_estimated(folder: Path) -> list[Unused]:
    """What is said of a folder of photographs, as if structure from motion had placed all of them."""
    inside = image_folder(folder)
    assert inside is not None
    lens = Lens(WIDTH, HEIGHT, FOCAL, FOCAL, WIDTH / 2, HEIGHT / 2)
    images = [SourceImage(file.name, file, lens, np.eye(4)) for file in image_files(inside)]
    return unused_files(folder, CaptureContents("photographs (structure from motion)", images))


def summary(entries: Sequence[Unused]) -> dict[str, tuple[int, str, int]]:
    return {entry.kind: (entry.count, entry.example, entry.harm) for entry in entries}


# What is not used, and named.


@pytest.mark.parametrize("binary", [False, True])
@pytest.mark.parametrize("second", ["sparse/1", "colmap/sparse/0", "elsewhere/model"])
def test_another_model_is_named_with_the_images_that_only_it_has(
    second: str, binary: bool, tmp_path: Path
) -> None:
    poses = ring(9)
    names = write_images(tmp_path / "images", poses)
    write_colmap(tmp_path / "sparse" / "0", names[:6], poses[:6], binary=binary)
    write_colmap(tmp_path / second, names[5:], poses[5:], binary=binary)
    capture = scenes.open(tmp_path)
    assert {view.name for view in capture.views} == set(names[:6])
    (entry,) = capture.unused
    assert (entry.kind, entry.count, entry.example, entry.harm) == ("models", 1, second, LOST)
    assert "3 images are only there" in entry.problem and capture.warnings == [entry.sentence()]


def test_models_and_images_without_a_model_are_told_apart(tmp_path: Path) -> None:
    poses = ring(12)
    names = write_images(tmp_path / "images", poses)
    for row, part in enumerate((slice(0, 6), slice(6, 9), slice(9, 10))):
        write_colmap(tmp_path / "sparse" / str(row), names[part], poses[part])
    assert summary(unused_of(tmp_path)) == {
        "images without a pose": (2, f"images/{names[10]}", LOST),
        "models": (2, "sparse/1", LOST),
    }


def test_a_model_of_the_same_images_is_not_named(tmp_path: Path) -> None:
    colmap_capture(tmp_path)
    shutil.copytree(tmp_path / "sparse" / "0", tmp_path / "distorted" / "sparse" / "0")
    write_colmap(tmp_path / "sparse" / "1", ["0001.png", "0002.png"], ring(8)[1:3])
    assert unused_of(tmp_path) == []


@pytest.mark.parametrize("kind", POSED)
@pytest.mark.parametrize("name", ["late.jpg", "cam2/0000.png", "IMG 7.JPE", "0000 (1).png"])
def test_images_without_a_pose_are_named(kind: str, name: str, tmp_path: Path) -> None:
    sound(tmp_path, kind)
    write_colour(tmp_path / "images" / name)
    (entry,) = unused_of(tmp_path)
    assert (entry.kind, entry.count, entry.example) == ("images without a pose", 1, f"images/{name}")
    assert entry.harm == LOST


@pytest.mark.parametrize("name", ["DSC_1.NEF", "a.avif", "raw/IMG.cr2", "b.dng", "c.jxl"])
def test_images_of_types_that_are_not_read_are_named(name: str, tmp_path: Path) -> None:
    write_file(colmap_capture(tmp_path) / "images" / name)
    (entry,) = unused_of(tmp_path)
    assert (entry.kind, entry.example, entry.harm) == ("images of other types", f"images/{name}", LOST)
    assert Path(name).suffix.lower() in entry.problem and "Convert" in entry.remedy


def test_photographs_with_any_suffix_of_jpeg_are_read(tmp_path: Path) -> None:
    names = ["a.jfif", "b.JPE", "c.jpg", "d.JPEG", "e.JFIF", "f.jpe"]
    for name in names:
        write_colour(tmp_path / name)
    assert [file.name for file in image_files(tmp_path)] == names
    assert {suffix_for(Path(name)) for name in names} == {".jpg"}  # which COLMAP reads
    assert unused_of_estimated(tmp_path) == []


def test_photographs_that_structure_from_motion_does_not_get_are_named(tmp_path: Path) -> None:
    for row in range(4):
        write_colour(tmp_path / f"{row}.jpg")
    write_colour(tmp_path / "second day" / "8.jfif")
    write_colour(tmp_path / "second day" / "9.jpg")
    write_file(tmp_path / "x.avif")
    write_file(tmp_path / "more" / "walk.MP4")
    assert summary(unused_of_estimated(tmp_path)) == {
        "images in other folders": (2, "second day/8.jfif", LOST),
        "images of other types": (1, "x.avif", LOST),
        "films": (1, "more/walk.MP4", LOST),
    }


@pytest.mark.parametrize(
    "name",
    ["cameras.xml", "poses.csv", "keyframes/cameras/1.json", "bundle.out", "traj.txt", "arkit/frame.json"],
)
def test_files_of_poses_next_to_photographs_are_named(name: str, tmp_path: Path) -> None:
    for row in range(4):
        write_colour(tmp_path / f"{row}.jpg")
    write_file(tmp_path / name)
    (entry,) = unused_of_estimated(tmp_path)
    assert (entry.kind, entry.example, entry.harm) == ("files of poses", name, LOST)


@pytest.mark.parametrize(("content", "harm"), [("xcr:Position", LOST), ("crs:Exposure2012", OTHER)])
def test_sidecars_of_reality_capture_have_poses_and_others_have_none(
    content: str, harm: int, tmp_path: Path
) -> None:
    for row in range(4):
        write_colour(tmp_path / f"{row}.jpg")
        write_file(tmp_path / f"{row}.xmp", content)
    (entry,) = unused_of_estimated(tmp_path)
    assert (entry.count, entry.harm) == (4, harm)


@pytest.mark.parametrize(
    "name",
    [
        "{}_masked.jpg",
        "{}-masked.png",
        "{}.nobg.png",
        "masked_{}.jpg",
        "{}_rembg.png",
        "{}_no_bg.webp",
        "{}_cutout.png",
    ],
)
def test_masked_copies_are_no_photographs(name: str, tmp_path: Path) -> None:
    for row in range(4):
        write_colour(tmp_path / f"{row:08d}.jpg")
        write_colour(tmp_path / name.format(f"{row:08d}"))
    assert [file.name for file in image_files(tmp_path)] == [f"{row:08d}.jpg" for row in range(4)]
    (entry,) = unused_of_estimated(tmp_path)
    assert (entry.kind, entry.count, entry.harm) == ("masked copies", 4, OTHER)
    assert entry.example == name.format("00000000")


@pytest.mark.parametrize(
    "names",
    [
        ["a_masked.jpg", "b_masked.jpg", "c_masked.jpg"],  # there is nothing else
        ["masked_ball.jpg", "depth_of_field.jpg", "normal.jpg", "unmasked.jpg"],
        ["IMG_1.jpg", "IMG_1 (2).jpg", "IMG_1_edit.jpg", "alphabet.png"],
    ],
)
def test_photographs_stay_photographs_whatever_their_names(names: list[str], tmp_path: Path) -> None:
    for name in names:
        write_colour(tmp_path / name)
    assert {file.name for file in image_files(tmp_path)} == set(names)


@pytest.mark.parametrize(
    ("colour", "depth"),
    [
        ("frame{:06d}.jpg", "depth{:06d}.png"),
        ("frame-{:06d}.color.jpg", "frame-{:06d}.depth.png"),
        ("rgb_{}.jpg", "sensor_{}.tif"),
        ("{}.jpg", "{}.png"),
        ("Color_{:04d}.jpg", "Depth_{:04d}.PNG"),
    ],
)
def test_depth_maps_are_no_photographs(colour: str, depth: str, tmp_path: Path) -> None:
    for row in range(4):
        write_colour(tmp_path / colour.format(row))
        write_grey(tmp_path / depth.format(row))
    assert [file.name for file in image_files(tmp_path)] == [colour.format(row) for row in range(4)]
    (entry,) = unused_of_estimated(tmp_path)
    assert (entry.kind, entry.count, entry.harm) == ("depth maps", 4, LOST)
    assert entry.example == depth.format(0) and "depths/" in entry.remedy


def test_photographs_of_16_bits_of_grey_stay_photographs(tmp_path: Path) -> None:
    for row in range(6):
        write_grey(tmp_path / f"{row}.png")
    write_colour(tmp_path / "cover.jpg")
    assert len(image_files(tmp_path)) == 7


@pytest.mark.parametrize(
    ("name", "harm"),
    [
        ("depth_maps/0000.png", LOST),
        ("lidar_depth/0000.npy", LOST),
        ("sensor/0000.tiff", LOST),
        ("disparity/0000.jpg", OTHER),
    ],
)
def test_depth_maps_elsewhere_are_named(name: str, harm: int, tmp_path: Path) -> None:
    file = colmap_capture(tmp_path) / name
    if file.suffix == ".npy":
        file.parent.mkdir()
        np.save(file, np.ones((HEIGHT, WIDTH), np.float32))
    else:
        write_grey(file, 16 if harm == LOST else 8)
    assert summary(unused_of(tmp_path)) == {"depth maps": (1, name, harm)}


@pytest.mark.parametrize("kind", POSED)
@pytest.mark.parametrize(
    ("name", "unused"),
    [
        ("walk.MOV", "films"),
        ("scan.las", "point clouds and meshes"),
        ("lidar.ply", "point clouds and meshes"),
        ("precomputed.json", "other files"),
        ("gps.csv", "other files"),
        ("project.xml", "other files"),
        ("thumbnail.jpg", "thumbnails"),
        ("normals/0000.png", "maps"),
        ("input/0000.jpg", "other versions"),
    ],
)
def test_other_files_are_named_and_harmless(kind: str, name: str, unused: str, tmp_path: Path) -> None:
    sound(tmp_path, kind)
    if Path(name).suffix in (".jpg", ".png"):
        write_colour(tmp_path / name)
    else:
        write_file(tmp_path / name)
    assert summary(unused_of(tmp_path)) == {unused: (1, name, OTHER)}


def test_a_thumbnail_is_no_capture(tmp_path: Path) -> None:
    write_colour(tmp_path / "thumbnail.jpg")
    write_colour(tmp_path / "DCIM" / "100" / "a.jpg")
    reason = images_mismatch(tmp_path)
    assert reason is not None and reason.endswith("but 1 in DCIM/100, which can be given instead")


def test_a_folder_of_raw_files_is_refused_with_the_reason(tmp_path: Path) -> None:
    for row in range(3):
        write_file(tmp_path / f"{row}.dng")
    with pytest.raises(scenes.CaptureError, match=r"but 3 such as 0\.dng, a type that luxel does not read"):
        scenes.open(tmp_path)


def test_too_few_photographs_and_where_the_others_are(tmp_path: Path) -> None:
    write_colour(tmp_path / "a.jpg")
    write_colour(tmp_path / "b.jpg")
    for row in range(5):
        write_colour(tmp_path / "album" / f"{row}.jpg")
    with pytest.raises(scenes.CaptureError, match=r"2 images are too few.*but 5 in album.*one folder"):
        scenes.open(tmp_path)


def test_a_cover_does_not_hide_the_folder_of_images(tmp_path: Path) -> None:
    write_colour(tmp_path / "cover.jpg")
    for row in range(4):
        write_colour(tmp_path / "images" / f"{row}.jpg")
    assert image_folder(tmp_path) == tmp_path / "images"
    assert summary(unused_of_estimated(tmp_path)) == {"images in other folders": (1, "cover.jpg", LOST)}


def test_a_folder_with_too_many_entries_is_not_searched_through(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("luxel.scenes.captures.folder_listing.MAX_ENTRIES", 20)
    colmap_capture(tmp_path)
    for row in range(30):
        write_file(tmp_path / "zzz" / f"{row}.dat")
    kinds = {entry.kind for entry in unused_of(tmp_path)}
    assert kinds == {"more files", "other files"}


# What cries no wolf.


@pytest.mark.parametrize(
    "name",
    [
        "images_2/0000.png", "images_8/0001.png", "sparse/0/project.ini", "sparse/0/rigs.bin", "sparse/0/points3D.ply",
        "database.db", "README.txt", "LICENSE", "notes.md", ".hidden.jpg", ".DS_Store", "Thumbs.db",
        "__MACOSX/images/0000.png", "sparse_pc.ply", "desktop.ini",
    ],
)  # fmt: skip
@pytest.mark.parametrize("kind", POSED)
def test_usual_companions_are_not_named(kind: str, name: str, tmp_path: Path) -> None:
    write_file(sound(tmp_path, kind) / name, "-")
    assert unused_of(tmp_path) == []


def test_what_luxel_writes_into_a_capture_is_not_named(tmp_path: Path) -> None:
    colmap_capture(tmp_path)
    write_file(tmp_path / "runs" / "first" / ".luxel-manifest.jsonl")
    write_colour(tmp_path / "runs" / "first" / "renders" / "0000.png")
    for name in ("config.json", "metrics.jsonl", "scene.ply"):
        write_file(tmp_path / "old" / name)
    write_colour(tmp_path / ".luxel" / "video" / "0.jpg")
    assert unused_of(tmp_path) == []


def test_a_validation_split_is_left_out_in_silence(tmp_path: Path) -> None:
    poses = ring(8)
    for part, rows in (("train", range(5)), ("test", range(5, 7)), ("val", range(7, 8))):
        names = write_images(tmp_path / part, [poses[row] for row in rows], "r_{}.png".format)
        document = transforms([f"{part}/{Path(n).stem}" for n in names], [poses[row] for row in rows])
        write_file(tmp_path / f"transforms_{part}.json", json.dumps(document))
    write_ply_points(tmp_path / "points3D.ply")
    capture = scenes.open(tmp_path)
    assert len(capture.train) == 5 and len(capture.test) == 2
    assert not [entry for entry in capture.unused if entry.harm > OTHER]


def test_raw_files_and_films_of_live_photographs_are_versions_of_used_images(tmp_path: Path) -> None:
    colmap_capture(tmp_path)
    write_file(tmp_path / "images" / "0000.CR2")
    write_file(tmp_path / "images" / "0001.mov")
    assert summary(unused_of(tmp_path)) == {"other versions": (2, "images/0000.CR2", OTHER)}


def test_links_to_folders_are_not_followed_but_where_images_are_used(tmp_path: Path) -> None:
    colmap_capture(tmp_path / "capture")
    (tmp_path / "capture" / "images").rename(tmp_path / "store")
    (tmp_path / "capture" / "images").symlink_to(tmp_path / "store")
    write_colour(tmp_path / "store" / "late.jpg")
    write_colour(tmp_path / "outside" / "other.jpg")
    (tmp_path / "capture" / "outside").symlink_to(tmp_path / "outside")
    (tmp_path / "capture" / "loop").symlink_to(tmp_path / "capture")
    assert summary(unused_of(tmp_path / "capture")) == {"images without a pose": (1, "images/late.jpg", LOST)}


def test_the_most_harmful_comes_first(tmp_path: Path) -> None:
    colmap_capture(tmp_path)
    write_file(tmp_path / "walk.mp4")
    write_colour(tmp_path / "images" / "late.jpg")
    write_grey(tmp_path / "masks" / "nothing.png", 8)
    assert [entry.harm for entry in unused_of(tmp_path)] == [WRONG, LOST, OTHER]


# Raw exports of Polycam.


def polycam_export(folder: Path, count: int = 8, corrected: bool = True, **keys: Any) -> Path:
    """keyframes/ as the app exports it; images of the corrected poses are those of the scene."""
    poses = ring(count)
    frames = folder / "keyframes"
    for part in ("", "corrected_") if corrected else ("",):
        names = write_images(frames / f"{part}images", poses, lambda row: f"17000{row:05d}.jpg")
        for name, pose in zip(names, poses, strict=True):
            matrix = pose @ OPENGL
            if corrected and not part:
                matrix[:3, 3] += 0.05  # drift
            document = {f"t_{r}{c}": float(matrix[r, c]) for r in range(3) for c in range(4)}
            document |= {
                "width": WIDTH,
                "height": HEIGHT,
                "fx": FOCAL,
                "fy": FOCAL + 1,
                "cx": 23.5,
                "cy": 18.5,
            }
            write_file(frames / f"{part}cameras" / f"{Path(name).stem}.json", json.dumps(document | keys))
            write_grey(frames / "depth" / f"{Path(name).stem}.png")
            write_grey(frames / "confidence" / f"{Path(name).stem}.png", 8)
    write_colour(folder / "thumbnail.jpg")
    write_file(folder / "mesh_info.json")
    return folder


@pytest.mark.parametrize("corrected", [True, False])
@pytest.mark.parametrize("inside", ["", "keyframes"])
def test_a_raw_export_of_polycam_is_opened(corrected: bool, inside: str, tmp_path: Path) -> None:
    capture = scenes.open(polycam_export(tmp_path, corrected=corrected) / inside)
    assert capture.format == "Polycam raw export" and len(capture.views) == 8 == len(capture.depths)
    for view, pose in zip(capture.views, ring(8), strict=True):
        np.testing.assert_allclose(view.camera.world_to_cam.double().numpy(), np.linalg.inv(pose), atol=2e-6)
        assert view.camera.intrinsics.tolist() == [FOCAL, FOCAL + 1, 23.5, 18.5]
        assert (capture.depths[view.name]() == np.float32(2)).all()
    assert {entry.kind for entry in capture.unused} == ({"thumbnails"} if not inside else set())


def test_a_broken_export_of_polycam_is_refused(tmp_path: Path) -> None:
    folder = polycam_export(tmp_path / "a", cx="wide")
    with pytest.raises(
        scenes.CaptureError, match=r"1700000000\.json: cx must be a finite number, got 'wide'"
    ):
        scenes.open(folder)
    folder = polycam_export(tmp_path / "b")
    (folder / "keyframes" / "corrected_images" / "1700000003.jpg").unlink()
    with pytest.raises(scenes.CaptureError, match=r"1700000003\.json: there is no image 1700000003"):
        scenes.open(folder)
    folder = polycam_export(tmp_path / "c")
    (folder / "keyframes" / "corrected_cameras" / "1700000004.json").write_text("[]")
    with pytest.raises(scenes.CaptureError, match=r"1700000004\.json: .*object"):
        scenes.open(folder)


def test_inspect_prints_what_is_not_used_and_does_not_call_it_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    capture = colmap_capture(tmp_path / "capture")
    words = ["inspect", str(capture), "--no-estimate", "--out", str(tmp_path / "report"), "--force"]
    assert main(words) == 0
    assert "\nNothing was found that training would suffer from.\n" in capsys.readouterr().out
    (capture / "masks").mkdir()
    Image.new("L", (48, 36), 255).save(capture / "masks" / "other.png")
    assert main(words) == 0
    out = capsys.readouterr().out
    assert "note: 1 mask is not used, as no image has that name (masks/other.png)." in out
    assert "Nothing was found" not in out
    page = (tmp_path / "report" / "inspect.html").read_text()
    assert "<p class=note><b>note</b> 1 mask is not used" in page and "class=good>" not in page
    assert main(["inspect", str(capture), "--no-estimate", "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert [entry["kind"] for entry in printed["unused"]] == ["masks"] and len(printed["warnings"]) == 1
    assert printed["unused"][0]["harm"] == "wrong"


def test_too_few_images_are_named(tmp_path: Path) -> None:
    write_images(tmp_path / "images", ring(2))
    with pytest.raises(
        scenes.CaptureError, match="images: 2 images are too few, at least 3 are needed"
    ) as caught:
        scenes.open(tmp_path)
    assert caught.value.remedy == "Take more photographs."
