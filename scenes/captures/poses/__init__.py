"""Poses of photographs by structure from motion, their refinement, and initial points by triangulation."""
