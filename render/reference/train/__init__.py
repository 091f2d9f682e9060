"""The stages of a training step in plain torch."""
