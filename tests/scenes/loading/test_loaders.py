"""Scenes of files: which loader opens a path, what is known of the scene, and which writer takes it."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from luxel.render.errors import LuxelError
from luxel.render.fields.application import Application, make_application
from luxel.render.fields.config import defaults
from luxel.render.fields.drawing.field_scene import field_scene
from luxel.render.fields.files import save_field
from luxel.render.geometry.camera import Camera
from luxel.render.primitives import Parameters
from luxel.render.scene import Draw, FlatImage
from luxel.render.surfaces.mesh_scene import MeshScene
from luxel.render.train import TrainConfig
from luxel.scenes import save_mesh, save_scene
from luxel.scenes.files.meshes.mesh import Mesh
from luxel.scenes.files.scene_format import SceneFacts
from luxel.scenes.loading.loader import LoadOptions
from luxel.scenes.loading.loaders import (
    facts_of,
    find_writer,
    loaders,
    open_scene,
    writers_of,
    written_suffixes,
)
from luxel.scenes.synthetic.toy import torus_knot


def triangle(path: Path) -> Path:
    save_mesh(
        path, Mesh(np.eye(3, dtype=np.float32), np.full((3, 3), 9, np.uint8), np.array([[0, 1, 2]], np.int32))
    )
    return path


def image_field() -> Application:
    config = defaults("image")
    config.log2_entries, config.width = 8, 16
    return make_application(config)


def test_a_scene_file_is_opened_with_its_facts(tmp_path: Path) -> None:
    facts = SceneFacts(antialiased=True, up=(0.0, 0.0, 1.0), metres=0.5)
    save_scene(tmp_path / "knot.ply", torus_knot(20), facts=facts)
    scene = open_scene(tmp_path / "knot.ply")
    assert facts_of(scene) == facts and scene.part(Parameters) is not None and scene.count == 20
    writer = find_writer(tmp_path / "out.compressed.ply", scene)
    assert writer is not None and writer in writers_of(scene) and writer.needs is Parameters
    writer.write(tmp_path / "out.ply", scene.parts[Parameters], {"facts": facts_of(scene)})
    assert facts_of(open_scene(tmp_path / "out.ply")) == facts
    assert find_writer(tmp_path / "out.obj", scene) is None and ".spz" in written_suffixes()


def test_a_mesh_is_told_from_primitives_by_its_content(tmp_path: Path) -> None:
    scene = open_scene(triangle(tmp_path / "a.ply"))
    assert scene.part(MeshScene) is not None and scene.part(Parameters) is None
    assert scene.about.noun == "triangles" and scene.numbers() == {"count": 1} and not writers_of(scene)
    assert scene.about.options == ("shaded",) and "normal" in scene.about.layers


def test_a_run_says_how_it_was_trained(tmp_path: Path) -> None:
    config = TrainConfig()
    config.antialiased = True
    about = {"path": "x", "up": [0, 0, 2]}
    (tmp_path / "config.json").write_text(json.dumps({"config": config.to_dict(), "capture": about}))
    save_scene(tmp_path / "scene.ply", torus_knot(20))
    assert facts_of(open_scene(tmp_path)) == SceneFacts(antialiased=True, up=(0.0, 0.0, 1.0))
    with pytest.raises(LuxelError, match="--scene-axes is for scene files"):
        open_scene(tmp_path, LoadOptions(axes="RDF"))


def test_a_field_file_is_an_image_as_a_whole(tmp_path: Path) -> None:
    save_field(tmp_path / "a.safetensors", image_field())
    scene = open_scene(tmp_path / "a.safetensors")
    field, image = scene.part(Application), scene.part(FlatImage)
    assert field is not None and image is not None and scene.about.flat and not scene.about.linear
    assert (image.width, image.height) == (1, 1) and scene.count == field.count
    whole = torch.cat(list(image.bands(8, 6, (0.0, 0.0, 1.0, 1.0), 0.0)))
    assert torch.equal(whole, field.render_size(8, 6))
    camera = Camera.look_at((0.5, 0.5, 1.0), (0.5, 0.5, 0.0), (0, 1, 0), width=8, height=8)
    drawn = scene.draw(camera, Draw()).images["colour"]
    assert torch.equal(drawn, field.render(camera)) and not drawn.requires_grad


def test_a_field_of_a_sun_is_lit_by_it() -> None:
    config = defaults("volume")
    config.log2_entries, config.width = 8, 16
    scene = field_scene(make_application(config), up=(0.0, 1.0, 0.0), background=(1.0, 1.0, 1.0))
    about = scene.to(torch.device("cpu")).about
    assert (
        about.options == ("to_sun",) and about.up == (0.0, 1.0, 0.0) and about.background == (1.0, 1.0, 1.0)
    )
    camera = Camera.look_at((0.5, 0.5, 3.0), (0.5, 0.5, 0.0), (0, 1, 0), width=4, height=4)
    assert scene.draw(camera, Draw(options={"to_sun": (0.0, 0.0, 1.0)})).images["colour"].shape == (4, 4, 3)


def test_what_is_no_scene_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("")
    for path, problem in (
        (tmp_path / "none.ply", "there is no such file or folder"),
        (tmp_path / "a.txt", ".txt is no scene format that luxel reads"),
        (tmp_path, "this is no run of luxel"),
    ):
        with pytest.raises(LuxelError, match=problem):
            open_scene(path)


def test_every_loader_says_what_it_opens() -> None:
    assert all(loader.about.startswith("a ") for loader in loaders())
