"""Files of convexes and 4D Gaussians: PLY, safetensors, and a 4D scene as time slices."""

from __future__ import annotations

import errno
import os
import struct
from pathlib import Path

import numpy as np
import pytest
import safetensors.torch
import torch

import luxel.scenes as scenes
from luxel.render.primitives import Convexes, Gaussians, Gaussians4d
from luxel.render.primitives.parameters import Parameters
from luxel.render.reference.raster.rasterize import rasterize_reference
from luxel.render.reference.raster.rasterize_gaussians4d import rasterize_gaussians4d_reference
from luxel.scenes.files.ply import read_vertices
from luxel.scenes.files.scenes import primitive_ply
from luxel.scenes.synthetic.toy import ring_cameras, torus_knot


def filled(kind: type[Parameters], shapes: dict[str, tuple[int, ...]]) -> Parameters:
    generator = torch.Generator().manual_seed(0)
    return kind(**{name: torch.randn(*shape, generator=generator) for name, shape in shapes.items()})


def some_convexes(n: int = 7, k: int = 6, degree: int = 3) -> Convexes:
    shapes = dict.fromkeys(("log_delta", "log_sigma", "opacity_logits", "mask_logits"), (n,))
    shapes |= {"points": (n, k, 3), "sh_dc": (n, 3), "sh_rest": (n, (degree + 1) ** 2 - 1, 3)}
    return filled(Convexes, shapes)


def some_gaussians4d(n: int = 7, degree: int = 3) -> Gaussians4d:
    shapes = dict.fromkeys(("times", "log_scale_t", "opacity_logits"), (n,))
    shapes |= dict.fromkeys(("means", "log_scales", "sh_dc"), (n, 3))
    return filled(Gaussians4d, {**shapes, "rotors": (n, 8), "sh_rest": (n, (degree + 1) ** 2 - 1, 3)})


def assert_same(actual: Parameters, expected: Parameters) -> None:
    assert type(actual) is type(expected)
    for name, tensor in expected.tensors().items():
        assert torch.equal(getattr(actual, name), tensor), name


@pytest.mark.parametrize(("k", "degree"), [(3, 0), (4, 1), (6, 2), (8, 3)])
def test_convexes_round_trip(tmp_path: Path, k: int, degree: int) -> None:
    original = some_convexes(k=k, degree=degree)
    scenes.save_primitive_ply(tmp_path / "deep/er/scene.ply", original)
    assert_same(scenes.load_primitive_ply(tmp_path / "deep/er/scene.ply", "convexes"), original)
    assert_same(scenes.load_primitives(tmp_path / "deep/er"), original)


@pytest.mark.parametrize("count", [7, 10, 35, 40])
def test_rows_are_written_in_parts(
    tmp_path: Path, count: int, device: torch.device, monkeypatch: pytest.MonkeyPatch
) -> None:
    original, labels = some_gaussians4d(count), torch.arange(count, dtype=torch.uint8)
    scenes.save_primitive_ply(tmp_path / "whole.ply", original, labels)
    monkeypatch.setattr(primitive_ply, "CPU_ROWS", 10)
    monkeypatch.setattr(primitive_ply, "GPU_ROWS", 10)
    moved = original.map(lambda t: t.to(device))
    for given in (None, labels.to(device)):
        scenes.save_primitive_ply(tmp_path / "parts.ply", moved, given)
        assert_same(scenes.load_primitives(tmp_path / "parts.ply"), original)
    assert (tmp_path / "parts.ply").read_bytes() == (tmp_path / "whole.ply").read_bytes()


def test_layout_of_convexes(tmp_path: Path) -> None:
    original = some_convexes(5)
    scenes.save_primitive_ply(tmp_path / "a.ply", original)
    vertices = read_vertices(tmp_path / "a.ply")
    names = vertices.dtype.names or ()
    assert names[:7] == ("x_0", "y_0", "z_0", "x_1", "y_1", "z_1", "x_2") and len(names) == 18 + 48 + 4
    assert names[-4:] == ("log_delta", "log_sigma", "opacity", "mask")
    assert vertices["y_4"][2] == original.points[2, 4, 1]
    assert vertices["f_rest_16"][2] == original.sh_rest[2, 1, 1]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(
    "scene", [torus_knot(9), some_convexes(), some_gaussians4d(), some_gaussians4d(0, 1)]
)
def test_safetensors_round_trip(tmp_path: Path, scene: Parameters, dtype: torch.dtype) -> None:
    original = scene.to(dtype)
    scenes.save_safetensors(tmp_path / "a.safetensors", original)
    assert_same(scenes.load_safetensors(tmp_path / "a.safetensors"), original)
    assert_same(scenes.load_primitives(tmp_path / "a.safetensors"), original)


