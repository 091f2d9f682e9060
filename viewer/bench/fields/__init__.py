"""The benchmark of neural fields."""
