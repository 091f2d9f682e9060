"""Columns, elements and comments of PLY files of other programs, and tensors: used by number, or named in a line."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import safetensors.numpy
import torch
from foreign_scenes import some_gaussians, write_ply
from ray_cast_capture import transforms_capture, write_ply_points

from luxel import scenes
from luxel.render.geometry.camera import Camera
from luxel.render.primitives import PRIMITIVES, Gaussians
from luxel.render.raster.rasterize import rasterize
from luxel.scenes import CaptureError, load_primitives, load_scene, save_scene
from luxel.scenes.files.registry import SCENE_FORMATS
from luxel.scenes.files.scene_files import load_unused
from luxel.scenes.files.scene_format import SceneFacts
from luxel.scenes.unused import LOST, MAX_LINES, OTHER, WRONG, Unused
from luxel.viewer.cli import main

SPACETIME = [
    "trbf_center",
    "trbf_scale",
    *(f"motion_{i}" for i in range(9)),
    *(f"omega_{i}" for i in range(4)),
]


def with_zeros(columns: dict[str, np.ndarray], names: list[str]) -> dict[str, np.ndarray]:
    return columns | {name: np.zeros(len(columns["x"])) for name in names}


def only(path: Path) -> Unused:
    """The one entry of a file."""
    (entry,) = load_unused(path)
    return entry


# -- the filter of Mip-Splatting ----------------------------------------------------------------------------------


def fused(columns: dict[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Scales [N, 3] and opacities [N] of filtered Gaussians, by covariances: S' = S + f^2, alpha sqrt(|S| / |S'|)."""
    variances = np.exp(
        2 * np.stack([columns[f"scale_{i}"].astype(np.float32) for i in range(3)], 1).astype(float)
    )
    wide = variances + columns["filter_3D"].astype(np.float32).astype(float)[:, None] ** 2
    alpha = 1 / (1 + np.exp(-columns["opacity"].astype(np.float32).astype(float)))
    return np.sqrt(wide), alpha * np.sqrt(variances.prod(1) / wide.prod(1))


def filtered(count: int = 40, degree: int = 1) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(9)
    return some_gaussians(count, degree) | {"filter_3D": np.exp(rng.normal(-3, 1, count))}


@pytest.mark.parametrize("kind", ["binary_little_endian", "binary_big_endian", "ascii"])
@pytest.mark.parametrize("degree", [0, 3])
def test_the_3d_filter_is_applied(tmp_path: Path, kind: str, degree: int) -> None:
    columns = filtered(degree=degree)
    path = write_ply(tmp_path / "point_cloud.ply", columns, kind=kind)
    read, (scales, alphas) = load_scene(path), fused(columns)
    np.testing.assert_allclose(read.scales.numpy(), scales, rtol=2e-6)
    np.testing.assert_allclose(read.opacities.numpy(), alphas, rtol=2e-6)
    assert read.sh_degree == degree and load_unused(path) == []


@pytest.mark.parametrize("order", ["first", "doubles"])
def test_the_3d_filter_is_applied_wherever_it_stands(tmp_path: Path, order: str) -> None:
    columns = filtered()
    if order == "first":
        columns = {"filter_3D": columns["filter_3D"], **columns}
    types = {"filter_3D": "f8"} if order == "doubles" else None
    read = load_scene(write_ply(tmp_path / "a.ply", columns, types=types))
    np.testing.assert_allclose(read.scales.numpy(), fused(columns)[0], rtol=2e-6)


def test_a_filter_of_nothing_changes_no_bit_and_a_wide_one_stays_finite(tmp_path: Path) -> None:
    columns = filtered()
    columns["filter_3D"][:20] = 0
    columns["filter_3D"][20] = 1e6
    columns["opacity"][:3] = 30, -90, 200
    columns["opacity"][21:23] = 200, -60
    read = load_scene(write_ply(tmp_path / "a.ply", columns))
    raw = load_scene(write_ply(tmp_path / "b.ply", {n: v for n, v in columns.items() if n != "filter_3D"}))
    assert torch.equal(read.log_scales[:20], raw.log_scales[:20])
    assert torch.equal(read.opacity_logits[:20], raw.opacity_logits[:20])
    assert all(bool(tensor.isfinite().all()) for tensor in read.tensors().values())
    np.testing.assert_allclose(read.opacities[20:23].numpy(), fused(columns)[1][20:23], rtol=1e-5)


