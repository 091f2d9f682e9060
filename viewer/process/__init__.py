"""The process of a command: its descriptors, its output, and the signals that end it."""
