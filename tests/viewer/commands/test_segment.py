"""`luxel segment`, and what export and eval do with its objects."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from bad_input import Refused
from PIL import Image

from luxel.render.geometry.camera import View
from luxel.render.segment.objects import FILE, FOLDER, Objects, load_objects, save_objects, scene_digest
from luxel.scenes import load_primitives, save_dnerf, save_scene, static_scene
from luxel.scenes import open as open_capture
from luxel.scenes.captures.images.label_files import read_label_maps
from luxel.scenes.captures.true_ids import read_ids
from luxel.scenes.files.scenes.label_column import load_labels
from luxel.scenes.synthetic.captures.dnerf import default_camera_samples
from luxel.viewer.cli import main

CPU = ["--device", "cpu"]
IDS = ["--segmenter", "ids", *CPU]


@pytest.fixture(scope="session")
def solids_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run on a made-up capture with true ids: three solids on a platform."""
    folder = tmp_path_factory.mktemp("solids")
    samples = default_camera_samples(8, 0, 2, static=True, width=48, height=48, radius=2.8)
    save_dnerf(static_scene(1, 3), folder / "data", samples, points=3000)
    words = ["train", str(folder / "data"), "--run", str(folder / "run"), "--steps", "100", "--no-lpips"]
    assert main([*words, *CPU]) == 0
    return folder / "run"


@pytest.fixture
def run(solids_run: Path, tmp_path: Path) -> Path:
    """A copy of it."""
    return Path(shutil.copytree(solids_run, tmp_path / "run"))


def train_views(run: Path) -> list[View]:
    return list(open_capture(capture_of(run)).train)


def capture_of(run: Path) -> Path:
    return Path(json.loads((run / "config.json").read_text())["capture"]["path"])


def click_on(view: View, label: int) -> list[str]:
    """--click in the middle of a solid."""
    pixels = np.argwhere(read_ids(view) == label)
    y, x = pixels[np.square(pixels - pixels.mean(0)).sum(1).argmin()] + 0.5
    return ["--click", view.name, str(x), str(y)]


def best_view(views: list[View]) -> View:
    """The view whose least visible solid is largest."""
    return max(views, key=lambda view: np.bincount(read_ids(view).ravel(), minlength=5).min())


def write_maps(folder: Path, views: list[View]) -> Path:
    folder.mkdir()
    for view in views[:4]:
        Image.fromarray(read_ids(view)).save(folder / f"{Path(view.name).stem}.png")
    return folder


def test_objects_from_clicks_are_evaluated_and_exported(run: Path, tmp_path: Path, capsys) -> None:
    view = best_view(train_views(run))
    clicks = [word for label in (1, 2, 3, 4) for word in click_on(view, label)]
    names = [word for name in ("platform", "a", "b", "c") for word in ("--name", name)]
    beside = ["--exclude", view.name, "0", "0"]
    assert (
        main(["segment", str(run), *click_on(view, 1), *beside, "--name", "platform", "--views", "1", *IDS])
        == 0
    )
    assert main(["segment", str(run), *clicks, *names, "--views", "6", *IDS]) == 0
    assert "4 objects from masks of" in capsys.readouterr().out
    assert main(["eval", str(run), "--no-lpips", "--json", *CPU]) == 0
    scores = json.loads(capsys.readouterr().out)["objects"]
    assert set(scores) == {"platform", "a", "b", "c", "mean"}
    assert scores["mean"] > 0.6 and scores["platform"] > 0.8
    whole = load_primitives(run / "scene.ply")
    parts = []
    for words in (["--object", "a"], ["--object", "a", "--invert"], ["--object", "b", "--object", "c"]):
        assert main(["export", str(run), "--out", str(tmp_path / f"{len(parts)}.ply"), *words]) == 0
        parts.append(load_primitives(tmp_path / f"{len(parts)}.ply").count)
    assert parts[0] + parts[1] == whole.count and 0 < parts[2] < parts[1]


@pytest.mark.parametrize("suffix", [".ply", ".safetensors"])
def test_labels_are_a_column_of_scene_files(run: Path, tmp_path: Path, suffix: str) -> None:
    maps = write_maps(tmp_path / "maps", train_views(run))
    assert main(["segment", str(run), "--masks", str(maps), *CPU]) == 0
    out = tmp_path / f"labelled{suffix}"
    assert main(["export", str(run), "--out", str(out), "--labels"]) == 0
    labels = load_labels(out)
    assert labels is not None and torch.equal(labels, load_objects(run).labels)
    assert set(labels.tolist()) >= {1, 2, 3, 4}
    scene = load_primitives(out)  # other columns are as before
    for name, tensor in load_primitives(run / "scene.ply").tensors().items():
        torch.testing.assert_close(scene.tensors()[name], tensor)
    save_scene(out, scene)
    assert load_labels(out) is None


