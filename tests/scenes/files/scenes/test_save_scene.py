"""Scenes of any primitive by suffix: the PLY of 4D Gaussians, .splat, and files in half precision."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import safetensors.torch
import torch

import luxel.scenes as scenes
from luxel.render.primitives import PRIMITIVES, Convexes, Gaussians4d, Parameters
from luxel.render.primitives.gaussians import SH_C0
from luxel.scenes.files.ply import read_vertices, write_vertices
from luxel.scenes.files.registry import SCENE_FORMATS, register_scene_format
from luxel.scenes.synthetic.toy import torus_knot


def random(empty: Parameters, n: int = 7) -> Parameters:
    generator = torch.Generator().manual_seed(0)
    return empty.map(lambda t: torch.randn(n, *t.shape[1:], generator=generator))


def assert_same(actual: Parameters, expected: Parameters) -> None:
    assert type(actual) is type(expected)
    for name, tensor in expected.tensors().items():
        assert torch.equal(getattr(actual, name), tensor), name


EVERY = [
    torus_knot(9),
    random(Gaussians4d.empty(3)),
    random(Gaussians4d.empty(0)),
    random(Convexes.empty(4, 1)),
]


@pytest.mark.parametrize("scene", EVERY, ids=lambda s: f"{s.primitive}-{s.sh_degree}")
@pytest.mark.parametrize("name", ["scene.ply", "SCENE.PLY", "scene.safetensors"])
def test_every_primitive_round_trip(tmp_path: Path, scene: Parameters, name: str) -> None:
    scenes.save_scene(tmp_path / "deep/er" / name, scene)
    assert_same(scenes.load_primitives(tmp_path / "deep/er" / name), scene)


@pytest.mark.parametrize("degree", [0, 1, 2, 3])
def test_empty_4d_gaussians(tmp_path: Path, degree: int) -> None:
    scenes.save_primitive_ply(tmp_path / "a.ply", Gaussians4d.empty(degree))
    loaded = scenes.load_primitives(tmp_path / "a.ply")
    assert isinstance(loaded, Gaussians4d) and (loaded.count, loaded.sh_degree) == (0, degree)


def test_layout_of_4d_gaussians(tmp_path: Path) -> None:
    original = random(Gaussians4d.empty(1), 5)
    assert isinstance(original, Gaussians4d)
    scenes.save_primitive_ply(tmp_path / "a.ply", original)
    vertices = read_vertices(tmp_path / "a.ply")
    rest = [f"f_rest_{i}" for i in range(9)]
    rotors = [f"rotor_{i}" for i in range(8)]
    expected = [
        "x",
        "y",
        "z",
        "t",
        "f_dc_0",
        "f_dc_1",
        "f_dc_2",
        *rest,
        "opacity",
        "scale_0",
        "scale_1",
        "scale_2",
    ]
    assert list(vertices.dtype.names or ()) == [*expected, "scale_t", *rotors]
    assert vertices["t"][3] == original.times[3] and vertices["scale_t"][3] == original.log_scale_t[3]
    assert (
        vertices["rotor_5"][2] == original.rotors[2, 5]
        and vertices["scale_1"][4] == original.log_scales[4, 1]
    )
    assert vertices["f_rest_4"][2] == original.sh_rest[2, 1, 1]  # 3 of red, then green from its second


def test_properties_may_come_in_any_order_and_type(tmp_path: Path) -> None:
    original = random(Gaussians4d.empty(1), 5)
    scenes.save_scene(tmp_path / "a.ply", original)
    vertices = read_vertices(tmp_path / "a.ply")
    names = list(reversed(vertices.dtype.names or ()))
    table = np.empty(len(vertices), [*((n, "<f4") for n in names), ("more", "u1")])
    for name in names:
        table[name] = vertices[name]
    write_vertices(tmp_path / "b.ply", table)
    assert_same(scenes.load_primitives(tmp_path / "b.ply"), original)


@pytest.mark.parametrize("lacks", ["t", "rotor_7", "rotor_0", "scale_t", "scale_2", "opacity", "z", "f_dc_1"])
def test_4d_gaussians_without_a_property(tmp_path: Path, lacks: str) -> None:
    scenes.save_scene(tmp_path / "a.ply", random(Gaussians4d.empty(0)))
    vertices = read_vertices(tmp_path / "a.ply")
    kept = [n for n in vertices.dtype.names or () if n != lacks]
    table = np.zeros(len(vertices), [(n, "<f4") for n in kept])
    write_vertices(tmp_path / "b.ply", table)
    with pytest.raises(scenes.CaptureError, match=rf"b\.ply: 4D Gaussians need the properties {lacks}"):
        scenes.load_primitives(tmp_path / "b.ply")


def test_truncated_4d_gaussians(tmp_path: Path) -> None:
    path = tmp_path / "a.ply"
    scenes.save_scene(path, random(Gaussians4d.empty(2)))
    whole = path.read_bytes()
    for size in [0, 1, 100, len(whole) // 2, len(whole) - 1]:
        path.write_bytes(whole[:size])
        with pytest.raises(scenes.CaptureError, match=r"a\.ply"):
            scenes.load_primitives(path)
    scenes.save_primitive_ply(path, torus_knot(3))
    with pytest.raises(scenes.CaptureError, match="4D Gaussians need the properties t"):
        scenes.load_primitive_ply(path, "gaussians4d")


def test_splat_round_trip_up_to_rounding(tmp_path: Path) -> None:
    original = torus_knot(30, sh_degree=2)
    original.opacity_logits = torch.linspace(-6, 6, 30)
    scenes.save_splat(tmp_path / "a.splat", original)
    actual = scenes.load_scene(tmp_path / "a.splat")
    weight = original.opacities * original.scales.prod(-1)
    order = torch.argsort(-weight, stable=True)
    expected = original.select(order)
    assert actual.sh_degree == 0 and torch.equal(actual.means, expected.means), (
        "the largest and most opaque come first"
    )
    assert torch.allclose(actual.scales, expected.scales)
    assert (actual.opacities - expected.opacities).abs().max() < 0.6 / 255
    colours = (0.5 + SH_C0 * expected.sh_dc).clamp(0, 1)
    assert (0.5 + SH_C0 * actual.sh_dc - colours).abs().max() < 0.6 / 255
    unit = torch.nn.functional.normalize(expected.quats, dim=-1)
    assert (actual.quats - unit).abs().max() < 1.1 / 128


def test_splat_of_gaussians_that_are_not_finite(tmp_path: Path) -> None:
    hurt = torus_knot(6)
    hurt.log_scales[0], hurt.opacity_logits[1], hurt.sh_dc[2] = math.nan, math.inf, math.inf
    hurt.quats[3], hurt.log_scales[4] = 0.0, 200.0
    scenes.save_splat(tmp_path / "a.splat", hurt)
    assert scenes.load_scene(tmp_path / "a.splat", keep_non_finite=True).count == 6


@pytest.mark.parametrize("scene", EVERY[1:], ids=lambda s: f"{s.primitive}-{s.sh_degree}")
def test_splat_stores_gaussians_only(tmp_path: Path, scene: Parameters) -> None:
    with pytest.raises(scenes.CaptureError, match=rf"a\.splat: .*primitives of this scene are {scene.noun}"):
        scenes.save_scene(tmp_path / "a.splat", scene)


@pytest.mark.parametrize("name", ["scene", "scene.obj", "scene.ksplat"])
def test_unknown_formats(tmp_path: Path, name: str) -> None:
    with pytest.raises(scenes.CaptureError, match=r"is not a scene format that luxel writes\. .* \.ply"):
        scenes.save_scene(tmp_path / name, torus_knot(3))
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("scene", EVERY, ids=lambda s: f"{s.primitive}-{s.sh_degree}")
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_half_keeps_positions_exact(tmp_path: Path, scene: Parameters, dtype: torch.dtype) -> None:
    scenes.save_safetensors(tmp_path / "whole.safetensors", scene.to(dtype))
    scenes.save_safetensors(tmp_path / "half.safetensors", scene.to(dtype), half=True)
    actual = scenes.load_primitives(tmp_path / "half.safetensors")
    assert type(actual) is type(scene)
    for name, tensor in scene.tensors().items():
        expected = tensor if name in PRIMITIVES[scene.primitive].exact else tensor.half().float()
        assert torch.equal(getattr(actual, name), expected), name
    small, large = ((tmp_path / f"{n}.safetensors").stat().st_size for n in ("half", "whole"))
    assert small < large


def test_half_is_about_half_the_size(tmp_path: Path) -> None:
    scene = torus_knot(2000, sh_degree=3)
    scenes.save_safetensors(tmp_path / "whole.safetensors", scene)
    scenes.save_safetensors(tmp_path / "half.safetensors", scene, half=True)
    small, large = ((tmp_path / f"{n}.safetensors").stat().st_size for n in ("half", "whole"))
    assert small < 0.54 * large


def test_half_keeps_values_beyond_float16(tmp_path: Path) -> None:
    scene = torus_knot(5, sh_degree=1)
    scene.opacity_logits[2], scene.sh_dc[1, 0], scene.log_scales[0, 0] = 1e5, math.nan, -math.inf
    scenes.save_safetensors(tmp_path / "a.safetensors", scene, half=True)
    types = {name: t.dtype for name, t in safetensors.torch.load_file(tmp_path / "a.safetensors").items()}
    assert types["opacity_logits"] == torch.float32 and types["means"] == torch.float32
    assert types["sh_dc"] == types["log_scales"] == types["quats"] == torch.float16
    actual = scenes.load_scene(tmp_path / "a.safetensors", keep_non_finite=True)
    assert (
        actual.opacity_logits[2] == 1e5
        and actual.sh_dc[1, 0].isnan()
        and actual.log_scales[0, 0] == -math.inf
    )


@pytest.mark.parametrize("scene", EVERY, ids=lambda s: f"{s.primitive}-{s.sh_degree}")
def test_mixed_files_become_float32(tmp_path: Path, scene: Parameters) -> None:
    kinds = (torch.float16, torch.bfloat16, torch.float32)
    tensors = {n: t.to(kinds[i % 3]).contiguous() for i, (n, t) in enumerate(scene.tensors().items())}
    safetensors.torch.save_file(tensors, tmp_path / "a.safetensors")
    actual = scenes.load_primitives(tmp_path / "a.safetensors")
    for name, tensor in tensors.items():
        assert torch.equal(getattr(actual, name), tensor.float()), name


def test_suffixes_of_scene_formats_are_taken_once() -> None:
    before = list(SCENE_FORMATS)
    for suffix, message in (
        (".PLY", r"must be in lower case with a dot, got '.PLY'"),
        (".ply", "already registered"),
    ):
        with pytest.raises(ValueError, match=message):
            register_scene_format(replace(before[0], suffix=suffix))
    assert before == SCENE_FORMATS
