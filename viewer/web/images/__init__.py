"""The images of a page: when they are drawn and in which size, the first one, thumbnails, and the stream."""
