"""Trains with the term of `flat_depth` and without it, in the copy of the sources that has it; prints JSON.

Arguments: the folder of `moving.py`, one for runs, and what to do: "outcomes", "gradients" and primitives, "captured".
"""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

sys.path.insert(0, sys.argv[1])

import numpy as np
import torch
from moving import Moving, assert_replayed_alike, assert_waits_for_nothing

from luxel.render.geometry.camera import Pixels
from luxel.render.train.densify.fixed import FixedCount
from luxel.render.train.step import step_queue
from luxel.render.train.step.terms import registry

TERMS = registry.TERMS
FOLDER = Path(sys.argv[2])
SETTINGS: dict[str, Any] = {
    "strategy": FixedCount(),
    "sh_every": 0,
    "reorder_every": 0,
    "deterministic": True,
    "batch": 2,
}
calls = {"fused": 0, "general": 0}


def counted(name: str) -> None:
    """Counts the calls of a step."""
    step = getattr(step_queue, f"{name}_step")

    def call(*arguments: Any) -> Any:
        calls[name] += 1
        return step(*arguments)

    setattr(step_queue, f"{name}_step", call)


def trainer(capture: Moving, name: str, term: bool, primitive: str = "gaussians", **options: Any) -> Any:
    """A run with the term or without it."""
    registry.TERMS = tuple(each for each in TERMS if term or not each.endswith("flat_depth"))
    config = capture.config(primitive, steps=2000, **SETTINGS)
    for loss in ("entropy_weight", "consistency_weight"):
        if hasattr(config.loss, loss):
            setattr(config.loss, loss, 0.0)
    return capture.trainer(FOLDER / f"{name}-{term}", config, **options)


def of_two_sizes(capture: Moving) -> Moving:
    """The capture with every other view cut, so that many batches have views of two sizes."""
    for i, view in enumerate(capture.train[::2]):
        cut = Pixels(view.read().rgb[:36, :40].copy(), None)
        camera = replace(view.camera, width=40, height=36)
        capture.train[2 * i] = replace(view, camera=camera, read=lambda cut=cut: cut)
    return capture


def roughness(run: Any, steps: int) -> float:
    """What the term penalises, of the held-out views after some steps."""
    for _ in range(steps):
        run.step()
    run.synchronize()
    total = 0.0
    for view in run.test_views:
        with torch.no_grad():
            frame = step_queue.rasterize(run.scene, view.camera, depth=True)
        assert frame.depth is not None
        depth = frame.depth * frame.alpha
        total += float((depth[1:] - depth[:-1]).abs().mean())
    return total


def outcomes() -> dict[str, Any]:
    """What is left of the differences of depth, without the term and with it, and how often each step was called."""
    counted("fused")
    counted("general")
    result: dict[str, Any] = {}

    def other(*arguments: Any, **options: Any) -> Any:
        return step_queue.rasterize(*arguments, **options)

    cases: dict[str, tuple[Moving, dict[str, Any]]] = {
        "fused": (Moving(0.0), {}),
        "another rasterizer": (Moving(0.0), {"render": other}),
        "two sizes": (of_two_sizes(Moving(0.0)), {}),
    }
    for name, (capture, options) in cases.items():
        calls.update(fused=0, general=0)
        left = [roughness(trainer(capture, name, term, **options), 60) for term in (False, True)]
        result[name] = {"left": left, "calls": dict(calls)}
    return result


def gradients(primitive: str) -> dict[str, Any]:
    """How far the gradients of both renderers are apart, as a share of their norm, which comes second, by parameter.

    No pixel counts, so that the term is the whole loss. The first moments of the first step are its gradients.
    """
    capture = Moving(1.0)
    for i, view in enumerate(capture.train):
        rgb = view.read().rgb
        blank = Pixels(rgb, None, np.zeros(rgb.shape[:2], np.uint8))
        capture.train[i] = replace(view, read=lambda blank=blank: blank)
    moments = []
    for fused in (True, False):
        run = trainer(capture, f"{primitive}-{fused}", True, primitive)
        run.queue._fused = fused
        generator = torch.Generator().manual_seed(5)
        for name, tensor in run.store.tensors().items():
            if name.startswith("gaussians"):  # nothing is round any more
                tensor += 0.02 * torch.randn(tensor.shape, generator=generator)
        run.step()
        run.synchronize()
        moments.append({n: t for n, t in run.store.tensors().items() if n.startswith("exp_avg.")})
    ours, theirs = moments
    return {
        name: [float((ours[name] - right).norm() / right.norm()), float(right.norm())]
        for name, right in theirs.items()
        if right.any()
    }


def captured() -> dict[str, int]:
    """Replayed steps with the term wait for nothing, and have the bits of those that are called."""
    device, capture = torch.device("cuda"), Moving(0.0)
    run = trainer(capture, "waits", True, device=device)
    for _ in range(60):
        run.step()
    assert_waits_for_nothing(run)
    config = capture.config("gaussians", steps=60, **SETTINGS)
    assert_replayed_alike(capture, config, FOLDER / "replayed", device)
    return {"captures": run.queue.captures}


if sys.argv[3] == "outcomes":
    print(json.dumps(outcomes()))
elif sys.argv[3] == "gradients":
    print(json.dumps({name: gradients(name) for name in sys.argv[4:]}))
else:
    print(json.dumps(captured()))
