"""The images of a page: what is drawn, how it is shaded, and the stream."""
