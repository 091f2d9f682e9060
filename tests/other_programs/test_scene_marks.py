"""Marks of scene files of other programs: antialiasing, rotations of length 0, axes and extensions of SPZ."""

from __future__ import annotations

import gzip
import io
import json
import re
import struct
import zipfile
from pathlib import Path

import numpy as np
import pytest
import safetensors.numpy
import torch
from foreign_scenes import GLTF, Glb, some_gaussians, spz, write_ply

from luxel.render.geometry.camera import Camera
from luxel.render.ops.field.spherical_harmonics import sh_basis
from luxel.render.primitives import Gaussians
from luxel.render.raster.rasterize import rasterize
from luxel.scenes import CaptureError, load_primitives, load_scene, save_scene
from luxel.scenes.files.quantised.spz import load_spz
from luxel.scenes.files.scene_files import load_facts, load_unused
from luxel.scenes.files.scene_format import SceneFacts
from luxel.scenes.loading.loaders import open_scene
from luxel.scenes.unused import LOST, OTHER, WRONG
from luxel.viewer.cli import main

# -- antialiasing -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("comments", "expected"),
    [
        (["SplatRenderMode: mip"], True),
        (["splatrendermode:   MIP"], True),
        (["SplatRenderMode: default"], False),
        (["antialiased 1"], True),
        (["antialiased 0"], False),
        (["Antialiased: true"], True),
        (["SplatRenderMode: mip", "SplatRenderMode: default"], False),
        (["antialiased 0", "SplatRenderMode: mip"], True),
        (["luxel antialiased false", "SplatRenderMode: mip"], False),
        (["SplatRenderMode: mip", "luxel antialiased true"], True),
        (["SplatRenderMode: cubist"], None),
        (["a scene that is antialiased 1 of 2"], None),
        ([], None),
    ],
)
@pytest.mark.parametrize("kind", ["binary_little_endian", "ascii"])
def test_comments_on_antialiasing(
    tmp_path: Path, comments: list[str], expected: bool | None, kind: str
) -> None:
    path = write_ply(tmp_path / "a.ply", some_gaussians(), comments=comments, kind=kind)
    assert load_facts(path).antialiased is expected
    assert open_scene(path).about.antialiased is expected
    unknown = "SplatRenderMode: cubist" in comments
    assert [(entry.kind, entry.harm) for entry in load_unused(path)] == [("render mode", WRONG)] * unknown


def test_comments_of_compressed_ply(tmp_path: Path) -> None:
    save_scene(tmp_path / "a.compressed.ply", load_scene(write_ply(tmp_path / "a.ply", some_gaussians())))
    plain = (tmp_path / "a.compressed.ply").read_bytes()
    for comment, expected in ((b"SplatRenderMode: mip", True), (b"antialiased 0", False), (b"by hand", None)):
        marked = plain.replace(b"1.0\nelement", b"1.0\ncomment " + comment + b"\nelement", 1)
        (tmp_path / "b.compressed.ply").write_bytes(marked)
        assert load_facts(tmp_path / "b.compressed.ply").antialiased is expected
        assert load_unused(tmp_path / "b.compressed.ply") == []
        assert load_primitives(tmp_path / "b.compressed.ply").count == 40


def sog_files(tmp_path: Path, **entries: object) -> dict[str, bytes]:
    """The files of a SOG scene whose meta.json has further entries."""
    save_scene(tmp_path / "plain.sog", load_scene(write_ply(tmp_path / "plain.ply", some_gaussians())))
    with zipfile.ZipFile(tmp_path / "plain.sog") as archive:
        files = {name: archive.read(name) for name in archive.namelist()}
    return files | {"meta.json": json.dumps({**json.loads(files["meta.json"]), **entries}).encode()}


def write_sog(path: Path, files: dict[str, bytes]) -> Path:
    """A bundle, or a folder where the path has no suffix."""
    if not path.suffix:
        path.mkdir(exist_ok=True)
        for name, data in files.items():
            (path / name).write_bytes(data)
        return path
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for name, data in files.items():
            archive.writestr(name, data)
    path.write_bytes(out.getvalue())
    return path


