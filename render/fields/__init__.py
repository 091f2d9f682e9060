"""Neural fields: encodings of positions and directions, and what is built on them."""
