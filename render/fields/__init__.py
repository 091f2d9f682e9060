"""Neural fields: encodings of positions and directions, small networks, and the two together."""
