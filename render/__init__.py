"""luxel.render: the engine. Cameras, primitives, differentiable operations, training, metrics."""
