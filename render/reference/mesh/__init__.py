"""The stages on triangle meshes in plain torch."""
