"""Captures of made scenes, with exact poses and ground truth."""
