"""Meshes in binary glTF: what is written obeys the specification, what is read is what was meant."""

from __future__ import annotations

import io
import json
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cube_mesh import CORNERS, as_tensors, cube, is_cube
from PIL import Image

from luxel.scenes.errors import CaptureError
from luxel.scenes.files.meshes import mesh_glb
from luxel.scenes.files.meshes.mesh import Mesh, Texture
from luxel.scenes.files.meshes.mesh_files import files_of, read_mesh, save_mesh, textured_suffixes
from luxel.scenes.files.scene_format import SceneFacts

TYPES = {5126: ("<f4", 4), 5123: ("<u2", 2), 5125: ("<u4", 4)}
WIDTH = {"SCALAR": 1, "VEC2": 2, "VEC3": 3, "VEC4": 4}


def textured() -> Mesh:
    uv = np.linspace(0, 1, 16, dtype=np.float32).reshape(8, 2)
    image = np.arange(64 * 64 * 3, dtype=np.uint32).reshape(64, 64, 3) * 7 % 256
    return Mesh(cube().xyz, cube().rgb, cube().faces, Texture(uv, image.astype(np.uint8)))


def parsed(data: bytes) -> tuple[dict[str, Any], bytes]:
    """The document and the binary chunk, by the rules of section 4 of the specification."""
    magic, version, total = struct.unpack_from("<4sII", data)
    assert (magic, version, total) == (b"glTF", 2, len(data)) and total % 4 == 0
    length, kind = struct.unpack_from("<I4s", data, 12)
    assert kind == b"JSON" and length % 4 == 0
    body = 20 + length
    size, kind = struct.unpack_from("<I4s", data, body)
    assert kind == b"BIN\0" and size % 4 == 0 and body + 8 + size == total
    return json.loads(data[20:body]), data[body + 8 :]


def checked(data: bytes) -> dict[str, np.ndarray]:
    """The attributes and the indices of a file of one mesh, by sections 3.6 and 3.7 of the specification."""
    document, binary = parsed(data)
    assert document["asset"]["version"] == "2.0"
    (buffer,) = document["buffers"]
    assert buffer["byteLength"] == len(binary)
    end = 0
    for view in document["bufferViews"]:
        assert view["buffer"] == 0 and view["byteOffset"] % 4 == 0 and view["byteOffset"] >= end
        end = view["byteOffset"] + view["byteLength"]
        assert end <= len(binary)
    (primitive,) = document["meshes"][0]["primitives"]
    assert (
        primitive["mode"] == 4
        and document["nodes"] == [{"mesh": 0}]
        and document["scenes"] == [{"nodes": [0]}]
    )
    out = {}
    for name, number in {**primitive["attributes"], "indices": primitive["indices"]}.items():
        accessor = document["accessors"][number]
        view = document["bufferViews"][accessor["bufferView"]]
        kind, size = TYPES[accessor["componentType"]]
        width = WIDTH[accessor["type"]]
        assert view["byteLength"] == accessor["count"] * width * size and (width * size) % 4 == 0
        assert view["target"] == (34963 if name == "indices" else 34962)
        table = np.frombuffer(binary, kind, accessor["count"] * width, view["byteOffset"])
        out[name] = table.reshape(-1, width)
        if name == "POSITION":
            assert np.array_equal(np.array(accessor["min"], np.float32), out[name].min(0))
            assert np.array_equal(np.array(accessor["max"], np.float32), out[name].max(0))
    counts = {len(values) for name, values in out.items() if name != "indices"}
    assert counts == {len(out["POSITION"])} and out["indices"].max() < len(out["POSITION"])
    assert len(out["indices"]) % 3 == 0
    assert np.abs(np.linalg.norm(out["NORMAL"], axis=1) - 1).max() < 1e-5
    used = set(document.get("extensionsUsed", []))
    assert used == {name for m in document["materials"] for name in m.get("extensions", {})}
    return out


