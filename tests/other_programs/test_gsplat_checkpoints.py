"""Checkpoints of gsplat's trainer, as torch.save writes them; hostile and foreign ones; files that are named only."""

from __future__ import annotations

import json
import os
import zipfile
from pathlib import Path
from typing import Any

import pytest
import torch

from luxel.scenes import CaptureError, load_scene
from luxel.scenes.files.scene_files import load_facts, load_primitives, load_unused
from luxel.scenes.unused import LOST, OTHER, WRONG
from luxel.viewer.cli import main


def splats(count: int = 30, degree: int = 3, seed: int = 1) -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    shapes = {
        "means": (count, 3),
        "scales": (count, 3),
        "quats": (count, 4),
        "opacities": (count,),
        "sh0": (count, 1, 3),
        "shN": (count, (degree + 1) ** 2 - 1, 3),
    }
    return {name: torch.randn(shape, generator=generator) for name, shape in shapes.items()}


def save(path: Path, content: Any) -> Path:
    torch.save(content, path)
    return path


@pytest.mark.parametrize("degree", [0, 1, 3])
def test_parameters_are_those_of_the_file(
    tmp_path: Path, degree: int, caplog: pytest.LogCaptureFixture
) -> None:
    source = splats(degree=degree)
    path = save(tmp_path / "ckpt_6999.pt", {"step": 6999, "splats": source})
    read = load_scene(path)
    assert torch.equal(read.means, source["means"]) and torch.equal(read.quats, source["quats"])
    assert torch.equal(read.log_scales, source["scales"])
    assert torch.equal(read.opacity_logits, source["opacities"])
    assert torch.equal(read.sh_dc, source["sh0"][:, 0]) and torch.equal(read.sh_rest, source["shN"])
    assert load_unused(path) == [] and not caplog.records


def test_parameters_by_other_types_and_modules(tmp_path: Path) -> None:
    """Parameters of a module, halves, opacities with a further axis, no shN, views of larger tensors."""
    source = splats(degree=0)
    module = torch.nn.ParameterDict({name: torch.nn.Parameter(t) for name, t in source.items()})
    read = load_scene(save(tmp_path / "a.pt", {"step": 1, "splats": module.state_dict()}))
    assert torch.equal(read.means, source["means"]) and not read.means.requires_grad
    changed = {name: tensor.half() for name, tensor in source.items() if name != "shN"}
    changed["opacities"] = changed["opacities"][:, None]
    changed["means"] = torch.cat([source["means"], source["means"]])[:30]
    read = load_scene(save(tmp_path / "b.pt", {"splats": changed}))
    assert torch.equal(read.opacity_logits, source["opacities"].half().float()) and read.sh_degree == 0


def test_the_parts_of_several_gpus_are_one_scene(tmp_path: Path) -> None:
    parts = [splats(seed=seed) for seed in range(11)]
    for rank, part in enumerate(parts):
        save(tmp_path / f"ckpt_99_rank{rank}.pt", {"step": 99, "splats": part})
    save(tmp_path / "ckpt_49_rank0.pt", {"step": 49, "splats": splats()})
    means = torch.cat([part["means"] for part in parts])
    assert torch.equal(load_scene(tmp_path / "ckpt_99_rank3.pt").means, means)
    assert load_scene(tmp_path / "ckpt_49_rank0.pt").count == 30
    save(tmp_path / "ckpt_99_rank5.pt", {"splats": splats(degree=1)})
    with pytest.raises(CaptureError, match="different degrees"):
        load_scene(tmp_path / "ckpt_99_rank0.pt")


@pytest.mark.parametrize(
    ("folder", "text", "expected"),
    [
        ("", "antialiased: true\n", True),
        ("ckpts", "app_opt: false\nantialiased: false\nbatch_size: 1\n", False),
        ("ckpts", "strategy: !!python/object:a.B\n  antialiased: true\n", None),
        ("ckpts", "", None),
    ],
)
def test_settings_of_the_training(tmp_path: Path, folder: str, text: str, expected: bool | None) -> None:
    (tmp_path / folder).mkdir(exist_ok=True)
    if text:
        (tmp_path / "cfg.yml").write_text(text)
    path = save(tmp_path / folder / "ckpt_1.pt", {"step": 1, "splats": splats()})
    assert load_facts(path).antialiased is expected


def test_other_parts_are_named(tmp_path: Path) -> None:
    more = {"pose_adjust": {"embeds.weight": torch.zeros(3)}, "app_module": {}, "bil_grids": {}}
    tensors = splats() | {"semantic": torch.zeros(30, 4)}
    path = save(tmp_path / "a.pt", {"step": 1, "splats": tensors, **more})
    assert load_scene(path).count == 30
    kinds = {entry.kind: entry.harm for entry in load_unused(path)}
    assert kinds == {"appearance": WRONG, "entries of the checkpoint": LOST, "features": LOST, "poses": OTHER}


