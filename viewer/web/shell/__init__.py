"""What lies around the image of a page: connection, kept and shared views, keys, help."""
