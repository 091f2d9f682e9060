"""glTF files with Gaussians."""
