"""Benchmarks of the rasterizer, training and neural fields, and the record; reports are JSON, Markdown and HTML."""
