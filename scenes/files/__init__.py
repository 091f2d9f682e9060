"""Scene, mesh and image files: one module per format; `registry` lists the scene formats, `meshes` the mesh formats."""
