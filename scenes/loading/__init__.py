"""Scenes of paths: a loader for each kind of path that holds a scene, and the writers of what scenes consist of."""
