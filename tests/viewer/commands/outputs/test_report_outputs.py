"""What reports of `luxel eval`, `luxel inspect` and the end of a training replace and delete."""

from __future__ import annotations

import json
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from bad_input import Refused

from luxel.render.errors import LuxelError
from luxel.render.storage.descriptors import ForeignFileError
from luxel.render.storage.folder import OutputFolder
from luxel.render.storage.journal import TEMPORARY
from luxel.render.storage.manifest import NAME as MANIFEST
from luxel.viewer.cli import main
from luxel.viewer.reports.evaluation_report import (
    Report,
    ReportedView,
    adopt_earlier_report,
    image_names,
    report_of_run,
)
from luxel.viewer.scene_loading.runs import delete_run

EVAL = ("--no-lpips", "--device", "cpu")


def view(name: str) -> ReportedView:
    pixels = np.full((12, 16, 3), 100, np.uint8)
    return ReportedView(name, pixels, pixels + 20, 20.0, 0.9)


def write(folder: Path, *names: str, force: bool = False) -> Path:
    with Report(OutputFolder(folder, force=force), names) as report:
        for name in names:
            report.add(view(name))
        return report.finish(title="A scene", mean={"psnr": 20.0, "ssim": 0.9}, facts={})


def contents(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def without_manifest(run: Path) -> Path:
    """The report of a run as luxel 0.2.0 left it."""
    (run / "eval" / MANIFEST).unlink()
    return run / "eval"


def test_a_shorter_report_deletes_images_of_the_earlier_one_alone(tmp_path: Path) -> None:
    write(tmp_path, "a.jpg", "b.jpg")
    (tmp_path / "images" / "001-mine-render.jpg").write_text("mine")
    edited = tmp_path / image_names("b.jpg", 1)[0]
    edited.write_text("edited by hand")
    write(tmp_path, "c.jpg")
    assert {p.name for p in (tmp_path / "images").iterdir()} == {
        *(Path(name).name for name in image_names("c.jpg", 0)),
        "001-mine-render.jpg",
        edited.name,
    }
    assert edited.read_text() == "edited by hand"
    assert json.loads((tmp_path / "report.json").read_text())["views"][0]["name"] == "c.jpg"


def test_photographs_stay(run: Path, tmp_path: Path) -> None:
    place = tmp_path / "capture-like"
    (place / "images").mkdir(parents=True)
    for number in range(12):
        (place / "images" / f"{number:03d}-DSC.jpg").write_text(f"photograph {number}")
    before = contents(place)
    assert main(["eval", str(run), "--out", str(place), *EVAL]) == 0
    assert before.items() <= contents(place).items()
    assert (place / "index.html").is_file()


@pytest.mark.parametrize("name", ["index.html", "report.json", image_names("a.jpg", 0)[1]])
def test_other_files_are_refused_before_a_view_is_rendered(tmp_path: Path, name: str) -> None:
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).write_text("mine")
    with pytest.raises(ForeignFileError, match=name) as error:
        Report(OutputFolder(tmp_path, force=False), ["a.jpg"])
    assert "--force" in error.value.remedy
    assert contents(tmp_path) == {name: b"mine"}
    write(tmp_path, "a.jpg", force=True)
    assert (tmp_path / name).read_bytes() != b"mine"


def test_an_abandoned_report_leaves_the_earlier_one(tmp_path: Path) -> None:
    write(tmp_path, "a.jpg")
    before = contents(tmp_path)
    with pytest.raises(RuntimeError), Report(OutputFolder(tmp_path)) as report:
        report.add(view("b.jpg"))
        raise RuntimeError
    assert contents(tmp_path) == before


def test_images_that_cannot_be_written_leave_the_earlier_report(tmp_path: Path) -> None:
    write(tmp_path, "a.jpg")
    before = contents(tmp_path)
    broken = view("b.jpg")

    def no_space() -> None:
        raise OSError(28, "No space left on device")

    broken.weight = no_space
    with pytest.raises(LuxelError, match="cannot be written"), Report(OutputFolder(tmp_path)) as report:
        report.add(broken)
        report.finish(title="", mean={}, facts={})
    assert contents(tmp_path) == before


