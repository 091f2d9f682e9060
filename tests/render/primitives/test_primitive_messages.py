"""What a primitive says that does not support an operation."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from luxel.render.errors import LuxelError
from luxel.render.primitives import Gaussians
from luxel.render.primitives.parameters import Parameters
from luxel.render.primitives.similarity import Similarity


class Fixed(Gaussians):
    """Gaussians that support nothing beyond what every primitive must."""

    transformed = Parameters.transformed
    sizes = Parameters.sizes


def test_what_a_primitive_does_not_support(random_gaussians: Callable[..., Gaussians]) -> None:
    fixed = Fixed(**random_gaussians(3).tensors())
    with pytest.raises(LuxelError, match=r"Gaussians cannot be moved.*Select, hide or delete"):
        fixed.transformed(Similarity(scale=2.0))
    with pytest.raises(LuxelError, match=r"Gaussians have no size.*by place, opacity or colour"):
        _ = fixed.sizes
