"""Textures of mesh files: what luxel writes comes back, foreign files, and what is wrong is said; meshes and splats."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from cube_mesh import cube
from glb_files import changed

from luxel.scenes.errors import CaptureError
from luxel.scenes.files.meshes.mesh import Mesh, Texture
from luxel.scenes.files.meshes.mesh_files import axes_of_mesh, is_mesh, read_mesh, save_mesh
from luxel.scenes.files.scene_files import save_scene
from luxel.scenes.files.scene_format import SceneFacts
from luxel.scenes.synthetic.toy import torus_knot


def textured(facts: SceneFacts | None = None) -> Mesh:
    uv = np.linspace(0, 1, 16, dtype=np.float32).reshape(8, 2)
    image = (np.arange(64 * 32 * 3, dtype=np.uint32).reshape(64, 32, 3) * 7 % 256).astype(np.uint8)
    return Mesh(cube().xyz, cube().rgb, cube().faces, Texture(uv, image), facts or SceneFacts())


def by_corner(mesh: Mesh) -> np.ndarray:
    """Position and place in the image of each corner, in an order that does not depend on that of vertices."""
    assert mesh.texture is not None
    rows = np.concatenate([mesh.xyz, mesh.texture.uv], 1)[mesh.faces]
    return rows.reshape(-1, 15)[np.lexsort(rows.reshape(-1, 15).T)]


@pytest.mark.parametrize("suffix", [".glb", ".obj"])
def test_a_texture_comes_back(tmp_path, suffix):
    mesh = textured(SceneFacts(up=(0.0, 0.0, 1.0), metres=2.0))
    path = tmp_path / f"cube{suffix}"
    save_mesh(path, mesh)
    assert read_mesh(path).texture is None  # unless it is wanted
    loaded = read_mesh(path, textures=True)
    assert loaded.texture is not None and mesh.texture is not None
    assert np.array_equal(loaded.texture.image, mesh.texture.image)
    np.testing.assert_allclose(by_corner(loaded), by_corner(mesh), atol=1e-6)
    assert loaded.texture.repeats == (suffix == ".obj")  # .glb says that it does not
    if suffix == ".glb":
        assert loaded.facts == mesh.facts and not loaded.coloured


def test_vertices_of_obj_files_with_two_places_are_repeated(tmp_path):
    save_mesh(tmp_path / "a.obj", textured())
    lines = "mtllib a.mtl\nusemtl surface\nv 0 0 0\nv 1 0 0\nv 1 1 0\nv 0 1 0\nvt 0 0\nvt 1 0\nvt 1 1\nvt .5 .25\n"
    (tmp_path / "b.obj").write_text(lines + "f 1/1 2/2/1 3/3\nf 1/-1 3/3 -1/1\n")
    mesh = read_mesh(tmp_path / "b.obj", textures=True)
    assert mesh.texture is not None and len(mesh.xyz) == 5
    places = {(*xyz, *uv) for xyz, uv in zip(mesh.xyz.tolist(), mesh.texture.uv.tolist(), strict=True)}
    expected = {(0, 0, 0, 0, 1), (1, 0, 0, 1, 1), (1, 1, 0, 1, 0), (0, 0, 0, 0.5, 0.75), (0, 1, 0, 0, 1)}
    assert places == expected


@pytest.mark.parametrize(
    ("lines", "problem"),
    [
        ("vt 0 0\nf 1/1 2/1 3/2\n", "one of a number that is not there: there are 1 lines vt"),
        ("vt 0 0\nf 1/1 2/1 3\n", "a corner has no texture coordinate"),
        ("vt 0\nf 1/1 2/1 3/1\n", "does not have two numbers"),
        ("vt 0 nan\nf 1/1 2/1 3/1\n", "the texture coordinate of vertex 0 is not finite"),
    ],
)
def test_places_of_obj_files_that_are_wrong(tmp_path, lines, problem):
    save_mesh(tmp_path / "a.obj", textured())
    (tmp_path / "b.obj").write_text("mtllib a.mtl\nv 0 0 0\nv 1 0 0\nv 1 1 0\n" + lines)
    with pytest.raises(CaptureError, match=problem):
        read_mesh(tmp_path / "b.obj", textures=True)
    assert len(read_mesh(tmp_path / "b.obj").faces) == 1  # without its texture


@pytest.mark.parametrize(
    ("material", "said"),
    [
        ("newmtl surface\nmap_Kd none.png\n", "its texture 'none.png' is not alongside it"),
        ("newmtl surface\nmap_Kd ../outside.png\n", "'../outside.png' is not alongside it"),
        ("newmtl surface\nmap_Kd a\0b.png\n", "is not alongside it"),
        ("newmtl surface\nmap_Kd a.png\nnewmtl other\nmap_Kd b.png\n", ""),
        ("newmtl surface\n", ""),
        (None, "its materials 'a.mtl' is not alongside it"),
    ],
)
def test_textures_that_are_not_there_are_said_and_left_out(tmp_path, caplog, material, said):
    folder = tmp_path / "mesh"
    folder.mkdir()
    save_mesh(folder / "a.obj", textured())
    (folder / "a.png").rename(tmp_path / "outside.png")
    if material is None:
        (folder / "a.mtl").unlink()
    else:
        (folder / "a.mtl").write_text(material)
    mesh = read_mesh(folder / "a.obj", textures=True)
    assert mesh.texture is None and len(mesh.faces) == 12
    assert said in caplog.text


def test_several_textures_are_said_and_left_out(tmp_path, caplog):
    save_mesh(tmp_path / "a.obj", textured())
    (tmp_path / "a.mtl").write_text("newmtl surface\nmap_Kd a.png\nnewmtl b\nmap_Kd b.png\n")
    with (tmp_path / "a.obj").open("a") as file:
        file.write("usemtl b\nf 1/1 2/2 3/3\n")
    assert read_mesh(tmp_path / "a.obj", textures=True).texture is None
    assert "its materials have 2 textures or none" in caplog.text


def test_damaged_images_and_files_of_materials_are_errors(tmp_path):
    save_mesh(tmp_path / "a.obj", textured())
    (tmp_path / "a.png").write_bytes((tmp_path / "a.png").read_bytes()[:100])
    with pytest.raises(CaptureError, match=r"a\.png"):
        read_mesh(tmp_path / "a.obj", textures=True)
    with (tmp_path / "a.mtl").open("wb") as file:
        file.truncate((1 << 24) + 1)
    with pytest.raises(CaptureError, match="16777217 bytes are too many for a file of materials"):
        read_mesh(tmp_path / "a.obj", textures=True)


def test_glb_textures_that_are_wrong(tmp_path, caplog):
    path = tmp_path / "a.glb"

    def attempt(change: Any) -> Mesh:
        save_mesh(path, textured())
        return read_mesh(changed(path, path, change), textures=True)

    for change, problem in (
        (lambda d: d["meshes"][0]["primitives"][0].update(attributes={"POSITION": 0}), "lacks TEXCOORD_0"),
        (lambda d: d["accessors"][2].update(count=7), "8 positions and 7 coordinates of 2 numbers"),
        (lambda d: d.update(textures=[]), "the texture 0 of a material, or its image, is not in the file"),
        (lambda d: d["textures"][0].update(source=4), "the texture 0 of a material"),
        (lambda d: d["bufferViews"][-1].update(byteLength=1 << 20), "image 0 has 1048576 bytes"),
        (lambda d: d["bufferViews"][-1].update(byteLength=60), "the file ends in the chunk"),
    ):
        with pytest.raises(CaptureError, match=problem):
            attempt(change)
    assert attempt(lambda d: d.update(images=[{"uri": "b.png"}])).texture is None
    assert "its texture is in another file" in caplog.text
    mesh = attempt(
        lambda d: d["materials"][0].update(pbrMetallicRoughness={"baseColorFactor": [1, 0, 0.2140, 1]})
    )
    assert mesh.texture is None and (mesh.rgb == [255, 0, 127]).all() and mesh.coloured
    two = [{"uri": "b.png"}, {"uri": "c.png"}]

    def doubled(document: dict[str, Any]) -> None:
        primitives = document["meshes"][0]["primitives"]
        primitives.append(primitives[0] | {"material": 1})
        document.update(images=two, textures=[{"source": 0}, {"source": 1}])
        document["materials"].append({"pbrMetallicRoughness": {"baseColorTexture": {"index": 1}}})

    assert attempt(doubled).texture is None and "its materials have 2 textures or none" in caplog.text


def test_meshes_and_splats_are_told_apart_by_content(tmp_path):
    for suffix in (".ply", ".glb"):
        save_scene(tmp_path / f"splats{suffix}", torus_knot(20))
        assert not is_mesh(tmp_path / f"splats{suffix}")
    for suffix in (".ply", ".obj", ".glb"):
        save_mesh(tmp_path / f"mesh{suffix}", cube())
        assert is_mesh(tmp_path / f"mesh{suffix}")
    (tmp_path / "points.ply").write_text(
        "ply\nformat ascii 1.0\nelement vertex 1\nproperty float x\nproperty float y\nproperty float z\n"
        "end_header\n0 0 0\n"
    )
    (tmp_path / "broken.ply").write_bytes(b"ply\nno")
    (tmp_path / "broken.glb").write_bytes(b"glTF")
    for name in ("points.ply", "broken.ply", "broken.glb", "none.obj", "mesh.xyz"):
        assert not is_mesh(tmp_path / name)
    assert not is_mesh(tmp_path)
    assert axes_of_mesh("a.glb") == "LUF" and axes_of_mesh("a.ply") == axes_of_mesh("a.xyz") == "RDF"
