"""Structure from motion by COLMAP, in a process of its own: features, pairs to match, mapping, scores of models."""
