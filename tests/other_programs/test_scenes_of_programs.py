"""Scene files of other programs: what is clipped when they are written, streamed SOG, parts of glTF left out."""

from __future__ import annotations

import json
import logging
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from foreign_scenes import GLTF, Glb, some_gaussians, write_ply

from luxel.render.primitives import Gaussians
from luxel.scenes import CaptureError, load_primitives, load_scene, save_scene
from luxel.scenes.files.registry import SCENE_FORMATS
from luxel.scenes.files.scene_files import load_facts, load_unused
from luxel.scenes.files.scene_format import SceneFacts
from luxel.scenes.unused import LOST, OTHER, WRONG
from luxel.viewer.cli import main


def gaussians(count: int = 60, degree: int = 1, **columns: np.ndarray | torch.Tensor) -> Gaussians:
    """Gaussians whose values every format holds, but for those that are given by name of the parameter."""
    generator = torch.Generator().manual_seed(4)

    def uniform(*shape: int, high: float = 1.0) -> torch.Tensor:
        return (torch.rand(shape, generator=generator) * 2 - 1) * high

    tensors = {
        "means": uniform(count, 3, high=4.0),
        "quats": uniform(count, 4),
        "log_scales": uniform(count, 3) - 3,
        "opacity_logits": uniform(count, high=4.0),
        "sh_dc": uniform(count, 3, high=1.5),
        "sh_rest": uniform(count, (degree + 1) ** 2 - 1, 3, high=0.3),
    }
    return Gaussians(**(tensors | {name: torch.as_tensor(values) for name, values in columns.items()}))


# -- what is clipped ----------------------------------------------------------------------------------------------


def clipped_line(caplog: pytest.LogCaptureFixture) -> str:
    """The one line on what was clipped; empty where there is none."""
    lines = [message for message in caplog.messages if "were clipped" in message]
    assert len(lines) <= 1
    return lines[0] if lines else ""


@pytest.mark.parametrize("version", [3, 4])
@pytest.mark.parametrize("shift", [np.log(5000.0), -np.log(10000.0)])
def test_scales_that_spz_does_not_hold_are_counted(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, shift: float, version: int
) -> None:
    """A scene in fifths of a millimetre, and one whose unit is ten kilometres."""
    log_scales = (gaussians().log_scales.numpy() + shift).astype(np.float32)
    log_scales[:7] = -2.0
    save_scene(tmp_path / "a.spz", gaussians(log_scales=log_scales), version=version)
    outside = (log_scales < -10 - 1 / 32) | (log_scales > -10 + 255 / 16 + 1 / 32)
    count = int(outside.any(1).sum())
    assert 0 < count <= 53
    assert f"a.spz: {count} of 60 Gaussians were clipped to what the format holds: scales" in clipped_line(
        caplog
    )
    back = np.sort(load_scene(tmp_path / "a.spz").log_scales.numpy().ravel())
    np.testing.assert_allclose(back, np.sort(log_scales.clip(-10, 5.9375).ravel()), atol=1 / 32 + 1e-6)


@pytest.mark.parametrize(
    ("suffix", "parameter", "value", "said"),
    [
        (".spz", "means", 3e7, "positions"),
        (".spz", "sh_dc", 4.0, "colours"),
        (".spz", "sh_rest", 1.5, "spherical harmonics (-1 to 1)"),
        (".splat", "sh_dc", -2.5, "colours (0 to 1)"),
        (".splat", "log_scales", 95.0, "scales"),
        (".compressed.ply", "log_scales", 21.0, "scales"),
        (".compressed.ply", "log_scales", -22.0, "scales"),
        (".compressed.ply", "sh_rest", -5.0, "spherical harmonics (-4 to 4)"),
        (".compressed.ply", "means", 1e20, "positions"),
        (".glb", "log_scales", 95.0, "scales"),
    ],
)
def test_what_a_format_does_not_hold_is_counted(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, suffix: str, parameter: str, value: float, said: str
) -> None:
    tensor = getattr(gaussians(), parameter).clone()
    tensor[5:8, 0] = value
    save_scene(tmp_path / f"a{suffix}", gaussians(**{parameter: tensor}))
    line = clipped_line(caplog)
    assert "3 of 60 Gaussians were clipped" in line
    assert line.split("holds: ")[1].startswith(said) and line.split("Write")[0].endswith(" 3. ")


