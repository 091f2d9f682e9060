"""The terms of the loss beside the photometric one: a file each, and the list of them, which both steps read."""
