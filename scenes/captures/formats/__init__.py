"""Formats of captures, one a file, and their registry."""
