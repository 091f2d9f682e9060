"""Formats of scenes of primitives, one a file, and their registry."""
