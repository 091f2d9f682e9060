"""A second store of parameters, in the memory of the host: a new file and one line, and the same bits."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from additions import SHORT, changed_lines, extended
from safetensors.torch import load_file

from luxel.viewer.cli import main

HERE = Path(__file__).resolve().with_name("host_store")
CAPTURE = """
import sys, pathlib
from luxel.scenes import dynamic_scene, save_dnerf
from luxel.scenes.synthetic.captures.dnerf import default_camera_samples
samples = default_camera_samples(10, 0, 2, static=True, width=64, height=64, radius=2.8)
save_dnerf(dynamic_scene(1), pathlib.Path(sys.argv[1]), samples, points=600)
"""
STRATEGIES = {
    "split": ["--split.cap-max", "900"],
    "mcmc": ["--mcmc.cap-max", "900"],
    "adaptive": [
        "--adaptive.refine-start",
        "10",
        "--adaptive.refine-every",
        "10",
        "--adaptive.reset-every",
        "20",
    ],
}


@pytest.mark.slow
def test_a_store_in_the_memory_of_the_host(tmp_path: Path) -> None:
    """50 steps of each strategy, in which rows are added, removed, relocated and reset."""
    assert changed_lines(HERE) == 1
    copy = extended(HERE, tmp_path / "source")
    which = "from luxel.render.train.store.stores import STORES; print(STORES[0])"
    assert copy.python(which).strip() == "luxel.render.train.store.host"
    copy.python(CAPTURE, tmp_path / "capture")
    for name, options in STRATEGIES.items():
        arguments = ["train", tmp_path / "capture", "--steps", "50", "--strategy", name, *options, *SHORT]
        assert not main([*map(str, arguments), "--run", str(tmp_path / name)])
        copy.luxel(*arguments, "--run", tmp_path / f"{name}-host")
        ours, theirs = (
            load_file(next((tmp_path / run / "checkpoints").glob("*.safetensors")))
            for run in (name, f"{name}-host")
        )
        assert ours.keys() == theirs.keys()
        assert [key for key in ours if not torch.equal(ours[key], theirs[key])] == []
