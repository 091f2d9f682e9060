"""The stages of neural fields in plain torch."""
