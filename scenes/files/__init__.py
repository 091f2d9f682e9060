"""Scene and mesh files: one module per format, listed in `formats` and `mesh_files`."""
