"""Training 4D Gaussians: a synthetic moving scene at two paces, a synthetic multi-view video, and a hand-held clip."""

from __future__ import annotations

import functools
from pathlib import Path

import numpy as np

from luxel.scenes.synthetic.captures.dnerf import default_camera_samples, rig_camera_samples, save_dnerf
from luxel.scenes.synthetic.example_scenes import dynamic_scene
from luxel.viewer.bench.record.part import Headline, Part, Row, Setup
from luxel.viewer.bench.record.parts.gaussians import SHOWN, part
from luxel.viewer.bench.record.training import Training, made_capture, training_row

SIDE = 400  # pixels
TRAIN_VIEWS, TEST_VIEWS = 150, 20  # of the monocular scene
RIG, HELD_OUT_RIG, RIG_TIMES = 12, 2, 20  # cameras to train on and held out, and times that all of them see


def write_monocular(folder: Path, *, pace: float, quick: bool) -> None:
    """The moving scene of one moving camera, a view a time, as a D-NeRF data set."""
    train, test, side = (6, 2, 24) if quick else (TRAIN_VIEWS, TEST_VIEWS, SIDE)
    samples = default_camera_samples(train, 0, test, width=side, height=side)
    save_dnerf(
        dynamic_scene(pace=pace), folder, {p: samples[p] for p in ("train", "test")}, ground_truth=False
    )


def write_video(folder: Path, *, quick: bool) -> None:
    """The moving scene at its own pace, filmed by a rig of still cameras, some of which are held out."""
    cameras, held_out, times, side = (3, 1, 2, 24) if quick else (RIG, HELD_OUT_RIG, RIG_TIMES, SIDE)
    when = np.linspace(0, 1, times).tolist()
    samples = {
        "train": rig_camera_samples(cameras, when, seed=0, width=side, height=side),
        "test": rig_camera_samples(held_out, when, seed=1, width=side, height=side),
    }
    save_dnerf(dynamic_scene(), folder, samples, ground_truth=False)


def monocular_rows(setup: Setup, *, pace: float) -> list[Row]:
    """The row of the moving scene at a pace."""
    name = f"moving-pace-{pace:g}" + ("-quick" if setup.quick else "")
    write = functools.partial(write_monocular, pace=pace, quick=setup.quick)
    with made_capture(setup, name, write) as folder:
        return [training_row(setup, Training("gaussians4d", "dnerf"), f"moving scene, pace {pace:g}", folder)]


def video_rows(setup: Setup) -> list[Row]:
    """The row of the multi-view video."""
    name = f"video-{RIG}x{RIG_TIMES}" + ("-quick" if setup.quick else "")
    with made_capture(setup, name, functools.partial(write_video, quick=setup.quick)) as folder:
        return [training_row(setup, Training("gaussians4d", "video"), "moving scene, rig of cameras", folder)]


def _monocular(pace: float, name: str, seconds: float, *headlines: Headline) -> Part:
    title = f"moving scene observed by one camera, pace {pace:g}"
    return Part(name, title, "moving", seconds, functools.partial(monocular_rows, pace=pace), (), headlines)


PARTS = (
    _monocular(0.35, "train-moving", 80, Headline("moving scene (pace 0.35), 4D Gaussians", SHOWN)),
    _monocular(1.0, "train-moving-full", 80),
    Part("train-video", "moving scene filmed by a rig of cameras", "moving", 110, video_rows),
    part("hand", "hand", "hand", 45, Training("gaussians4d", "clip", ("steps=7000",)), table="moving"),
)