def test_a_filtered_scene_looks_like_the_fused_one(tmp_path: Path) -> None:
    columns = filtered()
    scales, alphas = fused(columns)
    plain = {name: values for name, values in columns.items() if name != "filter_3D"}
    plain |= {f"scale_{i}": np.log(scales[:, i]) for i in range(3)} | {
        "opacity": np.log(alphas / (1 - alphas))
    }
    camera = Camera.look_at(eye=(0, -4, 0.5), target=(0, 0, 0), width=80, height=60)
    images = [
        rasterize(load_scene(write_ply(tmp_path / name, table)), camera).rgb
        for name, table in (("raw.ply", columns), ("fused.ply", plain))
    ]
    assert float((images[0] - images[1]).abs().max()) < 1e-5


def test_the_filter_of_other_primitives_is_named(tmp_path: Path) -> None:
    columns = {name: values for name, values in filtered().items() if name != "scale_2"}
    entry = only(write_ply(tmp_path / "surfels.ply", columns))
    assert (entry.harm, entry.example) == (WRONG, "filter_3D") and "not applied" in entry.problem


# -- motion and other columns -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("names", "example"),
    [
        (SPACETIME, "trbf_center"),
        (SPACETIME[::-1], "omega_3"),
        (["t", "scaling_t", *(f"rot_r_{i}" for i in range(4))], "t"),
        (["vx", "vy", "vz"], "vx"),
        (["velocity_0", "velocity_1", "velocity_2", "lifetime"], "velocity_0"),
    ],
)
def test_motion_is_named(
    tmp_path: Path, names: list[str], example: str, caplog: pytest.LogCaptureFixture
) -> None:
    path = write_ply(tmp_path / "moving.ply", with_zeros(some_gaussians(), names))
    assert load_primitives(path).count == 40
    entry = only(path)
    assert (entry.kind, entry.harm, entry.count, entry.example) == ("motion", WRONG, len(names), example)
    assert caplog.messages == [f"{path}: {entry.sentence()}"]
    assert f"{len(names)} columns such as {example} of motion are not read" in entry.problem


def test_motion_in_other_containers_is_named(tmp_path: Path) -> None:
    source = load_scene(write_ply(tmp_path / "a.ply", some_gaussians()))
    tensors = {name: tensor.numpy() for name, tensor in source.tensors().items()}
    path = tmp_path / "a.safetensors"
    safetensors.numpy.save_file(tensors | {"velocities": np.zeros((40, 3), np.float32)}, str(path))
    assert only(path).kind == "motion" and "the tensor velocities of motion" in only(path).problem
    for name, tensor in load_scene(path).tensors().items():
        assert torch.equal(tensor, source.tensors()[name])
    save_scene(tmp_path / "b.compressed.ply", source)
    packed = (tmp_path / "b.compressed.ply").read_bytes()
    moved = packed.replace(
        b"property uint packed_color\n", b"property uint packed_color\nproperty float trbf_center\n"
    )
    head = moved.index(b"end_header\n") + len("end_header\n")
    count, chunk = source.count, 18 * 4
    rows = np.frombuffer(moved, "<u4", 4 * count, head + chunk).reshape(count, 4)
    wider = np.column_stack([rows, np.zeros(count, "<u4")]).astype("<u4").tobytes()
    (tmp_path / "c.compressed.ply").write_bytes(
        moved[: head + chunk] + wider + moved[head + chunk + 16 * count :]
    )
    assert only(tmp_path / "c.compressed.ply").kind == "motion"
    assert torch.equal(
        load_scene(tmp_path / "c.compressed.ply").means, load_scene(tmp_path / "b.compressed.ply").means
    )


@pytest.mark.parametrize(
    ("names", "kind", "harm"),
    [
        (["beta"], "kernel", WRONG),
        (["sb_params_0", "sb_params_1"], "kernel", WRONG),
        (["albedo_0", "albedo_1", "albedo_2", "roughness", "metallic"], "materials", LOST),
        ([f"obj_dc_{i}" for i in range(16)], "features", LOST),
        (["semantic_0", "semantic_1"], "features", LOST),
        (["gizmo"], "columns", LOST),
        (["class_id"], "labels", OTHER),
        (["red", "green", "blue"], "colours of points", OTHER),
    ],
)
def test_other_columns_are_named_by_what_they_mean(
    tmp_path: Path, names: list[str], kind: str, harm: int
) -> None:
    entry = only(write_ply(tmp_path / "a.ply", with_zeros(some_gaussians(), names)))
    assert (entry.kind, entry.harm, entry.count, entry.example) == (kind, harm, len(names), names[0])
    assert names[0] in entry.problem and (len(names) == 1 or str(len(names)) in entry.problem)


