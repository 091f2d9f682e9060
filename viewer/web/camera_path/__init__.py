"""Camera paths of a page: keyframes, their lines, and videos of them."""
