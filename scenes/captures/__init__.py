"""Captures: one module per format, listed in `formats`; images, lenses, masks and structure from motion."""