def test_two_reports_into_one_folder_at_once(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("mine")
    names = [f"{number}.jpg" for number in range(4)]
    with ThreadPoolExecutor(4) as pool:
        for page in [pool.submit(write, tmp_path, *names) for _ in range(8)]:
            assert page.result().is_file()
    images = {name for number, one in enumerate(names) for name in image_names(one, number)}
    assert set(contents(tmp_path)) == {"index.html", "report.json", "mine.txt", MANIFEST, *images}
    assert not [p for p in tmp_path.rglob("*") if TEMPORARY.fullmatch(p.name)]


def test_names_that_are_not_text(tmp_path: Path) -> None:
    page = write(tmp_path, "a\udcff.jpg")
    assert "a\\udcff.jpg" in page.read_text(encoding="utf-8")
    assert json.loads((tmp_path / "report.json").read_text())["views"][0]["name"] == "a\udcff.jpg"


def test_reports_of_earlier_versions_are_replaced(run: Path) -> None:
    folder = without_manifest(run)
    (folder / "images" / "001-mine.jpg").write_text("mine")
    old = contents(folder)
    assert main(["eval", str(run), *EVAL]) == 0
    new = contents(folder)
    assert new["images/001-mine.jpg"] == b"mine"
    assert set(new) == {*old, MANIFEST}


def test_reports_of_earlier_versions_are_deleted_with_their_run(run: Path) -> None:
    folder = without_manifest(run)
    (folder / "images" / "001-mine.jpg").write_text("mine")
    delete_run(run)
    assert set(contents(folder)) - {MANIFEST} == {"images/001-mine.jpg"}


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("index.html", "<!doctype html>\n<h1>mine"),
        ("report.json", '{"mine": []}'),
        ("report.json", "["),
        ("report.json", '{"title": "", "views": []}'),
    ],
)
def test_other_pages_in_a_run_are_no_report(run: Path, refused: Refused, name: str, content: str) -> None:
    folder = without_manifest(run)
    (folder / name).write_text(content)
    before = contents(run)
    refused("eval", run, *EVAL, names=f"eval/{name}" if name == "index.html" else "eval/index.html")
    assert contents(run) == before
    assert main(["eval", str(run), "--force", *EVAL]) == 0


def test_links_in_place_of_a_report_are_not_read(run: Path, tmp_path: Path) -> None:
    folder = without_manifest(run)
    shutil.move(folder, tmp_path / "elsewhere")
    folder.symlink_to(tmp_path / "elsewhere")
    before = contents(tmp_path / "elsewhere")
    assert not adopt_earlier_report(OutputFolder(run, inside="eval"))
    assert contents(tmp_path / "elsewhere") == before


def test_without_a_run_nothing_is_a_report(run: Path) -> None:
    without_manifest(run)
    for path in (run / "config.json", *(run / "checkpoints").iterdir(), *run.glob("scene.*")):
        path.unlink()
    assert not report_of_run(run).names()


def test_scores_of_a_field_by_an_earlier_version(tmp_path: Path) -> None:
    (tmp_path / "eval").mkdir()
    (tmp_path / "eval" / "report.json").write_text(json.dumps({"psnr": 20.5, "ssim": 0.5}, indent=2))
    output = OutputFolder(tmp_path, inside="eval")
    assert adopt_earlier_report(output) and output.is_own("report.json")


def test_a_training_ends_well_where_its_report_is_refused(
    run: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (run / "eval" / "index.html").write_text("edited by hand")
    assert main(["train", "--resume", str(run), "--steps", "8", "--device", "cpu"]) == 0
    out, err = capfd.readouterr()
    assert (run / "eval" / "index.html").read_text() == "edited by hand"
    assert "held-out PSNR" in out and "report:" not in out
    assert [line for line in err.splitlines() if "eval/index.html" in line and "the run is complete" in line]
    assert json.loads((run / "scene.json").read_text())["step"] == 8


def test_inspect_replaces_its_own_pages(sound: Path, tmp_path: Path, refused: Refused) -> None:
    words = ["inspect", str(sound), "--no-estimate", "--out", str(tmp_path / "report")]
    assert main(words) == 0
    assert main(words) == 0
    (tmp_path / "report" / "inspect.html").write_text("mine")
    refused(*words, names="inspect.html")
    assert (tmp_path / "report" / "inspect.html").read_text() == "mine"
    assert main([*words, "--force"]) == 0
    assert (tmp_path / "report" / "inspect.html").read_text() != "mine"
