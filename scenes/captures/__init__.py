"""Captures: one file per format, and what they share: images, lenses, masks, structure from motion."""
