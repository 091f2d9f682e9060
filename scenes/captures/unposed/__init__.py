"""Captures without camera poses, which are estimated: folders of images, and videos."""
