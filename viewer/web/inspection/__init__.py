"""What the page says of a scene beside its image: false colours, shapes, comparisons, scores, statistics."""
