"""Single image files: decoding, limits, writing."""
