"""JSON of run folders is read strictly, runs of earlier versions still are, and damaged metrics stop nothing."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from luxel.render.errors import LuxelError
from luxel.render.fields.config import FieldConfig
from luxel.render.fields.files import FIELD_FILE
from luxel.render.fields.training.trainer import FieldTrainer
from luxel.render.runs.checkpoints import checkpoint as checkpoints
from luxel.render.runs.checkpoints.checkpoint import Checkpoint, CheckpointError
from luxel.render.runs.folder.metrics_log import MetricsLog
from luxel.render.runs.folder.run_folder import RunFolder
from luxel.render.runs.notices import forget_printed
from luxel.render.runs.strict_json import (
    JsonError,
    digest_of,
    finite,
    parse_object,
    require_seal,
    sealed,
)
from luxel.render.storage.descriptors import ForeignFileError
from luxel.render.storage.folder import OutputFolder
from luxel.render.storage.manifest import NAME as MANIFEST
from luxel.render.train.config import Checkpoints
from luxel.scenes import save_scene
from luxel.scenes.loading.run_results import load_run_field, load_run_scene

CHECKSUMS = ("format", "identity", "file", "run", "sha256")  # entries that earlier versions did not write


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        (b"", "empty"),
        (b"{", "no JSON"),
        (b"[1]", "no JSON object"),
        (b"\xff{}", "no JSON"),
        (b'{"a": NaN}', "NaN"),
        (b'{"a": [-Infinity]}', "-Infinity"),
        (b'{"a": 1e999}', "too large"),
        (b'{"a": 18446744073709551616}', "64 bits"),
        (b'{"a": ' + b"9" * 5000 + b"}", "no JSON"),
        (b'{"a": ' + b"[" * 100_000 + b"]" * 100_000 + b"}", "nested"),
        (b'{"a": ' + b"[" * 70 + b"]" * 70 + b"}", "nested"),
        (b'{"a": 1, "a": 2}', "twice"),
    ],
)
def test_what_json_must_not_hold(raw: bytes, reason: str) -> None:
    with pytest.raises(JsonError, match=reason):
        parse_object(raw)


def test_a_digest_is_of_the_content_whatever_the_indentation() -> None:
    body = sealed({"b": [1, 0.1, -0.0, None], "a": {"é\udcff": 2**63, "x": 5e-324}})
    again = parse_object(json.dumps(body, indent=7, sort_keys=True).encode())
    assert again == body
    require_seal(again)
    for wrong in ({**again, "b": [1.0, 0.1, -0.0, None]}, {**again, "c": 1}):
        with pytest.raises(JsonError, match="checksum"):
            require_seal(wrong)
    assert digest_of([0.0]) != digest_of([-0.0])
    assert finite({"a": (float("nan"), 1.5), 3: [float("inf")]}) == {"a": [None, 1.5], "3": [None]}


def trained(toy: Any, folder: Path, **changes: Any) -> Any:
    config = toy.config(steps=30, checkpoints=Checkpoints(every=10, minutes=0, keep=9), **changes)
    trainer = toy.trainer(folder, config, export=lambda scene, path: save_scene(path, scene))
    trainer.run(progress=False)
    toy.said.clear()
    forget_printed()
    return trainer


def edit(path: Path, change: Callable[[dict[str, Any]], Any]) -> None:
    body = json.loads(path.read_text())
    change(body)
    path.write_text(json.dumps(body))


def make_old(folder: Path) -> None:
    """Turns a run into one of an earlier version."""
    for path in (folder / "config.json", *(folder / "checkpoints").glob("*.json")):
        edit(path, lambda body: [body.pop(name, None) for name in CHECKSUMS])
    (folder / "scene.json").unlink()
    (folder / MANIFEST).unlink()


def test_a_run_of_an_earlier_version_is_resumed_and_gets_checksums(
    toy: Any, tmp_path: Path, same_state: Any
) -> None:
    folder = tmp_path / "run"
    whole = trained(toy, folder)
    make_old(folder)
    for kind in ("json", "safetensors"):
        (folder / "checkpoints" / f"step-00000030.{kind}").unlink()
    again = toy.resume(folder)
    assert [line for line in toy.said if "earlier version" in line and str(folder) in line] == toy.said
    again.run(progress=False)
    assert same_state(whole, again)
    assert checkpoints.load(folder / "checkpoints" / "step-00000030.json").checked
    assert RunFolder.read_body(folder)["identity"]["unchecked_until"] == 20
    (folder / "checkpoints" / "step-00000030.json").write_bytes(b"")
    assert toy.resume(folder).steps_done == 20, "what that version wrote may still be used"


@pytest.mark.parametrize(
    "change",
    [
        lambda body: body["state"].clear(),
        lambda body: body["state"].pop("adam_steps"),
        lambda body: body["state"].update(train_seconds="soon"),
        lambda body: body["state"]["train_views"].__setitem__(0, "another.png"),
        lambda body: body.update(step=999),
        lambda body: body.pop("step"),
        lambda body: body.update(tensors={"file": "step-00000020.safetensors", "bytes": 1, "sha256": ""}),
        lambda body: body.update(state=[]),
        lambda body: body.update(format=99),
    ],
)
def test_earlier_versions_contradictions_are_refused(toy: Any, tmp_path: Path, change: Any) -> None:
    """Their checkpoints have no checksum of the JSON; names, types and views must fit."""
    trained(toy, tmp_path / "run")
    make_old(tmp_path / "run")
    edit(tmp_path / "run" / "checkpoints" / "step-00000030.json", change)
    assert toy.resume(tmp_path / "run").steps_done == 20
    assert (
        len([line for line in toy.said if "step-00000030.json: " in line and "steps lost: 10" in line]) == 1
    )


def test_a_file_without_checksums_in_a_run_that_has_them_is_refused(toy: Any, tmp_path: Path) -> None:
    trained(toy, tmp_path / "run")
    newest = tmp_path / "run" / "checkpoints" / "step-00000030.json"
    edit(newest, lambda body: [body.pop(name, None) for name in CHECKSUMS])
    assert toy.resume(tmp_path / "run").steps_done == 20
    assert any("another run" in line and newest.name in line for line in toy.said)
    toy.said.clear()
    edit(tmp_path / "run" / "config.json", lambda body: [body.pop(name, None) for name in CHECKSUMS])
    assert toy.resume(tmp_path / "run").steps_done == 20
    assert any("config.json" in line and "no checksum" in line for line in toy.said)


def test_a_damaged_checkpoint_takes_the_place_of_no_whole_one(toy: Any, tmp_path: Path) -> None:
    folder = tmp_path / "run" / "checkpoints"
    trained(toy, tmp_path / "run")
    (folder / "step-00000030.json").write_text("{}")
    again = toy.resume(tmp_path / "run", overrides={"checkpoints.keep": 2, "steps": 25})
    again.run(progress=False)
    for step in (25, 20):
        assert checkpoints.load(folder / f"step-{step:08d}.json").step == step


def test_the_newest_json_is_missing(toy: Any, tmp_path: Path) -> None:
    trained(toy, tmp_path / "run")
    (tmp_path / "run" / "checkpoints" / "step-00000030.json").unlink()
    toy.said.clear()
    load_run_scene(tmp_path / "run")
    assert toy.resume(tmp_path / "run").steps_done == 20
    (line,) = toy.said
    assert all(part in line for part in ("step-00000030.json", "missing", "step 20", "steps lost: 10"))
    toy.said.clear()
    assert toy.resume(tmp_path / "run").steps_done == 20
    assert toy.said == [], "its tensors, of no use without it, were removed"


def test_other_views_of_the_same_names_are_refused(toy: Any, tmp_path: Path) -> None:
    trained(toy, tmp_path / "run")
    camera = toy.train[0].camera
    camera.__dict__["width"] = camera.width + 1
    with pytest.raises(LuxelError, match="sizes of the training images differ"):
        toy.resume(tmp_path / "run")


def test_a_config_of_another_run_can_be_deleted_as_the_message_says(toy: Any, tmp_path: Path) -> None:
    trained(toy, tmp_path / "run")
    trained(toy, tmp_path / "other", seed=5)
    shutil.copy(tmp_path / "other" / "config.json", tmp_path / "run" / "config.json")
    for use in (toy.resume, load_run_scene):
        with pytest.raises(LuxelError, match=r"config\.json and the checkpoints .* different runs.*deleted"):
            use(tmp_path / "run")
    (tmp_path / "run" / "config.json").unlink()
    again = toy.resume(tmp_path / "run")
    assert again.steps_done == 30 and again.config.seed == 0
    assert any("config.json" in line and "step-00000030.json" in line for line in toy.said)
    assert RunFolder.read_body(tmp_path / "run")["config"]["seed"] == 0, "it is written again"


def test_a_scene_that_training_has_left_behind_is_not_shown_in_its_place(
    toy: Any, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "run"
    trained(toy, folder)
    longer = toy.resume(folder, overrides={"steps": 40, "checkpoints.every": 5})
    longer.run(lambda trainer: trainer.request_stop() if trainer.steps_done == 35 else None, progress=False)
    longer.loop.save_checkpoint(longer)
    scene = load_run_scene(folder)
    assert torch.equal(scene.tensors()["means"], longer.scene.tensors()["means"])
    said = capfd.readouterr().err
    assert "scene.ply: is of step 30" in said and "checkpoint of step 35" in said


def test_a_training_that_goes_on_meanwhile_is_no_damage(tmp_path: Path, monkeypatch: Any) -> None:
    def example(step: int) -> Checkpoint:
        return Checkpoint(step, {"a": torch.full((2,), float(step))}, {})

    for step in (1, 2):
        checkpoints.save(tmp_path, example(step))
    real, pending = checkpoints.load, [3, 4]

    def load(path: Path) -> Checkpoint:
        while pending:  # both that were listed are removed before they are read
            checkpoints.save(tmp_path, example(pending.pop(0)))
        return real(path)

    monkeypatch.setattr(checkpoints, "load", load)
    said: list[str] = []
    assert checkpoints.load_newest(tmp_path, said.append).step == 4 and said == []


# -- metrics.jsonl ------------------------------------------------------------------------------------------------


def test_a_log_with_damaged_lines_stays_under_another_name(tmp_path: Path) -> None:
    good = ['{"step": 5, "loss": 0.5}', '{"step": 10}', '{"step": 11}']
    bad = [
        "[" * 100_000,
        '{"step": Infinity}',
        '{"step": 1, "loss": NaN}',
        '{"step": ' + "9" * 6000 + "}",
        '{"step": true}',
        "null",
        "\0\0",
        '{"loss": 1}',
        '{"step": 1',
    ]
    path, said = tmp_path / "metrics.jsonl", []
    before = "\n".join([*bad[:4], *good, *bad[4:]])
    path.write_text(before)
    MetricsLog(OutputFolder(tmp_path)).trim(10, said.append)
    assert path.read_text().splitlines() == good[:2]
    aside = tmp_path / "metrics.jsonl.before-1"
    assert aside.read_text() == before
    assert len(said) == 1 and str(path) in said[0] and "9 damaged lines" in said[0] and aside.name in said[0]
    MetricsLog(OutputFolder(tmp_path)).trim(10, said.append)
    assert len(said) == 1 and path.read_text().splitlines() == good[:2]


def test_lines_of_a_run_are_dropped_but_not_those_of_others(tmp_path: Path) -> None:
    said: list[str] = []
    log = MetricsLog(OutputFolder(tmp_path))
    for step in range(1, 8):
        log.append({"step": step})
        if step == 4:
            log.note()
    MetricsLog(OutputFolder(tmp_path)).trim(5, said.append)
    assert log.path.read_text().count("\n") == 5 and not said
    log.path.write_text('{"step": 1, "note": "mine"}\n{"step": 9}\n')
    MetricsLog(OutputFolder(tmp_path)).trim(5, said.append)
    assert log.path.read_text() == '{"step": 1, "note": "mine"}\n'
    assert (tmp_path / "metrics.jsonl.before-1").read_text().count("\n") == 2 and len(said) == 1


def test_metrics_that_are_no_file_stop_nothing(toy: Any, tmp_path: Path) -> None:
    trained(toy, tmp_path / "run")
    path = tmp_path / "run" / "metrics.jsonl"
    path.unlink()
    path.mkdir()
    assert toy.resume(tmp_path / "run").steps_done == 30
    assert any(str(path) in line and "Training continues" in line for line in toy.said)


# -- runs of fields -----------------------------------------------------------------------------------------------


@pytest.fixture
def field_run(tmp_path: Path) -> tuple[Path, torch.Tensor]:
    image = torch.rand(24, 32, 3, generator=torch.Generator().manual_seed(0))
    config = FieldConfig(
        field="image", steps=20, batch=64, log2_entries=8, checkpoint_every=10, keep=2, hidden=1, width=16
    )
    FieldTrainer.new(config, image, tmp_path / "run", say=lambda message: None).run(progress=False)
    forget_printed()
    return tmp_path / "run", image


def test_a_damaged_field_gives_way_to_the_checkpoint(
    field_run: tuple[Path, torch.Tensor], capfd: pytest.CaptureFixture[str]
) -> None:
    folder, image = field_run
    expected = load_run_field(folder).state_dict()
    raw = bytearray((folder / FIELD_FILE).read_bytes())
    raw[-3] ^= 1
    (folder / FIELD_FILE).write_bytes(raw)
    actual = load_run_field(folder).state_dict()
    assert all(torch.equal(actual[name], t) for name, t in expected.items())
    assert f"{folder / FIELD_FILE}: damaged" in capfd.readouterr().err
    with pytest.raises(ForeignFileError, match=FIELD_FILE):
        FieldTrainer.resume(folder, image)
    (folder / FIELD_FILE).unlink()
    (folder / "checkpoints" / "step-00000020.json").write_text("{}")
    said: list[str] = []
    assert FieldTrainer.resume(folder, image, say=said.append).steps_done == 10
    assert len(said) == 1 and "step-00000020.json" in said[0] and "steps lost: 10" in said[0]
    FieldTrainer.resume(folder, image * 0.5, say=said.append)
    assert any(str(folder) in line and "data are not those" in line for line in said)
    said.clear()
    (folder / "checkpoints" / "step-00000020.json").unlink()
    for path in (folder / "checkpoints").glob("*.json"):
        path.write_text("[]")
    with pytest.raises(CheckpointError, match=r"step-00000020\.json.*no JSON object"):
        FieldTrainer.resume(folder, image)
    (folder / FIELD_FILE).write_bytes(raw)
    with pytest.raises(LuxelError, match=r"field\.safetensors: damaged .*step-00000020\.json"):
        load_run_field(folder)


def test_names_that_are_no_utf8_are_kept(tmp_path: Path) -> None:
    """Linux has such file names; JSON holds them as lone surrogates."""
    body = sealed(
        {"format": 2, "config": {}, "views": {"train": ["a\udcff.png"]}, "identity": new_identity()}
    )
    (tmp_path / "config.json").write_text(json.dumps(body))
    assert RunFolder.read_body(tmp_path)["views"] == {"train": ["a\udcff.png"]}
    (tmp_path / "config.json").write_text(json.dumps(sealed({**body, "\udcff": 1})))
    with pytest.raises(LuxelError, match=r"config\.json: cannot be read"):
        RunFolder.read_body(tmp_path)


def new_identity() -> dict[str, Any]:
    return {"id": "0" * 32, "config": "0" * 64}


@pytest.mark.parametrize(
    "config", [{"field": True}, {"field": []}, {"batch": "x"}, {"beta1": 7.0}, {"seconds": -1.0}, {"gone": 1}]
)
def test_configurations_of_fields_name_their_folder(
    field_run: tuple[Path, torch.Tensor], config: dict[str, Any]
) -> None:
    folder, image = field_run
    edit_sealed(folder / "config.json", lambda body: body["config"].update(config))
    with pytest.raises(LuxelError) as caught:
        FieldTrainer.resume(folder, image)
    assert str(folder) in caught.value.problem and caught.value.remedy


def edit_sealed(path: Path, change: Callable[[dict[str, Any]], Any]) -> None:
    body = json.loads(path.read_text())
    change(body)
    path.write_text(json.dumps(sealed(body)))
