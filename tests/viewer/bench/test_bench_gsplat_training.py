"""gsplat's own trainings as competitors: normalised scene, loop and bound (with a stand-in, or on a GPU)."""

from __future__ import annotations

import importlib.util
import math
import sys
import types
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
import torch
from torch import Tensor

from luxel.render.backends import gsplat as backend
from luxel.render.errors import LuxelError
from luxel.render.geometry.camera import Camera, Points, View
from luxel.render.metrics.evaluate import evaluate, ground_truth
from luxel.render.primitives.gaussians import Gaussians
from luxel.render.raster.rasterize import rasterize
from luxel.render.train.config import TrainConfig
from luxel.scenes import Capture
from luxel.scenes import open as open_capture
from luxel.viewer.bench.train.gsplat_scene import Normalisation
from luxel.viewer.bench.train.gsplat_settings import parse_settings
from luxel.viewer.bench.train.gsplat_trainer import GsplatTrainer, bounded, retain_highest
from luxel.viewer.cli import main

CPU = torch.device("cpu")
QUICK = ["--steps", "12", "--evaluations", "2", "--no-lpips", "--device", "cpu"]
QUICK += ["--set", "init.sh_degree=1", "init.max_points=300", "strategy.kind=fixed"]


def draw(
    means: Tensor,
    quats: Tensor,
    scales: Tensor,
    opacities: Tensor,
    colors: Tensor,
    viewmats: Tensor,
    Ks: Tensor,
    width: int,
    height: int,
    **options: Any,
) -> tuple[Tensor, Tensor, dict[str, Any]]:
    """gsplat.rasterization of one camera, drawn by luxel."""
    k = Ks[0]
    lens = torch.stack([k[0, 0], k[1, 1], k[0, 2], k[1, 2]])
    camera = Camera(viewmats[0], lens, width, height, options["near_plane"], options["far_plane"])
    gaussians = Gaussians(means, quats, scales.log(), opacities.logit(), colors[:, 0], colors[:, 1:])
    behind = options["backgrounds"]
    frame = rasterize(
        gaussians,
        camera,
        sh_degree=options["sh_degree"],
        background=None if behind is None else behind[0],
        max_alpha=backend.MAX_ALPHA,
    )
    info = {"means2d": means[None, :, :2] * 1.0, "tiles_per_gauss": torch.zeros(1, len(means))}
    return frame.rgb[None], frame.alpha[None, ..., None], info


@dataclass
class StandInStrategy:
    """What gsplat's strategies are called with; the count does not change."""

    calls: ClassVar[list[dict[str, Any]]] = []

    def check_sanity(self, params: Any, optimizers: Any) -> None:
        assert list(params) == list(optimizers)

    def initialize_state(self, **arguments: Any) -> dict[str, Any]:
        self.calls.clear()
        return arguments

    def step_pre_backward(self, params: Any, optimizers: Any, state: Any, step: int, info: Any) -> None:
        self.before = {name: tensor.detach().clone() for name, tensor in params.items()}

    def step_post_backward(
        self, params: Any, optimizers: Any, state: Any, step: int, info: Any, **more: Any
    ) -> None:
        moved = {name for name, tensor in params.items() if not torch.equal(tensor, self.before[name])}
        self.calls.append({"step": step, "moved": moved, "state": state, **more})


@dataclass
class DefaultStrategy(StandInStrategy):
    prune_opa: float = 0.0
    grow_grad2d: float = 0.0
    grow_scale3d: float = 0.0
    prune_scale3d: float = 0.0
    refine_start_iter: int = 0
    refine_stop_iter: int = 0
    reset_every: int = 0
    refine_every: int = 0
    absgrad: bool = True

    def _grow_gs(self, params: Any, optimizers: Any, state: Any, step: int) -> int:
        """Doubles those of a high gradient, as gsplat does."""
        due = state["grad2d"] / state["count"].clamp_min(1) > self.grow_grad2d
        for name, tensor in params.items():
            params[name] = torch.cat([tensor, tensor[due]])
        return int(due.sum())


@dataclass
class MCMCStrategy(StandInStrategy):
    cap_max: int = 0
    noise_lr: float = 0.0
    refine_start_iter: int = 0
    refine_stop_iter: int = 0
    refine_every: int = 0
    min_opacity: float = 0.0


