"""Fields and networks that tiny-cuda-nn evaluates, with the parameters of luxel."""
