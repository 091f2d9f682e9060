"""Stages on triangle meshes."""