@pytest.mark.parametrize("name", ["a.sog", "folder"])
@pytest.mark.parametrize(
    ("entries", "expected"),
    [
        ({"model": "antialiased"}, True),
        ({"model": "default"}, False),
        ({"model": "2dgs"}, None),
        ({"model": "antialiased", "antialias": False}, False),
        ({"model": ["antialiased"]}, None),
        ({}, None),
    ],
)
def test_the_model_of_sog(tmp_path: Path, name: str, entries: dict, expected: bool | None) -> None:
    path = write_sog(tmp_path / name, sog_files(tmp_path, **entries))
    assert load_facts(path).antialiased is expected
    if name == "folder":
        assert load_facts(path / "meta.json").antialiased is expected
    strange = entries.get("model") in ("2dgs", ["antialiased"])
    assert [(entry.kind, entry.harm) for entry in load_unused(path)] == [("model", WRONG)] * strange


def test_other_parts_of_sog_are_named(tmp_path: Path) -> None:
    files = sog_files(tmp_path, tint=[1, 0, 0], asset={"generator": "another"})
    meta = json.loads(files["meta.json"])
    meta["means"]["offset"] = [1, 2, 3]
    meta["quats"]["encoding"] = "octahedral"
    files |= {"meta.json": json.dumps(meta).encode(), "collision.bin": b"1"}
    path = write_sog(tmp_path / "a.sog", files)
    assert load_primitives(path).count == 40
    entries = {entry.kind: entry for entry in load_unused(path)}
    assert set(entries) == {"encoding", "entries of meta.json", "files of the archive"}
    assert entries["encoding"].harm == WRONG and entries["entries of meta.json"].count == 2
    assert entries["files of the archive"].example == "collision.bin"


def test_marks_are_drawn_and_written(tmp_path: Path) -> None:
    """Small Gaussians are fainter where they are antialiased; an export carries the flag of the format."""
    path = write_ply(tmp_path / "brush.ply", some_gaussians(), comments=["SplatRenderMode: mip"])
    assert main(["export", str(path), "--out", str(tmp_path / "b.spz")]) == 0
    assert gzip.decompress((tmp_path / "b.spz").read_bytes())[14] == 1
    assert main(["export", str(path), "--out", str(tmp_path / "b.sog")]) == 0
    assert load_facts(tmp_path / "b.sog") == load_facts(tmp_path / "b.spz") == SceneFacts(antialiased=True)


# -- rotations of length 0 ----------------------------------------------------------------------------------------


CAMERA = Camera.look_at(eye=(0, -3, 0), target=(0, 0, 0), width=64, height=48)


def one_gaussian(**columns: float) -> dict[str, np.ndarray]:
    """One Gaussian, wide along x, whose rotation is 0."""
    values = dict.fromkeys([*"xyz", "f_dc_0", "f_dc_1", "f_dc_2"], 0.0) | {"opacity": 6.0}
    values |= {"scale_0": -0.7, "scale_1": -2.0, "scale_2": -2.0} | dict.fromkeys(
        [f"rot_{i}" for i in range(4)], 0.0
    )
    return {name: np.array([value]) for name, value in (values | columns).items()}


def alpha(path: Path) -> torch.Tensor:
    return rasterize(load_scene(path), CAMERA).alpha


@pytest.mark.parametrize("kind", ["binary_little_endian", "ascii"])
def test_a_rotation_of_0_is_none(tmp_path: Path, kind: str) -> None:
    zero = write_ply(tmp_path / "zero.ply", one_gaussian(), kind=kind)
    unit = write_ply(tmp_path / "unit.ply", one_gaussian(rot_0=1.0))
    assert load_scene(zero).quats.tolist() == [[1, 0, 0, 0]]
    assert torch.equal(alpha(zero), alpha(unit)) and int((alpha(zero) > 0.5).sum()) > 20
    for suffix in (".spz", ".sog", ".glb", ".splat", ".compressed.ply", ".safetensors", ".ply"):
        assert main(["export", str(zero), "--out", str(tmp_path / f"out{suffix}")]) == 0
        assert float((alpha(tmp_path / f"out{suffix}") - alpha(unit)).abs().max()) < 0.02


