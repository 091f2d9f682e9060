"""What `luxel export` makes of a scene, by what it consists of: its options, scene files, meshes, cameras, time slices."""
