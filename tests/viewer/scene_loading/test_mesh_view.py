"""Meshes in the viewer and in films: opened by content, first camera, outputs, beside a scene, and what is refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from shown import depth_map, draw, find_extent, outputs_of, sample, side_of

from luxel.render.primitives import Gaussians, Parameters
from luxel.render.surfaces.mesh_scene import MeshScene
from luxel.scenes import read_mesh, save_mesh
from luxel.scenes.files.axes import OWN
from luxel.scenes.files.meshes.mesh import Mesh, Texture
from luxel.scenes.files.meshes.mesh_loading import load_mesh
from luxel.scenes.files.scene_files import save_scene
from luxel.scenes.files.scene_format import SceneFacts
from luxel.scenes.loading.loaders import facts_of, open_scene
from luxel.scenes.synthetic.toy import torus_knot
from luxel.viewer.cli import main
from luxel.viewer.web.navigate import first_pose
from luxel.viewer.web.opening import open_session
from luxel.viewer.web.pair.painter import PairPainter
from luxel.viewer.web.pair.session import PairSession
from luxel.viewer.web.shading.shading import DisplaySettings

CPU = torch.device("cpu")
UP = (0.0, 0.0, 1.0)


def wall() -> Mesh:
    """A square in the plane y = 0 that faces -y, with a texture: red on the left, blue on the right, z upwards."""
    xyz = np.array([[-1, 0, -1], [1, 0, -1], [1, 0, 1], [-1, 0, 1]], np.float32)
    uv = np.array([[0, 1], [1, 1], [1, 0], [0, 0]], np.float32)
    image = np.zeros((8, 8, 3), np.uint8)
    image[:, :4, 0] = image[:, 4:, 2] = 200
    faces = np.array([[0, 1, 2], [0, 2, 3]], np.int32)
    return Mesh(xyz, np.full((4, 3), 90, np.uint8), faces, Texture(uv, image), SceneFacts(up=UP, metres=0.5))


@pytest.fixture
def glb(tmp_path: Path) -> Path:
    path = tmp_path / "wall.glb"
    save_mesh(path, wall())
    return path


def test_a_mesh_opens_with_its_facts_and_is_seen_from_the_side_that_it_faces(glb: Path) -> None:
    session = open_session(glb, CPU)
    assert (
        session.primitives is None
        and session.about.noun == "triangles"
        and session.status() == {"count": 2}
        and session.name == "wall"
    )
    with session.borrow() as scene:
        assert facts_of(open_scene(glb)) == SceneFacts(up=UP, metres=0.5)
        extent = find_extent(session.views, scene, session.up, session.front)
        pose = first_pose([], extent)
        assert pose.position[1] < -1 and pose.position[2] > 0  # in front, a little above
        camera = pose.camera(120, 90)
        for output in outputs_of(scene):
            image, caption = draw(None, scene, camera, DisplaySettings(output))
            assert image.shape == (90, 120, 3) and image.any() and not getattr(caption, "notice", "")
        image, _ = draw(None, scene, camera, DisplaySettings())
        assert image[45, 40].tolist() == [200, 0, 0] and image[45, 80].tolist() == [0, 0, 200]
        point = sample(None, scene, camera, DisplaySettings(), 60, 45)
        depths = depth_map(None, scene, camera, DisplaySettings())
        assert depths is not None and point.alpha == 1 and point.depth == pytest.approx(float(depths[45, 60]))
        assert point.normal is not None and point.normal[1] < -0.99


def test_an_empty_image_says_why(glb: Path) -> None:
    session = open_session(glb, CPU)
    with session.borrow() as scene:
        away = first_pose([], find_extent([], scene, np.array(UP), np.array([0.0, -3.0, 0.3])))
        camera = away.camera(64, 48)
        matrix = camera.world_to_cam.clone()
        matrix[:3] *= torch.tensor([-1.0, 1, -1])[:, None]  # the other way
        behind = type(camera)(matrix, camera.intrinsics, 64, 48)
        _, caption = draw(None, scene, behind, DisplaySettings())
        assert getattr(caption, "notice", "").startswith("All 2 triangles are behind the camera")


@pytest.mark.parametrize("suffix", [".ply", ".obj", ".glb"])
def test_every_format_is_opened_by_its_content(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"wall{suffix}"
    save_mesh(path, wall())
    mesh = open_scene(path).parts[MeshScene]
    assert mesh.count == 2 and (mesh.image is not None) == (suffix != ".ply")
    if suffix != ".obj":
        save_scene(path, torus_knot(30))
        assert isinstance(open_scene(path).part(Parameters), Gaussians)


def test_an_stl_is_shaded(tmp_path: Path) -> None:
    corners = "".join(f"vertex {x} {y} {z}\n" for x, y, z in ((0, 0, 0), (1, 0, 0), (0, 1, 0)))
    (tmp_path / "a.stl").write_text(
        f"solid a\nfacet normal 0 0 1\nouter loop\n{corners}endloop\nendfacet\nendsolid a\n"
    )
    assert not load_mesh(tmp_path / "a.stl").coloured


def test_axes_of_a_file_that_ignores_its_format(glb: Path) -> None:
    own, same = load_mesh(glb), load_mesh(glb, axes="luf")
    assert torch.equal(own.mesh.vertices, same.mesh.vertices)
    other = load_mesh(glb, axes=OWN)
    assert (
        torch.equal(other.mesh.vertices, own.mesh.vertices * torch.tensor([-1.0, -1, 1])) and other.up == UP
    )
    mirrored = load_mesh(glb, axes="RUF")
    assert mirrored.mesh.face_vectors()[0, 1] < 0  # still faces -y: x alone is mirrored
    with pytest.raises(Exception, match="there are no such axes"):
        load_mesh(glb, axes="XYZ")


def test_a_scene_and_a_mesh_side_by_side(glb: Path, tmp_path: Path) -> None:
    save_scene(tmp_path / "a.ply", torus_knot(40))
    sides = [side_of(path.name, open_session(path, CPU)) for path in (tmp_path / "a.ply", glb)]
    pair = PairSession(*sides)
    painter = PairPainter(pair)
    camera = first_pose([], sides[1].extent).camera(200, 120)
    with pair.borrow() as scene:
        for output in ("colour", "depth", "normals", "alpha"):
            image, _ = painter.paint(scene, camera, DisplaySettings(output))
            assert image.shape == (120, 200, 3)
        painter.difference = True
        image, caption = painter.paint(scene, camera, DisplaySettings())
        assert "PSNR" in caption and image.any()
        painter.difference = False
        image, _ = painter.paint(scene, camera, DisplaySettings("shaded"))
        assert len(painter.parts) == 2 and "has no output 'shaded'" in painter.parts[0].message


def test_films_of_meshes(glb: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    frames = tmp_path / "frames"
    words = ["render", str(glb), "--out", str(frames), "--frames", "4", "--width", "64", "--height", "48"]
    assert main([*words, "--device", "cpu", "--transparent"]) == 0
    images = [np.array(Image.open(path)) for path in sorted(frames.glob("*.png"))]
    assert len(images) == 4 and images[0].shape == (48, 64, 4)
    assert (
        sum(0.005 < (image[..., 3] == 255).mean() < 0.9 for image in images) >= 2
    )  # the others see its edge
    assert any((image[..., :3] == [200, 0, 0]).all(-1).any() for image in images)
    assert "4 frames of 64x48" in capsys.readouterr().out


def test_a_mesh_file_has_no_other_format(glb: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for words in (["--out", "a.ply"], ["--out", "a.obj", "--mesh"]):
        assert main(["export", str(glb), *words]) == 2
        assert "this scene of triangles cannot be written like that" in capsys.readouterr().err


def test_what_cannot_be_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "a.obj"
    for text, problem in (
        ("v 0 0 0\n", "there are no triangles in it"),
        ("v 0 0 0\nv 1 0 0\nv inf 1 0\nf 1 2 3\n", "vertex 2 is not finite"),
    ):
        path.write_text(text)
        assert main(["view", str(path), "--device", "cpu"]) == 2
        assert problem in " ".join(capsys.readouterr().err.split())
    path.write_text("v 0 0 0\nv 1 0 0\nv 0 1 0\nf 1 2 3\n")
    assert read_mesh(path).faces.shape == (1, 3)
    monkeypatch.setattr("luxel.render.surfaces.mesh_scene.free_memory", lambda device: 100)
    assert main(["view", str(path), "--device", "cpu"]) == 2
    said = " ".join(capsys.readouterr().err.split())
    assert "a.obj: 1 triangles need" in said and "fewer triangles" in said
