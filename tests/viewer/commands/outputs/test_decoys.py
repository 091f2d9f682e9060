"""Every command that writes, on a tree of files that luxel did not write: none is changed or deleted without --force.

With --force only files of the names that the command writes are replaced, and none is deleted.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from decoy_cases import CASES, ELSEWHERE, READ, WITHOUT_OUTPUT, Case, output_options, path_options
from decoy_tree import DecoyTree
from PIL import Image

from luxel.render.primitives import Gaussians4d
from luxel.scenes import save_scene
from luxel.viewer.bench.raster import roofline
from luxel.viewer.cli import COMMANDS, main

SCENARIOS = [
    pytest.param(
        case,
        scenario,
        id=f"{case.option}-{number}-{scenario}",
        marks=[pytest.mark.slow] if scenario in case.slow else [],
    )
    for number, case in enumerate(CASES)
    for scenario in case.scenarios()
]


@pytest.fixture(scope="module")
def inputs(
    sound: Path,
    sound_run: Path,
    tmp_path_factory: pytest.TempPathFactory,
    carousel: Callable[..., Gaussians4d],
) -> dict[str, Path]:
    """Runs and other inputs by name; not to be written to."""
    folder = tmp_path_factory.mktemp("inputs")
    pixels = np.random.default_rng(0).integers(0, 256, (16, 24, 3), dtype=np.uint8)
    Image.fromarray(pixels).save(folder / "image.png")
    (folder / "maps").mkdir()
    labels = np.repeat(np.array([[0, 1]], np.uint8), 32, 1).repeat(48, 0)
    for photograph in sorted(sound.rglob("*.png"))[:4]:
        Image.fromarray(labels).save(folder / "maps" / photograph.name)
    save_scene(folder / "moving.ply", carousel(times=(2.0, 6.0)))
    return {
        "capture": sound,
        "run": sound_run,
        "image": folder / "image.png",
        "maps": folder / "maps",
        "moving": folder / "moving.ply",
        "field": folder / "field",
    }


def test_every_output_has_a_case() -> None:
    options = output_options()
    tried = {case.option for case in CASES}
    missing = [option for option in options if option not in tried and option not in ELSEWHERE]
    assert not missing, (
        f"{', '.join(missing)}: add a case to CASES in decoy_cases.py if the option names an output, or its name to "
        "READ if what it names is only read"
    )
    assert tried | set(ELSEWHERE) <= set(options), "a case is for an option that no longer exists"
    assert set(READ) <= {option for _, option in path_options()}, "READ names an option that no longer exists"
    with_output = {re.split(r"[ .]", option)[0] for option in options}
    assert set(COMMANDS) - with_output == WITHOUT_OUTPUT, (
        "a command without an option that names an output: give it a case if it writes, or add it to WITHOUT_OUTPUT"
    )


@pytest.mark.parametrize(("case", "scenario"), SCENARIOS)
def test_only_what_luxel_wrote(
    case: Case,
    scenario: str,
    inputs: dict[str, Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("LUXEL_DEMO_EXIT", "1")
    monkeypatch.setattr(roofline, "CPU_CEILINGS", (1 << 18, 128))
    places = {**inputs, "place": tmp_path / "place"}
    if "{field}" in case.words and not inputs["field"].exists():
        words = ["train", str(inputs["image"]), "--field", "image", "--run", str(inputs["field"])]
        assert main([*words, "--steps", "2", "--device", "cpu"]) == 0
    for name in ("run", "field"):
        if f"{{{name}}}" in case.words:
            places[name] = Path(shutil.copytree(inputs[name], tmp_path / name))
    tree = DecoyTree(tmp_path, places[case.place], case.writes if scenario == "around" else "")
    words = [word.format(**places) for word in case.words.split()]
    capfd.readouterr()
    status = main([*words, *(["--force"] if scenario == "forced" else [])])
    err = capfd.readouterr().err
    allowed = case.writes if scenario == "forced" else ""
    assert [name for name in tree.changed() if not re.fullmatch(allowed, name)] == []
    assert tree.gone() == []
    assert status == {"inside": case.inside, "around": case.around, "forced": 0}[scenario], err
    if status:
        assert str(tree.place) in err, "the message names what is in the way"
