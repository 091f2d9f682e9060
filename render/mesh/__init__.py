"""Triangle meshes: their geometry, trees of boxes over them, and surfaces extracted from values on a grid."""
