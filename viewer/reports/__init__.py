"""Reports as pages: evaluation of a scene, a capture, and warnings about it."""