def written(mesh: Mesh) -> bytes:
    return b"".join(map(bytes, mesh_glb.mesh_glb_chunks(mesh, Path("a.glb"))))


def test_files_obey_the_specification_and_are_read_back(tmp_path: Path) -> None:
    save_mesh(tmp_path / "cube.glb", cube())
    data = (tmp_path / "cube.glb").read_bytes()
    parts = checked(data)
    assert set(parts) == {"POSITION", "NORMAL", "COLOR_0", "indices"}
    # y is up: -y of luxel; a half turn about z, so that triangles keep their direction.
    assert np.array_equal(parts["POSITION"], cube().xyz * np.array([-1, -1, 1], np.float32))
    outward = ((parts["POSITION"] - parts["POSITION"].mean(0)) * parts["NORMAL"]).sum(1)
    assert (outward > 0).all()
    loaded = read_mesh(tmp_path / "cube.glb")
    assert is_cube(loaded) and np.array_equal(loaded.faces, cube().faces)
    assert np.array_equal(loaded.xyz, cube().xyz) and np.array_equal(loaded.rgb, cube().rgb)


def test_colours_of_vertices_are_linear(tmp_path: Path) -> None:
    every = np.arange(256, dtype=np.uint8)
    mesh = Mesh(
        np.random.default_rng(0).normal(size=(256, 3)).astype(np.float32),
        np.stack([every, every[::-1], every], 1),
        np.arange(255, dtype=np.int32).reshape(-1, 3),
    )
    parts = checked(written(mesh))
    linear = parts["COLOR_0"][:, 0] / 65535
    assert linear[0] == 0 and linear[255] == 1 and (parts["COLOR_0"][:, 3] == 65535).all()
    assert linear[188] == pytest.approx(0.5029, abs=1e-3) and linear[10] == pytest.approx(
        10 / 255 / 12.92, abs=1e-5
    )
    mesh.faces = np.concatenate([mesh.faces, [[255, 0, 1]]]).astype(np.int32)
    save_mesh(tmp_path / "a.glb", mesh)
    assert np.array_equal(read_mesh(tmp_path / "a.glb").rgb, mesh.rgb)
    assert np.abs(mesh_glb.from_linear(mesh_glb.to_linear(every / 255)) - every / 255).max() < 1e-6


def test_a_texture_is_an_image_in_the_file(tmp_path: Path) -> None:
    mesh = textured()
    save_mesh(tmp_path / "a.glb", mesh)
    data = (tmp_path / "a.glb").read_bytes()
    parts = checked(data)
    assert set(parts) == {"POSITION", "NORMAL", "TEXCOORD_0", "indices"}
    assert mesh.texture is not None and np.array_equal(parts["TEXCOORD_0"], mesh.texture.uv)
    document, binary = parsed(data)
    (image,) = document["images"]
    view = document["bufferViews"][image["bufferView"]]
    assert image["mimeType"] == "image/png" and "target" not in view
    png = binary[view["byteOffset"] : view["byteOffset"] + view["byteLength"]]
    assert np.array_equal(np.asarray(Image.open(io.BytesIO(png))), mesh.texture.image)
    (material,) = document["materials"]
    texture = document["textures"][material["pbrMetallicRoughness"]["baseColorTexture"]["index"]]
    assert texture == {"sampler": 0, "source": 0} and "KHR_materials_unlit" in material["extensions"]
    assert is_cube(read_mesh(tmp_path / "a.glb"))


def test_a_mesh_of_one_colour_is_lit() -> None:
    grey = Mesh(cube().xyz, np.full((8, 3), 200, np.uint8), cube().faces)
    assert "extensionsUsed" not in parsed(written(grey))[0]
    assert "extensionsUsed" in parsed(written(cube()))[0]


def test_facts_are_in_the_axes_of_gltf() -> None:
    mesh = cube()
    mesh.facts = SceneFacts(up=(0.0, -1.0, 0.0), metres=0.5)
    assert parsed(written(mesh))[0]["asset"]["extras"] == {"luxel": {"up": [0.0, 1.0, 0.0], "metres": 0.5}}


