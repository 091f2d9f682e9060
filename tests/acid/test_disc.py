"""A screen policy with its own projection, alpha and gradient: new files and two lines, compiled and trained."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from additions import SHORT, changed_lines, extended

CAPTURE = """
import sys, pathlib
from luxel.scenes import dynamic_scene, save_dnerf
from luxel.scenes.synthetic.captures.dnerf import default_camera_samples
samples = default_camera_samples(10, 0, 2, static=True, width=64, height=64, radius=2.8)
save_dnerf(dynamic_scene(1), pathlib.Path(sys.argv[1]), samples, points=600)
"""
HERE = Path(__file__).resolve().with_name("disc")
# The gradient of a number of the image by every parameter and by the pose, against differences in double precision.
GRADIENTS = """
import torch
from dataclasses import replace
from luxel.render.geometry.camera import Camera
from luxel.render.ops.raster.probe import probe
from luxel.render.primitives.discs.parameters import Discs
from luxel.render.raster.rasterize import rasterize
draw = torch.Generator().manual_seed(7)
def normal(*shape):
    return torch.randn(shape, generator=draw, dtype=torch.float64)
scene = Discs(0.4 * normal(12, 3), 0.3 * normal(12) - 1.5, normal(12), normal(12, 3), 0.3 * normal(12, 3, 3))
camera = Camera.look_at((3.0, 0.5, 1.0), (0, 0, 0), fov_y=0.7, width=37, height=29).to(torch.float64)
weights = normal(29, 37, 3), normal(29, 37), normal(29, 37)
def number(pose, *parameters):
    frame = rasterize(Discs(*parameters), replace(camera, world_to_cam=pose), depth=True, max_alpha=0.9375)
    return sum((w * image).sum() for w, image in zip(weights, (frame.rgb, frame.alpha, frame.depth)))
inputs = [t.detach().clone().requires_grad_() for t in (camera.world_to_cam, *scene.tensors().values())]
number(*inputs).backward()
for name, leaf in zip(("pose", *scene.names), inputs):
    worst = 0.0
    for place in range(leaf.numel() if name != "pose" else 12):
        ends = []
        for step in (1e-6, -1e-6):
            moved = [t.detach().clone() for t in inputs]
            moved[[t is leaf for t in inputs].index(True)].view(-1)[place] += step
            ends.append(float(number(*moved)))
        worst = max(worst, abs((ends[0] - ends[1]) / 2e-6 - float(leaf.grad.view(-1)[place])))
    scale = float(leaf.grad.abs().max())
    assert scale > 1e-3 and worst < 1e-5 * max(1.0, scale), (name, worst, scale)
frame = rasterize(scene, camera, max_alpha=0.9375)
rows = frame.splats.reshape(-1, 8)[frame.tile_counts.reshape(-1) > 0]
through = (1 - probe(rows, 18.5, 14.5, primitive="discs").clamp_max(0.9375)).prod()
assert abs(1 - float(through) - float(frame.alpha[14, 18])) < 0.02 and float(through) < 0.9
print("proved")
"""


def compiled(copy: Path, build: Path) -> Path:
    """The native folder of a copy: the CPU library without special instructions, and the headers."""
    cmake = Path(sys.executable).with_name("cmake")
    command = str(cmake) if cmake.is_file() else "cmake"
    options = ["-DCMAKE_BUILD_TYPE=Release", "-DLUXEL_CUDA=OFF"]
    for words in (
        ["-S", copy / "cuda", "-B", build, *options],
        ["--build", build, "--target", "luxel_cpu", f"-j{os.cpu_count()}"],
    ):
        done = subprocess.run([command, *map(str, words)], capture_output=True, text=True)
        assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
    folder = build / "native"
    shutil.copytree(copy / "cuda" / "abi", folder / "include" / "abi")
    shutil.copy(build / "libluxel_cpu.so", folder)
    return folder


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("g++") is None, reason="the library is compiled with g++, which is missing")
def test_discs_with_their_own_projection_and_alpha(tmp_path: Path) -> None:
    assert changed_lines(HERE) == 2
    copy = extended(HERE, tmp_path / "source", "cuda")
    copy = copy._replace(native=compiled(copy.root, tmp_path / "build"))
    assert copy.python(GRADIENTS).strip() == "proved"
    copy.python(CAPTURE, tmp_path / "capture")
    run = tmp_path / "run"
    copy.luxel("train", tmp_path / "capture", "--primitive", "discs", "--steps", 50, *SHORT, "--run", run)
    assert list((run / "checkpoints").glob("*.safetensors"))
    copy.luxel("render", run, "--out", tmp_path / "frames", "--frames", 1, "--device", "cpu")
    assert len(list((tmp_path / "frames").glob("*.png"))) == 1
