"""The user interface: command line, web viewer, reports and benchmarks."""
