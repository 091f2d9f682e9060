"""Entries of a cache that are files without sense, though their hashes may be right: they are not read."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from luxel.scenes.captures.cameras import films
from luxel.scenes.captures.films.film_state import FilmState
from luxel.scenes.captures.films.timestamps import FilmTimes
from luxel.scenes.captures.panoramas import poses
from luxel.scenes.captures.unposed import video

FILM = FilmState(read=3, streams=[(8, 6)]).as_json()
NOT_STATES = [{**FILM, "read": "3"}, {**FILM, "streams": [8, 6]}, {"read": 3}, {**FILM, "more": 1}, None]
TIMES = {f"frame-{number:06d}.jpg": number / 10 for number in range(3)}


def write_frames(folder: Path) -> Path:
    folder.mkdir()
    for name in TIMES:
        Image.new("RGB", (8, 6)).save(folder / name)
    return folder


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({}, ""),
        ({"times": {**TIMES, "../../photo.jpg": 1.0}}, "does not have the frames"),
        ({"times": {}}, "does not have the frames"),
        ({"times": dict.fromkeys(TIMES, float("nan"))}, "has no times"),
        ({"times": dict.fromkeys(TIMES, "0")}, "has no times"),
        ({"warnings": [1]}, "has no warnings"),
        *(({"film": state}, "this is no state of a film") for state in NOT_STATES),
    ],
)
def test_frames_of_videos(tmp_path: Path, changes: dict[str, Any], problem: str) -> None:
    write_frames(tmp_path / "images")
    (tmp_path / "frames.json").write_text(
        json.dumps({"times": TIMES, "warnings": [], "film": FILM, **changes})
    )
    if not problem:
        assert video._read_frames(tmp_path)[1]["times"] == TIMES
        return
    with pytest.raises(ValueError, match=problem):
        video._read_frames(tmp_path)


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({}, ""),
        ({"times": {}}, "does not have the frames"),
        ({"times": {**TIMES, "/etc/hostname": 1.0}}, "does not have the frames"),
        ({"times": dict.fromkeys(TIMES, float("inf"))}, "has no times"),
        *(({"film": state}, "this is no state of a film") for state in NOT_STATES),
    ],
)
def test_frames_of_cameras(tmp_path: Path, changes: dict[str, Any], problem: str) -> None:
    folder = write_frames(tmp_path / "camera")
    (folder / "times.json").write_text(json.dumps({"times": TIMES, "film": FILM, **changes}))
    if not problem:
        assert films._read(folder).times == [*TIMES.values()]
        return
    with pytest.raises(ValueError, match=problem):
        films._read(folder)


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"rows": np.array([0, 1, 7])},
        {"rows": np.array([0.0, 1.0, 2.0])},
        {"world_to_cam": np.full((3, 4, 4), np.nan)},
        {"world_to_cam": np.zeros((2, 4, 4))},
        {"xyz": np.zeros((5, 3), np.float64)},
        {"rgb": np.zeros((4, 3), np.uint8)},
        {"error": np.zeros(2)},
    ],
)
def test_poses_of_panoramas(tmp_path: Path, changes: dict[str, np.ndarray]) -> None:
    result = {
        "rows": np.arange(3),
        "world_to_cam": np.stack([np.eye(4)] * 3),
        "xyz": np.zeros((5, 3), np.float32),
        "rgb": np.zeros((5, 3), np.uint8),
        "error": np.array(0.5),
    }
    np.savez(tmp_path / "a.npz", allow_pickle=False, **{**result, **changes})
    if not changes:
        assert poses._load(tmp_path / "a.npz", 3).keys() == result.keys()
        return
    with pytest.raises(ValueError, match="does not hold the poses of these panoramas"):
        poses._load(tmp_path / "a.npz", 3)


FILM_TIMES = {"times": [0.0, 0.1, 0.2], "first": 0.0, "timed": True, "state": FILM}


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({}, ""),
        ({"times": []}, "no times of a film"),
        ({"times": [0.0, float("nan")]}, "no times of a film"),
        ({"times": [0.2, 0.1]}, "no times of a film"),
        ({"times": 3}, "no times of a film"),
        ({"first": None}, "no times of a film"),
        ({"first": float("inf")}, "no times of a film"),
        *(({"state": state}, "no state of a film") for state in NOT_STATES),
    ],
)
def test_times_of_films(changes: dict[str, Any], problem: str) -> None:
    if not problem:
        assert FilmTimes.from_json(FILM_TIMES) == FilmTimes(
            [0.0, 0.1, 0.2], 0.0, True, FilmState(read=3, streams=[(8, 6)])
        )
        return
    with pytest.raises(ValueError, match=problem):
        FilmTimes.from_json({**FILM_TIMES, **changes})
