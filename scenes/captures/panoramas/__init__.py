"""Panoramas of 360 by 180 degrees: recognition, poses by structure from motion, and the views cut from them."""
