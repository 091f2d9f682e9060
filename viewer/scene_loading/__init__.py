"""Scenes and data from run folders and files, with what a page or a command must know of them."""