def test_a_rotation_of_0_in_other_formats(tmp_path: Path) -> None:
    record = struct.pack("<6f8B", 0, 0, 0, 0.5, 0.13, 0.13, 200, 100, 50, 255, 128, 128, 128, 128)
    (tmp_path / "zero.splat").write_bytes(record)
    assert load_scene(tmp_path / "zero.splat").quats.tolist() == [[1, 0, 0, 0]]
    assert int((alpha(tmp_path / "zero.splat") > 0.5).sum()) > 20
    glb = Glb()
    glb.gaussians(6, more={f"{GLTF}:ROTATION": np.zeros((6, 4))})
    read = load_scene(glb.write(tmp_path / "zero.glb"))
    assert read.quats.abs().max(1).values.tolist() == [1.0] * 6
    tensors = {name: t.numpy() for name, t in load_scene(tmp_path / "zero.splat").tensors().items()}
    tensors["quats"] = np.zeros((1, 4), np.float16)
    safetensors.numpy.save_file(tensors, str(tmp_path / "zero.safetensors"))
    assert load_scene(tmp_path / "zero.safetensors").quats.tolist() == [[1, 0, 0, 0]]
    surfel = {name: values for name, values in one_gaussian().items() if name != "scale_2"}
    surfels = load_primitives(write_ply(tmp_path / "surfel.ply", surfel))
    assert surfels.tensors()["quats"].tolist() == [[1, 0, 0, 0]]


def test_rotations_of_other_lengths_are_drawn(tmp_path: Path) -> None:
    """Lengths whose squares no float holds; others, and those that are not finite, stay as they are."""
    turned = {"rot_0": 0.6, "rot_3": 0.8}
    expected = alpha(write_ply(tmp_path / "unit.ply", one_gaussian(**turned)))
    for length in (1e-30, 1e25, 3.0):
        scaled = one_gaussian(**{name: value * length for name, value in turned.items()})
        path = write_ply(tmp_path / "scaled.ply", scaled)
        assert float((alpha(path) - expected).abs().max()) < 1e-5
    assert load_scene(path).quats[0].tolist() == pytest.approx([1.8, 0, 0, 2.4])
    columns = {name: np.repeat(values, 3) for name, values in one_gaussian().items()}
    columns["rot_1"] = np.array([np.nan, 0.0, 1.0])
    assert load_scene(write_ply(tmp_path / "nan.ply", columns)).quats.tolist() == [[1, 0, 0, 0], [0, 1, 0, 0]]


# -- axes and extensions of SPZ -----------------------------------------------------------------------------------


# By the number of the extension; 0 is not stated, and read as the axes of the format.
FAMILY = "RUB LDB RDB LUB RUB LDF RDF LUF RUF LFD RFD LFU RFU LBD RBD LBU RBU"
AXES = dict(enumerate(re.split(" ", FAMILY)))
DIRECTIONS = {
    "R": (1, 0, 0),
    "L": (-1, 0, 0),
    "D": (0, 1, 0),
    "U": (0, -1, 0),
    "F": (0, 0, 1),
    "B": (0, 0, -1),
}


def matrix(axes: str) -> np.ndarray:
    """To luxel's axes (RDF): the columns are what x, y and z of the file point at."""
    return np.array([DIRECTIONS[letter] for letter in axes], float).T


