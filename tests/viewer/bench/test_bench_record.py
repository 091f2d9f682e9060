"""`luxel bench record`: parts that are resumed, merged and refused, and the documents that are generated."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from luxel.render.errors import LuxelError
from luxel.viewer.bench import report
from luxel.viewer.bench.record import document, parts, run
from luxel.viewer.bench.record.captures import courtyard_capture
from luxel.viewer.bench.record.part import Headline, Part, Row, Setup
from luxel.viewer.bench.record.store import PartRecord, Results, load_results, merge, save_results
from luxel.viewer.bench.record.tables import table_named
from luxel.viewer.bench.record.training import Training, made_capture
from luxel.viewer.cli import main

README = f"before\n{document.BEGIN}\nold figures\n{document.END}\nafter\n"
MACHINE = {
    "device": "cuda",
    "gpu": "A GPU",
    "processor": "a CPU",
    "commit": "",
    "cuda": "13.0",
    "torch": "2.11",
}


def record(**changes: Any) -> PartRecord:
    """The record of a part that was measured."""
    values: dict[str, Any] = {"state": "done", "commit": "c0ffee", "dirty": False, "quick": False}
    values |= {"date": "2026-01-01T00:00:00+00:00", "seconds": 1.5, "machine": MACHINE, "rows": []}
    return PartRecord(**{**values, **changes})


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A folder with a README that has a place for the table, and docs."""
    (tmp_path / "README.md").write_text(README)
    (tmp_path / "docs").mkdir()
    return tmp_path


