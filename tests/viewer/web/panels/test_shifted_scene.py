"""A page that shows a scene of large coordinates: people read, save and open those of the capture."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from shown import StaticSession, ViewerApp

from luxel.render.geometry.camera import Camera
from luxel.render.primitives import Parameters
from luxel.render.raster.primitive_scene import primitive_scene
from luxel.scenes import save_scene
from luxel.scenes.files.scene_files import load_facts
from luxel.scenes.files.scene_format import SceneFacts
from luxel.scenes.synthetic.toy import torus_knot
from luxel.viewer.web.camera_path.keyframes import Keyframe
from luxel.viewer.web.editing.editor import SceneEditor
from luxel.viewer.web.navigate import Pose
from luxel.viewer.web.offline import open_offline_page
from luxel.viewer.web.opening import open_session
from luxel.viewer.web.page import make_click
from luxel.viewer.web.panels.camera_path import CameraPathPanel
from luxel.viewer.web.panels.inspect import click_rows
from luxel.viewer.web.shading.shading import Sample

SHIFT = (500_000.0, 5_000_000.0, 200.0)
EYES = [(3.0, -2.0, 1.0), (-2.0, -3.0, 1.5)]
CPU = torch.device("cpu")


def test_paths_are_saved_and_opened_in_coordinates_of_the_capture(tmp_path: Path) -> None:
    app = ViewerApp(StaticSession(primitive_scene(torus_knot(200), shift=SHIFT), folder=tmp_path), port=0)
    app.start()
    try:
        opened = open_offline_page(
            app, Pose.of_camera(Camera.look_at(EYES[0], (0, 0, 0))), width=64, height=48
        )
        panel = next(each for each in opened.panels if isinstance(each, CameraPathPanel))
        for eye in EYES:
            opened.page.place(Pose.of_camera(Camera.look_at(eye, (0, 0, 0))))
            panel.add()
        file = panel.save()
        entries = json.loads(file.read_text())["camera_path"]
        for entry, eye in ((entries[0], EYES[0]), (entries[-1], EYES[1])):
            centre = np.array(entry["camera_to_world"]).reshape(4, 4)[:3, 3]
            np.testing.assert_allclose(centre, np.add(eye, SHIFT), rtol=0, atol=1e-5)
        panel.open(file.read_bytes())
        keyframes: list[Keyframe] = panel._keyframes
        np.testing.assert_allclose(keyframes[0].camera.position.numpy(), EYES[0], atol=1e-5)
    finally:
        app.stop()


def test_points_are_shown_in_coordinates_of_the_capture() -> None:
    pose = Pose.of_camera(Camera.look_at((0, 0, -2), (0, 0, 0), (0, 1, 0)))
    click = make_click(pose, 0.5, 0.5, Sample((0, 0, 0), 1.0, 2.25))
    assert ("Point", "0, 0, 0.25") in [(k, v.replace("-0,", "0,")) for k, v in click_rows(click)]
    assert ("Point", "500000, 5000000, 200.25") in click_rows(click, SHIFT)


def test_an_edited_scene_states_its_shift(tmp_path: Path) -> None:
    session = StaticSession(primitive_scene(torus_knot(200), shift=SHIFT))
    facts = SceneEditor.of(session).run(lambda document: document.facts)
    assert facts is not None and facts.shift == SHIFT


def test_a_second_scene_is_moved_to_the_shift_of_the_first(tmp_path: Path) -> None:
    knot = torus_knot(200)
    save_scene(tmp_path / "b.ply", knot, facts=SceneFacts(shift=(500_010.0, 5_000_000.0, 200.0)))
    about = replace(primitive_scene(knot).about, shift=SHIFT)
    session = open_session(tmp_path / "b.ply", CPU, beside=about)
    assert session.about.shift == SHIFT
    with session.borrow() as scene:
        moved = scene.parts[Parameters].centres
    np.testing.assert_allclose(moved.numpy(), knot.centres.numpy() + np.array([10, 0, 0]), atol=1e-5)
    assert load_facts(tmp_path / "b.ply").shift == (500_010.0, 5_000_000.0, 200.0)
