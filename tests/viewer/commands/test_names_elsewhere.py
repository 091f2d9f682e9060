"""What options of other programs are called in luxel."""

from __future__ import annotations

import re

import pytest

from luxel.viewer.cli import main
from luxel.viewer.commands.names_elsewhere import HERE, names_here


@pytest.mark.parametrize("command", HERE)
def test_the_names_given_exist_and_the_others_do_not(command, capsys):
    assert main([command, "--help"]) == 0
    own = set(re.findall(r"│ (--[a-z0-9-]+)[ ,]", capsys.readouterr().out))
    for other, meant in HERE[command].items():
        assert other not in own, f"luxel {command} has {other} itself"
        assert not meant.startswith("--") or meant in own, f"luxel {command} has no {meant}"


def test_they_are_said_after_a_wrong_option(capsys):
    assert main(["train", "capture", "--max_steps=5", "-m", "runs/first", "--stepz", "3"]) == 2
    said = capsys.readouterr().err
    assert said.endswith("--max_steps is called --steps here.\n-m is called --run here.\n")
    assert main(["view", "--ckpt", "scene.ply"]) == 2
    assert capsys.readouterr().err.endswith(
        "--ckpt: the run or scene file has no option, it follows the command: luxel view RUN.\n"
    )
    assert not list(names_here("doctor", ["--iterations"])) and not list(
        names_here("train", ["--steps", "5"])
    )
