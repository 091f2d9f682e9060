"""Depth of views that training fits beside their images: from depth maps, and from points."""
