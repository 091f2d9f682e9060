"""What the page says of a scene alongside its image: comparisons, coverage, frustums, scores, statistics."""
