"""Formats of captures with camera poses, one a file."""