@pytest.mark.parametrize("degree", [0, 1, 2, 3])
def test_the_columns_of_3dgs_are_silent(
    tmp_path: Path, degree: int, caplog: pytest.LogCaptureFixture
) -> None:
    columns = some_gaussians(degree=degree)
    path = write_ply(
        tmp_path / "a.ply", dict(sorted(columns.items())), comments=["Generated by a program, 2026"]
    )
    assert load_primitives(path).count == 40 and not caplog.records and load_unused(path) == []


def test_files_of_luxel_are_silent(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    facts = SceneFacts(antialiased=True, up=(0.0, -1.0, 0.0), metres=0.5)
    source = load_scene(write_ply(tmp_path / "a.ply", some_gaussians(degree=2)))
    written = [known.suffix for known in SCENE_FORMATS if known.save and known.suffix != ".html"]
    for suffix in written:
        path = tmp_path / "out" / f"scene{suffix}"
        path.parent.mkdir(exist_ok=True)
        save_scene(path, source, facts=facts)
        caplog.clear()
        if suffix != "meta.json":
            assert load_unused(path) == []
        load_primitives(path)
        assert not caplog.records


def test_every_primitive_of_luxel_is_silent(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, every_primitive: Callable[[], list]
) -> None:
    for scene in every_primitive():
        for suffix in (".ply", ".safetensors"):
            path = tmp_path / f"{scene.primitive}{suffix}"
            save_scene(path, scene)
            assert type(load_primitives(path)) is type(scene) and not caplog.records


@pytest.fixture
def every_primitive() -> Callable[[], list]:
    """Small scenes of every primitive."""

    def make() -> list:
        generator = torch.Generator().manual_seed(1)

        def some(shape: tuple[int, ...]) -> torch.Tensor:
            return torch.randn(shape, generator=generator)

        out = []
        for spec in PRIMITIVES.values():
            tensors = {}
            for part in spec.columns:
                if part.parameter == "sh_rest":
                    tensors["sh_rest"] = some((7, 3, 3))
                elif part.repeats:
                    tensors[part.parameter] = some((7, part.repeats[0], len(part.names)))
                elif part.parameter:
                    width = len(part.names)
                    tensors[part.parameter] = some((7, width) if width > 1 else (7,))
            out.append(spec.engine.parameters(**tensors))
        return out

    return make


# -- elements and comments ----------------------------------------------------------------------------------------


def test_elements_are_named(tmp_path: Path) -> None:
    camera = [
        "element extrinsic 16",
        "property float extrinsic",
        "element version 3",
        "property uchar version",
    ]
    path = write_ply(tmp_path / "a.ply", some_gaussians(), before=camera, after=bytes(67))
    assert load_primitives(path).count == 40
    assert (only(path).harm, only(path).count, only(path).example) == (OTHER, 2, "extrinsic")
    other = ["element safe_orbit_camera_radius_min 1", "property float safe_orbit_camera_radius_min"]
    entry = only(write_ply(tmp_path / "b.ply", some_gaussians(), before=other, after=bytes(4)))
    assert entry.harm == LOST and "The element safe_orbit_camera_radius_min is not read" in entry.problem
    empty = ["element face 0", "property list uchar int vertex_indices"]
    assert load_unused(write_ply(tmp_path / "c.ply", some_gaussians(), before=empty)) == []


@pytest.mark.parametrize(
    ("comment", "kind", "harm"),
    [
        ("epsg: 32632", "placement", LOST),
        ("offsetx 691000.5", "placement", LOST),
        ("unit = mm", "placement", LOST),
        ("near plane: 0.2", "comments", OTHER),
        ("luxel tone_mapping filmic", "comments", OTHER),
        ("Vertical Axis: w", "comments", OTHER),
    ],
)
def test_settings_in_comments_are_named(tmp_path: Path, comment: str, kind: str, harm: int) -> None:
    path = write_ply(tmp_path / "a.ply", some_gaussians(), comments=[comment])
    entry = only(path)
    assert (entry.kind, entry.harm, entry.example) == (kind, harm, comment) and comment in entry.problem


@pytest.mark.parametrize(
    "comment",
    [
        "Exported from a viewer",
        "Created: 2026-11-28T01:00:00",
        "Software: a trainer 1.4",
        "https://example.com/scene",
        "SH degree: 3",
        "Vertical Axis: z",
        "",
    ],
)
def test_comments_on_the_origin_are_silent(tmp_path: Path, comment: str) -> None:
    assert load_unused(write_ply(tmp_path / "a.ply", some_gaussians(), comments=[comment])) == []


def test_the_most_harmful_come_first_and_lines_are_few(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    names = ["red", "class_id", "gizmo", "obj_dc_0", "albedo_0", "beta", "vx"]
    path = write_ply(
        tmp_path / "a.ply",
        with_zeros(some_gaussians(), names),
        comments=["near: 1", "epsg: 4326", "SplatRenderMode: cubist"],
        before=["element thing 1", "property float thing"],
        after=bytes(4),
    )
    load_primitives(path)
    harms = [entry.harm for entry in load_unused(path)]
    assert len(harms) == 11 and harms == sorted(harms, reverse=True)
    assert len(caplog.records) == MAX_LINES and "4 more kinds of things are not used" in caplog.messages[-1]
    assert f"luxel inspect {path} --json lists all" in caplog.messages[-1]
    assert "is not known" not in caplog.messages[0] and "kernel" in "".join(caplog.messages[:3])


def test_a_file_is_told_of_once_until_it_changes(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = write_ply(tmp_path / "a.ply", with_zeros(some_gaussians(), SPACETIME))
    for _ in range(3):
        load_primitives(path)
    assert len(caplog.records) == 1
    write_ply(path, with_zeros(some_gaussians(50), SPACETIME))
    load_primitives(path)
    assert len(caplog.records) == 2
    load_primitives(write_ply(tmp_path / "b.ply", with_zeros(some_gaussians(), ["vx"])), log_unused=False)
    assert len(caplog.records) == 2


def test_metadata_of_tensors_is_named(tmp_path: Path) -> None:
    source = load_scene(write_ply(tmp_path / "a.ply", some_gaussians()))
    tensors = {name: tensor.numpy() for name, tensor in source.tensors().items()}
    path = tmp_path / "a.safetensors"
    safetensors.numpy.save_file(tensors, str(path), {"format": "np", "white_balance": "5600"})
    assert (only(path).kind, only(path).example) == ("metadata", "white_balance")
    safetensors.numpy.save_file(tensors, str(path), {"format": "np", "antialiased": "true"})
    assert load_unused(path) == []


# -- what is refused ----------------------------------------------------------------------------------------------


def without(columns: dict[str, np.ndarray], *starts: str) -> dict[str, np.ndarray]:
    return {name: values for name, values in columns.items() if not name.startswith(starts)}


def test_scenes_of_networks_and_point_clouds_are_refused(tmp_path: Path) -> None:
    anchors = with_zeros(without(some_gaussians(), "f_dc"), ["f_offset_0", "f_anchor_feat_0"])
    with pytest.raises(CaptureError, match="anchors") as caught:
        load_primitives(write_ply(tmp_path / "anchors.ply", anchors))
    assert "luxel train" in caught.value.remedy
    features = with_zeros(without(some_gaussians(), "f_dc"), SPACETIME)
    with pytest.raises(CaptureError, match="Spacetime Gaussians, whose colours a network makes"):
        load_primitives(write_ply(tmp_path / "full.ply", features))
    points = {name: values for name, values in some_gaussians().items() if name in "xyz"}
    with pytest.raises(CaptureError, match="point cloud, not a scene") as caught:
        load_primitives(write_ply(tmp_path / "points.ply", points))
    assert "luxel train CAPTURE" in caught.value.remedy
    with pytest.raises(CaptureError, match="need the properties opacity"):
        load_primitives(write_ply(tmp_path / "half.ply", without(some_gaussians(), "opacity")))


# -- points of captures -------------------------------------------------------------------------------------------


def test_columns_of_points_of_a_capture_are_named(tmp_path: Path) -> None:
    folder = transforms_capture(tmp_path / "capture", ply_file_path="points.ply")
    write_ply_points(folder / "points.ply")
    assert not [entry for entry in scenes.open(folder).unused if "points" in entry.kind]
    columns = {
        name: values
        for name, values in some_gaussians(60).items()
        if name in ("x", "y", "z", "nx", "ny", "nz")
    }
    columns = with_zeros(columns, ["red", "green", "blue", "intensity", "classification"])
    for kind in ("ascii", "binary_little_endian"):
        write_ply(folder / "points.ply", columns, kind=kind)
        capture = scenes.open(folder)
        (entry,) = [entry for entry in capture.unused if entry.kind == "columns of points"]
        assert (entry.count, entry.example, entry.harm) == (2, "intensity", OTHER)
        assert entry.sentence() in capture.warnings and "points.ply" in entry.problem


# -- luxel inspect ------------------------------------------------------------------------------------------------


def test_inspect_prints_a_scene(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write_ply(tmp_path / "a.ply", with_zeros(some_gaussians(degree=2), SPACETIME))
    assert main(["inspect", str(path)]) == 0
    printed = capsys.readouterr()
    assert "content: 40 Gaussians" in printed.out and "spherical harmonics: degree 2" in printed.out
    assert (
        "antialiased: not stated" in printed.out and printed.out.count("15 columns such as trbf_center") == 1
    )
    assert "Nothing was found" not in printed.out and "trbf" not in printed.err
    write_ply(path, some_gaussians(degree=2))
    assert main(["inspect", str(path)]) == 0
    assert "Nothing was found in it that luxel does not use." in capsys.readouterr().out


def test_inspect_gives_numbers_to_programs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    columns = with_zeros(some_gaussians(300, degree=3), ["class_id"])
    path = write_ply(
        tmp_path / "a.ply", columns, comments=["luxel up 0 0 1", "SplatRenderMode: mip", "luxel metres 2"]
    )
    assert main(["inspect", str(path), "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    scene, (unused,) = printed["scene"], printed["unused"]
    assert (scene["primitive"], scene["count"], scene["sh_degree"]) == ("gaussians", 300, 3)
    assert (scene["antialiased"], scene["up"], scene["metres"]) == (True, [0, 0, 1], 2.0)
    centres = np.stack([columns[axis].astype(np.float32) for axis in "xyz"], 1)
    np.testing.assert_array_equal(scene["bounds"], [centres.min(0), centres.max(0)])
    np.testing.assert_array_equal(scene["middle"], [np.sort(centres, 0)[3], np.sort(centres, 0)[-4]])
    assert (unused["kind"], unused["harm"], unused["example"]) == ("labels", "other", "class_id")


def test_inspect_tells_scenes_from_captures(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = transforms_capture(tmp_path / "capture")
    write_ply(folder / "scene.ply", some_gaussians())
    assert main(["inspect", str(folder), "--no-estimate"]) == 0
    assert "photographs: 8" in capsys.readouterr().out
    path = folder / "scene.ply"
    assert main(["inspect", str(path)]) == 0 and "40 Gaussians" in capsys.readouterr().out
    assert main(["inspect", str(path), "--frames", "9"]) == 2
    assert "this is a scene, and --frames is for captures" in capsys.readouterr().err
    (tmp_path / "run").mkdir()
    write_ply(tmp_path / "run/scene.ply", some_gaussians())
    assert main(["inspect", str(tmp_path / "run")]) == 0
    assert "format: run" in capsys.readouterr().out
    write_ply(tmp_path / "points.ply", {name: some_gaussians()[name] for name in "xyz"})
    assert main(["inspect", str(tmp_path / "points.ply")]) == 2
    assert "this is a point cloud, not a scene" in capsys.readouterr().err
    (tmp_path / "notes.txt").write_text("nothing")
    assert main(["inspect", str(tmp_path / "notes.txt")]) == 2
    assert "no known capture format" in capsys.readouterr().err


def test_gaussians_read_beside_columns_of_others_are_the_same(tmp_path: Path) -> None:
    columns = some_gaussians()
    plain = load_scene(write_ply(tmp_path / "a.ply", columns))
    mixed = load_scene(write_ply(tmp_path / "b.ply", {"vx": columns["x"], "gizmo": columns["y"], **columns}))
    assert isinstance(mixed, Gaussians)
    for name, tensor in plain.tensors().items():
        assert torch.equal(tensor, mixed.tensors()[name])