def test_safetensors_are_read_by_others_and_may_share_storage(tmp_path: Path) -> None:
    scene = some_gaussians4d()
    scene.times = scene.log_scale_t
    scene.sh_dc = scene.means.requires_grad_()
    scenes.save_safetensors(tmp_path / "a.safetensors", scene)
    with safetensors.safe_open(tmp_path / "a.safetensors", "pt") as file:
        assert file.metadata()["primitive"] == "4D Gaussians"
        assert torch.equal(file.get_tensor("times"), scene.log_scale_t)


def test_gaussians_in_every_format(tmp_path: Path) -> None:
    knot = torus_knot(5)
    scenes.save_primitive_ply(tmp_path / "scene.ply", knot)
    scenes.save_safetensors(tmp_path / "a.safetensors", knot)
    for path in (tmp_path, tmp_path / "scene.ply", tmp_path / "a.safetensors"):
        assert_same(scenes.load_scene(path), knot)
        assert_same(scenes.load_primitives(path), knot)


def test_other_primitives_where_gaussians_are_required(tmp_path: Path) -> None:
    scenes.save_primitive_ply(tmp_path / "a.ply", some_convexes())
    scenes.save_safetensors(tmp_path / "b.safetensors", some_gaussians4d())
    with pytest.raises(scenes.CaptureError, match=r"a\.ply: only Gaussians .* this scene are convexes"):
        scenes.load_scene(tmp_path / "a.ply")
    with pytest.raises(
        scenes.CaptureError, match=r"b\.safetensors: only Gaussians .* this scene are 4D Gaussians"
    ):
        scenes.load_scene(tmp_path / "b.safetensors")
    with pytest.raises(scenes.CaptureError, match=r"Gaussians need the properties x, y, z"):
        scenes.load_gaussians(tmp_path / "a.ply")
    scenes.save_primitive_ply(tmp_path / "c.ply", torus_knot(3))
    with pytest.raises(scenes.CaptureError, match=r"convexes need the properties x_0, y_0, z_0, x_1"):
        scenes.load_primitive_ply(tmp_path / "c.ply", "convexes")


def write_ply(path: Path, names: list[str]) -> Path:
    lines = [
        "ply",
        "format binary_little_endian 1.0",
        "element vertex 2",
        *(f"property float {n}" for n in names),
    ]
    path.write_bytes(("\n".join([*lines, "end_header"]) + "\n").encode() + bytes(8 * len(names)))
    return path


def convex_names(each: int, rest: int = 0) -> list[str]:
    names = [f"{axis}_{i}" for i in range(each) for axis in "xyz"] + [f"f_dc_{i}" for i in range(3)]
    return [*names, *(f"f_rest_{i}" for i in range(rest)), "log_delta", "log_sigma", "opacity", "mask"]


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (convex_names(2), "convexes have 3 to 8 points, these have 2"),
        (convex_names(9), "convexes have 3 to 8 points, these have 9"),
        (convex_names(4)[:1] + convex_names(4)[2:], "convexes need the properties y_0"),
        (convex_names(4, 10), "10 f_rest properties fit no SH degree"),
        ([n for n in convex_names(4) if n != "log_sigma"], "need the properties log_sigma"),
        ([n for n in convex_names(4) if n != "mask"], "need the properties mask"),
        (["log_delta"], "need the properties x_0, y_0"),
        ([n.replace("x_3", "x_7") for n in convex_names(4)], "need the properties x_3"),
    ],
)
def test_invalid_convexes(tmp_path: Path, names: list[str], message: str) -> None:
    with pytest.raises(scenes.CaptureError, match=message):
        scenes.load_primitives(write_ply(tmp_path / "a.ply", names))


def test_empty_convexes(tmp_path: Path) -> None:
    scenes.save_primitive_ply(tmp_path / "a.ply", Convexes.empty(4, 2))
    loaded = scenes.load_primitive_ply(tmp_path / "a.ply", "convexes")
    assert (loaded.count, loaded.points_each, loaded.sh_degree) == (0, 4, 2)


