"""Cameras, their lenses and shutters, and the views that a scene is trained on."""