@pytest.fixture
def bench_record(project: Path) -> Callable[..., int]:
    """Calls `luxel bench record --quick` with the results in the project's docs."""
    out = str(project / "docs" / "results.json")
    return lambda *words: main(["bench", "record", "--quick", "--device", "cpu", "--out", out, *words])


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Notes which parts are measured, instead of those of the protocol: a, b that needs data, c."""
    made: list[str] = []

    def measure(setup: Setup, *, name: str) -> list[Row]:
        made.append(name)
        if "broken" in made and name == "c":
            raise ValueError("no luck\nat all")
        return [{"variant": name, "ms": 0.25}]

    monkeypatch.setattr(
        parts,
        "PARTS",
        tuple(
            Part(name, f"part {name}", "loss", 60, functools.partial(measure, name=name), needs)
            for name, needs in (("a", ()), ("b", ("chair",)), ("c", ()))
        ),
    )
    yield made


def test_two_parts_are_measured_resumed_and_written(
    bench_record: Callable[..., int], project: Path, strict: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ("--parts", "loss", "field-image", "--commit", "c0ffee")
    assert bench_record(*words) == 0
    body = strict(project / "docs" / "results.json")
    assert list(body["parts"]) == ["loss", "field-image"]
    for part in body["parts"].values():
        assert (part["state"], part["commit"], part["dirty"], part["quick"]) == (
            "done",
            "c0ffee",
            False,
            True,
        )
        assert part["machine"]["torch"] and part["machine"]["command"] and part["date"].endswith("+00:00")
    (first, weighted), (image,) = (body["parts"][name]["rows"] for name in ("loss", "field-image"))
    assert first["variant"] == "luxel" and weighted["ms"] > 0 and first["gradient_error"] < 1e-4
    assert image["frame_4k"] > 0 and "PSNR" in image["score"]
    page = (project / "docs" / "results.md").read_text()
    assert f"| luxel | 64x48 | {first['ms']:.4f} |" in page and "`--quick`" in page
    assert "| image field, 2 s of training | not measured |" not in page
    assert "| sdf field, 2 s of training | not measured |" in page
    readme = (project / "README.md").read_text()
    assert (
        readme.startswith("before\n<!--") and readme.endswith("-->\nafter\n") and "old figures" not in readme
    )
    assert image["score"] in readme and readme.count(document.BEGIN) == 1

    capsys.readouterr()
    before = (project / "docs" / "results.json").read_text()
    assert bench_record(*words) == 0
    assert capsys.readouterr().out.count("done already") == 2
    assert (project / "docs" / "results.json").read_text() == before
    assert (project / "docs" / "results.md").read_text() == page, "documents depend on results.json alone"


def test_what_failed_is_listed_and_measured_again(
    calls: list[str], bench_record: Callable[..., int], project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    calls.append("broken")
    assert bench_record("--commit", "c0ffee") == 1
    out = capsys.readouterr().out
    assert calls == ["broken", "a", "c"] and "skipped, --data has no chair" in out and "failed: c\n" in out
    results = load_results(project / "docs" / "results.json")
    assert results.parts["c"].error == "ValueError: no luck" and list(results.done) == ["a"]
    assert "failed: ValueError: no luck" in (project / "docs" / "results.md").read_text()
    calls.clear()
    (project / "chair").touch()
    assert bench_record("--commit", "c0ffee", "--data", str(project)) == 0
    assert calls == ["b", "c"]


def test_an_interrupt_loses_the_running_part_alone(
    calls: list[str], bench_record: Callable[..., int], project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(setup: Setup) -> list[Row]:
        raise KeyboardInterrupt

    first = parts.PARTS[0]
    monkeypatch.setattr(parts, "PARTS", (first, Part("z", "part z", "loss", 60, interrupted)))
    assert bench_record("--commit", "c0ffee") == 130
    assert list(load_results(project / "docs" / "results.json").parts) == ["a"] and calls == ["a"]


def test_nothing_starts_that_would_not_end_in_time(
    calls: list[str], bench_record: Callable[..., int], capsys: pytest.CaptureFixture[str]
) -> None:
    assert bench_record("--commit", "c0ffee", "--budget", str(run.QUICK_SECONDS - 1)) == 0
    assert not calls and capsys.readouterr().out.count("not started") == 2
    assert bench_record("--commit", "c0ffee", "--budget", str(run.QUICK_SECONDS + 60)) == 0
    assert calls == ["a", "c"]


def test_figures_of_two_commits_are_refused_and_said_aloud(
    calls: list[str], bench_record: Callable[..., int], project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = project / "docs" / "results.json"
    assert bench_record("--parts", "a", "--commit", "c0ffee") == 0
    before = out.read_text()
    assert bench_record("--parts", "c", "--commit", "decade+") == 2
    assert "2 commits: c0ffee, decade+" in capsys.readouterr().err and out.read_text() == before
    assert calls == ["a"]
    assert bench_record("--parts", "c", "--commit", "decade+", "--allow-mixed") == 0
    for text in ((project / "docs" / "results.md").read_text(), (project / "README.md").read_text()):
        assert "**MIXED: these figures come from 2 commits: c0ffee, decade+.**" in text
        assert "**DIRTY: " in text
    assert bench_record("--restart", "--commit", "decade") == 0
    assert load_results(out).versions == ["decade"] and "MIXED" not in (project / "README.md").read_text()


def test_results_of_several_calls_are_merged(project: Path, tmp_path: Path) -> None:
    out = project / "docs" / "results.json"
    later = record(date="2026-01-02T00:00:00+00:00", rows=[{"variant": "later", "ms": 2.0}])
    failed = record(state="failed", date="2026-01-03T00:00:00+00:00", error="ValueError: no")
    save_results(
        tmp_path / "one.json", Results({"loss": record(rows=[{"variant": "first"}]), "steps": failed})
    )
    save_results(tmp_path / "two.json", Results({"loss": later, "steps": record()}))
    save_results(tmp_path / "three.json", Results({"loss": failed}))
    files = [str(tmp_path / f"{name}.json") for name in ("one", "two", "three")]
    assert main(["bench", "record", "--device", "cpu", "--out", str(out), "--merge", *files]) == 0
    merged = load_results(out)
    assert merged == merge(load_results(Path(file)) for file in files)
    assert merged.parts == {"loss": later, "steps": record()}
    page = (project / "docs" / "results.md").read_text()
    assert (
        "| later | – | 2.0000 | – | – |" in page and "A GPU; torch 2.11, CUDA 13.0; commit `c0ffee`" in page
    )
    save_results(tmp_path / "one.json", Results({"raster-bonsai": record(commit="decade")}))
    assert main(["bench", "record", "--out", str(out), "--merge", files[0]]) == 2
    assert load_results(out) == merged


@pytest.mark.parametrize(
    ("words", "names"),
    [
        (["--parts", "rasters"], "no such part"),
        (["--quick"], "--out"),
        (["--merge", "ABSENT.json"], "ABSENT.json"),
        (["--out", "DAMAGED"], "DAMAGED"),
        (["--out", "docs/new.json", "--readme", "BARE.md", "--write-docs"], document.BEGIN),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else None,
)
def test_bad_calls_are_one_message_and_a_remedy(
    words: list[str],
    names: str,
    project: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(project)
    (project / "DAMAGED").write_text('{"kind": "record", "format": 1, "parts": {"loss": {"state": "done"}}}')
    (project / "BARE.md").write_text("no markers")
    assert main(["bench", "record", "--device", "cpu", *words]) == 2
    error = capsys.readouterr().err
    assert error.count("luxel: ") == 1 and names in error and "Traceback" not in error
    assert not list((project / "docs").iterdir()) and (project / "README.md").read_text() == README


def test_the_commit_must_be_known(
    calls: list[str], project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["bench", "record", "--device", "cpu", "--out", str(project / "docs" / "results.json")]
    monkeypatch.setattr("luxel.viewer.bench.machine.commit", lambda: "")
    assert main(words) == 2 and "--commit" in capsys.readouterr().err and not calls


def test_quick_figures_never_join_real_ones(
    calls: list[str], bench_record: Callable[..., int], project: Path
) -> None:
    save_results(project / "docs" / "results.json", Results({"a": record()}))
    assert bench_record("--commit", "c0ffee") == 2 and not calls


def test_a_page_of_another_program_is_refused_before_measuring(
    calls: list[str], bench_record: Callable[..., int], project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = project / "docs" / "results.md"
    page.write_text("# My results\n")
    assert bench_record("--commit", "c0ffee") == 2 and not calls
    assert "results.md: `luxel bench record` did not write this page" in capsys.readouterr().err
    assert page.read_text() == "# My results\n"


def test_headlines_take_the_row_that_they_name() -> None:
    headline = Headline("loss", "{ms:.1f} ms", (("variant", "second"),), "{peer:.1f} ms")
    part = Part("loss", "the loss", "loss", 1, lambda setup: [], (), (headline,))
    rows = [{"variant": "first", "ms": 1.0}, {"variant": "second", "ms": 2.0, "peer": None}]
    results = Results({"loss": record(rows=rows)})
    assert "| loss | 2.0 ms | not measured |" in document.readme_table(results, [part])
    assert "| loss | not measured | – |" in document.readme_table(Results(), [part])
    assert "**Not recorded yet.**" in document.readme_table(Results(), [part])


def test_markers_are_wanted_once_each() -> None:
    assert document.with_table(README, "new", "x") == README.replace("old figures", "new")
    for text in ("", README + README, f"{document.END}{document.BEGIN}"):
        with pytest.raises(LuxelError, match=r"x: there are no markers"):
            document.with_table(text, "new", "x")


def test_parts_of_the_protocol_are_whole() -> None:
    names = [part.name for part in parts.PARTS]
    assert len(set(names)) == len(names) and all(part.seconds < 480 for part in parts.PARTS)
    for part in parts.PARTS:
        assert table_named(part.table).columns[0].form == "" and part.title


def test_the_name_of_a_part_means_it_alone_though_others_begin_with_it() -> None:
    def chosen(*words: str) -> list[str]:
        return [part.name for part in parts.chosen_parts(words)]

    names = [part.name for part in parts.PARTS]
    rasterizer = [name for name in names if name.startswith("raster-")]
    assert "train-chair-fast" in names and len(rasterizer) > 3
    assert chosen() == names
    assert chosen("train-chair", "raster") == [*rasterizer, "train-chair"]
    assert chosen("train") == [name for name in names if name.startswith("train-")]
    with pytest.raises(LuxelError, match="--parts train-c: there is no such part"):
        chosen("raster", "train-c")


def test_warnings_of_captures_stand_below_the_table() -> None:
    row = {"capture": "chair", "psnr": 30.0, "warnings": ["Training starts from 5 random points."]}
    chair, fox, loss = (
        next(part for part in parts.PARTS if part.name == name)
        for name in ("train-chair", "train-fox", "loss")
    )
    results = Results(
        {"train-chair": record(rows=[row, row]), "train-fox": record(rows=[{"capture": "fox"}])}
    )
    page = document.results_page(results, (chair, fox, loss))
    assert (
        page.startswith("# Results on A GPU\n")
        and page.count("\n\n* chair: Training starts from 5 random points.\n\n#") == 1
    )


def test_options_of_a_training_are_those_of_the_command() -> None:
    training = Training("convexes", "light", ("steps=30000", "max_gaussians=30000"))
    assert training.options == "--primitive convexes --preset light --steps 30000 --max-gaussians 30000"
    config = training.configuration(quick=False)
    assert (config.steps, config.max_gaussians, config.eval_every) == (30_000, 30_000, 7500)
    assert Training().options == "defaults"


def test_a_made_capture_is_kept_whole_or_not_at_all(tmp_path: Path) -> None:
    def write(folder: Path) -> None:
        made.append(folder)
        folder.mkdir(parents=True)
        (folder / "image").touch()
        if len(made) == 1:
            raise KeyboardInterrupt

    made: list[Path] = []
    setup = Setup(torch.device("cpu"), cache=tmp_path / "cache")
    with pytest.raises(KeyboardInterrupt), made_capture(setup, "scene", write):
        pass
    assert not (tmp_path / "cache" / "scene").exists()
    for _ in range(2):
        with made_capture(setup, "scene", write) as folder:
            assert folder == tmp_path / "cache" / "scene" and (folder / "image").exists()
    assert len(made) == 2
    with made_capture(Setup(torch.device("cpu")), "scene", write) as folder:
        assert (folder / "image").exists()
    assert not folder.exists()


def test_the_courtyard_is_generated_into_the_cache_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    setup = Setup(torch.device("cpu"), cache=tmp_path, quick=True)
    for _ in range(2):
        with courtyard_capture(setup) as folder:
            assert folder == tmp_path / "place-quick" and (folder / "transforms.json").exists()
    assert capsys.readouterr().out.count("rendering place-quick") == 1


@pytest.mark.parametrize("name", ["raster-convexes", "train-moving", "train-video", "steps", "field-stages"])
def test_parts_measure_something(name: str, toy_capture: Path, tmp_path: Path) -> None:
    """With tiny sizes, on the CPU: the rows have values for their table."""
    (tmp_path / "chair").symlink_to(toy_capture)
    (part,) = [part for part in parts.PARTS if part.name == name]
    rows = report.plain(part.measure(Setup(torch.device("cpu"), tmp_path, quick=True)))
    columns = [column.key for column in table_named(part.table).columns]
    assert rows and all(set(row) & set(columns[1:]) for row in rows)
    assert json.loads(json.dumps(rows)) == rows and all(isinstance(row[columns[0]], str) for row in rows)
    for row in rows:
        for key in ("luxel_both", "step_ms", "seconds", "luxel_inference"):
            assert row.get(key, 1.0) > 0


def test_the_documents_are_those_of_the_record() -> None:
    """docs/results.md and the README's table are up to date; `luxel bench record --write-docs` makes them so."""
    root = Path(__file__).resolve().parents[3]
    results = load_results(root / "docs" / "results.json")
    assert (root / "docs" / "results.md").read_text() == document.results_page(results, parts.PARTS)
    readme = (root / "README.md").read_text()
    assert readme == document.with_table(readme, document.readme_table(results, parts.PARTS), "README.md")
