"""Differentiable operations, one stage per file: shape checks, torch.library registration, autograd."""