def test_seams_of_a_texture_have_smooth_normals() -> None:
    corners = Mesh(
        CORNERS[cube().faces.ravel()],
        np.zeros((36, 3), np.uint8),
        np.arange(36, dtype=np.int32).reshape(-1, 3),
    )
    normals = checked(written(corners))["NORMAL"]
    whole = checked(written(cube()))["NORMAL"]
    assert np.allclose(normals, whole[cube().faces.ravel()], atol=1e-6)
    flat = Mesh(CORNERS, cube().rgb, np.array([[0, 1, 3], [3, 1, 0]], np.int32))
    checked(written(flat))  # normals that cancel are still of length 1


def test_textured_obj_has_its_files_beside_it(tmp_path: Path) -> None:
    mesh = textured()
    path = tmp_path / "model.obj"
    save_mesh(path, mesh)
    assert sorted(tmp_path.iterdir()) == sorted(files_of(path, textured=True))
    assert files_of(path, textured=False) == [path]
    lines = path.read_text().splitlines()
    assert lines[0] == "mtllib model.mtl" and lines[1].startswith("usemtl ")
    name = lines[1].split()[1]
    assert f"newmtl {name}\n" in (tmp_path / "model.mtl").read_text()
    assert "map_Kd model.png" in (tmp_path / "model.mtl").read_text()
    assert mesh.texture is not None
    assert np.array_equal(np.asarray(Image.open(tmp_path / "model.png")), mesh.texture.image)
    uv = np.array([line.split()[1:] for line in lines if line.startswith("vt ")], float)
    assert np.allclose(uv, mesh.texture.uv * [1, -1] + [0, 1])
    assert is_cube(read_mesh(path))
    save_mesh(tmp_path / "plain.ply", mesh)  # has the colours alone
    assert np.array_equal(read_mesh(tmp_path / "plain.ply").rgb, mesh.rgb)
    assert textured_suffixes() == (".obj", ".glb")


def glb(document: dict[str, Any], binary: bytes) -> bytes:
    text = json.dumps(document).encode()
    text += b" " * (-len(text) % 4)
    total = 12 + 8 + len(text) + 8 + len(binary)
    head = struct.pack("<4sII", b"glTF", 2, total) + struct.pack("<I4s", len(text), b"JSON")
    return head + text + struct.pack("<I4s", len(binary), b"BIN\0") + binary


def changed(**changes: Any) -> bytes:
    """The cube with changes of its document: primitive, accessor N, or parts of the whole."""
    document, binary = parsed(written(cube()))
    for name, change in changes.items():
        if name == "primitive":
            document["meshes"][0]["primitives"][0] |= change
        elif name.startswith("accessor"):
            document["accessors"][int(name[8:])] |= change
        elif name.startswith("view"):
            document["bufferViews"][int(name[4:])] |= change
        else:
            document[name] = change
    return glb(document, binary)


def read(folder: Path, data: bytes) -> Mesh:
    (folder / "a.glb").write_bytes(data)
    return read_mesh(folder / "a.glb")


def test_nodes_move_their_meshes(tmp_path: Path) -> None:
    nodes = [
        {"children": [1, 2], "translation": [0, 0, 5]},
        {"mesh": 0},
        {"mesh": 0, "translation": [9, 0, 0], "scale": [-2, 2, 2]},
    ]
    moved = read(tmp_path, changed(nodes=nodes, scenes=[{"nodes": [0]}]))
    assert len(moved.xyz) == 16 and len(moved.faces) == 24 and as_tensors(moved).is_closed()
    assert float(as_tensors(moved).volume()) == pytest.approx(9, abs=1e-4), (
        "mirrored triangles face outward too"
    )
    assert moved.xyz[:, 2].min() == 5 and moved.xyz[:8, 0].max() == 1 and moved.xyz[8:, 0].max() == -9