def covariances(scene: Gaussians) -> np.ndarray:
    w, x, y, z = (scene.quats / scene.quats.norm(dim=1, keepdim=True)).double().numpy().T
    rows = [
        [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
        [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
        [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)],
    ]
    axes = np.moveaxis(np.array(rows), -1, 0) * scene.scales.double().numpy()[:, None]
    return axes @ axes.transpose(0, 2, 1)


def colours(scene: Gaussians, directions: np.ndarray) -> np.ndarray:
    """Of every Gaussian in every direction, [N, D, 3]."""
    basis = sh_basis(torch.from_numpy(directions), scene.sh_degree).double().numpy()
    harmonics = torch.cat([scene.sh_dc[:, None], scene.sh_rest], 1).double().numpy()
    return np.einsum("dk,nkc->ndc", basis, harmonics)


@pytest.mark.parametrize("version", [2, 3, 4])
@pytest.mark.parametrize("number", AXES)
def test_axes_of_the_extension_are_applied(tmp_path: Path, version: int, number: int) -> None:
    path = tmp_path / "a.spz"
    path.write_bytes(spz(30, 3, version=version, extensions=[(0xADBE0003, struct.pack("<I", number))]))
    raw, read, turn = load_spz(path), load_scene(path), matrix(AXES[number])
    np.testing.assert_allclose(read.means.numpy(), raw.means.numpy() @ turn.T, atol=1e-6)
    expected = turn @ covariances(raw) @ turn.T
    np.testing.assert_allclose(covariances(read), expected, atol=1e-6 * np.abs(expected).max())
    directions = np.random.default_rng(2).normal(size=(9, 3))
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    np.testing.assert_allclose(colours(read, directions @ turn.T), colours(raw, directions), atol=2e-5)
    assert load_unused(path) == []


def test_without_the_extension_axes_are_those_of_the_format(tmp_path: Path) -> None:
    (tmp_path / "plain.spz").write_bytes(spz(30, 1))
    orbit = (0xADBE0002, struct.pack("<3f", -0.5, 0.5, 1))
    (tmp_path / "orbit.spz").write_bytes(spz(30, 1, extensions=[orbit]))
    marked = [orbit, (0xADBE0003, struct.pack("<I", 6))]
    (tmp_path / "marked.spz").write_bytes(spz(30, 1, extensions=marked))
    plain, other, turned = (load_scene(tmp_path / f"{name}.spz") for name in ("plain", "orbit", "marked"))
    assert torch.equal(plain.means, other.means) and torch.equal(
        plain.means * torch.tensor([1, -1, -1]), turned.means
    )
    assert load_unused(tmp_path / "plain.spz") == []
    for name in ("orbit", "marked"):
        (entry,) = load_unused(tmp_path / f"{name}.spz")
        assert entry.harm == OTHER and "0xadbe0002" in entry.problem


def test_axes_that_are_given_come_first(tmp_path: Path) -> None:
    path = tmp_path / "a.spz"
    path.write_bytes(spz(30, 1, extensions=[(0xADBE0003, struct.pack("<I", 6))]))
    assert torch.equal(load_primitives(path, axes="RDF").tensors()["means"], load_spz(path).means)
    flipped = load_primitives(path, axes="RUB").tensors()["means"]
    assert torch.equal(flipped, load_spz(path).means * torch.tensor([1, -1, -1]))


def test_axes_that_are_not_defined_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.spz"
    path.write_bytes(spz(30, 1, extensions=[(0xADBE0003, struct.pack("<I", 17))]))
    with pytest.raises(CaptureError, match="has the value 17, and 16 is the highest") as caught:
        load_scene(path)
    assert "--scene-axes" in caught.value.remedy
    assert load_primitives(path, axes="RUB").count == 30


@pytest.mark.parametrize("version", [3, 4])
def test_other_extensions_flags_and_degrees_are_named(tmp_path: Path, version: int) -> None:
    path = tmp_path / "a.spz"
    records = [(0x4E530001, bytes(80)), (0x12340001, bytes(5)), (0x12340001, b"")]
    path.write_bytes(spz(30, 4, version=version, flags=0x40, extensions=records))
    assert load_scene(path).sh_degree == 3
    entries = {entry.kind: entry for entry in load_unused(path)}
    assert set(entries) == {"extension 0x4e530001", "extension 0x12340001", "flags", "spherical harmonics"}
    assert (
        entries["extension 0x4e530001"].harm == LOST
        and "on the earth" in entries["extension 0x4e530001"].problem
    )
    assert entries["extension 0x12340001"].count == 2 and "0x40" in entries["flags"].problem
    path.write_bytes(spz(30, 2, version=version, flags=1))
    assert load_unused(path) == [] and load_facts(path).antialiased is True


def test_extensions_that_are_cut_short_do_not_hurt(tmp_path: Path) -> None:
    path = tmp_path / "a.spz"
    whole = bytearray(spz(30, 1, extensions=[(0x12340001, bytes(8))]))
    struct.pack_into("<I", whole, 36, 1 << 31)
    path.write_bytes(whole)
    assert load_scene(path).count == 30 and len(load_unused(path)) == 1
