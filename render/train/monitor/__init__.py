"""What a training observes of itself: loss, divergence, held-out views, results."""
