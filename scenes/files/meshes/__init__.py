"""Formats of triangle meshes, one a file, and meshes of convexes and fields."""
