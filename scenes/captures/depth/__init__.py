"""Depth of views that training fits next to their images: from depth maps, and from points."""
