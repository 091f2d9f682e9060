"""Synthetic scenes and captures with known ground truth."""

from luxel.scenes.synthetic.captures.courtyard import place_cameras, place_scene, write_place

__all__ = ["place_cameras", "place_scene", "write_place"]
