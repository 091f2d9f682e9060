"""Measuring in a scene that a viewer shows: rulers, the length of a unit, and the up direction."""
