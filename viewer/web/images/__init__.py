"""The images of a page: when they are rendered and in which size, the first one, thumbnails, and the stream."""
