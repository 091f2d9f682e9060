"""Benchmarks of the rasterizer and of training: measured fairly, gated by quality, written as JSON and as pages."""
