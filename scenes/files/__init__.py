"""Scene and mesh files: one file per format."""