def test_strips_fans_and_triangles_without_indices(tmp_path: Path) -> None:
    xyz = np.array([[0, 0, 0], [1, 0, 0], [1, 1, 0], [0, 1, 0], [0, 0, 0]], np.float32)
    areas = {}
    for mode, order in {4: [0, 1, 2, 0, 2, 3], 5: [0, 1, 3, 2], 6: [0, 1, 2, 3]}.items():
        points = (xyz * [-1, -1, 1])[order].astype("<f4").tobytes()
        document = {
            "asset": {"version": "2.0"},
            "meshes": [{"primitives": [{"attributes": {"POSITION": 0}, "mode": mode}]}],
            "nodes": [{"mesh": 0}],
            "accessors": [{"bufferView": 0, "componentType": 5126, "count": len(order), "type": "VEC3"}],
            "bufferViews": [{"buffer": 0, "byteLength": len(points)}],
            "buffers": [{"byteLength": len(points)}],
        }
        mesh = read(tmp_path, glb(document, points))
        areas[mode] = as_tensors(mesh).face_vectors().sum(0).tolist()
        assert len(mesh.faces) == 2 and (mesh.rgb == mesh_glb.GREY).all()
    assert areas == {mode: [0, 0, 2] for mode in (4, 5, 6)}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"primitive": {"mode": 0}}, "no triangles in it"),
        ({"meshes": [{"primitives": []}]}, "no triangles in it"),
        ({"primitive": {"attributes": {"COLOR_0": 2}}}, "no positions"),
        ({"primitive": {"attributes": {"POSITION": 9}}}, "cannot be read|damaged"),
        ({"primitive": {"indices": 0}}, "is of VEC3 and component type 5126"),
        ({"accessor3": {"count": 35}}, "35 corners of triangles"),
        ({"accessor3": {"count": 36000}}, "too many for its size|there are .* bytes for them"),
        ({"accessor3": {"componentType": 5126}}, "component type 5126"),
        ({"accessor0": {"count": 7}}, "vertex 7, and there are 7"),
        ({"accessor0": {"type": "VEC2"}}, "2 numbers per vertex, not 3"),
        ({"accessor0": {"sparse": {}}}, "sparse"),
        ({"accessor2": {"count": 4}}, "8 positions and 4 colours"),
        ({"view0": {"byteLength": 20}}, "bytes for them"),
        ({"buffers": [{"uri": "a.bin"}]}, "another file"),
        ({"extensionsRequired": ["KHR_draco_mesh_compression"]}, "KHR_draco_mesh_compression"),
        ({"nodes": [{"mesh": 0, "children": [0]}]}, "two positions"),
        ({"nodes": [{"mesh": 0}] * 5000, "scenes": [{"nodes": list(range(5000))}]}, "too many for its size"),
        ({"nodes": [{"mesh": 0, "scale": [1e300, 1e300, 1e300]}]}, "not finite"),
    ],
)
def test_damage_is_named(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    with pytest.raises(CaptureError, match=message) as caught:
        read(tmp_path, changed(**changes))
    assert caught.value.remedy


def test_truncated_files_are_refused(tmp_path: Path) -> None:
    data = written(textured())
    for end in range(0, len(data), 97):
        with pytest.raises(CaptureError):
            read(tmp_path, data[:end])


def test_what_cannot_be_written_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.glb"
    empty = Mesh(cube().xyz, cube().rgb, np.zeros((0, 3), np.int32))
    with pytest.raises(CaptureError, match=r"no triangles to write\. Write a mesh"):
        save_mesh(path, empty)
    broken = Mesh(cube().xyz.copy(), cube().rgb, cube().faces)
    broken.xyz[3, 1] = np.nan
    with pytest.raises(CaptureError, match="vertex 3 is not finite"):
        save_mesh(path, broken)
    monkeypatch.setattr(mesh_glb, "LARGEST", 500)
    with pytest.raises(CaptureError, match=r"has at most 500\. Write \.ply"):
        save_mesh(path, cube())
    assert not list(tmp_path.iterdir())
