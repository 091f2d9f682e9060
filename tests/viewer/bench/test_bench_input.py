"""What `luxel bench` refuses, each with one message and a remedy."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from luxel.viewer.cli import main


@pytest.mark.parametrize(
    ("words", "names"),
    [
        (["raster", "--only", "garden"], "'garden'"),
        (["raster", "--data", "ABSENT"], "garden-points.npz"),
        (["raster", "--scene", "ABSENT/scene.ply"], "scene.ply"),
        (["raster", "--sizes", "1920"], "WIDTHxHEIGHT"),
        (["raster", "--counts", "5"], "--counts"),
        (["raster", "--only", "terrain-5k", "--out", "FILE/below"], "below"),
        (["train", "ABSENT"], "ABSENT"),
        (["train", "CAPTURE", "--set", "rates.means"], "NAME=VALUE"),
        (["train", "CAPTURE", "--set", "no_such_field=1"], "no_such_field"),
        (["train", "CAPTURE", "--set", "steps=many"], "--set steps=many: steps cannot be 'many'"),
        (["train", "CAPTURE", "--evaluations", "0"], "--evaluations"),
        (["train", "CAPTURE", "--against", "splatter"], "there is no backend 'splatter'"),
        (["train", "CAPTURE", "--against", "gsplat:"], "--against gsplat:: '' names no field"),
        (["train", "CAPTURE", "--against", "luxel:steps"], "'steps' names no field"),
        (["train", "CAPTURE", "--against", "luxel:steps=9,"], "'' names no field"),
        (["train", "CAPTURE", "--against", "luxel:no_such=1"], "unknown field no_such"),
        (["train", "CAPTURE", "--against", "luxel:steps=0"], "luxel:steps=0: steps 0: this is out of bounds"),
        (["train", "CAPTURE", "--against", "luxel:preset=slow"], "no preset 'slow' for gaussians"),
        (["train", "CAPTURE", "--against", "luxel:backend=gsplat"], "before the colon"),
        (
            ["train", "CAPTURE", "--against", "gsplat:deterministic=true"],
            "the gsplat backend is not deterministic",
        ),
        (["fields", "--sizes", "4K"], "WIDTHxHEIGHT"),
        (["fields", "--seconds", "0"], "--seconds"),
        (["fields", "--iterations", "0"], "--iterations"),
        (["fields", "--only", "radiance", "--capture", "ABSENT"], "ABSENT"),
        (["compare", "ABSENT", "FILE"], "ABSENT"),
        (["compare", "FILE", "FILE"], "FILE"),
    ],
    ids=lambda value: "_".join(value[:2]) if isinstance(value, list) else None,
)
def test_bad_input_is_one_message_and_a_remedy(
    words: list[str], names: str, toy_capture: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "FILE").write_text("no report")
    places = {"ABSENT": tmp_path / "ABSENT", "FILE": tmp_path / "FILE", "CAPTURE": toy_capture}
    pattern = re.compile("|".join(places))
    filled = [pattern.sub(lambda m: str(places[m[0]]), word) for word in words]
    if words[0] != "compare" and "--out" not in words:
        filled += ["--out", str(tmp_path / "out")]
    filled += [] if words[0] == "compare" else ["--device", "cpu"]
    assert main(["bench", *filled]) == 2
    error = capsys.readouterr().err
    assert error.count("luxel: ") == 1 and names in error and "Traceback" not in error
    assert len(error.strip().splitlines()) >= 2, "a remedy is expected"
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    "words",
    [["raster", "--device", "cpu"], ["train", "somewhere", "--device", "cpu"]],
    ids=["raster", "train"],
)
def test_against_gsplat_without_it(
    words: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    import importlib.util

    if importlib.util.find_spec("gsplat") is not None:
        pytest.skip("gsplat is installed here")
    for option in (["--against", "gsplat"], ["--backend", "gsplat"]):
        assert main(["bench", *words, *option, "--out", str(tmp_path / "out")]) == 2
        assert "pip install 'luxel[gsplat]'" in capsys.readouterr().err
    assert not (tmp_path / "out").exists() and "gsplat" not in sys.modules
