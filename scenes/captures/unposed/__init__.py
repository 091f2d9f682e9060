"""Captures without camera poses, which are estimated: folders of photographs, and videos."""
