"""Training from the command line: its estimate, and the run with its viewer, scene file and report."""
