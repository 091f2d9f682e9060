"""Lenses of captures: their models, undistortion, and lenses stored alongside images."""
