"""Synthetic scenes and captures whose ground truth is known."""
