"""`luxel bench strangers`: what runs within a budget, what is said to be broken, meshes, reports and the record."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from luxel.render.errors import LuxelError
from luxel.scenes import save_mesh
from luxel.scenes.files.meshes.mesh import Mesh
from luxel.scenes.synthetic.captures.exact_solid import exact_solid_cameras
from luxel.scenes.synthetic.rays.distance_solid import DistanceSolid
from luxel.scenes.synthetic.rays.ray_caster import StaticSolid
from luxel.scenes.synthetic.rays.ray_shapes import BOX
from luxel.scenes.synthetic.rays.ray_textures import PLAIN, Surface
from luxel.viewer.bench.record.part import Setup
from luxel.viewer.bench.record.parts import strangers as record_part
from luxel.viewer.bench.strangers import mesh, methods, report, run, trained
from luxel.viewer.bench.strangers.made import CAPTURES, QUICK_SIZE
from luxel.viewer.bench.strangers.methods import METHODS, Method
from luxel.viewer.bench.strangers.promises import broken_promises
from luxel.viewer.cli import main

CPU = torch.device("cpu")


def row(capture: str, method: Method, psnr: float, **changes: Any) -> dict[str, Any]:
    """A row of a report."""
    values = {"capture": capture, "kind": method.kind, "preset": method.preset, "options": method.options}
    values |= {"psnr": psnr, "ssim": 0.9, "lpips": None, "steps": 7, "count": 5, "seconds": 2.0}
    return {**values, "wall_seconds": 5.0, "failures": {}, **changes}


def made_report(*rows: dict[str, Any], **changes: Any) -> dict[str, Any]:
    """A report with some rows, measured on a GPU."""
    machine = {"device": "cuda", "gpu": "A GPU", "processor": "a CPU", "commit": "", "command": ""}
    values = {"kind": "strangers", "seed": 5, "budget": 60.0, "quick": False, "machine": machine}
    body = {**values, "captures": {}, "rows": list(rows), "skipped": [], **changes}
    return {"promises": broken_promises(body), **body}


@pytest.fixture
def settings(tmp_path: Path) -> Callable[..., run.Settings]:
    def make(**changes: Any) -> run.Settings:
        values: dict[str, Any] = {"seed": 3, "device": CPU, "budget": 1e6, "quick": True}
        return run.Settings(**{**values, **changes})

    return make


@pytest.fixture
def faked(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[str]:
    """Captures and trainings that take no time; notes both in order."""
    done: list[str] = []

    def train(method: Method, capture: Path, run_folder: Path, *_: Any, **__: Any) -> dict[str, Any]:
        done.append(run_folder.name)
        if "out-of-time" in done:
            raise trained.OutOfTime("luxel train")
        if "broken" in done:
            raise RuntimeError("no luck")
        figures = row("", method, 30.0)
        return {
            name: figures[name]
            for name in ("psnr", "ssim", "lpips", "steps", "count", "seconds", "wall_seconds")
        }

    def write(self: Any, made: Any) -> Path:
        if made.name not in self.written:
            done.append(f"write {made.name}")
            self.written[made.name] = tmp_path
            self.report["captures"][made.name] = {"about": made.about, "seconds": 1.0}
        return self.written[made.name]

    monkeypatch.setattr(run, "train", train)
    monkeypatch.setattr(run, "mesh_scores", lambda *_: {"mesh_accuracy": 1.0, "mesh_completeness": 2.0})
    monkeypatch.setattr(run._Bench, "_written", write)
    return done


def test_tasks_are_chosen_by_captures_kinds_and_single_trainings() -> None:
    def chosen(*words: str) -> list[tuple[str, str]]:
        return [(made.name, method.name) for made, method in run.chosen_tasks(words)]

    everything = chosen()
    assert everything[: len(CAPTURES)] == [(made.name, "gaussians-default") for made in CAPTURES]
    assert len(everything) == sum(len(made.methods) for made in CAPTURES)
    assert chosen("exact") == [task for task in everything if task[0] == "exact"]
    assert chosen("gaussians-fast", "utm", "exact") == [
        ("exact", "gaussians-fast"),
        ("utm", "gaussians-fast"),
    ]
    assert {method for _, method in chosen("surfels")} == {"surfels-default", "surfels-surface"}
    with pytest.raises(LuxelError, match="--only chair: there is no such capture or training"):
        chosen("exact", "chair")
    with pytest.raises(LuxelError, match="--only utm convexes: none of the captures is trained so"):
        chosen("utm", "convexes")


def test_rows_run_in_order_and_what_has_no_time_is_listed(
    faked: list[str], settings: Callable[..., run.Settings]
) -> None:
    tasks = run.chosen_tasks(["exact", "surfels", "gaussians-fast", "gsplat-mcmc"])
    seen: list[int] = []
    body = run.run(tasks, settings(), lambda so_far: seen.append(len(so_far["rows"])))
    assert faked == [
        "write exact",
        *(f"exact-{name}" for name in ("gaussians-fast", "surfels-default", "surfels-surface")),
    ]
    assert [line.get("mesh_accuracy") for line in body["rows"]] == [None, 1.0, 1.0] and seen == [1, 2, 3]
    assert body["skipped"] == [
        {"capture": "exact", "method": "gsplat-mcmc", "reason": "gsplat is not trained here"}
    ]
    faked.clear()
    body = run.run(tasks, settings(quick=False, budget=39.5))
    assert faked == ["write exact", "exact-gaussians-fast", "exact-surfels-default"]
    first = body["skipped"][0]
    assert (first["method"], first["reason"]) == ("surfels-surface", run.NO_TIME)
    faked.clear()
    assert not run.run(tasks, settings(quick=False, budget=30.0))["rows"] and not faked


def test_each_training_runs_with_several_seeds_and_has_their_medians(
    faked: list[str], settings: Callable[..., run.Settings], monkeypatch: pytest.MonkeyPatch
) -> None:
    scores, seeds = iter([30.0, 34.0, 31.0, 40.0]), list[int]()

    def train(method: Method, capture: Path, folder: Path, *_: Any, seed: int, **__: Any) -> dict[str, Any]:
        seeds.append(seed)
        if (psnr := next(scores)) > 35:
            raise trained.OutOfTime("luxel train")
        figures = row("", method, psnr)
        names = ("psnr", "ssim", "lpips", "steps", "count", "seconds", "wall_seconds")
        return {**{name: figures[name] for name in names}, "count": 5 + seed}

    monkeypatch.setattr(run, "train", train)
    body = run.run(run.chosen_tasks(["exact", "gaussians-fast"]), settings(trainings=4))
    assert seeds == [0, 1, 2, 3] and body["trainings"] == 4
    assert body["skipped"][0]["reason"] == "ended during training 4 of 4: no time was left"
    line = body["rows"][0]
    assert line["psnr"] == 31.0 and line["count"] == 6 and line["lpips"] is None
    assert [one["psnr"] for one in line["runs"]] == [30.0, 34.0, 31.0]
    text = report.sections(made_report(line, trainings=4))[0].text
    assert "medians of 4 trainings with the seeds 0 to 3" in text


def test_given_captures_are_trained_like_those_that_are_made(tmp_path: Path) -> None:
    folders = [tmp_path / "mine", tmp_path / "other"]
    for folder in folders:
        folder.mkdir()
    names = [made.name for made, _ in run.chosen_tasks((), folders)]
    assert set(names) == {made.name for made in CAPTURES} | {"mine", "other"}
    tasks = run.chosen_tasks(["mine", "gaussians-fast", "gaussians-default"], folders)
    made = tasks[0][0]
    assert [(one.name, method.preset) for one, method in tasks] == [("mine", "default"), ("mine", "fast")]
    assert (
        made.write(tmp_path / "copy", 0, QUICK_SIZE, CPU) == folders[0] and not (tmp_path / "copy").exists()
    )
    rows = [row("mine", methods.GAUSSIANS_FAST, 31.0), row("mine", methods.GAUSSIANS_DEFAULT, 30.0)]
    broken = broken_promises(made_report(*rows), [made])
    assert [one["capture"] for one in broken] == ["mine"]
    (tmp_path / "deeper" / "mine").mkdir(parents=True)
    with pytest.raises(LuxelError, match="two captures have the name mine"):
        run.chosen_tasks((), [*folders, tmp_path / "deeper" / "mine"])
    with pytest.raises(LuxelError, match="there is no such capture"):
        run.chosen_tasks((), [tmp_path / "nothing"])


def test_a_training_that_fails_or_is_ended_does_not_end_the_others(
    faked: list[str], settings: Callable[..., run.Settings], capsys: pytest.CaptureFixture[str]
) -> None:
    faked.append("broken")
    body = run.run(run.chosen_tasks(["exact", "gaussians-fast", "convexes"]), settings())
    assert [list(line["failures"]) for line in body["rows"]] == [["training"], ["training"]]
    assert "no luck" in capsys.readouterr().err
    failed = report.sections(made_report(*body["rows"]))[-1]
    assert failed.title == "What failed" and failed.tables[0].rows[0][-1] == "RuntimeError: no luck !"
    faked.append("out-of-time")
    body = run.run(run.chosen_tasks(["exact", "gaussians-fast"]), settings())
    assert (
        body["rows"] == [] and body["skipped"][0]["reason"] == "ended during the training: no time was left"
    )


def test_a_peer_trains_with_the_count_of_the_default(
    faked: list[str], settings: Callable[..., run.Settings], monkeypatch: pytest.MonkeyPatch
) -> None:
    given: list[Any] = []

    def peer(method: Method, capture: Path, device: Any, count: int | None, *, quick: bool) -> dict[str, Any]:
        given.append((method.name, count, quick))
        return {
            name: row("", method, 20.0)[name]
            for name in ("psnr", "ssim", "lpips", "steps", "count", "seconds")
        }

    monkeypatch.setattr(run, "train_peer", peer)
    tasks = run.chosen_tasks(["exact", "gaussians-default", "gsplat"])
    run.run(tasks, settings(peers=True))
    run.run(tasks[1:], settings(peers=True))
    assert given[0] == ("gsplat-mcmc", 5, True) and given[-1] == ("gsplat-default", None, True)


@pytest.mark.parametrize(("quick", "steps"), [(False, 7000), (True, trained.WARM_UP_STEPS["cuda"])])
def test_gsplat_gets_its_settings(
    quick: bool, steps: int, toy_capture: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def train(settings: Any, capture: Any, config: Any, device: Any, **options: Any) -> dict[str, Any]:
        assert settings.steps == steps and len(capture.train) > 2
        assert options["bound"] == (1_000_000 if quick else 4000)
        names = ("psnr", "ssim", "lpips", "steps", "seconds", "count")
        return {**dict.fromkeys(names, 1.0), "whole_seconds": 2.0}

    monkeypatch.setattr(trained, "train_gsplat", train)
    figures = trained.train_peer(methods.GSPLAT_MCMC, toy_capture, CPU, 4000, quick=quick)
    assert figures["psnr"] == 1.0 and figures["wall_seconds"] > 2.0


def test_broken_promises_are_said() -> None:
    rows = [
        row("exact", methods.GAUSSIANS_FAST, 35.0),
        row("exact", methods.GAUSSIANS_DEFAULT, 36.0),
        row("exact", methods.GAUSSIANS_BEST, 35.95),
        row("exact", methods.RADIANCE, 34.6, wall_seconds=7.5),
        row("exact", methods.SURFELS, 36.0),
        row("exact", methods.SURFACE, 34.6),
        row("room", methods.SURFELS, 36.0),
        row("street", methods.GAUSSIANS_FAST, 30.0),
        row("utm", methods.GAUSSIANS_FAST, 29.9),
        row("exact", methods.GSPLAT_MCMC, 10.0, wall_seconds=90.0),
    ]
    body = made_report(*rows)
    assert [one["text"] for one in body["promises"]] == [
        "radiance-default takes 5.5 s besides training (promised: at most 4 s)"
    ]
    rows = [
        row("exact", methods.GAUSSIANS_FAST, 36.2),
        row("exact", methods.GAUSSIANS_DEFAULT, 36.0),
        row("exact", methods.GAUSSIANS_BEST, 35.8),
        row("exact", methods.RADIANCE, 34.4),
        row("room", methods.SURFELS, 36.0),
        row("room", methods.SURFACE, 34.0),
        row("street", methods.GAUSSIANS_FAST, 30.0),
        row("utm", methods.GAUSSIANS_FAST, 29.0),
        row("room", methods.GAUSSIANS_FAST, 31.0),
        row("room", methods.GAUSSIANS_DEFAULT, 30.0, failures={"training": "ended"}),
    ]
    body = made_report(*rows)
    assert [f"{one['capture']}: {one['text'].split('(')[0].strip()}" for one in body["promises"]] == [
        "exact: gaussians-default has 36.00 dB, gaussians-fast 36.20 dB",
        "exact: gaussians-best has 35.80 dB, gaussians-default 36.00 dB",
        "exact: radiance-default has 34.40 dB, gaussians-default 36.00 dB",
        "room: surfels-surface has 34.00 dB, surfels-default 36.00 dB",
        "utm: gaussians-fast has 29.00 dB, gaussians-fast of street 30.00 dB",
    ]
    assert report.summary(body).startswith("promises: 5 broken: exact: gaussians-default has 36.00 dB")
    assert report.summary(made_report(rows[1])) == "promises: none broken"
    assert "not checked" in report.summary(made_report(*rows, quick=True))


def test_the_report_has_rows_captures_and_what_did_not_run() -> None:
    skipped = [{"capture": "utm", "method": "gaussians-fast", "reason": "no time was left"}]
    rows = [row("exact", methods.SURFELS, 36.0, mesh_accuracy=1.25, mesh_completeness=2.5)]
    body = made_report(*rows, skipped=skipped, captures={"exact": {"about": "a solid", "seconds": 3.0}})
    first, captures, absent = report.sections(body)
    assert first.tables[0].rows[0][:6] == ["exact", "surfels", "default", "7", "5", "36.00"]
    assert first.tables[0].rows[0][-2:] == ["1.25", "2.50"] and "seed 5" in first.text
    assert captures.tables[0].rows == [["exact", "a solid", "3.0"]]
    assert absent.tables[0].rows == [["utm", "gaussians-fast", "no time was left"]] and "60 s" in absent.text


def test_rows_of_the_record_carry_what_is_broken_and_what_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    body = made_report(
        row("exact", methods.GAUSSIANS_FAST, 37.0),
        row("exact", methods.GAUSSIANS_DEFAULT, 36.0),
        {
            "capture": "room",
            "kind": "surfels",
            "preset": "default",
            "failures": {"training": "x\nout of luck"},
        },
        skipped=[{"capture": "exact", "method": "convexes-default", "reason": "no time was left"}],
    )
    first, second, third = record_part.table_rows(body)
    assert first["method"] == "gaussians-fast" and first["seed"] == "5" and second["warnings"] == []
    assert first["warnings"][0].startswith("gaussians-default has 36.00 dB, gaussians-fast 37.00 dB")
    assert first["warnings"][1] == "convexes-default did not run: no time was left"
    assert third["warnings"] == ["surfels-default failed (training): out of luck"] and "psnr" not in third

    def fake(tasks: Any, settings: run.Settings, on_row: Any) -> dict[str, Any]:
        assert {made.name for made, _ in tasks} == {"exact"} and settings.quick and settings.seed > 20_000_000
        for one in body["rows"]:
            on_row({**body, "rows": [one]})
        return body

    monkeypatch.setattr(record_part, "run", fake)
    (part,) = [part for part in record_part.PARTS if part.name == "strangers-exact"]
    assert len(part.measure(Setup(CPU, quick=True))) == 3


def test_captures_are_written_small_and_once(tmp_path: Path, settings: Callable[..., run.Settings]) -> None:
    body: dict[str, Any] = {"captures": {}}
    bench = run._Bench(settings(), tmp_path, body)
    utm = next(made for made in CAPTURES if made.copy_of)
    assert bench._written(utm) == bench._written(utm) == tmp_path / "utm"
    assert list(body["captures"]) == [utm.copy_of, "utm"], "the original is written first"
    assert QUICK_SIZE.shape(1.5) == (39, 26)


def test_a_command_that_fails_or_takes_too_long_is_said(tmp_path: Path) -> None:
    log = tmp_path / "run.log"
    with pytest.raises(RuntimeError, match=r"exit status 2: (.|\n)*there is no command 'trian'"):
        trained.luxel(["trian"], log, 60)
    assert "Did you mean" in log.read_text()
    before = time.perf_counter()
    with pytest.raises(trained.OutOfTime, match="luxel doctor"):
        trained.luxel(["doctor"], log, 0.01)
    assert time.perf_counter() - before < 60


def test_figures_of_a_run_are_those_of_its_end(tmp_path: Path) -> None:
    lines: list[dict[str, Any]] = [
        {"step": 5, "seconds": 1.0, "count": 10},
        {"step": 5, "seconds": 1.0, "test": {"psnr": 20.0}},
        {"step": 9, "seconds": 2.0, "count": 12},
        {"step": 9, "seconds": 2.5, "test": {"psnr": 30.0, "ssim": 0.9}},
    ]
    file = tmp_path / "metrics.jsonl"
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    expected = {"psnr": 30.0, "ssim": 0.9, "lpips": None, "steps": 9, "seconds": 2.5, "count": 12}
    assert trained.figures(tmp_path) == expected
    file.write_text(json.dumps(lines[0]) + "\n")
    with pytest.raises(RuntimeError, match="no view was evaluated"):
        trained.figures(tmp_path)


def test_distances_of_a_mesh_from_its_solid(tmp_path: Path) -> None:
    grey = Surface(PLAIN, 1.0, ((0.5, 0.5, 0.5),) * 3)
    solid = DistanceSolid([StaticSolid(BOX, (0.5, 0.5, 0.5), (0, 0, 0), grey)], radius=1.0)
    corners = np.array([[x, y, z] for x in (-1, 1) for y in (-1, 1) for z in (-1, 1)], np.float32)
    quads = ((0, 1, 3, 2), (4, 6, 7, 5), (0, 4, 5, 1), (2, 3, 7, 6), (0, 2, 6, 4), (1, 5, 7, 3))
    faces = np.array([f for a, b, c, d in quads for f in ((a, b, c), (a, c, d))], np.int32)
    cameras = exact_solid_cameras(3, 24, seed=1)
    for half, apart in ((0.5, 0.0), (0.49, 10.0)):
        save_mesh(tmp_path / "box.ply", Mesh(half * corners, np.full((8, 3), 128, np.uint8), faces))
        scores = mesh.distances_of(tmp_path / "box.ply", solid, cameras)
        assert scores["mesh_accuracy"] == pytest.approx(apart, abs=0.01)
        assert scores["mesh_completeness"] == pytest.approx(apart, abs=0.5)


def test_only_an_empty_folder_keeps_captures(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "exact").mkdir()
    words = ["--out", str(tmp_path / "out"), "--keep", str(tmp_path), "--device", "cpu", "--quick"]
    assert main(["bench", "strangers", *words]) == 2
    assert "there are files in it already" in capsys.readouterr().err
    assert main(["bench", "strangers", "--only", "chair", "--out", str(tmp_path / "out")]) == 2
    assert "--only chair: there is no such capture or training" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_the_command_prints_its_seed_and_what_did_not_run(
    faked: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str], strict: Any
) -> None:
    words = ["--only", "exact", "gaussians-fast", "gsplat", "--out", str(tmp_path / "out"), "--device", "cpu"]
    assert main(["bench", "strangers", *words, "--quick", "--keep", str(tmp_path / "kept")]) == 0
    out = capsys.readouterr().out
    assert out.startswith("seed: 20") and "| exact | gaussians | fast | 7 | 5 | 30.00 |" in out
    assert "not run: exact, gsplat-mcmc: gsplat is not trained here" in out and "promises: not checked" in out
    body = strict(tmp_path / "out" / "strangers.json")
    assert body["kind"] == "strangers" and f"seed: {body['seed']}" in out
    faked.append("broken")
    assert main(["bench", "strangers", *words, "--seed", "7"]) == 1
    assert "exact, gaussians-fast: failed" in capsys.readouterr().err


@pytest.mark.slow
def test_captures_are_made_and_trained(tmp_path: Path, strict: Any) -> None:
    """Each capture, and each kind of scene on the exact solid, as a user trains them."""
    words = ["--quick", "--device", "cpu", "--seed", "3", "--keep", str(tmp_path / "kept")]
    assert main(["bench", "strangers", *words, "--only", "exact", "--out", str(tmp_path)]) == 0
    rows = strict(tmp_path / "strangers.json")["rows"]
    trained_here = [method for method in METHODS if method.kind != methods.GSPLAT]
    assert [line["kind"] for line in rows] == [method.kind for method in trained_here]
    assert all(line["psnr"] > 3 and line["wall_seconds"] > line["seconds"] for line in rows)
    assert sum("mesh_accuracy" in line for line in rows) == 2
    words = [*words[:-1], str(tmp_path / "others")]
    assert main(["bench", "strangers", *words, "--only", "gaussians-fast", "--out", str(tmp_path)]) == 0
    captures = [line["capture"] for line in strict(tmp_path / "strangers.json")["rows"]]
    assert captures == [made.name for made in CAPTURES]
