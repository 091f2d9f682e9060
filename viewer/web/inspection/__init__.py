"""What the page says of a scene alongside its image: false colours, shapes, comparisons, scores, statistics."""
