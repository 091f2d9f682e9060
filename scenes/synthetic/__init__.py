"""Synthetic scenes and captures with known ground truth."""

from luxel.scenes.synthetic.captures.courtyard import courtyard_cameras, courtyard_scene, write_courtyard

__all__ = ["courtyard_cameras", "courtyard_scene", "write_courtyard"]
