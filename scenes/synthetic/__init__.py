"""Synthetic scenes and captures with known ground truth."""
