"""A capture and a run to break, and how a refused command must complain."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from bad_input import Refused

from luxel.viewer.cli import main


@pytest.fixture(scope="session")
def sound(toy_capture: Path) -> Path:
    """A capture that trains; tests break copies of it."""
    return toy_capture


@pytest.fixture(scope="session")
def sound_run(sound: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run with two checkpoints."""
    folder = tmp_path_factory.mktemp("bad") / "run"
    options = ["--steps", "6", "--checkpoints.every", "3", "--device", "cpu", "--no-lpips"]
    assert main(["train", str(sound), "--run", str(folder), *options]) == 0
    return folder


@pytest.fixture
def capture(sound: Path, tmp_path: Path) -> Path:
    """A copy of the sound capture to break."""
    return Path(shutil.copytree(sound, tmp_path / "capture"))


@pytest.fixture
def run(sound_run: Path, tmp_path: Path) -> Path:
    """A copy of the sound run to break."""
    return Path(shutil.copytree(sound_run, tmp_path / "run"))


@pytest.fixture
def refused(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> Refused:
    """Runs a command that must fail, and returns its complaint.

    The message must be one, name what is wrong (``names``) and be followed by a remedy; nothing is left in the run
    folder of a training that could not begin.
    """

    def check(*arguments: object, names: str) -> str:
        words = [str(argument) for argument in arguments]
        folder = tmp_path / "new-run"
        if words[0] == "train" and "--run" not in words and "--resume" not in words:
            words += ["--run", str(folder), "--device", "cpu", "--steps", "2", "--no-lpips"]
        capfd.readouterr()
        status = main(words)
        out, err = capfd.readouterr()
        assert status != 0, f"accepted: {out}"
        assert "Traceback" not in err + out, err
        complaints = [line for line in err.splitlines() if line.startswith("luxel: ")]
        assert len(complaints) == 1, f"expected one message:\n{err}"
        remedy = err[err.index(complaints[0]) + len(complaints[0]) :].strip()
        assert remedy, f"no remedy: {err}"
        assert names in complaints[0] + remedy, f"{names!r} is not named: {err}"
        assert not folder.exists(), "the refused training left its folder behind"
        return complaints[0] + "\n" + remedy

    return check
