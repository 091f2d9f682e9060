"""One training step: schedule values, the loss, the two ways to compute it, and the queue of submitted steps."""
