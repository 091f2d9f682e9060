"""Additions to luxel, each a folder of new files and a patch of existing ones, applied to a copy of the source."""