class Hostile:
    """Runs a command where it is unpickled."""

    def __init__(self, target: Path) -> None:
        self.target = target

    def __reduce__(self) -> tuple[Any, tuple[str]]:
        return os.system, (f"touch {self.target}",)


def test_hostile_files_are_refused(tmp_path: Path) -> None:
    with pytest.raises(CaptureError, match="cannot be read as a checkpoint of gsplat"):
        load_scene(save(tmp_path / "a.pt", {"splats": splats(), "x": Hostile(tmp_path / "owned")}))
    assert not (tmp_path / "owned").exists()
    repeated = splats() | {"means": torch.zeros(1, 3).expand(1 << 36, 3)}
    with pytest.raises(CaptureError, match="means have more numbers than the file"):
        load_scene(save(tmp_path / "b.pt", {"splats": repeated}))
    path = save(tmp_path / "c.pt", {"splats": splats() | {"means": torch.zeros(100_000, 3)}})
    with (
        zipfile.ZipFile(path) as archive,
        zipfile.ZipFile(tmp_path / "d.pt", "w", zipfile.ZIP_DEFLATED) as out,
    ):
        for entry in archive.infolist():
            out.writestr(entry.filename, archive.read(entry))
    with pytest.raises(CaptureError, match=r"d\.pt: the file is packed"):
        load_scene(tmp_path / "d.pt")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (
            {"pipeline": {"_model.means": torch.zeros(3, 3)}},
            "of another program than gsplat: it has no splats",
        ),
        ([1, 2], "of another program than gsplat"),
        ({"splats": {"means": torch.zeros(3, 3)}}, "lack quats, scales, opacities, sh0"),
        ({"splats": splats() | {"means": [1.0]}}, "means are no tensor of floats"),
        (
            {"splats": splats() | {"quats": torch.zeros(30, 4, dtype=torch.int64)}},
            "quats are no tensor of floats",
        ),
        ({"splats": splats() | {"scales": torch.zeros(29, 3)}}, "log_scales must be"),
        (
            {
                "splats": {n: t for n, t in splats().items() if n[:2] != "sh"}
                | {"features": torch.zeros(30, 32)}
            },
            "come from a network",
        ),
    ],
)
def test_other_checkpoints_are_refused(tmp_path: Path, content: Any, message: str) -> None:
    with pytest.raises(CaptureError, match=message):
        load_scene(save(tmp_path / "a.pt", content))


def test_files_that_are_no_archive_are_refused(tmp_path: Path) -> None:
    torch.save({"splats": splats()}, tmp_path / "old.pt", _use_new_zipfile_serialization=False)
    with pytest.raises(CaptureError, match=r"not a file of torch\.save"):
        load_primitives(tmp_path / "old.pt")
    whole = save(tmp_path / "a.pt", {"splats": splats()}).read_bytes()
    (tmp_path / "cut.pt").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(CaptureError, match=r"not a file of torch\.save"):
        load_primitives(tmp_path / "cut.pt")


@pytest.mark.parametrize(
    ("name", "what", "remedy"),
    [
        ("step-000029999.ckpt", "a checkpoint of nerfstudio", "ns-export gaussian-splat"),
        ("chkpnt30000.pth", "a checkpoint of a trainer of 3DGS", "point_cloud/iteration_N/point_cloud.ply"),
        ("scan.lcc", "a scene of XGRIDS", "splat-transform SCENE.lcc SCENE.ply"),
        ("CAPITAL.CKPT", "a checkpoint of nerfstudio", "ns-export"),
    ],
)
def test_files_that_are_named_only(
    tmp_path: Path, name: str, what: str, remedy: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / name).write_bytes(b"PK\3\4")
    for command in (
        ["export", str(tmp_path / name), "--out", str(tmp_path / "a.ply")],
        ["inspect", str(tmp_path / name)],
    ):
        assert main(command) == 2
        printed = capsys.readouterr().err
        assert what in printed and remedy in printed


def test_a_checkpoint_is_inspected(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = save(tmp_path / "ckpt_1.pt", {"step": 1, "splats": splats(degree=2)})
    assert main(["inspect", str(path), "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert (printed["scene"]["count"], printed["scene"]["sh_degree"], printed["unused"]) == (30, 2, [])


@pytest.mark.parametrize("suffix", [".ckpt", ".pth"])
def test_files_of_other_trainings_are_named(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"scene{suffix}"
    path.write_bytes(b"anything")
    with pytest.raises(CaptureError, match=rf"scene\{suffix}: this is .*, which luxel does not read\."):
        load_primitives(path)
