"""What `luxel export` makes of a scene besides scene files: meshes, cameras, time slices, page settings."""
