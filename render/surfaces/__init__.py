"""Surfaces of scenes: depth, extraction as a mesh, and meshes as scenes that are rendered."""
