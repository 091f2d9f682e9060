"""GLB with KHR_gaussian_splatting: the file of another program, round trips, nodes, integers, and what is refused."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from glb_files import EXTENSION, changed, taken_apart, with_columns

from luxel.render.primitives import Gaussians
from luxel.render.primitives.gaussians.parameters import quat_to_matrix
from luxel.render.primitives.similarity import Similarity
from luxel.render.raster.rasterize import rasterize
from luxel.render.reference.raster.sh import sh_color
from luxel.scenes import CaptureError, load_scene, save_scene
from luxel.scenes.files.axes import mirrored
from luxel.scenes.files.gltf import glb
from luxel.scenes.files.scene_files import load_facts
from luxel.scenes.files.scene_format import SceneFacts
from luxel.scenes.synthetic.toy import ring_cameras, torus_knot

DATA = Path(__file__).parents[2] / "data"


def covariances(gaussians: Gaussians) -> torch.Tensor:
    rotated = quat_to_matrix(gaussians.quats.double()) * gaussians.log_scales.double().exp()[:, None, :]
    return rotated @ rotated.transpose(1, 2)


def assert_alike(actual: Gaussians, expected: Gaussians, scale: float = 3e-7) -> None:
    """Equal but for the rounding of float32, and for the signs of the Gaussians' own axes.

    Args:
        scale: tolerance of positions and covariances, relative to the largest.
    """
    assert (actual.count, actual.sh_degree) == (expected.count, expected.sh_degree)
    tolerance = scale * float(expected.means.abs().max())
    torch.testing.assert_close(actual.means, expected.means, atol=tolerance, rtol=0)
    ours, theirs = covariances(actual), covariances(expected)
    size = theirs.diagonal(dim1=1, dim2=2).amax(1)[:, None, None]
    torch.testing.assert_close(ours / size, theirs / size, atol=10 * scale, rtol=0)
    torch.testing.assert_close(actual.opacities, expected.opacities, atol=2e-7, rtol=0)
    torch.testing.assert_close(actual.sh_dc, expected.sh_dc, atol=0, rtol=0)
    torch.testing.assert_close(actual.sh_rest, expected.sh_rest, atol=1e-6, rtol=0)


def some(count: int = 7, degree: int = 3) -> Gaussians:
    generator = torch.Generator().manual_seed(5)
    shapes = ((3,), (4,), (3,), (), (3,), ((degree + 1) ** 2 - 1, 3))
    return Gaussians(*(torch.randn(count, *shape, generator=generator) for shape in shapes))


# -- another program's files -------------------------------------------------------------------------------------


def test_a_file_of_splat_transform_is_its_ply() -> None:
    actual, expected = load_scene(DATA / "edge16.glb"), load_scene(DATA / "edge16.ply")
    assert_alike(actual, expected)
    assert actual.sh_rest[14, 0, 0] == 1.5 and actual.sh_rest[14, 14, 2] == -1.5
    assert bool((actual.opacity_logits[1:3] > 15).all()) and bool(actual.opacity_logits.isfinite().all())
    torch.testing.assert_close(actual.log_scales, expected.log_scales, atol=1e-6, rtol=0)


def test_a_scene_of_splat_transform_is_its_ply(shared: Path) -> None:
    folder = shared / "fixtures/splat_formats"
    assert_alike(load_scene(folder / "knot2k.glb"), load_scene(folder / "knot2k.ply"), scale=1e-6)


def test_foreign_files_are_upright_and_in_metres() -> None:
    assert load_facts(DATA / "edge16.glb") == SceneFacts(None, (0.0, -1.0, 0.0), 1.0)


# -- round trips -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("degree", [0, 1, 2, 3])
def test_round_trip(tmp_path: Path, degree: int) -> None:
    source = some(9, degree)
    save_scene(tmp_path / "a.glb", source)
    back = load_scene(tmp_path / "a.glb")
    for name in ("means", "sh_dc", "sh_rest"):
        assert torch.equal(getattr(back, name), getattr(source, name)), name
    unit = torch.nn.functional.normalize(source.quats, dim=-1)
    torch.testing.assert_close(back.quats, unit, atol=2e-7, rtol=0)
    torch.testing.assert_close(back.log_scales, source.log_scales, atol=5e-7, rtol=0)
    torch.testing.assert_close(back.opacities, source.opacities, atol=1e-7, rtol=0)


def test_renders_after_a_round_trip_are_the_same(tmp_path: Path) -> None:
    source = torus_knot(400, sh_degree=3)
    save_scene(tmp_path / "a.glb", source)
    back = load_scene(tmp_path / "a.glb")
    for camera in ring_cameras(3, width=64, height=48):
        with torch.no_grad():
            error = (rasterize(source, camera).rgb - rasterize(back, camera).rgb).square().mean()
        assert float(error) < 1e-9  # 90 dB


def test_values_at_the_edge_of_floats(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    source = some(6)
    source.opacity_logits[:] = torch.tensor([-200.0, -20, 0, 16, 400, -math.inf])
    source.log_scales[:, 0] = torch.tensor([-200.0, -80, 0, 80, 200, 3])
    source.quats[0] = 0
    save_scene(tmp_path / "a.glb", source)
    assert "1 of 6 Gaussians were clipped to what the format holds: scales" in caplog.text
    caplog.clear()
    with caplog.at_level(logging.WARNING):
        back = load_scene(tmp_path / "a.glb")
    assert back.count == 6 and not caplog.records
    torch.testing.assert_close(back.opacities, source.opacities, atol=4e-8, rtol=0)
    assert back.log_scales[1:4, 0].tolist() == pytest.approx([-80, 0, 80], abs=1e-5)
    assert back.quats[0].abs().tolist() == [1, 0, 0, 0]


def test_values_that_are_not_finite_are_kept_where_asked(tmp_path: Path) -> None:
    source = some(4)
    source.means[1, 2], source.quats[2, 0], source.log_scales[3, 1] = math.nan, math.nan, math.nan
    source.sh_dc[0, 0] = math.inf
    save_scene(tmp_path / "a.glb", source)
    document, _ = taken_apart(tmp_path / "a.glb")
    assert np.isfinite(document["accessors"][0]["min"] + document["accessors"][0]["max"]).all()
    assert load_scene(tmp_path / "a.glb", keep_non_finite=True).count == 4
    with pytest.raises(CaptureError, match="4 of 4 Gaussians"):
        load_scene(tmp_path / "a.glb")


def test_what_a_file_says_of_itself(tmp_path: Path) -> None:
    source = some(5, 1)
    save_scene(tmp_path / "a.glb", source)
    document, binary = taken_apart(tmp_path / "a.glb")
    assert document["extensionsUsed"] == [EXTENSION] and "extensionsRequired" not in document
    assert document["buffers"] == [{"byteLength": len(binary)}]
    (primitive,) = document["meshes"][0]["primitives"]
    assert primitive["mode"] == 0
    about = primitive["extensions"][EXTENSION]
    assert (about["kernel"], about["colorSpace"]) == ("ellipse", "srgb_rec709_display")
    position = document["accessors"][primitive["attributes"]["POSITION"]]
    expected = source.means.numpy() * np.float32([-1, -1, 1])
    assert np.array_equal(np.float32(position["min"]), expected.min(0))
    assert np.array_equal(np.float32(position["max"]), expected.max(0))
    for accessor in document["accessors"]:
        view = document["bufferViews"][accessor["bufferView"]]
        assert view["byteOffset"] % 4 == 0 and view["byteOffset"] + view["byteLength"] <= len(binary)
    orders = [name for name in primitive["attributes"] if "SH_DEGREE" in name]
    assert len(orders) == 4 and f"{EXTENSION}:SH_DEGREE_1_COEF_2" in orders


def test_facts(tmp_path: Path) -> None:
    facts = SceneFacts(antialiased=True, up=(0.0, 0.0, 1.0), metres=0.25)
    save_scene(tmp_path / "a.glb", some(), facts=facts)
    assert load_facts(tmp_path / "a.glb") == facts
    document, _ = taken_apart(tmp_path / "a.glb")
    assert document["asset"]["extras"]["luxel"] == {"antialiased": True, "up": [0, 0, 1], "metres": 0.25}
    save_scene(tmp_path / "b.glb", some())
    assert load_facts(tmp_path / "b.glb") == SceneFacts()


# -- nodes, integers, strides ------------------------------------------------------------------------------------


def test_nodes_move_their_gaussians(tmp_path: Path) -> None:
    """A matrix, then rotation, scale and translation below another node; one mesh in two places; a reflection."""
    save_scene(tmp_path / "a.glb", source := some(5), axes="LUF")
    quarter = math.sqrt(0.5)
    turn = [0, 0, quarter, quarter]  # a quarter about z: x becomes y
    column_major = [-1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0, 3, 0, 0, 1]

    def change(document: dict[str, Any]) -> None:
        inner = {"mesh": 0, "scale": [3, 3, 3], "translation": [1, 0, 0]}
        document["nodes"] = [
            {"children": [1, 2], "rotation": turn, "translation": [0, 0, 5]},
            inner,
            {"mesh": 0, "matrix": column_major},
            {"mesh": 0},  # not in the scene
        ]

    actual = load_scene(changed(tmp_path / "a.glb", tmp_path / "b.glb", change))
    assert actual.count == 10
    about_z = (quarter, 0.0, 0.0, quarter)
    local = mirrored(load_scene(tmp_path / "a.glb"), (-1, -1, 1))  # in the axes of glTF
    first = local.transformed(Similarity(about_z, 3.0, (0.0, 1.0, 5.0)))
    reflected = mirrored(local, (-1, 1, 1)).transformed(Similarity(translation=(3.0, 0.0, 0.0)))
    second = reflected.transformed(Similarity(about_z, 1.0, (0.0, 0.0, 5.0)))
    assert_alike(actual.select(torch.arange(5)), mirrored(first, (-1, -1, 1)), scale=1e-6)
    assert_alike(actual.select(torch.arange(5, 10)), mirrored(second, (-1, -1, 1)), scale=1e-6)
    direction = torch.nn.functional.normalize(torch.tensor([[0.3, -0.5, 0.8]]), dim=-1).expand(5, 3)
    turned = torch.stack([-direction[:, 1], direction[:, 0], direction[:, 2]], 1)  # in the axes of glTF
    to_luxel = torch.tensor([-1.0, -1, 1])
    colours = sh_color(turned * to_luxel, actual.sh_dc[:5], actual.sh_rest[:5], 3)
    torch.testing.assert_close(
        colours, sh_color(direction * to_luxel, source.sh_dc, source.sh_rest, 3), atol=1e-5, rtol=0
    )


def test_primitives_of_different_degrees(tmp_path: Path) -> None:
    save_scene(tmp_path / "a.glb", source := some(4, 2))

    def change(document: dict[str, Any]) -> None:
        (primitive,) = document["meshes"][0]["primitives"]
        attributes = {k: v for k, v in primitive["attributes"].items() if "DEGREE_2" not in k}
        document["meshes"][0]["primitives"] += [
            {**primitive, "attributes": attributes},
            {"attributes": {"POSITION": 0}},  # triangles, not Gaussians
        ]

    actual = load_scene(changed(tmp_path / "a.glb", tmp_path / "b.glb", change))
    assert (actual.count, actual.sh_degree) == (8, 2)
    assert torch.equal(actual.sh_rest[:4], source.sh_rest)
    assert torch.equal(actual.sh_rest[4:, :3], source.sh_rest[:, :3])
    assert not actual.sh_rest[4:, 3:].any()


@pytest.mark.parametrize("stride", [0, 44])
def test_integers_and_interleaved_values(tmp_path: Path, stride: int) -> None:
    columns = {
        "POSITION": (np.array([[0, 1, -2], [300, -4, 5]], "<i2"), False),
        "ROTATION": (np.array([[127, 0, -128, 0], [0, 0, 0, 127]], "i1"), True),
        "SCALE": (np.array([[1, 2, 3], [255, 0, 4]], "u1"), False),
        "OPACITY": (np.array([[0], [65535]], "<u2"), True),
        "SH_DEGREE_0_COEF_0": (np.array([[1, 2, 3], [4, 5, 6]], "<f4"), False),
    }
    scene = load_scene(with_columns(tmp_path / "a.glb", columns, stride))
    assert scene.means.tolist() == [[0, -1, -2], [-300, 4, 5]]
    assert scene.quats.abs().tolist() == [[0, 1, 0, 1], [1, 0, 0, 0]]
    torch.testing.assert_close(scene.scales[0], torch.tensor([1.0, 2, 3]))
    assert scene.scales[1, 1] < 1e-30
    assert scene.opacities.tolist() == pytest.approx([0, 1], abs=1e-30) and bool(
        scene.opacity_logits.isfinite().all()
    )
    assert scene.sh_dc.tolist() == [[1, 2, 3], [4, 5, 6]]
    normalised = {**columns, "SCALE": (np.array([[0, 51, 255], [255, 1, 4]], "u1"), True)}
    scene = load_scene(with_columns(tmp_path / "b.glb", normalised, stride))
    torch.testing.assert_close(scene.scales[0, 1:], torch.tensor([0.2, 1.0]))


def test_other_colour_spaces_are_named(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    save_scene(tmp_path / "a.glb", some(4, 2))
    linear = put(*ABOUT, "colorSpace", value="lin_rec709_display")
    with caplog.at_level(logging.WARNING):
        assert load_scene(changed(tmp_path / "a.glb", tmp_path / "b.glb", linear)).count == 4
    assert "'lin_rec709_display'; luxel shows them as if they were sRGB" in caplog.text
    caplog.clear()
    plain = put(*ABOUT, value={})
    assert load_scene(changed(tmp_path / "a.glb", tmp_path / "c.glb", plain)).count == 4
    assert not caplog.records


# -- what is refused ---------------------------------------------------------------------------------------------


def primitive_of(document: dict[str, Any]) -> dict[str, Any]:
    return document["meshes"][0]["primitives"][0]


def without(name: str) -> Callable[[dict[str, Any]], None]:
    def change(document: dict[str, Any]) -> None:
        del primitive_of(document)["attributes"][f"{EXTENSION}:{name}"]

    return change


def compressed(document: dict[str, Any]) -> None:
    """As the draft extension for SPZ has it."""
    name = f"{EXTENSION}_compression_spz_2"
    primitive_of(document)["extensions"][EXTENSION]["extensions"] = {name: {"bufferView": 0}}
    for accessor in document["accessors"]:
        del accessor["bufferView"]


def put(*keys: Any, value: Any) -> Callable[[dict[str, Any]], None]:
    """Sets one value of a document."""

    def change(document: dict[str, Any]) -> None:
        inner: Any = document
        for key in keys[:-1]:
            inner = inner[key]
        inner[keys[-1]] = value

    return change


ABOUT = ("meshes", 0, "primitives", 0, "extensions", EXTENSION)
REFUSED: dict[str, tuple[Callable[[dict[str, Any]], Any], str]] = {
    "spz": (compressed, "compressed .KHR_gaussian_splatting_compression_spz_2., which luxel does not read"),
    "required": (put("extensionsRequired", value=["KHR_x"]), "it needs the extension KHR_x, which luxel"),
    "meshopt": (put("bufferViews", 2, "extensions", value={"EXT_meshopt_compression": {}}), "EXT_meshopt"),
    "sparse": (put("accessors", 2, "sparse", value={"count": 1}), "accessor 2 is sparse"),
    "uri": (put("buffers", 0, "uri", value="b.bin"), "data in another file"),
    "second buffer": (put("bufferViews", 0, "buffer", value=1), "data in another file"),
    "indices": (put("meshes", 0, "primitives", 0, "indices", value=4), "not plain points"),
    "triangles": (put("meshes", 0, "primitives", 0, "mode", value=4), "not plain points"),
    "type": (put("accessors", 0, "type", value="MAT3"), "accessor 0 is of MAT3"),
    "component": (put("accessors", 0, "componentType", value=5125), "component type 5125"),
    "width": (put("accessors", 0, "type", value="VEC2"), "POSITION has 2 numbers per Gaussian, not 3"),
    "stretched": (put("nodes", 0, "scale", value=[1, 2, 1]), "a node stretches its Gaussians"),
    "flat": (put("nodes", 0, "scale", value=[0, 0, 0]), "a node stretches its Gaussians"),
    "far": (put("nodes", 0, "matrix", value=[1e308] * 16), "a node stretches its Gaussians"),
    "no scale": (without("SCALE"), "need the attributes KHR_gaussian_splatting:SCALE"),
    "no dc": (without("SH_DEGREE_0_COEF_0"), "need the attributes KHR_gaussian_splatting:SH_DEGREE_0"),
    "half a degree": (without("SH_DEGREE_1_COEF_1"), "need the attributes .*SH_DEGREE_1_COEF_1"),
    "count": (put("accessors", 4, "count", value=3), "different counts .3, 5."),
    "counts": (lambda d: [a.update(count=6) for a in d["accessors"]] and None, "has 6 values, and there are"),
    "offset": (put("bufferViews", 0, "byteOffset", value=10**9), "there are 0 bytes"),
    "stride": (put("bufferViews", 0, "byteStride", value=0), "cannot be read as a .glb scene"),
    "circle": (put("nodes", 0, "children", value=[0]), "node 0 has two positions"),
    "crowd": (
        lambda d: d.update(nodes=[{"mesh": 0}] * 3000, scenes=[{"nodes": list(range(3000))}]),
        "its nodes put 15000 Gaussians at 3000 positions",
    ),
    "no accessor": (put("meshes", 0, "primitives", 0, "attributes", "POSITION", value=99), "damaged"),
    "no mesh": (put("nodes", 0, "mesh", value=3), "damaged"),
    "negative": (put("accessors", 0, "count", value=-5), "damaged"),
    "huge": (lambda d: [a.update(count=2**62) for a in d["accessors"]] and None, "too many for its size"),
    "words": (put("accessors", 0, "count", value="many"), "damaged"),
    "kernel": (put(*ABOUT, "kernel", value="sphere"), "the kernel 'sphere', which luxel does not read"),
    "no extension": (put("meshes", 0, "primitives", 0, "extensions", value={}), "no Gaussians in it"),
    "extension": (put(*ABOUT, "extensions", value=3), "damaged"),
    "nothing": (lambda _: '{"asset": {"version": "2.0"}}', "no Gaussians in it"),
    "a list": (lambda _: "[]", "damaged"),
    "deep": (lambda _: '{"asset": {"extras": ' + "[" * 10**5 + "]" * 10**5 + "}}", "cannot be read as a .glb"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_files_that_are_refused(tmp_path: Path, name: str) -> None:
    change, message = REFUSED[name]
    save_scene(tmp_path / "a.glb", some(5, 1))
    path = changed(tmp_path / "a.glb", tmp_path / "b.glb", change)
    with pytest.raises(CaptureError, match=message) as refused:
        load_scene(path)
    assert "b.glb" in refused.value.problem and refused.value.remedy


def test_containers_that_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "b.glb"
    save_scene(path, some(5, 1))
    whole = path.read_bytes()
    for size in (1, 12, 19, 20, 100, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:size])
        with pytest.raises(CaptureError, match=r"b\.glb: (this is not binary glTF|cut short)"):
            load_scene(path)
    for start, new, message in (
        (0, b"gltf", "not binary glTF 2.0"),
        (4, b"\1", "not binary glTF 2.0"),
        (16, b"BIN\0", "the first chunk is not JSON"),
        (12, b"\xff\xff\xff\xff", "cut short: the header says"),
    ):
        path.write_bytes(whole[:start] + new + whole[start + len(new) :])
        with pytest.raises(CaptureError, match=message):
            load_scene(path)
        with pytest.raises(CaptureError, match=message):
            load_facts(path)
    path.write_bytes(whole)
    _, binary = taken_apart(path)
    place = len(whole) - len(binary) - 8
    path.write_bytes(whole[:place] + b"\xff\xff\xff\x7f" + whole[place + 4 :])
    with pytest.raises(CaptureError, match="cut short: a chunk has 2147483647 bytes"):
        load_scene(path)
    path.write_bytes(whole[:8] + place.to_bytes(4, "little") + whole[12:place])  # without the binary chunk
    with pytest.raises(CaptureError, match="has 5 values, and there are 0 bytes"):
        load_scene(path)


def test_scenes_that_do_not_fit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(CaptureError, match="no Gaussians to write"):
        save_scene(tmp_path / "a.glb", Gaussians.empty())
    monkeypatch.setattr(glb, "LARGEST", 3000)
    save_scene(tmp_path / "a.glb", some(1, 0))
    with pytest.raises(CaptureError, match=r"40 Gaussians need \d+ bytes, and a \.glb file has at most 3000"):
        save_scene(tmp_path / "b.glb", some(40, 0))
    assert not (tmp_path / "b.glb").exists()
