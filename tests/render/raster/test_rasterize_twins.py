"""The two builds of the CPU library (x86-64 baseline and x86-64-v3) give the same images and gradients."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from luxel.render import native

SCRIPT = """
import sys
import numpy as np, torch
from luxel.render import native
from luxel.render.geometry.camera import Camera
from luxel.render.primitives.gaussians import Gaussians
from luxel.render.raster.rasterize import rasterize

torch.manual_seed(0)
n = 300
gaussians = Gaussians(
    torch.randn(n, 3), torch.randn(n, 4), torch.randn(n, 3) / 2 - 2, torch.randn(n), torch.randn(n, 3),
    torch.randn(n, 15, 3) / 5,
)
camera = Camera.look_at((0.5, -4, 1), (0, 0, 0), width=75, height=53)
results = {"library": native.cpu_library().path.name}
for dtype in (torch.float32, torch.float64):
    leaves = gaussians.map(lambda t: t.to(dtype, copy=True)).requires_grad_()
    features = torch.linspace(0, 1, n * 5, dtype=dtype).reshape(n, 5).requires_grad_()
    frame = rasterize(leaves, camera.to(dtype), depth=True, normals=True, features=features)
    images = {k: getattr(frame, k) for k in ("rgb", "alpha", "depth", "normals", "features")}
    sum(image.square().sum() for image in images.values()).backward()
    images |= {"g_" + name: tensor.grad for name, tensor in leaves.tensors().items()} | {"g_features": features.grad}
    results |= {f"{name} {dtype}": t.detach().numpy() for name, t in images.items()}
np.savez(sys.argv[1], **results)
"""


def run(level: int, out: Path) -> dict[str, np.ndarray]:
    environment = {**os.environ, "LUXEL_CPU_LEVEL": str(level), "OMP_NUM_THREADS": "2"}
    subprocess.run([sys.executable, "-c", SCRIPT, str(out)], env=environment, check=True, timeout=120)
    return dict(np.load(out))


def test_twins_agree(tmp_path):
    if native.cpu_library().path.name != "libluxel_cpu_v3.so":
        pytest.skip("this processor, or LUXEL_CPU_LEVEL, rules out the x86-64-v3 twin")
    baseline, fast = run(1, tmp_path / "1.npz"), run(3, tmp_path / "3.npz")
    assert (
        str(baseline.pop("library")) == "libluxel_cpu.so" and str(fast.pop("library")) == "libluxel_cpu_v3.so"
    )
    assert baseline.keys() == fast.keys() and len(baseline) == 24
    for name, expected in baseline.items():
        actual, tolerance = fast[name], 1e-4 if "float32" in name else 1e-12
        assert np.abs(expected).max() > 0, f"{name} is all 0"
        difference = np.linalg.norm(actual - expected) / np.linalg.norm(expected)
        assert difference < tolerance, f"{name}: {difference:.3g} relative"