def test_a_gaussian_counts_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    log_scales, sh_dc = gaussians().log_scales.clone(), gaussians().sh_dc.clone()
    log_scales[3], sh_dc[3], sh_dc[4, 1] = 9.0, 5.0, -5.0
    save_scene(tmp_path / "a.spz", gaussians(log_scales=log_scales, sh_dc=sh_dc))
    line = clipped_line(caplog)
    assert "2 of 60" in line and "colours 2" in line and "to 379) 1, " in line


def test_sound_scenes_are_written_in_silence(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Also those at the ends of the ranges, which are only rounded."""
    ends = gaussians().log_scales.clone()
    ends[0], ends[1] = -10.03, 5.96
    for scene in (gaussians(degree=3), gaussians(log_scales=ends), gaussians(1)):
        for known in SCENE_FORMATS:
            if known.save is not None and known.suffix != ".html":
                save_scene(tmp_path / f"scene{known.suffix}", scene)
                assert not caplog.records, known.suffix


def test_half_precision_clips_nothing(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    sh_dc = gaussians().sh_dc.clone()
    sh_dc[2, 1] = 70000.0
    means = gaussians().means * 1e6
    save_scene(tmp_path / "a.safetensors", gaussians(sh_dc=sh_dc, means=means), half=True)
    read = load_scene(tmp_path / "a.safetensors")
    assert torch.equal(read.means, means) and torch.equal(read.sh_dc, sh_dc) and not caplog.records


@pytest.mark.parametrize("name", ["a.sog", "folder/meta.json", "a.html"])
def test_gaussians_that_sog_cannot_hold_are_counted(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, name: str
) -> None:
    means = gaussians().means.clone()
    means[4:6] = float("nan")
    (tmp_path / "folder").mkdir()
    save_scene(tmp_path / name, gaussians(means=means))
    assert "2 of 60 Gaussians have parameters that are not finite (means 2); they are left out" in caplog.text


def test_export_says_what_is_clipped(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    columns = some_gaussians() | {"scale_0": np.full(40, -11.5)}
    path = write_ply(tmp_path / "small.ply", columns)
    assert main(["export", str(path), "--out", str(tmp_path / "a.spz")]) == 0
    assert "40 of 40 Gaussians were clipped" in clipped_line(caplog)


# -- streamed SOG -------------------------------------------------------------------------------------------------


def part(folder: Path, name: str, scene: Gaussians, **entries: Any) -> Gaussians:
    """Writes a part of a streamed scene; the Gaussians as they are stored."""
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    save_scene(path, scene)
    if entries:
        path.write_text(json.dumps(json.loads(path.read_text()) | entries))
    read = load_primitives(path)
    assert isinstance(read, Gaussians)
    return read


def leaf(**levels: tuple[int, int, int]) -> dict[str, Any]:
    lods = {
        level[1:]: dict(zip(("file", "offset", "count"), entry, strict=True))
        for level, entry in levels.items()
    }
    return {"bound": {"min": [-4, -4, -4], "max": [4, 4, 4]}, "lods": lods}


def inner(*children: dict[str, Any]) -> dict[str, Any]:
    return {"bound": {"min": [-4, -4, -4], "max": [4, 4, 4]}, "children": list(children)}


def index(folder: Path, root: Any, names: list[str], **entries: Any) -> Path:
    meta = {
        "version": 1,
        "count": 1,
        "counts": [1],
        "lodLevels": 2,
        "filenames": names,
        "tree": root,
    } | entries
    path = folder / "lod-meta.json"
    path.write_text(json.dumps(meta))
    return path


def joined(*scenes: Gaussians) -> dict[str, torch.Tensor]:
    return {name: torch.cat([scene.tensors()[name] for scene in scenes]) for name in Gaussians.names}


def assert_equal(actual: Gaussians, expected: dict[str, torch.Tensor]) -> None:
    for name, tensor in actual.tensors().items():
        assert torch.equal(tensor, expected[name]), name


def test_the_finest_level_of_a_streamed_scene_is_read(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    fine = [part(tmp_path, f"0_{i}/meta.json", gaussians(50 + 10 * i)) for i in range(2)]
    part(tmp_path, "1_0/meta.json", gaussians(20))
    tree = inner(
        leaf(_0=(0, 0, 30), _1=(2, 0, 8)),
        inner(leaf(_0=(1, 0, 60), _1=(2, 8, 12)), leaf(_1=(2, 20, 0), _0=(0, 30, 20))),
    )
    path = index(tmp_path, tree, ["0_0/meta.json", "0_1/meta.json", "1_0/meta.json"])
    for given in (path, tmp_path):
        assert_equal(load_scene(given), joined(*fine))
        assert load_unused(given) == []
    assert not caplog.records
    assert main(["export", str(tmp_path), "--out", str(tmp_path / "all.ply")]) == 0
    assert load_scene(tmp_path / "all.ply").count == 110


def test_parts_by_any_name_leaves_of_coarse_levels_and_the_environment(tmp_path: Path) -> None:
    """Names follow the index, not a pattern; of a part only the ranges count; a file of before version 1 has none."""
    near = part(tmp_path, "near/a/meta.json", gaussians(40, degree=2), model="antialiased")
    far = part(tmp_path, "far/meta.json", gaussians(30, degree=0))
    sky = part(tmp_path, "env/meta.json", gaussians(10, degree=1))
    tree = inner(leaf(_0=(1, 5, 10), _2=(0, 0, 3)), leaf(_2=(0, 7, 20)), leaf(_0=(1, 30, 9)))
    path = index(tmp_path, tree, ["far/meta.json", "near/a/meta.json"], environment="env/meta.json")
    meta = json.loads(path.read_text())
    for key in ("version", "count", "counts"):
        del meta[key]
    path.write_text(json.dumps(meta))
    read = load_scene(path)
    assert read.count == 20 + 19 + 10 and read.sh_degree == 2
    rows = [*range(5, 15), *range(30, 39)]
    assert torch.equal(read.means, torch.cat([far.means[7:27], near.means[rows], sky.means]))
    assert torch.equal(read.sh_rest[20:39], near.sh_rest[rows]) and not bool(read.sh_rest[:20].any())
    assert torch.equal(read.sh_rest[39:, :3], sky.sh_rest) and not bool(read.sh_rest[39:, 3:].any())
    path.write_text(json.dumps(meta | {"environment": None}))
    assert load_scene(path).count == 39 and load_facts(path) == SceneFacts()
    path.write_text(json.dumps(meta | {"tree": leaf(_0=(1, 0, 40))}))
    assert load_facts(path) == SceneFacts(antialiased=True)


def test_what_a_streamed_scene_holds_besides_is_named(tmp_path: Path) -> None:
    part(tmp_path, "0_0/meta.json", gaussians(40), tint=1)
    path = index(tmp_path, leaf(_0=(0, 0, 40)), ["0_0/meta.json"], fog={"start": 1})
    entries = {entry.kind: entry for entry in load_unused(path)}
    assert set(entries) == {"entries of meta.json", "entries of the index"}
    assert entries["entries of the index"].example == "fog"


def test_a_streamed_scene_without_its_parts_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tree = leaf(_0=(0, 0, 10), _1=(1, 0, 5))
    path = index(tmp_path, tree, ["0_0/meta.json", "1_0/meta.json"])
    for given in (path, tmp_path):
        with pytest.raises(
            CaptureError, match="streamed SOG scene of 2 levels of detail, and its part 0_0"
        ) as caught:
            load_scene(given)
        assert "as one .sog" in caught.value.remedy
        assert main(["export", str(given), "--out", str(tmp_path / "a.ply")]) == 2
        assert "streamed SOG scene of 2 levels" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"version": 2}, "streamed SOG of version 2; luxel reads version 1"),
        ({"version": "one"}, "streamed SOG of version one"),
        ({"filenames": ["../part/meta.json"]}, "outside of its folder"),
        ({"filenames": ["/part/meta.json"]}, "outside of its folder"),
        ({"filenames": [7]}, "outside of its folder"),
        ({"filenames": []}, "names parts that it does not list"),
        ({"environment": "..\\env"}, "outside of its folder"),
        ({"tree": leaf(_0=(1, 0, 4))}, "names parts that it does not list"),
        ({"tree": leaf(_0=(0, 30, 20))}, "overlap or exceed 40 Gaussians"),
        ({"tree": inner(leaf(_0=(0, 0, 20)), leaf(_0=(0, 10, 20)))}, "overlap or exceed"),
        ({"tree": leaf(_0=(0, -1, 4))}, "names no range of a part"),
        ({"tree": leaf(_fine=(0, 0, 4))}, "names no range of a part"),
        ({"tree": {"lods": {"0": [1, 2, 3]}}}, "names no range of a part"),
        ({"tree": None}, "its tree has no leaves"),
        ({"tree": leaf(_0=(0, 0, 1 << 50))}, "memory"),
    ],
)
def test_damaged_streamed_scenes(tmp_path: Path, change: dict[str, Any], message: str) -> None:
    part(tmp_path, "part/meta.json", gaussians(40))
    path = index(tmp_path, leaf(_0=(0, 0, 40)), ["part/meta.json"], **change)
    with pytest.raises(CaptureError, match=message):
        load_scene(path)


def test_an_index_that_is_none(tmp_path: Path) -> None:
    (tmp_path / "lod-meta.json").write_text("[1, 2]")
    with pytest.raises(CaptureError, match=r"lod-meta\.json holds no JSON object"):
        load_scene(tmp_path)
    (tmp_path / "lod-meta.json").write_text("{" * 4)
    with pytest.raises(CaptureError, match="cannot be read as a streamed SOG scene"):
        load_scene(tmp_path)
    with pytest.raises(CaptureError, match="not a scene format that luxel writes"):
        save_scene(tmp_path / "out" / "lod-meta.json", gaussians())


# -- glTF ---------------------------------------------------------------------------------------------------------


def kinds(path: Path) -> dict[str, int]:
    return {entry.kind: entry.harm for entry in load_unused(path)}


def test_meshes_beside_gaussians_are_named(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    glb = Glb()
    glb.triangle()
    glb.gaussians(30)
    glb.triangle()
    path = glb.write(tmp_path / "mixed.glb")
    assert load_scene(path).count == 30 and kinds(path) == {"meshes": LOST}
    assert caplog.messages == [f"{path}: {load_unused(path)[0].sentence()}"]
    assert "2 meshes beside its Gaussians: only the Gaussians are read" in caplog.text
    caplog.clear()
    other = glb.write(tmp_path / "again.glb")
    assert main(["export", str(other), "--out", str(tmp_path / "out.ply")]) == 0
    assert "2 meshes beside its Gaussians" in caplog.text


@pytest.mark.parametrize(
    ("about", "kind", "words"),
    [
        ({"projection": "orthographic"}, "projection", "'orthographic'; luxel draws them in perspective"),
        ({"sortingMethod": "zDepth"}, "sortingMethod", "'zDepth'; luxel sorts them by their distance"),
        ({"colorSpace": "lin_rec709_display"}, "colorSpace", "'lin_rec709_display'; luxel shows them as if"),
        ({"sortingMethod": None}, "sortingMethod", "'None'"),
    ],
)
def test_how_gaussians_are_to_be_drawn_is_named(
    tmp_path: Path, about: dict[str, Any], kind: str, words: str, caplog: pytest.LogCaptureFixture
) -> None:
    glb = Glb()
    glb.gaussians(20, about=about)
    glb.gaussians(10)
    path = glb.write(tmp_path / "a.glb")
    assert load_scene(path).count == 30 and kinds(path) == {kind: WRONG} and words in caplog.text


def animated(glb: Glb) -> None:
    glb.document["animations"] = [{"name": "turn", "channels": [], "samplers": []}]


def with_camera(glb: Glb) -> None:
    glb.document["cameras"] = [{"type": "perspective", "perspective": {"yfov": 1, "znear": 0.1}}]


def lit(glb: Glb) -> None:
    glb.document["extensions"] = {"KHR_lights_punctual": {"lights": [{"type": "point", "name": "lamp"}]}}
    glb.document["extensionsUsed"].append("KHR_lights_punctual")


def extended(glb: Glb) -> None:
    glb.document["extensionsUsed"] += ["EXT_wind", "KHR_materials_unlit"]


@pytest.mark.parametrize(
    ("change", "kind", "harm", "word"),
    [
        (animated, "animations", LOST, "turn"),
        (with_camera, "cameras", OTHER, "camera 0"),
        (lit, "lights", OTHER, "lamp"),
        (extended, "extensions", LOST, "EXT_wind"),
    ],
)
def test_other_parts_of_gltf_are_named(
    tmp_path: Path, change: Callable[[Glb], None], kind: str, harm: int, word: str
) -> None:
    glb = Glb()
    glb.gaussians(20)
    change(glb)
    path = glb.write(tmp_path / "a.glb")
    assert load_scene(path).count == 20 and kinds(path) == {kind: harm}
    assert word in load_unused(path)[0].problem


def test_attributes_and_properties_of_gaussians_are_named(tmp_path: Path) -> None:
    glb = Glb()
    more = {"_FEATURE": np.zeros((20, 2)), "COLOR_0": np.zeros((20, 4)), "NORMAL": np.zeros((20, 3))}
    more[f"{GLTF}:SH_DEGREE_4_COEF_0"] = np.zeros((20, 3))
    glb.gaussians(20, more=more, about={"dilation": 0.1, "extras": {"a": 1}})
    path = glb.write(tmp_path / "a.glb")
    assert load_scene(path).count == 20
    assert kinds(path) == {"spherical harmonics": LOST, "attributes": LOST, "properties of Gaussians": LOST}
    assert {entry.example for entry in load_unused(path)} >= {"_FEATURE", "dilation"}


def test_gaussians_of_other_scenes_and_instances_are_named(tmp_path: Path) -> None:
    glb = Glb()
    shown = glb.gaussians(20, extensions={"EXT_mesh_gpu_instancing": {"attributes": {}}})
    hidden = glb.gaussians(10, name="the other")
    glb.document["extensionsUsed"].append("EXT_mesh_gpu_instancing")
    path = glb.write(tmp_path / "a.glb", [shown], [hidden])
    assert load_scene(path).count == 20 and kinds(path) == {"instances": WRONG, "other scenes": LOST}
    assert "the other" in load_unused(path)[1].problem


def test_plain_files_of_gaussians_are_silent(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    glb = Glb()
    child = glb.gaussians(20, name="child", translation=[1, 2, 3])
    glb.document["nodes"].append({"children": [child], "name": "parent"})
    path = glb.write(tmp_path / "a.glb", [len(glb.document["nodes"]) - 1])
    assert load_scene(path).count == 20 and kinds(path) == {} and not caplog.records
    glb.document |= {"extensionsUsed": [GLTF, "KHR_mesh_quantization"], "animations": [], "cameras": []}
    assert kinds(glb.write(tmp_path / "b.glb", [child])) == {}
    del glb.document["scene"]
    data = bytearray(path.read_bytes())
    struct.pack_into("<I", data, 12, 1 << 20)
    (tmp_path / "c.glb").write_bytes(data)
    with pytest.raises(CaptureError, match="cut short"):
        load_unused(tmp_path / "c.glb")


def test_an_odd_part_does_not_keep_a_scene_from_being_read(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    glb = Glb()
    glb.gaussians(20)
    glb.document["nodes"][0]["children"] = []
    glb.document["extensions"] = ["not", "an", "object"]
    glb.document["cameras"] = {"a": 1}
    with caplog.at_level(logging.WARNING):
        assert load_scene(glb.write(tmp_path / "a.glb")).count == 20
    assert not caplog.records
