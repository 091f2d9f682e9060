"""Equal scenes are equal files, in each process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from knot_scene import knot

from luxel.scenes import load_primitives, save_safetensors, save_scene
from luxel.scenes.files.scene_files import load_facts
from luxel.scenes.files.scene_format import SceneFacts

FACTS = SceneFacts(antialiased=True, up=(0.0, -1.0, 0.0), metres=0.5)


def test_equal_scenes_are_equal_safetensors_files(tmp_path: Path) -> None:
    """The library safetensors writes metadata in the order of a hash table, another one at each call and process."""
    for number in range(12):
        save_scene(tmp_path / f"{number}.safetensors", knot(), facts=FACTS)
    contents = {path.read_bytes() for path in tmp_path.iterdir()}
    assert len(contents) == 1
    raw = contents.pop()
    metadata = json.loads(raw[8 : 8 + int.from_bytes(raw[:8], "little")])["__metadata__"]
    assert list(metadata) == sorted(metadata) and len(metadata) == 5
    assert load_facts(tmp_path / "0.safetensors") == FACTS
    again = load_primitives(tmp_path / "0.safetensors").tensors()
    assert all(torch.equal(again[name], tensor) for name, tensor in knot().tensors().items())


@pytest.mark.slow
def test_exports_of_two_processes_are_equal(tmp_path: Path) -> None:
    save_safetensors(tmp_path / "a.safetensors", knot(), facts=FACTS)
    code = (
        "import sys; from luxel.scenes import load_primitives, save_scene\n"
        "from luxel.scenes.files.scene_files import load_facts\n"
        "save_scene(sys.argv[2], load_primitives(sys.argv[1]), facts=load_facts(sys.argv[1]))\n"
    )
    for seed in ("1", "2"):
        words = [sys.executable, "-c", code, tmp_path / "a.safetensors", tmp_path / f"{seed}.safetensors"]
        subprocess.run(words, env={**os.environ, "PYTHONHASHSEED": seed}, check=True, timeout=120)
    assert (tmp_path / "1.safetensors").read_bytes() == (tmp_path / "2.safetensors").read_bytes()
