"""When features of slanted surfaces are tried, and which models are used then."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest

from luxel.scenes.captures.colmap_process import reconstruction as subject
from luxel.scenes.captures.colmap_process.pairs import EXHAUSTIVE_UP_TO
from luxel.scenes.captures.colmap_process.score import ModelScore
from luxel.scenes.captures.colmap_process.two_view import VerifiedPairs


def pairs() -> VerifiedPairs:
    none = np.zeros((0, 2), np.int64)
    return VerifiedPairs(none, np.zeros(0, np.int64), [], {}, {}, 0)


@dataclass
class Stages:
    """Stands for COLMAP.

    Args:
        placed: number of images that mapping places, by the name of the database; 0: there is no model.
        joined: number of images of the model joined of parts; 0: no part can be aligned.
    """

    placed: dict[str, int]
    turntable: object | None = None
    only_turned: tuple[bool, ...] = (False, False)
    joined: int = 0
    matched: list[Path] = field(default_factory=list)

    def run(self, monkeypatch: pytest.MonkeyPatch, count: int = 20) -> subject._Mapped:
        turned = iter(self.only_turned)
        monkeypatch.setattr(subject, "read_turntable", lambda *rest: self.turntable)
        monkeypatch.setattr(subject, "map_turntable", lambda *rest: None)
        monkeypatch.setattr(subject, "read_pairs", lambda *rest: pairs())
        monkeypatch.setattr(subject, "only_turned", lambda rest: next(turned))
        monkeypatch.setattr(subject, "match_affine", lambda *rest: self.matched.append(rest[3]))
        monkeypatch.setattr(subject, "_candidates", self._candidates)
        monkeypatch.setattr(subject, "stored_models", lambda *rest: [])
        monkeypatch.setattr(subject, "join_models", lambda *rest: "joined" if self.joined else None)
        monkeypatch.setattr(subject, "_scored", self._scored)
        inputs = subject._Inputs(None, Path("work"), ["x"] * count, Path("work/database.db"))
        return subject._mapped(inputs, "capture", lambda stage, share: None)

    def _candidates(
        self, inputs: subject._Inputs, verified: VerifiedPairs, on_progress: object, note: str = ""
    ) -> list[subject.Candidate]:
        placed = self.placed.get(inputs.database.name, 0)
        score = ModelScore("incremental" + note, len(inputs.names), placed, 0.5, 200.0, 4.0, 30, 1.0)
        return [(score, inputs.database.name, np.zeros(0))] if placed else []

    def _scored(self, name: str, model: object, count: int, verified: VerifiedPairs) -> subject.Candidate:
        return ModelScore(name, count, self.joined, 0.5, 200.0, 4.0, 30, 1.0), model, np.zeros(0)


def test_sure_poses_are_used_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    stages = Stages({"database.db": 15, "affine.db": 20})
    assert stages.run(monkeypatch).best[1] == "database.db" and not stages.matched  # type: ignore[index]


@pytest.mark.parametrize("ordinary", [0, 6])
def test_doubtful_poses_give_way_to_better_ones(ordinary: int, monkeypatch: pytest.MonkeyPatch) -> None:
    mapped = Stages({"database.db": ordinary, "affine.db": 18}).run(monkeypatch)
    assert (
        mapped.best and mapped.best[0].mapping == "incremental, slanted" and mapped.best[0].registered == 18
    )
    assert len(mapped.candidates) == 1 + (ordinary > 0)


def test_doubtful_poses_stay_where_the_others_are_worse(monkeypatch: pytest.MonkeyPatch) -> None:
    stages = Stages({"database.db": 6, "affine.db": 5})
    assert stages.run(monkeypatch).best[1] == "database.db" and len(stages.matched) == 1  # type: ignore[index]


def test_without_any_model_the_ordinary_matches_give_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    mapped = Stages({}).run(monkeypatch)
    assert mapped.best is None and not mapped.candidates


def test_matches_that_only_a_turning_camera_explains_make_no_model(monkeypatch: pytest.MonkeyPatch) -> None:
    stages = Stages({"affine.db": 20}, only_turned=(False, True))
    assert stages.run(monkeypatch).best is None and stages.matched


def test_a_background_that_stands_still_is_not_matched_again(monkeypatch: pytest.MonkeyPatch) -> None:
    stages = Stages({"database.db": 6, "affine.db": 20}, turntable=object())
    assert stages.run(monkeypatch).best[1] == "database.db" and not stages.matched  # type: ignore[index]


def test_many_images_are_not_matched_again(monkeypatch: pytest.MonkeyPatch) -> None:
    stages = Stages({"database.db": 6, "affine.db": 150})
    mapped = stages.run(monkeypatch, count=EXHAUSTIVE_UP_TO + 1)
    assert mapped.best and mapped.best[0].registered == 6 and not stages.matched


@pytest.mark.parametrize(("joined", "used"), [(18, "joined"), (9, "affine.db")])
def test_joined_parts_are_used_where_they_are_better(
    joined: int, used: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    mapped = Stages({"affine.db": 12}, joined=joined).run(monkeypatch)
    assert mapped.best and mapped.best[1] == used
    assert [score.mapping for score, *_ in mapped.candidates] == ["incremental, slanted", "joined, slanted"]
