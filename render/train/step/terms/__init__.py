"""The terms of the loss in addition to the photometric one: a file each, and their list, which both steps read."""
