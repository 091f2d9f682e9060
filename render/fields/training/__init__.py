"""Training of fields: the optimizer, the captured step, and the run."""
