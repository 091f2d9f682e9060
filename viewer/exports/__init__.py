"""What `luxel export` makes of a scene, by what it consists of: scene files, meshes, cameras, time slices."""
