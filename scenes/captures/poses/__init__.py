"""Poses of images by structure from motion, their refinement, and initial points by triangulation."""
