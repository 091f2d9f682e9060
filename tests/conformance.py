"""What every primitive of the registry must be able to do, as checks that a test calls with a specification."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from luxel.render.errors import LuxelError
from luxel.render.geometry.camera import Camera, Pixels, Points, View
from luxel.render.primitives import Gaussians, Parameters, PrimitiveSpec
from luxel.render.primitives.gaussians import SH_C0
from luxel.render.raster.rasterize import rasterize
from luxel.render.train import TrainConfig, Trainer
from luxel.render.train.config import Checkpoints
from luxel.render.train.densify import STRATEGIES
from luxel.render.train.presets import preset
from luxel.scenes import load_primitives, save_scene
from luxel.scenes.loading.scene_files import load_any_scene
from luxel.scenes.synthetic.toy import ring_cameras, torus_knot
from luxel.viewer.bench.raster.roofline import count_work, floors
from luxel.viewer.bench.raster.variants import CameraSample
from luxel.viewer.cli import main

STEPS, SAVED = 30, 15


@dataclass
class SmallCapture:
    """Eight small views of a knot, two held out, each at a time of its own; and noisy points."""

    def __post_init__(self) -> None:
        knot, views = torus_knot(150), []
        for i, camera in enumerate(ring_cameras(8, width=40, height=32)):
            with torch.no_grad():
                rgb = (rasterize(knot, camera).rgb.clamp(0, 1) * 255 + 0.5).to(torch.uint8).numpy()
            views.append(View(f"{i}.png", camera, lambda rgb=rgb: Pixels(rgb, None), i / 7))
        self.test, self.train = views[::4], [view for i, view in enumerate(views) if i % 4]
        noise = 0.03 * np.random.default_rng(0).standard_normal((150, 3))
        colours = (255 * (0.5 + SH_C0 * knot.sh_dc.numpy()).clip(0, 1)).astype(np.uint8)
        self.points = Points((knot.means.numpy() + noise).astype(np.float32), colours)

    def trainer(self, spec: PrimitiveSpec, folder: Path, device: torch.device, **changes: Any) -> Trainer:
        config = preset("default", spec.name)
        config.steps, config.lpips, config.save_renders, config.report_every = STEPS, False, 0, 5
        config.init.sh_degree, config.deterministic, config.batch = 1, True, 1
        config.checkpoints = Checkpoints(every=SAVED, minutes=0, keep=9)
        for name, value in changes.items():
            setattr(config, name, value)
        return Trainer(
            config,
            self.train,
            self.test,
            self.points,
            folder,
            device,
            export=lambda scene, path: save_scene(path, scene),
            say=lambda _: None,
        )


def check_declarations(spec: PrimitiveSpec) -> None:
    """The parts of a specification fit together."""
    names = spec.engine.parameters.names
    assert spec.name.isidentifier() and spec.noun
    assert tuple(spec.rates().at(0.5, 1.0)) == names, "a rate for each parameter, in order"
    assert sorted(part.parameter for part in spec.columns if part.parameter) == sorted(names)
    assert spec.exact <= set(names)
    assert not {"colour", "alpha"} - set(spec.engine.parameters.outputs) and "luxel" in spec.backends
    if spec.engine.projection is not None:
        assert tuple(spec.engine.projection.parameters) == names
    assert spec.strategies and set(spec.strategies) <= set(STRATEGIES) and "default" in spec.presets
    for name, known in spec.presets.items():
        config = preset(name, spec.name)
        config.check()
        assert known.about and config.primitive == spec.name
        assert TrainConfig.from_dict(json.loads(json.dumps(config.to_dict()))) == config
    for strategy in spec.strategies:
        assert STRATEGIES[strategy].about


def check_training(spec: PrimitiveSpec, folder: Path, device: torch.device) -> Parameters:
    """It learns from a capture, is measured, and a run that was cut goes on as if it had not stopped."""
    capture = SmallCapture()
    whole = capture.trainer(spec, folder / "whole", device)
    before = whole.evaluate()
    result = whole.run(progress=False)
    assert before is not None and result.evaluation is not None and result.step == STEPS
    assert result.evaluation.mean.psnr > before.mean.psnr
    cut = folder / "cut"
    (cut / "checkpoints").mkdir(parents=True)
    for path in (folder / "whole" / "checkpoints").glob(f"step-*{SAVED}.*"):
        (cut / "checkpoints" / path.name).write_bytes(path.read_bytes())
    (cut / "config.json").write_bytes((folder / "whole" / "config.json").read_bytes())
    again = Trainer.resume(cut, capture.train, capture.test, device=device, say=lambda _: None)
    assert again.steps_done == SAVED
    again.run(progress=False)
    for name, tensor in whole.store.tensors().items():
        assert torch.equal(tensor, again.store.tensors()[name]), name
    return whole.scene.to("cpu")


def check_images_of_changing_size(spec: PrimitiveSpec, folder: Path, device: torch.device) -> None:
    """Coarse to fine: halved images first, then at full size."""
    trainer = SmallCapture().trainer(spec, folder, device)
    trainer.config.resolution.halvings, trainer.config.resolution.smallest = 1, 8
    trainer = SmallCapture().trainer(spec, folder / "run", device, resolution=trainer.config.resolution)
    result = trainer.run(progress=False)
    assert result.evaluation is not None and result.evaluation.mean.psnr > 8


def check_files(spec: PrimitiveSpec, scene: Parameters, folder: Path) -> None:
    """Scene files give back what was written, and say what it is."""
    for name in ("a.ply", "a.safetensors"):
        save_scene(folder / name, scene)
        loaded = load_primitives(folder / name)
        assert type(loaded) is spec.engine.parameters
        for parameter, tensor in scene.tensors().items():
            assert torch.equal(getattr(loaded, parameter), tensor), (name, parameter)
    save_scene(folder / "none.ply", scene.select(torch.arange(0)))
    assert load_primitives(folder / "none.ply").count == 0


def check_rendering(scene: Parameters, device: torch.device) -> None:
    """Every declared output is drawn, and none that is not declared."""
    camera: Camera = ring_cameras(8, width=40, height=32)[1].to(device)
    scene, time = scene.to(device), 0.5 if scene.moves else None
    optional = {"depth", "normals", "count"} & set(scene.outputs)
    frame = rasterize(scene, camera, time=time, **dict.fromkeys(optional, True))
    drawn = {"rgb": frame.rgb, "alpha": frame.alpha} | {name: getattr(frame, name) for name in optional}
    for name, image in drawn.items():
        assert image.shape[:2] == (32, 40) and image.float().isfinite().all(), name
    assert 0.01 < float(frame.alpha.mean()) < 1 and float(frame.rgb.std()) > 0.01
    if "normals" not in scene.outputs:
        try:
            rasterize(scene, camera, time=time, normals=True)
        except ValueError:
            pass
        else:
            raise AssertionError("normals are drawn, but not declared")
    if scene.resizable:
        smaller = rasterize(scene.scaled(0.5), camera, time=time)
        assert float(smaller.alpha.mean()) < float(frame.alpha.mean())
    still = scene.at(0.5).to(torch.float32)
    assert not still.moves
    torch.testing.assert_close(rasterize(still, camera).rgb, frame.rgb, rtol=0, atol=2e-3)


def check_export(spec: PrimitiveSpec, run: Path, folder: Path) -> None:
    """The run is opened and exported by the command line; to a mesh where the primitive has a shape of triangles."""
    assert type(load_any_scene(run)) is spec.engine.parameters
    for name in ("out.ply", "out.safetensors"):
        assert main(["export", str(run), "--out", str(folder / name)]) == 0
        assert type(load_primitives(folder / name)) is spec.engine.parameters
    as_mesh = main(["export", str(run), "--out", str(folder / "mesh.ply"), "--mesh"])
    assert as_mesh == (2 if spec.engine.to_mesh is None else 0), "a run without a capture has no cameras"
    still = main(["export", str(run), "--out", str(folder / "still.ply"), "--time", "0.5"])
    assert still == (0 if spec.engine.parameters.moves else 2)
    as_splat = main(["export", str(run), "--out", str(folder / "out.splat")])
    assert as_splat == (0 if spec.engine.parameters is Gaussians else 2)


def check_benchmark(spec: PrimitiveSpec) -> None:
    """Gaussians become this primitive row by row, and the roofline has floors for it."""
    gaussians = torus_knot(60)
    scene = spec.engine.from_gaussians(gaussians)
    assert type(scene) is spec.engine.parameters and scene.count == 60
    camera = ring_cameras(4, width=40, height=32)[0]

    sample = CameraSample(camera, 0.5 if scene.moves else None)
    work = count_work(scene, [sample])
    assert all(part["bytes"] > 0 for part in floors(work).values())


def check_command_line(spec: PrimitiveSpec, capsys: Any) -> None:
    """`luxel train --primitive NAME --help` lists its options and no others."""
    capsys.readouterr()
    assert main(["train", "--primitive", spec.name, "--help"]) == 0
    text = capsys.readouterr().out
    for part in ("rates", "loss", "init"):
        for name in vars(getattr(spec, part)()):
            assert f"--{part}.{name.replace('_', '-')}" in text
    for name in STRATEGIES:
        listed = re.search(rf"^\W+--{name}\.", text, re.MULTILINE) is not None
        assert listed == (name == spec.strategies[0])


def check_unknown_names(spec: PrimitiveSpec) -> None:
    """A preset that does not exist is refused by name."""
    try:
        preset("no such preset", spec.name)
    except LuxelError as error:
        assert spec.name in error.problem and "default" in error.remedy
    else:
        raise AssertionError("an unknown preset is accepted")
