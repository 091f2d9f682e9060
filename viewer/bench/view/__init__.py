"""Benchmark of the viewer: how long after a motion of the camera the page shows its image."""
