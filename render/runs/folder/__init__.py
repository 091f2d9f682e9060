"""The folder of a run: its files, its owner, its configuration and results."""
