"""`luxel export --upright --metric`: a camera that moves along sees the same image of what was written."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from bad_input import Refused

from luxel.render.geometry.camera import Camera
from luxel.render.primitives import PRIMITIVES, Gaussians, Parameters
from luxel.render.primitives.similarity import Similarity
from luxel.render.raster.rasterize import rasterize
from luxel.scenes import load_primitives, read_mesh, save_scene
from luxel.scenes import open as open_capture
from luxel.scenes.files.scene_files import load_facts
from luxel.scenes.files.scene_format import SceneFacts
from luxel.scenes.loading.loaders import open_scene
from luxel.scenes.measuring.measurements import UPRIGHT, Measurements, upright_transform
from luxel.scenes.measuring.measurements_file import MeasurementsFile
from luxel.scenes.synthetic.toy import torus_knot
from luxel.viewer.cli import main
from luxel.viewer.commands.render import Render
from luxel.viewer.exports.coordinates import Coordinates
from luxel.viewer.measure.shared_measurements import SharedMeasurements
from luxel.viewer.web.opening import open_session

TILTED = SceneFacts(up=(0.48, -0.6, 0.64), metres=2.5)
SHIFT = (500_000.0, 5_000_000.0, 200.0)
CAMERA = Camera.look_at((3.0, -2.0, 1.0), (0, 0, 0), width=64, height=48)


def knot() -> Gaussians:
    """A knot whose colours depend on the direction up to degree 3."""
    generator = torch.Generator().manual_seed(5)
    made = torus_knot(150)
    return replace(made, sh_rest=0.15 * torch.randn(made.count, 15, 3, generator=generator))


def image_of(scene: Parameters, camera: Camera) -> np.ndarray:
    with torch.no_grad():
        return rasterize(scene, camera, time=0.0 if scene.moves else None).rgb.numpy()


def measured(run: Path, facts: SceneFacts = TILTED) -> None:
    """Measurements of a run."""
    file = MeasurementsFile.of_run(run)
    file.read()
    file.write(Measurements(facts.up, facts.metres))


@pytest.mark.parametrize("primitive", list(PRIMITIVES))
def test_every_primitive_is_turned_and_scaled(primitive: str, tmp_path: Path) -> None:
    scene = PRIMITIVES[primitive].engine.from_gaussians(knot())
    source, out = tmp_path / "source.safetensors", tmp_path / "out.safetensors"
    save_scene(source, scene, facts=TILTED)
    assert main(["export", str(source), "--out", str(out), "--upright", "--metric"]) == 0
    transform = upright_transform(TILTED, upright=True, metric=True)
    before, after = image_of(scene, CAMERA), image_of(load_primitives(out), transform.camera(CAMERA))
    assert before.std() > 0.05
    np.testing.assert_allclose(after, before, rtol=0, atol=2e-5)
    assert load_facts(out) == SceneFacts(up=UPRIGHT, metres=1.0)


# The means that were measured are half of these or less; those of the same file without a transform are alike.
@pytest.mark.parametrize(
    ("suffix", "mean"),
    [
        (".ply", 1e-7),
        (".glb", 1e-7),
        (".spz", 1.5e-3),
        (".splat", 2.5e-4),
        (".sog", 2.5e-4),
        (".compressed.ply", 2e-3),
    ],
)
def test_every_format_is_turned_and_scaled(suffix: str, mean: float, tmp_path: Path) -> None:
    degree = 0 if suffix == ".splat" else 3
    scene = knot() if degree else replace(knot(), sh_rest=torch.zeros(150, 0, 3))
    source, out = tmp_path / "source.ply", tmp_path / f"out{suffix}"
    save_scene(source, scene, facts=TILTED)
    assert main(["export", str(source), "--out", str(out), "--upright", "--metric"]) == 0
    transform = upright_transform(TILTED, upright=True, metric=True)
    before, after = image_of(scene, CAMERA), image_of(load_primitives(out), transform.camera(CAMERA))
    assert np.abs(after - before).mean() < mean
    assert np.abs(image_of(load_primitives(out), CAMERA) - before).mean() > 0.03  # it did turn


def test_without_a_choice_the_coordinates_of_the_capture_stay(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source, out = tmp_path / "source.ply", tmp_path / "out.ply"
    save_scene(source, knot(), facts=replace(TILTED, shift=SHIFT))
    assert main(["export", str(source), "--out", str(out)]) == 0
    torch.testing.assert_close(load_primitives(out).centres, knot().centres, rtol=0, atol=0)
    assert load_facts(out) == replace(TILTED, shift=SHIFT)
    assert main(["export", str(source), "--out", str(out), "--metric", "--force"]) == 0
    assert "out.ply is in metres. Its origin is 500000 5000000 200 of the capture." in capsys.readouterr().out
    torch.testing.assert_close(load_primitives(out).centres, 2.5 * knot().centres)
    assert load_facts(out) == SceneFacts(up=TILTED.up, metres=1.0)


def test_what_was_measured_in_a_run_is_written(run: Path, tmp_path: Path) -> None:
    measured(run)
    out = tmp_path / "scene.ply"
    assert main(["export", str(run), "--out", str(out)]) == 0
    facts = load_facts(out)
    assert (facts.up, facts.metres) == (TILTED.up, TILTED.metres)
    source = str(run / "scene.ply")  # has what was measured in its run
    assert main(["export", source, "--out", str(tmp_path / "m.ply"), "--upright", "--metric"]) == 0
    session = open_session(run / "scene.ply", torch.device("cpu"))
    assert SharedMeasurements.of(session).metres == TILTED.metres and session.folder is None
    transform = upright_transform(TILTED, upright=True, metric=True)
    expected = transform.apply(load_primitives(out).centres)
    torch.testing.assert_close(load_primitives(tmp_path / "m.ply").centres, expected)


def test_what_was_measured_in_a_run_is_used(
    run: Path, sound: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    measured(run)
    assert main(["inspect", str(run), "--json"]) == 0
    values = json.loads(capsys.readouterr().out)["scene"]
    assert (values["up"], values["metres"]) == (list(TILTED.up or ()), TILTED.metres)
    orbit = Render(run, frames=8, width=16, height=12)
    cameras, _, _ = orbit._cameras(open_scene(run))
    eyes = np.stack([camera.position.numpy() for camera in cameras])
    np.testing.assert_allclose((eyes - eyes[0]) @ np.array(TILTED.up), 0, atol=1e-5)
    page = tmp_path / "page.html"
    assert main(["export", str(run), "--out", str(page), "--metric"]) == 0
    settings = re.search(r'id="luxel-settings">(.*?)</script>', page.read_text(), re.DOTALL)
    assert settings is not None
    position = json.loads(settings[1])["cameras"][0]["initial"]["position"]
    transform = upright_transform(TILTED, upright=True, metric=True)
    x, y, z = transform.apply(open_capture(sound).views[0].camera.position).tolist()
    np.testing.assert_allclose(position, (-x, -y, z), atol=1e-4)


def test_a_run_that_trains_on_retains_what_was_measured(run: Path) -> None:
    measured(run)
    options = ["--steps", "7", "--device", "cpu", "--no-lpips", "--no-check-capture"]
    assert main(["train", "--resume", str(run), *options]) == 0
    facts = load_facts(run / "scene.ply")
    assert (facts.up, facts.metres) == (TILTED.up, TILTED.metres)
    assert MeasurementsFile.of_run(run).read() == Measurements(TILTED.up, TILTED.metres)


def test_cameras_move_along_with_the_scene(run: Path, sound: Path, tmp_path: Path) -> None:
    measured(run)
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "images").symlink_to(sound / "images")
    out = tmp_path / "model" / "sparse" / "0"
    words = ["export", str(run), "--cameras", "--out", str(out), "--upright", "--metric"]
    assert main(words) == 0
    transform = upright_transform(TILTED, upright=True, metric=True)
    before, after = open_capture(sound), open_capture(tmp_path / "model")
    poses = {Path(view.name).stem: view.camera for view in after.views}
    for view in before.views:
        moved = transform.camera(view.camera)
        np.testing.assert_allclose(
            poses[Path(view.name).stem].world_to_cam, moved.world_to_cam, rtol=0, atol=2e-5
        )


@pytest.mark.parametrize("name", ["hulls.ply", "hulls.glb", "hulls.obj"])
def test_a_mesh_is_turned_and_scaled(name: str, tmp_path: Path) -> None:
    source, plain = tmp_path / "source.safetensors", tmp_path / f"plain-{name}"
    save_scene(source, PRIMITIVES["convexes"].engine.from_gaussians(knot()), facts=TILTED)
    options = ["export", str(source), "--mesh", "--out"]
    assert main([*options, str(plain)]) == 0
    assert main([*options, str(tmp_path / name), "--upright", "--metric"]) == 0
    first, second = read_mesh(plain), read_mesh(tmp_path / name)
    transform = upright_transform(TILTED, upright=True, metric=True)
    expected = transform.apply(torch.from_numpy(first.xyz)).numpy()
    np.testing.assert_allclose(second.xyz, expected, rtol=0, atol=2e-6)
    np.testing.assert_array_equal(second.faces, first.faces)
    if not name.endswith(".obj"):  # whose comments are not read
        assert first.facts == SceneFacts(up=TILTED.up, metres=TILTED.metres)
        assert second.facts == SceneFacts(up=UPRIGHT, metres=1.0)
    else:
        assert plain.read_text().startswith("# luxel up 0.48 -0.6 0.64\n# luxel metres 2.5\n")


def test_what_is_not_known_is_named(tmp_path: Path, refused: Refused) -> None:
    source, out = tmp_path / "source.ply", tmp_path / "out.ply"
    save_scene(source, knot())
    refused("export", source, "--out", out, "--upright", names="the up direction of this scene is not known")
    refused(
        "export", source, "--out", out, "--metric", names="the length of a unit of this scene is not known"
    )
    refused("export", source, "--out", out, "--metric", "--world", names="leave --upright and --metric out")


def test_cameras_of_a_shifted_scene_turn_about_its_origin() -> None:
    facts = replace(TILTED, shift=SHIFT)
    coordinates = Coordinates.chosen(facts, True, True)
    at = np.add(SHIFT, [[1.0, 2.0, 3.0]])
    moved = coordinates.from_capture.apply(torch.from_numpy(at)).numpy()
    expected = coordinates.transform.apply(torch.tensor([[1.0, 2.0, 3.0]], dtype=torch.float64)).numpy()
    np.testing.assert_allclose(moved, expected, rtol=0, atol=1e-8)  # of 5e6 in double
    assert Coordinates.chosen(facts, False, False).from_capture == Similarity(
        translation=(-500_000.0, -5_000_000.0, -200.0)
    )
