"""What the page says of a scene beside its image: comparisons, coverage, frustums, scores, statistics."""
