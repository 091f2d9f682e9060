"""Synthetic scenes and captures with known ground truth."""

from luxel.scenes.synthetic.place import place_cameras, place_scene, write_place

__all__ = ["place_cameras", "place_scene", "write_place"]
