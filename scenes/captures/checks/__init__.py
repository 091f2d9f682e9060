"""Checks of a capture before it is trained on: what is measured of its views, and what is found to be wrong."""

from luxel.scenes.captures.checks.finding import Finding
from luxel.scenes.captures.checks.inspection import CHECKS, Inspection, inspect

__all__ = ["CHECKS", "Finding", "Inspection", "inspect"]