@pytest.mark.slow
def test_clicks_add_objects_and_points_to_objects(run: Path, capsys) -> None:
    view = best_view(train_views(run))
    for label, name in ((2, "first"), (3, "second"), (2, "first")):
        words = ["segment", str(run), *click_on(view, label), "--name", name, "--views", "3"]
        assert main([*words, "--json", *IDS]) == 0
        given = json.loads(capsys.readouterr().out)
    assert [entry["name"] for entry in given["objects"]] == ["first", "second"]
    assert [prompt.label for prompt in load_objects(run).prompts] == [1, 2, 1]
    assert main(["segment", str(run), *click_on(view, 4), "--replace", "--views", "2", *IDS]) == 0
    assert [entry.name for entry in load_objects(run).objects] == ["object-1"]
    kept = {path.name for path in (run / FOLDER).iterdir()}
    assert len(kept) == 3  # two maps and the labels: those of before are gone


@pytest.mark.slow
def test_a_grid_of_points_finds_objects(run: Path) -> None:
    assert main(["segment", str(run), "--auto", "--views", "3", *IDS]) == 0
    assert len(load_objects(run).objects) >= 3


def test_labels_of_another_scene_are_voted_again(run: Path, refused: Refused) -> None:
    maps = write_maps(run.parent / "maps", train_views(run))
    assert main(["segment", str(run), "--masks", str(maps), *CPU]) == 0
    before = load_objects(run).labels
    assert main(["train", "--resume", str(run), "--steps", "104", "--no-lpips", *CPU]) == 0
    said = refused("export", run, "--object", "object-1", "--out", run / "o.ply", names="of another scene")
    assert f"luxel segment {run} --kept" in said
    refused("eval", run, "--no-lpips", *CPU, names="of another scene")
    assert main(["segment", str(run), "--kept", *CPU]) == 0
    after = load_objects(run).labels
    assert len(after) == load_primitives(run / "scene.ply").count
    assert (after[: len(before)] == before[: len(after)]).float().mean() > 0.9
    assert main(["export", str(run), "--object", "object-1", "--out", str(run / "o.ply")]) == 0


def set_by_hand(run: Path, name: str) -> torch.Tensor:
    """Makes every seventh primitive an object, as the viewer does; returns which these are."""
    objects = load_objects(run) if (run / FILE).exists() else None
    scene = load_primitives(run / "scene.ply")
    objects = objects or Objects(scene_digest(scene), torch.zeros(scene.count, dtype=torch.uint8))
    objects.by_hand = torch.arange(scene.count) % 7 == 0
    objects.labels[objects.by_hand] = objects.add(name).label
    save_objects(run, objects)
    return objects.by_hand


def by_hand(run: Path) -> list[bool]:
    """Which primitives of a run have labels that were set by hand."""
    marks = load_objects(run).by_hand
    return [] if marks is None else marks.tolist()


def test_labels_that_were_set_by_hand_stay(run: Path, refused: Refused) -> None:
    rows = set_by_hand(run, "mine")
    said = refused("segment", run, "--kept", *CPU, names="no masks are retained")
    assert "--click VIEW X Y" in said
    view = best_view(train_views(run))
    assert main(["segment", str(run), *click_on(view, 2), "--name", "solid", "--views", "1", *IDS]) == 0
    objects = load_objects(run)
    assert [entry.name for entry in objects.objects] == ["mine", "solid"]
    assert (objects.labels[rows] == 1).all() and int((objects.labels == 2).sum()) > 0
    assert main(["segment", str(run), "--kept", *CPU]) == 0
    objects = load_objects(run)
    assert (objects.labels[rows] == 1).all() and by_hand(run) == rows.tolist()
    assert main(["train", "--resume", str(run), "--steps", "104", "--no-lpips", *CPU]) == 0
    said = refused("segment", run, "--kept", *CPU, names="labels that were set by hand")
    assert "Add --replace" in said and by_hand(run) == rows.tolist()
    assert main(["segment", str(run), "--kept", "--replace", *CPU]) == 0
    objects = load_objects(run)
    assert [entry.name for entry in objects.objects] == ["mine", "solid"] and objects.by_hand is None
    assert objects.fits(load_primitives(run / "scene.ply"))