@pytest.fixture
def stand_in(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """Modules in the place of gsplat; gives the calls of the newest strategy."""
    library, strategies = types.ModuleType("gsplat"), types.ModuleType("gsplat.strategy")
    vars(library)["rasterization"] = draw
    vars(strategies).update(DefaultStrategy=DefaultStrategy, MCMCStrategy=MCMCStrategy)
    monkeypatch.setitem(sys.modules, "gsplat", library)
    monkeypatch.setitem(sys.modules, "gsplat.strategy", strategies)
    monkeypatch.setattr(backend, "require", lambda device=None: None)
    return StandInStrategy.calls


@pytest.fixture(scope="module")
def capture(toy_capture: Path) -> Capture:
    return open_capture(toy_capture)


def moved(capture: Capture, scale: float, shift: tuple[float, float, float]) -> Capture:
    """The capture in other units, about another origin."""
    offset = torch.tensor(shift, dtype=torch.float64)

    def view(view: View) -> View:
        pose = view.camera.world_to_cam.double()
        pose[:3, 3] = scale * pose[:3, 3] - pose[:3, :3] @ offset
        return replace(view, camera=replace(view.camera, world_to_cam=pose.float()))

    points = Points((scale * capture.points.xyz + np.array(shift)).astype(np.float32), capture.points.rgb)
    train, test = ([view(one) for one in views] for views in (capture.train, capture.test))
    return replace(capture, train=train, test=test, points=points)


def test_without_gsplat_the_remedy_is_named(
    toy_capture: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    absent = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "gsplat" else absent(name))
    options = [str(toy_capture), *QUICK, "--against", "gsplat-mcmc", "--out", str(tmp_path / "out")]
    assert main(["bench", "train", *options]) == 2
    assert "pip install 'luxel[gsplat]'" in capsys.readouterr().err and not (tmp_path / "out").exists()


def test_cameras_see_the_same_in_the_normalised_scene(capture: Capture) -> None:
    far = moved(capture, 40.0, (300.0, -20.0, 70.0))
    cameras = [view.camera for view in [*far.train, *far.test]]
    world = Normalisation.of(cameras)
    positions = torch.stack([world.view(view).camera.position for view in [*far.train, *far.test]])
    assert float(positions.norm(dim=-1).median()) == pytest.approx(1.0, abs=0.1)
    before, after = far.points, world.points(far.points)
    for view in far.train[:3]:
        camera, own = view.camera, world.view(view).camera
        x = torch.from_numpy(before.xyz) @ camera.world_to_cam[:3, :3].T + camera.world_to_cam[:3, 3]
        y = torch.from_numpy(after.xyz) @ own.world_to_cam[:3, :3].T + own.world_to_cam[:3, 3]
        torch.testing.assert_close(y, world.scale * x, atol=2e-4, rtol=1e-4)
        assert own.near == 0.01 and torch.equal(own.intrinsics, camera.intrinsics)


def trainer_of(words: str, capture: Capture, **values: Any) -> GsplatTrainer:
    settings = parse_settings(words)
    config = TrainConfig(**values)
    return GsplatTrainer(settings, capture, config, CPU, bound=settings.bound(None))


@pytest.mark.parametrize("name", ["gsplat-default", "gsplat-mcmc"])
def test_the_loop_lowers_the_loss(name: str, capture: Capture, stand_in: list[dict[str, Any]]) -> None:
    trainer = trainer_of(f"{name}:steps=40,count=400", capture)
    assert trainer.count == 400
    before = trainer.evaluate()
    trainer.train_until(40)
    after = trainer.evaluate()
    assert before is not None and after is not None and after.mean.psnr > before.mean.psnr + 1
    assert trainer.steps_done == 40 and trainer.train_seconds > 0
    assert [call["step"] for call in stand_in] == list(range(40))
    everything = {"means", "scales", "quats", "opacities", "sh0"}  # of degree 0 before step 1000
    assert all(call["moved"] >= everything and "shN" not in call["moved"] for call in stand_in)
    first = 1.6e-4 * trainer.scene_scale
    if name == "gsplat-mcmc":
        assert stand_in[0]["lr"] == pytest.approx(first * 0.01 ** (1 / 40))
        assert stand_in[-1]["lr"] == pytest.approx(0.01 * first)
        assert vars(trainer.strategy)["cap_max"] == 400
    else:
        assert stand_in[0]["state"] == {"scene_scale": trainer.scene_scale} and not stand_in[0]["packed"]
        assert vars(trainer.strategy)["refine_stop_iter"] == 15_000


def test_the_start_is_gsplats(capture: Capture, stand_in: list[dict[str, Any]]) -> None:
    trainer = trainer_of("gsplat-mcmc:steps=5", capture)
    scene = trainer.scene
    assert scene.count == len(capture.points.xyz) and scene.sh_degree == 3
    torch.testing.assert_close(scene.opacities, torch.full((scene.count,), 0.5))
    wider = trainer_of("gsplat-default:steps=5", capture).scene
    torch.testing.assert_close(wider.scales, 10 * scene.scales)
    assert 0 < trainer.scene_scale < 3
    (group,) = trainer.optimizers["shN"].param_groups
    assert group["lr"] == 2.5e-3 / 20 and group["eps"] == 1e-15 and group["fused"]


def test_units_and_origin_change_nothing(capture: Capture, stand_in: list[dict[str, Any]]) -> None:
    """The scene scale, the first evaluation and the training are those of the capture as it is."""
    scores = []
    for one in (capture, moved(capture, 50.0, (0.0, 0.0, 0.0)), moved(capture, 0.02, (0.0, 0.0, 0.0))):
        trainer = trainer_of("gsplat-mcmc:steps=6,count=200", one)
        trainer.train_until(6)
        evaluation = trainer.evaluate()
        assert evaluation is not None
        scores.append((trainer.scene_scale, evaluation.mean.psnr))
    assert scores[1] == pytest.approx(scores[0], rel=2e-3) and scores[2] == pytest.approx(scores[0], rel=2e-3)


def test_evaluation_is_that_of_the_capture(capture: Capture, stand_in: list[dict[str, Any]]) -> None:
    """The scene moved back into the capture's units gives the same scores with the capture's own cameras."""
    trainer = trainer_of("gsplat-default:steps=4,count=300", capture)
    trainer.train_until(4)
    world = Normalisation.of([view.camera for view in [*capture.train, *capture.test]])
    scene = trainer.scene
    means = scene.means / world.scale + world.centre.float()
    back = replace(scene, means=means, log_scales=scene.log_scales - math.log(world.scale))
    own, expected = trainer.evaluate(), evaluate(back, capture.test, render=backend.rasterize, lpips=False)
    assert own is not None and own.mean.psnr == pytest.approx(expected.mean.psnr, abs=0.02)
    assert own.mean.ssim == pytest.approx(expected.mean.ssim, abs=1e-3)


def test_pixels_that_do_not_count_are_not_learnt(capture: Capture, stand_in: list[dict[str, Any]]) -> None:
    """Where all weights are 0, colours stay as they are."""

    def masked(view: View, value: int) -> View:
        def read() -> Any:
            pixels = view.read()
            return replace(pixels, weight=np.full(pixels.rgb.shape[:2], value, np.uint8))

        return replace(view, read=read)

    for value in (0, 255):
        one = replace(capture, train=[masked(view, value) for view in capture.train])
        trainer = trainer_of("gsplat-default:steps=1,count=200", one)
        trainer.step()
        assert ("sh0" in stand_in[0]["moved"]) == (value == 255)


@pytest.mark.parametrize("images", ["device", "stream"])
def test_each_step_has_its_image_camera_and_background(
    images: Any, capture: Capture, stand_in: list[dict[str, Any]]
) -> None:
    trainer = trainer_of("gsplat-mcmc:steps=5,count=50", capture, images=images, background="random", seed=3)
    world = Normalisation.of([view.camera for view in [*capture.train, *capture.test]])
    seen, colours = set(), set()
    for step in range(len(capture.train)):
        view = capture.train[trainer.images.order.view_at(step)]
        target, matrices, behind = trainer.images.at(step)
        assert behind is not None and behind.shape == (1, 3)
        expected, weight = ground_truth(view, behind[0])
        torch.testing.assert_close(target.rgb, expected, atol=1e-6, rtol=1e-6)
        torch.testing.assert_close(target.camera.world_to_cam, world.view(view).camera.world_to_cam)
        torch.testing.assert_close(matrices, backend.pinhole_matrices(view.camera))
        assert (target.weight is None) == (weight is None)
        seen.add(view.name)
        colours.add(tuple(behind[0].tolist()))
    assert len(seen) == len(colours) == len(capture.train)
    trainer.close()
    opaque = trainer_of("gsplat-mcmc:steps=5,count=50", capture, background="black").images.at(0)
    white = trainer_of("gsplat-mcmc:steps=5,count=50", capture, background="white").images.at(0)
    assert opaque[2] is None and white[2] is not None and white[2].tolist() == [[1, 1, 1]]


def test_opacities_are_reset_on_request(
    capture: Capture, stand_in: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    resets, ops = [], types.ModuleType("gsplat.strategy.ops")
    vars(ops)["reset_opa"] = lambda params, optimizers, state, value: resets.append(value)
    monkeypatch.setitem(sys.modules, "gsplat.strategy.ops", ops)
    for words, count in (("steps=30,scaled=true", 0), ("steps=30,scaled=true,reset=true", 4)):
        resets.clear()
        trainer = trainer_of(f"gsplat-default:{words},count=50", capture)
        trainer.train_until(30)
        assert len(resets) == count and set(resets) <= {0.01}  # steps 3, 6, 9 and 12 of the 15 that refine


def test_growth_ends_at_the_bound() -> None:
    strategy = bounded(DefaultStrategy, 12)(grow_grad2d=0.5)
    gradients = torch.tensor([0.1, 0.9, 0.6, 0.8, 3.0, 0.0, 0.7, 0.4])
    params = {"means": torch.arange(8.0)}
    state = {"grad2d": 2 * gradients, "count": torch.full((8,), 2.0)}
    assert strategy._grow_gs(params, {}, state, 600) == 4  # of five that are due
    assert sorted(params["means"][8:].tolist()) == [1, 3, 4, 6]
    state = {"grad2d": torch.ones(12), "count": torch.ones(12)}
    assert strategy._grow_gs(params, {}, state, 700) == 0 and len(params["means"]) == 12


def test_few_that_are_due_are_left_alone() -> None:
    gradients = torch.tensor([0.1, 0.9, 0.6])
    state = {"grad2d": gradients.clone(), "count": torch.tensor([0.0, 1.0, 1.0])}
    retain_highest(state, 2, 0.5)
    assert torch.equal(state["grad2d"], gradients)
    retain_highest(state, -3, 0.5)
    assert not state["grad2d"].any()


def test_a_gsplat_without_that_hook_is_refused() -> None:
    with pytest.raises(LuxelError, match="cannot be given a count"):
        bounded(StandInStrategy, 5)


def test_gsplat_competes_as_it_trains(
    strict: Any,
    toy_capture: Path,
    tmp_path: Path,
    stand_in: list[dict[str, Any]],
    capsys: pytest.CaptureFixture[str],
) -> None:
    mcmc, default = "gsplat-mcmc:steps=12,count=luxel", "gsplat-default:steps=8,count=150"
    options = [str(toy_capture), *QUICK, "--out", str(tmp_path), "--against", mcmc, "--against", default]
    assert main(["bench", "train", *options]) == 0
    report = strict(tmp_path / "train.json")
    (row,) = report["rows"]
    ours, theirs, fewer = (row["results"][name] for name in ("luxel", mcmc, default))
    assert set(theirs) == {*ours, "ahead_from"}
    assert [point["step"] for point in theirs["curve"]] == [1, 3, 6, 12]
    assert [point["step"] for point in fewer["curve"]] == [1, 2, 4, 8]
    assert theirs["count"] == ours["count"] == 300 and fewer["count"] == 150
    assert (
        theirs["psnr"] == theirs["curve"][-1]["psnr"] and theirs["seconds"] == theirs["curve"][-1]["seconds"]
    )
    assert len(theirs["views_scores"]) == row["held_out"] == 2
    _, listed, _ = report["variants"]
    assert listed["backend"] == "gsplat" and listed["config"]["strategy.cap_max"] == "luxel"
    assert listed["differences"]["steps"] == [12, 12] and listed["differences"]["strategy"] == [
        None,
        "MCMCStrategy",
    ]
    text = (tmp_path / "train.md").read_text()
    assert (
        f"| {mcmc} | strategy.noise_lr | – | 500000.0 |" in text
        and f"| {default} |" in capsys.readouterr().out
    )


@pytest.mark.gpu
@pytest.mark.parametrize("name", ["gsplat-default", "gsplat-mcmc"])
def test_gsplat_itself_trains_within_the_bound(name: str, capture: Capture, gpu: torch.device) -> None:
    if importlib.util.find_spec("gsplat") is None:
        pytest.skip("GPU test not run: gsplat is not installed")
    bound = len(capture.points.xyz) + 40
    settings = parse_settings(f"{name}:steps=50,count={bound}")
    options = {**settings.options, "refine_start_iter": 5, "refine_every": 10}
    options |= {"grow_grad2d": 1e-9} if name == "gsplat-default" else {}
    trainer = GsplatTrainer(replace(settings, options=options), capture, TrainConfig(), gpu, bound=bound)
    before = trainer.evaluate()
    counts = []
    for step in range(1, 51):
        trainer.train_until(step)
        counts.append(trainer.count)
    after = trainer.evaluate()
    assert before is not None and after is not None and after.mean.psnr > before.mean.psnr
    assert max(counts) <= bound and max(counts) > len(capture.points.xyz)