@pytest.mark.parametrize("name", ["a.ply", "a.safetensors"])
def test_truncated_files(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    if name == "a.ply":
        scenes.save_primitive_ply(path, some_convexes())
    else:
        scenes.save_safetensors(path, some_convexes())
    whole = path.read_bytes()
    for size in [0, 1, 7, 8, 9, 100, len(whole) // 2, len(whole) - 1]:
        path.write_bytes(whole[:size])
        with pytest.raises(scenes.CaptureError, match=name.replace(".", r"\.")):
            scenes.load_primitives(path)
    with pytest.raises(scenes.CaptureError, match="cannot be read"):
        scenes.load_primitives(tmp_path / f"none-{name}")


def changed(**tensors: torch.Tensor | None) -> dict[str, torch.Tensor]:
    merged = {**some_gaussians4d().tensors(), **tensors}
    return {name: tensor for name, tensor in merged.items() if tensor is not None}


@pytest.mark.parametrize(
    ("tensors", "message"),
    [
        (changed(times=None), "of no primitive .*4D Gaussians have means, times"),
        (changed(times=None, more=torch.zeros(2)), "more, .* are of no primitive"),
        ({}, r"the tensors \(none\) are of no primitive"),
        (changed(times=torch.zeros(6)), r"times must be \[7\], got \[6\]"),
        (changed(rotors=torch.zeros(7, 4)), r"rotors must be \[7, 8\], got \[7, 4\]"),
        (changed(means=torch.zeros(())), "a.safetensors: "),
        (changed(opacity_logits=torch.zeros(())), "opacity_logits must be"),
        (changed(sh_rest=torch.zeros(7, 5, 3)), r"sh_rest must be \[7, 0 \| 3 \| 8 \| 15, 3\]"),
        (
            changed(times=torch.zeros(7, dtype=torch.int64)),
            "must be float32, float16 or bfloat16, or all float64, not float32, int64",
        ),
        (changed(times=torch.zeros(7, dtype=torch.float64)), "not float32, float64"),
        ({n: t.to(torch.float8_e4m3fn) for n, t in changed().items()}, "not float8_e4m3fn"),
        ({**some_convexes().tensors(), "points": torch.zeros(7, 9, 3)}, r"points must be \[N, 3\.\.8, 3\]"),
    ],
)
def test_invalid_safetensors(tmp_path: Path, tensors: dict, message: str) -> None:
    safetensors.torch.save_file(tensors, tmp_path / "a.safetensors")
    with pytest.raises(scenes.CaptureError, match=message):
        scenes.load_primitives(tmp_path / "a.safetensors")


def test_invalid_safetensors_headers(tmp_path: Path) -> None:
    for head in (
        b"{}x",
        b"[]",
        b'{"a":1}',
        b'{"a":{"dtype":"F99","shape":[1],"data_offsets":[0,4]}}',
        b"\xff",
    ):
        (tmp_path / "a.safetensors").write_bytes(struct.pack("<Q", len(head)) + head + bytes(4))
        with pytest.raises(
            scenes.CaptureError, match=r"a\.safetensors: cannot be read as a safetensors file"
        ):
            scenes.load_primitives(tmp_path / "a.safetensors")
    (tmp_path / "a.safetensors").write_bytes(struct.pack("<Q", 2**62) + b"{}")
    with pytest.raises(scenes.CaptureError, match="cannot be read as a safetensors file"):
        scenes.load_primitives(tmp_path / "a.safetensors")


def test_full_disk_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.safetensors"
    scenes.save_safetensors(path, some_convexes())
    before = path.read_bytes()

    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(scenes.CaptureError, match=r"a\.safetensors: .*No space left.*unchanged"):
        scenes.save_safetensors(path, some_convexes(50))
    assert path.read_bytes() == before and os.listdir(tmp_path) == ["a.safetensors"]


def test_time_slices_are_scenes_of_gaussians(tmp_path: Path) -> None:
    """The image of each file is that of the 4D scene at its time, but for the rounding to float32."""
    moving = Gaussians4d.from_gaussians(torus_knot(60, sh_degree=2), time=0.5, time_scale=0.4)
    moving.rotors += 0.2 * torch.randn(60, 8, generator=torch.Generator().manual_seed(0))
    camera = ring_cameras(1, width=40, height=30)[0].to(torch.float64)
    times = [0.0, 0.5, 1.25]
    paths = scenes.save_time_slices(tmp_path / "film", moving, times)
    assert [p.name for p in paths] == ["frame-00000.ply", "frame-00001.ply", "frame-00002.ply"]
    images = []
    for path, time in zip(paths, times, strict=True):
        time_slice = scenes.load_scene(path)
        assert isinstance(time_slice, Gaussians) and time_slice.sh_degree == 2
        actual = rasterize_reference(time_slice.to(torch.float64), camera)
        expected = rasterize_gaussians4d_reference(moving.to(torch.float64), camera, time)
        # Rounding may move a pixel over the cut-off of alpha, where it changes by up to 1/255.
        difference = np.abs((actual.rgb - expected.rgb).numpy())
        assert difference.max() < 1 / 250 and np.median(difference) < 1e-6
        images.append(expected.rgb)
    assert (images[0] - images[1]).abs().max() > 0.1
