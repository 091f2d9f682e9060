"""`luxel train` takes the options of the chosen primitive, strategy and preset, and refuses others by name."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import tyro

from luxel.render.primitives import PRIMITIVES
from luxel.render.train import TrainConfig
from luxel.render.train.densify import STRATEGIES, McmcStrategy
from luxel.render.train.presets import preset
from luxel.viewer.cli import main
from luxel.viewer.commands.train import Train


def parsed(*words: str) -> TrainConfig:
    return tyro.cli(Train.variant(words), args=list(words)).training()


def run_of(folder: Path, config: TrainConfig) -> Path:
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps({"config": config.to_dict()}))
    return folder


CHOICES = [
    (p, s, n) for p, spec in PRIMITIVES.items() for s in (None, *spec.strategies) for n in spec.presets
]


@pytest.mark.parametrize(("primitive", "strategy", "name"), CHOICES)
def test_the_choices_give_the_preset(primitive: str, strategy: str | None, name: str) -> None:
    words = ["capture", "--primitive", primitive, "--preset", name]
    config, expected = (
        parsed(*words, *(["--strategy", strategy] if strategy else [])),
        preset(name, primitive),
    )
    if strategy not in (None, expected.strategy_name):
        expected.strategy = STRATEGIES[strategy]()
    assert type(config) is TrainConfig and config == expected


def test_options_reach_the_configuration() -> None:
    config = parsed("c", "--split.cap-max", "7", "--rates.means=2e-4", "--loss.ssim-weight", "0.5")
    values = config.to_dict()
    assert values["strategy"]["cap_max"] == 7 and values["rates"]["means"] == 2e-4
    assert values["loss"]["ssim_weight"] == 0.5
    config = parsed("c", "--primitive=convexes", "--loss.mask-weight", "0", "--shaping.clip-every", "9")
    values = config.to_dict()
    assert values["loss"]["mask_weight"] == 0 and values["strategy"]["clip_every"] == 9


@pytest.mark.parametrize(
    ("words", "problem", "remedy"),
    [
        (
            ["--adaptive.grow-grad2d", "1e-4"],
            "--strategy adaptive; this run uses split",
            "--strategy adaptive",
        ),
        (["--adaptive.no-absolute"], "--strategy adaptive; this run uses split", "--strategy adaptive"),
        (["--strategy", "fixed", "--mcmc.cap_max=3"], "--strategy mcmc; this run uses fixed", "mcmc"),
        (["--shaping.clip-every", "3"], "--strategy shaping", "--primitive convexes"),
        (["--loss.mask-weight", "1"], "--primitive convexes; this run is of gaussians", "Leave it out"),
        (["--init.time-scale", "1"], "--primitive gaussians4d", "Leave it out"),
        (["--primitive", "convexes", "--rates.means", "1"], "--primitive gaussians or gaussians4d", "Leave"),
        (["--strategy", "shaping"], "Gaussians have no such strategy", "split, mcmc, adaptive, fixed"),
        (["--primitive", "cubes"], "no primitive 'cubes'", "convexes"),
        (["--preset", "light"], "no preset 'light' for gaussians", "fast"),
    ],
)
def test_options_of_another_choice_are_refused(
    words: list[str], problem: str, remedy: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["train", "absent", *words]) == 2
    error = capsys.readouterr().err
    assert error.startswith("luxel: ") and "Traceback" not in error
    first, *rest = error.splitlines()
    assert problem in first and remedy in " ".join(rest), error


def test_a_resumed_run_brings_its_choices(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = preset("light", "convexes")
    config.steps, config.strategy.clip_every = 77, 13  # pyright: ignore[reportAttributeAccessIssue]
    folder = str(run_of(tmp_path / "run", config))
    assert parsed("--resume", folder) == config
    again = parsed("--resume", folder, "--shaping.refine-every", "9", "--steps", "99").to_dict()
    assert (again["strategy"]["clip_every"], again["strategy"]["refine_every"], again["steps"]) == (13, 9, 99)
    for words, problem in (
        (["--primitive", "gaussians"], "is of convexes"),
        (["--preset", "indoor"], "has a configuration already"),
        (["--mcmc.noise", "0"], "this run uses shaping"),
    ):
        assert main(["train", "--resume", folder, *words]) == 2
        assert problem in capsys.readouterr().err


def test_a_resumed_run_may_hold_removed_options_that_were_off(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = TrainConfig(strategy=McmcStrategy())
    folder = run_of(tmp_path / "run", config)
    body = json.loads((folder / "config.json").read_text())
    body["config"]["pruning"] = {"share": 0.0, "views": 0}
    body["config"]["strategy"] |= {"error_share": 0.0, "error_views": 2, "error_power": 2}
    (folder / "config.json").write_text(json.dumps(body))
    assert parsed("--resume", str(folder)) == config
    body["config"]["pruning"]["share"] = 0.1
    (folder / "config.json").write_text(json.dumps(body))
    assert main(["train", "--resume", str(folder)]) == 2
    assert "this run uses pruning.share, which luxel no longer has" in capsys.readouterr().err


def test_help_is_that_of_the_choice(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    assert main(["train", "--primitive", "gaussians4d", "--preset", "video", "--help"]) == 0
    text = capsys.readouterr().out
    options = text[text.index("positional arguments") :]
    assert all(len(line) <= 80 for line in options.splitlines())
    assert "--spacetime.grow-grad-t" in options and "--mcmc." not in options and "--adaptive." not in options
    assert "--init.time-scale" in text and "--loss.mask-weight" not in text
    assert "{default,dnerf,clip,video}" in text and "{spacetime,fixed}" in text
