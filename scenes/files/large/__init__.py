"""Images that are read by parts: uncompressed TIFF, .npy, and PNG through a copy on disk."""
