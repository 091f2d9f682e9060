"""`luxel inspect`: what it prints and writes, and that names do not become HTML."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from bad_input import Refused

import luxel.scenes as scenes
from luxel.render.storage.folder import OutputFolder
from luxel.render.train.memory import plan as memory_plan
from luxel.scenes.captures import checks
from luxel.scenes.captures.checks import inspect
from luxel.viewer.cli import main
from luxel.viewer.commands.inspect import as_json, facts_of
from luxel.viewer.reports.capture_report import write_report

BLURRED = "0011.jpg"


@pytest.fixture(scope="module")
def capture(blurred_place: Callable[..., Path]) -> Path:
    """A courtyard with one blurred photograph."""
    return blurred_place(views=36, width=180, height=120, points=3000)


def test_text_says_what_was_found(capture: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["inspect", str(capture)]) == 0
    out = capsys.readouterr().out
    assert "photographs: 36, of which 5 are held out" in out and "size: 180x120 pixels" in out
    assert f"1 of 36 images are much less sharp than their neighbours: {BLURRED}." in out
    assert "train with --downweight-blur" in out


def test_options_that_findings_advise_exist(capture: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sources = sorted(Path(checks.__file__).parent.glob("*.py"))
    advised = {option for file in sources for option in re.findall(r"--[a-z][a-z-]+", file.read_text())}
    assert {"--exposure", "--refine-poses", "--downweight-blur"} <= advised
    assert main(["train", "--help"]) == 0
    offered = set(re.findall(r"--[a-z][a-z-]+", capsys.readouterr().out))
    assert advised <= offered


def test_json_and_page(capture: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["inspect", str(capture), "--json", "--out", str(tmp_path / "report")]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert printed == json.loads((tmp_path / "report" / "inspect.json").read_text())
    assert printed["findings"][0]["views"] == [BLURRED] and len(printed["views"]) == 36
    assert min(printed["views"], key=lambda view: view["sharpness"])["name"] == BLURRED
    page = (tmp_path / "report" / "inspect.html").read_text()
    assert page.count("<figure") == 36 and page.count("<figure class=bad>") == 1
    assert "http" not in page.replace("http-equiv", ""), "nothing is loaded from elsewhere"


def test_nothing_wrong_is_said_and_names_are_escaped(capture: Path, tmp_path: Path) -> None:
    opened = scenes.open(capture)
    named = [replace(view, name=f"<b>{view.name}</b>") for view in opened.train if view.name != BLURRED]
    inspection = inspect(replace(opened, train=named, test=[], name="a <i>name</i>"))
    facts = facts_of(inspection)
    page = write_report(OutputFolder(tmp_path), inspection, facts, as_json(inspection, facts)).read_text()
    assert "Nothing was found" in page and "<b>0001" not in page and "<i>name" not in page
    assert "&lt;b&gt;0001.jpg" in page


def test_memory_and_time_are_estimated(
    capture: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["inspect", str(capture), "--device", "cpu", "--preset", "fast"]
    assert main([*words, "--json", "--out", str(tmp_path)]) == 0
    printed = json.loads(capsys.readouterr().out)
    training, facts = printed["training"], printed["facts"]
    assert training["preset"] == "fast" and training["steps"] == 1086 and training["kept"]
    assert training["first"] == 3000 and training["last"] == 20_000, "the least cap of the strategy"
    assert training["image_bytes"] == 31 * 180 * 120 * 4 * 4 // 3
    assert training["host_bytes"] > training["device_bytes"] > training["image_bytes"], (
        "the CPU has one memory"
    )
    steps = sorted((training["first_ms"], training["last_ms"]))
    assert 0 < 1086 * steps[0] <= 1e3 * training["seconds"] <= 1086 * steps[1]
    assert "stored in the memory of this machine" in facts["memory of the images"]
    assert "up to 20,000 Gaussians" in facts["memory of a training"]
    assert "estimated from steps measured here" in facts["time of a training"]
    page = (tmp_path / "inspect.html").read_text()
    assert facts["time of a training"] in page and facts["memory of a training"] in page
    assert main([*words, "--no-estimate"]) == 0
    assert "of a training" not in capsys.readouterr().out


def test_an_estimate_says_what_memory_makes_necessary(
    capture: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["inspect", str(capture), "--device", "cpu"]
    monkeypatch.setattr(memory_plan, "free_memory", lambda _: memory_plan.SPARE + (8 << 20))
    assert main(words) == 0
    out = capsys.readouterr().out
    assert "are streamed step by step" in out and "At most" in out
    monkeypatch.setattr(memory_plan, "free_memory", lambda _: 1 << 20)
    assert main(words) == 0
    out = capsys.readouterr().out
    assert "note: The machine is too small" in out and "time of a training" not in out


def test_steps_that_cannot_be_measured(
    capture: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def short_of_memory(*_: object, **__: object) -> None:
        raise MemoryError

    monkeypatch.setattr("luxel.viewer.training.estimate.Trainer", short_of_memory)
    assert main(["inspect", str(capture), "--device", "cpu"]) == 0
    out = capsys.readouterr().out
    assert "No steps could be measured here: memory ran out." in out and "memory of a training: about" in out


def test_bad_input(capture: Path, tmp_path: Path, refused: Refused) -> None:
    refused("inspect", tmp_path / "absent", names="there is no such file")
    (tmp_path / "file").write_text("in the way")
    refused("inspect", capture, "--out", tmp_path / "file", names="is a file")
    refused("inspect", capture, "--frames", 2, names="--frames")
    refused("inspect", capture, "--preset", "none", names="There is no preset 'none'")
