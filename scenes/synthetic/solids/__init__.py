"""Scenes of moving, textured solids with exact ray intersections."""
