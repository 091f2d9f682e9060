"""How good a model of structure from motion is, as numbers, as one score, and as a sentence."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from luxel.scenes.captures.colmap_process.two_view import VerifiedPairs, fit_of_pairs

AGREES = 0.5  # share of a pair's matches that must fit the model's poses
EXPECTED_ERROR = 1.5  # pixels; a larger reprojection error lowers the score
EXPECTED_POINTS = 100.0  # per image; fewer lower the score
SURE, UNSURE = 0.85, 0.5  # scores from which poses are sure, and below which they are doubtful


@dataclass(frozen=True)
class ModelScore:
    """What is known of a model.

    Args:
        mapping: how it was made: "incremental", "global" and so on.
        photographs: number of all photographs.
        registered: number of those with a pose.
        reprojection_error: mean, pixels.
        points_per_image: mean number of points that an image sees.
        track_length: mean number of images that see a point.
        pairs: number of the verified pairs of images, both registered.
        agreement: share of the matches of these pairs that are in pairs of which half of the matches fit the poses.
            Pairs with few matches, which are often wrong, count little.
    """

    mapping: str
    photographs: int
    registered: int
    reprojection_error: float
    points_per_image: float
    track_length: float
    pairs: int
    agreement: float

    @property
    def value(self) -> float:
        """In [0, 1]: registered share x agreement, less where error or number of points are unusual."""
        error = min(1.0, EXPECTED_ERROR / max(self.reprojection_error, 1e-6))
        points = min(1.0, self.points_per_image / EXPECTED_POINTS)
        share = self.registered / max(self.photographs, 1)
        return float(share * self.agreement * error**0.5 * points**0.25)

    def __str__(self) -> str:
        return (
            f"{self.registered} of {self.photographs} images have a pose, {self.agreement:.0%} of the matches of "
            f"{self.pairs} overlapping pairs agree with the poses, "
            f"reprojection error {self.reprojection_error:.2f} pixels, "
            f"{self.points_per_image:.0f} points per image observed {self.track_length:.1f} times each"
        )


def score_model(
    mapping: str, model: Any, photographs: int, pairs: VerifiedPairs
) -> tuple[ModelScore, np.ndarray]:
    """The score of a model, and the share of the matches that fits for each pair, [P]; NaN: not in the model.

    Args:
        mapping: how it was made.
        model: a pycolmap.Reconstruction.
        photographs: number of all photographs.
        pairs: of all images.
    """
    model.update_point_3d_errors()
    fit = fit_of_pairs(pairs, model)
    known = np.isfinite(fit)
    agreeing = int(pairs.counts[known & (fit >= AGREES)].sum())
    score = ModelScore(
        mapping,
        photographs,
        model.num_reg_images(),
        float(model.compute_mean_reprojection_error()),
        float(model.compute_mean_observations_per_reg_image()),
        float(model.compute_mean_track_length()),
        int(known.sum()),
        agreeing / max(int(pairs.counts[known].sum()), 1),
    )
    return score, fit


@dataclass
class PoseReport:
    """How poses were estimated and how sure they are.

    Args:
        chosen: the score of the model that is used.
        models: of all models that were made.
        cut: pairs of images that contradicted the others and were left out.
        lens: COLMAP's camera model, after refinement.
        refusal: why the model cannot be used, a clause; empty: it can.
    """

    chosen: ModelScore
    models: list[ModelScore] = field(default_factory=list)
    cut: int = 0
    lens: str = ""
    refusal: str = ""

    @property
    def sure(self) -> str:
        """How sure the poses are: "sure", "fairly sure" or "doubtful"."""
        value = self.chosen.value
        return "sure" if value >= SURE else "fairly sure" if value >= UNSURE else "doubtful"

    @property
    def headline(self) -> str:
        """One sentence on how sure the poses are."""
        return f"the poses are {self.sure} (score {self.chosen.value:.2f}): {self.chosen}"

    def as_json(self) -> dict[str, Any]:
        """The report as plain values; `of_json` reads them."""
        return asdict(self) | {"headline": self.headline}

    @staticmethod
    def of_json(values: dict[str, Any]) -> PoseReport:
        """The reverse of `as_json`."""
        models = [ModelScore(**model) for model in values["models"]]
        chosen = ModelScore(**values["chosen"])
        return PoseReport(chosen, models, values["cut"], values["lens"], values["refusal"])
