"""A landscape of Gaussians as other primitives, so that all are timed on scenes of one kind."""

from __future__ import annotations

from luxel.render.primitives import Gaussians, Parameters, spec_of


def as_primitive(gaussians: Gaussians, primitive: str) -> Parameters:
    """The same scene made of another primitive, in the same order; the same numbers every time.

    Convexes have their points on the ellipsoids; 4D Gaussians have times of their own, come and go, and drift.
    """
    return spec_of(primitive).from_gaussians(gaussians)
