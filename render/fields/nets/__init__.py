"""Functions of positions: perceptrons, the field of an encoding and a network, and snapshots for drawing."""
