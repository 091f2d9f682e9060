"""The memory of a training: estimates before it starts, and its limits while it runs."""
