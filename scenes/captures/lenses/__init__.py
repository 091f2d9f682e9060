"""Lenses of captures: their models, undistortion, and lenses stored beside images."""