def test_clicks_on_nothing_and_views_that_are_not_there(run: Path, refused: Refused) -> None:
    view = train_views(run)[0]
    corner = ["segment", run, "--click", view.name, 0, 0, *IDS]
    assert "Click on an object" in refused(*corner, names="is on nothing")
    said = refused("segment", run, "--click", "r_01", 5, 5, *IDS, names="r_01")
    assert "Give another name, such as" in said and "/r_001.png" in said
    refused("segment", run, "--click", view.name, 5, 900, *IDS, names="outside of the image")
    assert not (run / FILE).exists()


def test_options_of_segment_that_do_not_fit(run: Path, refused: Refused) -> None:
    refused("segment", run, names="nothing to segment")
    refused("segment", run, "--auto", "--kept", names="exclude each other")
    words = ["--click", "a", 1, 1] * 3
    refused("segment", run, *words, "--name", "a", "--name", "b", names="2 names for 3 clicks")
    refused("segment", run, *words, "--exclude", "a", 2, 2, names="--exclude belongs to one object")
    refused("segment", run, "--click", "a", -1, 1, names="--click -1")
    refused("segment", run, "--kept", *CPU, names="no objects yet")
    refused("segment", run / "config.json", "--auto", names="is a file")
    refused("export", run, "--object", "x", "--out", run / "x.ply", names="no objects yet")
    refused("export", run, "--invert", "--out", run / "x.ply", names="--invert needs --object")
    refused(
        "export", run, "--labels", "--out", run / "x.splat", names="--labels is for .ply and .safetensors"
    )
    refused(
        "export", run, "--labels", "--time", 0, "--out", run / "x.ply", names="--labels cannot be combined"
    )
    scene = run / "scene.ply"
    refused("export", scene, "--object", "x", "--out", run / "x.ply", names="a scene file names no objects")


def broken_maps(run: Path, folder: Path, what: str) -> Path:
    """Label maps of which one or all are unusable."""
    views = train_views(run)[:2]
    write_maps(folder, views)
    first = folder / f"{Path(views[0].name).stem}.png"
    ids = read_ids(views[0])
    if what == "size":
        Image.fromarray(ids[:-2]).save(first)
    elif what == "many":
        Image.fromarray((ids.astype(np.int32) * 300).astype(np.uint16)).save(first)
    elif what == "colour":
        Image.fromarray(np.stack([ids, ids * 9, ids], axis=-1)).save(first)
    elif what == "no image":
        first.write_bytes(b"no image")
    else:
        for path in folder.iterdir():
            Image.fromarray(np.full_like(ids, 255 if what == "nothing said" else 0)).save(path)
    return folder


@pytest.mark.parametrize(
    ("what", "names"),
    [
        ("size", "48x46 pixels, its view 48x48"),
        ("many", "at most 254"),
        ("colour", "must be grey"),
        ("no image", "label map"),
        ("nothing said", "all pixels are 255"),
        ("empty", "no object in them"),
    ],
)
def test_label_maps_that_cannot_be_used(run: Path, tmp_path: Path, refused: Refused, what, names) -> None:
    refused("segment", run, "--masks", broken_maps(run, tmp_path / "maps", what), *CPU, names=names)
    assert not (run / FILE).exists()


def test_folders_without_label_maps(run: Path, tmp_path: Path, refused: Refused) -> None:
    (tmp_path / "other").mkdir()
    refused("segment", run, "--masks", tmp_path / "other", *CPU, names="no file there has the name of a view")
    refused("segment", run, "--masks", tmp_path / "missing", *CPU, names="no folder of label maps")


def test_a_label_map_is_of_one_view(run: Path, tmp_path: Path) -> None:
    capture = open_capture(capture_of(run))
    name = Path(capture.train[0].name).name
    held_out = next(view for view in capture.test if Path(view.name).name == name)
    maps = write_maps(tmp_path / "maps", capture.train[:1])
    views = [*capture.train, *capture.test]
    assert list(read_label_maps(maps, views)) == [capture.train[0].name]
    (maps / held_out.name).parent.mkdir()
    Image.fromarray(read_ids(held_out)).save((maps / held_out.name).with_suffix(".png"))
    assert list(read_label_maps(maps, views)) == [capture.train[0].name, held_out.name]


