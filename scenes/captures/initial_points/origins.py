"""The kinds of initial points, and where the points of a capture are from."""

from __future__ import annotations

POINT_USES = ("auto", "sweep", "random", "triangulate")  # how points are found where a capture has none
OF_CAPTURE = "the capture"
OF_DEPTH = "depth maps"
TRIANGULATED = "triangulation"
SWEPT = "a plane sweep"
RANDOM = "random positions"  # with those of another kind where these are few
