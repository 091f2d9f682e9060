"""The task of structure from motion: features, matches, models, and the lens, from images alone."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from luxel.scenes.captures.colmap_process import features
from luxel.scenes.captures.colmap_process.affine.database import match_affine
from luxel.scenes.captures.colmap_process.affine.joined_models import join_models
from luxel.scenes.captures.colmap_process.features import import_pycolmap
from luxel.scenes.captures.colmap_process.lens_refinement import refine_lens
from luxel.scenes.captures.colmap_process.mapping import (
    map_globally,
    map_incrementally,
    stored_models,
    without_pairs,
)
from luxel.scenes.captures.colmap_process.pairs import EXHAUSTIVE_UP_TO, pairs_to_match
from luxel.scenes.captures.colmap_process.score import UNSURE, ModelScore, PoseReport, score_model
from luxel.scenes.captures.colmap_process.still_features import read_turntable
from luxel.scenes.captures.colmap_process.turn_bundle import adjust_on_path
from luxel.scenes.captures.colmap_process.turntable_mapping import map_turntable
from luxel.scenes.captures.colmap_process.two_view import VerifiedPairs, only_turned, read_pairs
from luxel.scenes.errors import CaptureError

if TYPE_CHECKING:
    from luxel.scenes.captures.capture_format import Progress

MIN_PLACED_FRACTION = 0.5
MIN_AGREEMENT = 0.35  # of the matches with the poses, see `ModelScore`
GOOD_AGREEMENT = 0.9  # from which mapping is not repeated
CONTRADICTS = 0.25  # share of a pair's matches that fits the poses, below which the pair is cut
FEW_FEATURES = 100  # of the median image
TURNED = "the camera turned on the spot, so that near and far move alike from one image to another"
DATABASE, AFFINE_DATABASE, INCREMENTAL = "database.db", "affine.db", "incremental"
FINISHED, REPORT = "finished", "report.json"
ADVICE = (
    "Images must be sharp, overlap by two thirds with their neighbours, and be taken from different positions, not "
    "by turning on the spot. Add images between these and the others, or remove them."
)
Candidate = tuple[ModelScore, Any, np.ndarray]  # score, model, and how each pair fits it


@dataclass(frozen=True)
class _Inputs:
    """Args:
    pycolmap: the module.
    folder: see `reconstruct`.
    names: of the images, in order.
    database: of their features and matches.
    """

    pycolmap: Any
    folder: Path
    names: Sequence[str]
    database: Path

    @property
    def images(self) -> Path:
        return self.folder / "images"


@dataclass(frozen=True)
class _Mapped:
    """Models of a set of matches.

    Args:
        verified: the pairs that the models are scored by.
        candidates: all models.
        best: the one to use; None: there is no model.
        cut: number of pairs that were left out.
        groups: image ids of each camera position of a turntable; empty: it is none.
    """

    verified: VerifiedPairs
    candidates: list[Candidate] = field(default_factory=list)
    best: Candidate | None = None
    cut: int = 0
    groups: list[list[int]] = field(default_factory=list)

    @property
    def value(self) -> float:
        """The score of the best."""
        return self.best[0].value if self.best else 0.0

    @property
    def doubtful(self) -> bool:
        """Whether the best would be refused, or used with a warning."""
        return self.value < UNSURE


def reconstruct(
    folder: Path,
    on_progress: Progress,
    *,
    capture: str,
    names: Sequence[str],
    stored_names: Sequence[str],
    lenses: Sequence[Sequence[str]],
) -> dict[str, np.ndarray]:
    """Writes a binary COLMAP model with a report into the folder ``finished``; returns nothing.

    Args:
        folder: with upright images and masks, see `luxel.scenes.captures.poses.workspace`; features and matches that
            are in its database are not computed again.
        on_progress: called with (stage, fraction done in [0, 1]).
        capture: the path that messages name.
        names: of the images, in order.
        stored_names: of the images, in the same order, for the model.
        lenses: names of the images that one lens took, for each lens.

    Raises:
        CaptureError: there is no model, or the camera only turned on the spot.
    """
    pycolmap = import_pycolmap()
    pycolmap.set_random_seed(features.SEED)
    inputs = _Inputs(pycolmap, folder, names, folder / DATABASE)
    with features.quiet(pycolmap):
        _extract(inputs, lenses, on_progress)
        pairs = pairs_to_match(pycolmap, inputs.database, names)
        features.match(pycolmap, inputs.database, pairs, lambda share: on_progress("matching images", share))
        mapped = _mapped(inputs, capture, on_progress)
        if not mapped.best:
            raise CaptureError(
                f"{capture}: no poses could be estimated: {_reason(len(names), mapped.verified)}.", ADVICE
            )
        on_progress("refining the lens", 0.0)
        refined = refine_lens(pycolmap, mapped.best[1])
        if mapped.groups:
            adjust_on_path(pycolmap, refined, mapped.groups)
        score, _ = score_model(mapped.best[0].mapping, refined, len(names), mapped.verified)
        models = sorted({camera.model_name for camera in refined.cameras.values()})
        report = PoseReport(score, [made for made, *_ in mapped.candidates], mapped.cut, ", ".join(models))
        if score.agreement < MIN_AGREEMENT:
            report.refusal = (
                f"only {score.agreement:.0%} of the matches of {score.pairs} pairs agree with them"
            )
        stored = dict(zip(names, stored_names, strict=True))
        for image in refined.images.values():
            image.name = stored[image.name]
        finished = folder / FINISHED
        shutil.rmtree(finished, ignore_errors=True)
        finished.mkdir()
        refined.write_binary(str(finished))
        (finished / REPORT).write_text(json.dumps(report.as_json(), indent=1))
    return {}


def _extract(inputs: _Inputs, lenses: Sequence[Sequence[str]], on_progress: Progress) -> None:
    """Features of all images, with a simple lens for those that one lens took."""
    masks = inputs.folder / "masks"
    done, total = 0, len(inputs.names)
    for group in lenses:
        size = len(group)
        features.extract(
            inputs.pycolmap,
            inputs.database,
            inputs.images,
            group,
            masks=masks if any(masks.iterdir()) else None,
            mode=inputs.pycolmap.CameraMode.SINGLE,
            model="SIMPLE_RADIAL",
            on_progress=lambda share, before=done, size=size: on_progress(
                "finding features", (before + share * size) / total
            ),
        )
        done += size


def _mapped(inputs: _Inputs, capture: str, on_progress: Progress) -> _Mapped:
    """The models that the matches allow; where the best is doubtful, those of features of slanted surfaces as well.

    Raises:
        CaptureError: the camera only turned on the spot.
    """
    turntable = read_turntable(inputs.pycolmap, inputs.database)
    made = turntable and map_turntable(inputs.pycolmap, inputs.folder, turntable, on_progress)
    if turntable and made:
        model, pairs, cut = made
        only = _scored("turntable", model, len(inputs.names), pairs)
        return _Mapped(pairs, [only], only, cut, turntable.groups)
    verified = read_pairs(inputs.pycolmap, inputs.database)
    if only_turned(verified):  # mapping places some of them even so, differently each time
        raise CaptureError(f"{capture}: no poses could be estimated: {TURNED}.", ADVICE)
    mapped = _best(inputs, verified, _candidates(inputs, verified, on_progress), on_progress)
    if turntable or not mapped.doubtful or len(inputs.names) > EXHAUSTIVE_UP_TO:
        return mapped
    slanted = _slanted(inputs, on_progress)
    if not slanted.best or slanted.value <= mapped.value:
        return mapped
    return replace(slanted, candidates=[*mapped.candidates, *slanted.candidates])


def _slanted(inputs: _Inputs, on_progress: Progress) -> _Mapped:
    """The models of features of slanted surfaces."""
    pycolmap, database = inputs.pycolmap, inputs.folder / AFFINE_DATABASE
    match_affine(pycolmap, inputs.folder, inputs.database, database, inputs.names, on_progress)
    again, verified = replace(inputs, database=database), read_pairs(pycolmap, database)
    if only_turned(verified):
        return _Mapped(verified)
    made = _candidates(again, verified, on_progress, note=", slanted")
    mapped = _best(again, verified, made, on_progress)
    return _joined(again, mapped, on_progress) if mapped.best else mapped


def _joined(inputs: _Inputs, mapped: _Mapped, on_progress: Progress) -> _Mapped:
    """The best model with those parts of incremental mapping that can be aligned to it, where that is better."""
    assert mapped.best is not None
    parts = stored_models(inputs.pycolmap, inputs.folder / INCREMENTAL)
    model = join_models(inputs.pycolmap, inputs.folder, inputs.database, mapped.best[1], parts, on_progress)
    if model is None:
        return mapped
    made = _scored("joined, slanted", model, len(inputs.names), mapped.verified)
    best = max(mapped.best, made, key=lambda candidate: candidate[0].value)
    return replace(mapped, candidates=[*mapped.candidates, made], best=best)


def _best(
    inputs: _Inputs, verified: VerifiedPairs, candidates: list[Candidate], on_progress: Progress
) -> _Mapped:
    """The best of the candidates, or of those without the pairs that contradict it."""
    if not candidates:
        return _Mapped(verified)
    best, cut = _without_contradictions(inputs, verified, candidates, on_progress)
    return _Mapped(verified, candidates, best, cut)


def _candidates(
    inputs: _Inputs, verified: VerifiedPairs, on_progress: Progress, note: str = ""
) -> list[Candidate]:
    """Models of both mappings; incremental mapping is repeated with looser thresholds where too few are placed.

    Args:
        inputs, verified, on_progress: see `_best`.
        note: added to the names of the mappings.
    """
    count, given = len(inputs.names), (inputs.pycolmap, inputs.database, inputs.images)
    models = {"incremental": map_incrementally(*given, inputs.folder / INCREMENTAL, count, on_progress)}
    models["global"] = map_globally(*given, inputs.folder / "global", on_progress)
    placed = max((model.num_reg_images() for model in models.values() if model is not None), default=0)
    if placed < MIN_PLACED_FRACTION * count:
        models["loose incremental"] = map_incrementally(
            *given, inputs.folder / "loose", count, on_progress, loose=True
        )
    return [
        _scored(name + note, model, count, verified) for name, model in models.items() if model is not None
    ]


def _scored(name: str, model: Any, count: int, verified: VerifiedPairs) -> Candidate:
    score, fit = score_model(name, model, count, verified)
    return score, model, fit


def _without_contradictions(
    inputs: _Inputs,
    verified: VerifiedPairs,
    candidates: list[Candidate],
    on_progress: Progress,
) -> tuple[Candidate, int]:
    """The best candidate, and the number of pairs that were cut.

    Sides that look alike are matched though they show different things. Such pairs contradict the poses that all others
    agree on: mapping is repeated once without them, and retained where all pairs fit it better. Adds to ``candidates``.
    """
    best = max(candidates, key=lambda candidate: candidate[0].value)
    contradicting = np.nonzero(best[2] < CONTRADICTS)[0]
    if best[0].agreement >= GOOD_AGREEMENT or not len(contradicting):
        return best, 0
    on_progress("mapping without contradicting pairs", 0.0)
    pycolmap, fewer = inputs.pycolmap, inputs.folder / "fewer-pairs.db"
    without_pairs(pycolmap, inputs.database, fewer, [tuple(verified.ids[row]) for row in contradicting])
    out, count = inputs.folder / "again", len(inputs.names)
    again = {
        "incremental, again": map_incrementally(pycolmap, fewer, inputs.images, out, count, on_progress),
        "global, again": map_globally(pycolmap, fewer, inputs.images, out, on_progress),
    }
    made = [_scored(name, model, count, verified) for name, model in again.items() if model is not None]
    candidates.extend(made)
    better = max(made, key=lambda candidate: candidate[0].value, default=best)
    if better[0].value > best[0].value:
        return better, len(contradicting)
    return best, 0


def _reason(count: int, verified: VerifiedPairs) -> str:
    """Why there are no poses, a clause."""
    counts = [len(points) for points in verified.keypoints.values()] or [0]
    if np.median(counts) < FEW_FEATURES:
        return f"the images show too little detail ({np.median(counts):.0f} features in the median image)"
    if len(verified.ids) < count // 2:
        return f"only {len(verified.ids)} pairs of the {count} images show enough of the same thing"
    return f"none of the {len(verified.ids)} pairs of images that overlap is one to begin from"
