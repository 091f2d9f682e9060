"""OpenEXR files: their channels, colours in linear light, and depth."""