def test_masks_and_clicks_are_not_mixed(run: Path, tmp_path: Path, refused: Refused) -> None:
    views = train_views(run)
    maps = write_maps(tmp_path / "maps", views)
    assert main(["segment", str(run), "--masks", str(maps), *CPU]) == 0
    refused("segment", run, "--masks", maps, *CPU, names="objects already")
    refused("segment", run, *click_on(views[0], 1), *IDS, names="come from masks")
    refused("export", run, "--object", "toy", "--out", run / "x.ply", names="object-1, object-2")
    assert main(["segment", str(run), "--masks", str(maps), "--replace", *CPU]) == 0


@pytest.mark.slow
def test_boxes_of_nothing(run: Path, refused: Refused) -> None:
    view = best_view(train_views(run))
    said = refused("segment", run, "--box", view.name, 0, 0, 3, 3, *IDS, names="the segmenter finds no mask")
    assert "--box VIEW X0 Y0 X1 Y1" in said
    rows, columns = np.nonzero(read_ids(view) == 2)
    box = [str(edge) for edge in (columns.min(), rows.min(), columns.max() + 1, rows.max() + 1)]
    assert main(["segment", str(run), "--box", view.name, *box, "--views", "2", *IDS]) == 0


def test_weights_that_are_missing(run: Path, tmp_path: Path, refused: Refused, monkeypatch) -> None:
    monkeypatch.setenv("LUXEL_MOBILE_SAM", str(tmp_path / "none.safetensors"))
    click = click_on(train_views(run)[0], 1)
    said = refused("segment", run, *click, *CPU, names="weights of MobileSAM are missing")
    assert "give masks from a folder" in said
    assert not (run / FILE).exists()


@pytest.mark.slow
def test_a_click_with_mobile_sam(run: Path) -> None:
    view = best_view(train_views(run))
    assert main(["segment", str(run), *click_on(view, 1), "--views", "1", *CPU]) == 0
    labels = load_objects(run).maps[view.name].numpy()
    truth = read_ids(view) == 1
    assert ((labels == 1) & truth).sum() > 0.5 * truth.sum()


def test_names_of_views_that_are_not_unique(run: Path, refused: Refused) -> None:
    said = refused("segment", run, "--click", "r_000", 9, 9, *IDS, names="several views have that name")
    assert "train/r_000" in said and "test/r_000" in said


def test_a_capture_without_true_ids(sound_run: Path, tmp_path: Path, refused: Refused) -> None:
    run = Path(shutil.copytree(sound_run, tmp_path / "run"))
    refused("segment", run, "--auto", *IDS, names="have no true ids")


@pytest.mark.slow
def test_kept_maps_of_another_size(run: Path, tmp_path: Path, refused: Refused) -> None:
    maps = write_maps(tmp_path / "maps", train_views(run))
    assert main(["segment", str(run), "--masks", str(maps), *CPU]) == 0
    samples = default_camera_samples(8, 0, 2, static=True, width=32, height=32)
    save_dnerf(static_scene(1, 3), tmp_path / "small", samples, points=100)
    words = ["--kept", "--capture", tmp_path / "small", *CPU]
    refused("segment", run, *words, names="the retained mask is 48x48 pixels, the view 32x32")


@pytest.mark.slow
def test_an_object_without_primitives(run: Path, tmp_path: Path, refused: Refused) -> None:
    maps = write_maps(tmp_path / "maps", train_views(run))
    assert main(["segment", str(run), "--masks", str(maps), *CPU]) == 0
    objects = load_objects(run)
    objects.labels[:] = 0
    save_objects(run, objects)
    refused("export", run, "--object", "object-1", "--out", run / "x.ply", names="no primitives are left")


def test_a_neural_field_has_no_objects(tmp_path: Path, refused: Refused) -> None:
    Image.new("RGB", (24, 16), "red").save(tmp_path / "image.png")
    field = tmp_path / "field"
    words = ["train", str(tmp_path / "image.png"), "--field", "image", "--run", str(field), "--steps", "2"]
    assert main([*words, "--log2-entries", "8", *CPU]) == 0
    refused("segment", field, "--auto", *CPU, names="neural field")
    refused(
        "export", field, "--object", "a", "--out", tmp_path / "a.ply", names="neural field has no objects"
    )
