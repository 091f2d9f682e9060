"""The images of a page: what is rendered, how it is shaded, and the stream."""
