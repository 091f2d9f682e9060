"""Everything that a person faces: command line, web viewer, reports."""
