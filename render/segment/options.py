"""Options of segmentation: how labels are chosen, and how objects are carried from view to view."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from luxel.render.bounds import Bounds, OpenShare, Options
from luxel.render.ops.train.neighbour_count import MOST

VOTING_VIEWS = 12  # views whose masks vote, at most


@dataclass(frozen=True)
class SolveOptions(Options):
    """How labels are chosen from votes."""

    background_bias: Annotated[float, Bounds(0, 1000, above=True)] = 1.0
    """Factor on the votes for the background; above 1, doubtful primitives become background."""
    least_margin: Annotated[float, Bounds(1, 1000)] = 1.0
    """Least ratio of most to second most votes; primitives below it are undecided."""
    least_weight: Annotated[float, Bounds(0, 10**6)] = 0.0
    """Least number of votes for the leading label, pixels; primitives below it are undecided."""
    neighbours: Annotated[int, Bounds(0, MOST)] = 8
    """Nearest neighbours that give undecided primitives their label, and that smoothing compares; 0: none."""
    smoothing: Annotated[float, Bounds(0, 100)] = 0.0
    """Weight of the neighbours' labels against the own votes; 0: no smoothing."""
    sweeps: Annotated[int, Bounds(1, 100)] = 4
    """Sweeps of smoothing over all primitives."""


@dataclass(frozen=True)
class PropagateOptions(Options):
    """How objects are carried from view to view."""

    views: Annotated[int, Bounds(1, 1000)] = VOTING_VIEWS
    """Views that vote, at most; up to as many again replace views without a vote."""
    least_iou: OpenShare = 0.5
    """Least IoU of a mask with the rendered label where it is known; below it the view has no vote for that object."""
    least_change: Annotated[float, Bounds(0, 1)] = 0.005
    """The search ends when a view changes the labels of a smaller fraction of every object's area."""
    least_pixels: Annotated[int, Bounds(1, 10**6)] = 16
    """Objects of fewer pixels in a view have no vote there."""
