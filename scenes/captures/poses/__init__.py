"""The stages of structure from motion: workspace, pairs to match, mapping, scores of models, refinement of the lens."""
