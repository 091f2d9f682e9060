"""Exposure by EXIF: its values, what is compared, and what the capture and `luxel inspect` know of it."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import luxel.scenes as scenes
from luxel.scenes.captures.checks import inspect
from luxel.scenes.captures.exposure_data import Exposure, exposure_of, relative_stops
from luxel.scenes.captures.images.images import read_header
from luxel.viewer.commands.inspect import as_json, facts_of

TIME, APERTURE, ISO, APEX_TIME, APEX_APERTURE = 0x829A, 0x829D, 0x8827, 0x9201, 0x9202


def exif_of(**values: object) -> Image.Exif:
    exif = Image.Exif()
    names = {
        "time": TIME,
        "aperture": APERTURE,
        "iso": ISO,
        "apex_time": APEX_TIME,
        "apex_aperture": APEX_APERTURE,
    }
    exif.get_ifd(0x8769).update({names[name]: value for name, value in values.items()})
    return exif


def test_stops_are_those_of_photography() -> None:
    base = Exposure(1 / 60, 100, 2.8)
    assert Exposure(1 / 30, 100, 2.8).stops - base.stops == pytest.approx(1)
    assert Exposure(1 / 60, 400, 2.8).stops - base.stops == pytest.approx(2)
    assert Exposure(1 / 60, 100, 2.8 * math.sqrt(2)).stops - base.stops == pytest.approx(-1)
    assert Exposure(1.0, 100, 1.0).stops == 0
    assert str(Exposure(1 / 250, 200, 1.8)) == "1/250 s f/1.8 ISO 200" and str(Exposure(2.0)) == "2 s"


def test_values_of_exif_data(tmp_path: Path) -> None:
    path = tmp_path / "a.jpg"
    Image.new("RGB", (8, 8)).save(path, exif=exif_of(time=1 / 125, iso=200, aperture=4.0))
    stored = read_header(path).exposure
    assert stored is not None and stored.sensitivity == 200 and stored.aperture == pytest.approx(4.0)
    assert stored.seconds == pytest.approx(1 / 125)
    apex = exposure_of(exif_of(apex_time=7.0, apex_aperture=4.0, iso=(50, 60)))
    assert apex == Exposure(1 / 128, 50, 4.0)
    Image.new("RGB", (8, 8)).save(path)
    assert read_header(path).exposure is None


@pytest.mark.parametrize("time", [0, -1, float("nan"), 1e9, "x", (), None, (1, 0)])
def test_times_that_no_camera_has(time: object) -> None:
    exposure = exposure_of(exif_of(time=time, iso=100))
    assert exposure is None or 1e-7 < exposure.seconds < 1e5


def test_only_what_can_be_compared_is_compared() -> None:
    full = {f"{i}.jpg": Exposure(2.0**i, 100, 2.0) for i in range(5)}
    stops = relative_stops({**full, "phone.jpg": Exposure(1.0)})
    assert stops == pytest.approx({f"{i}.jpg": i - 2 for i in range(5)})
    assert relative_stops({}) == {}


def test_captures_know_the_exposure_of_their_views(toy: Path) -> None:
    document = json.loads((toy / "transforms.json").read_text())
    for index, frame in enumerate(document["frames"]):
        old = toy / frame["file_path"]
        new = old.with_suffix(".jpg")
        factor = 1.0 if index % 2 else 0.45
        pixels = (np.asarray(Image.open(old).convert("RGB")) * factor).astype(np.uint8)
        exif = exif_of(time=1 / 60 if index % 2 else 1 / 240, iso=100, aperture=2.0)
        Image.fromarray(pixels).save(new, quality=95, exif=exif)
        old.unlink()
        frame["file_path"] = new.relative_to(toy).as_posix()
    (toy / "transforms.json").write_text(json.dumps(document))
    capture = scenes.open(toy)
    assert set(capture.exposures) == {view.name for view in capture.views}
    ordered = [capture.exposures[view.name] for view in capture.views]
    assert np.allclose(np.abs(np.diff(ordered)), 2.0, atol=0.05)
    inspection = inspect(capture)
    facts = facts_of(inspection)
    assert facts["exposure"] == "over 2.0 stops, by EXIF of 16 of 16 images"
    views = as_json(inspection, facts)["views"]
    assert {round(abs(view["exposure_stops"])) for view in views} == {1}
    problem = next(f.problem for f in inspection.findings if f.check == "exposure")
    assert "EXIF exposures differ by 2.0 stops, correlation 0.9" in problem or "correlation 1.0" in problem
