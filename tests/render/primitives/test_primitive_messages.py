"""What a primitive says that does not support an operation."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from convex_scenes import axis_camera, random_convexes

from luxel.render.errors import LuxelError
from luxel.render.primitives import PRIMITIVES, Gaussians, register
from luxel.render.primitives.parameters import Parameters
from luxel.render.primitives.similarity import Similarity
from luxel.render.raster.rasterize import rasterize


class Fixed(Gaussians):
    """Gaussians that support nothing beyond what every primitive must."""

    transformed = Parameters.transformed
    sizes = Parameters.sizes


def test_what_a_primitive_does_not_support(random_gaussians: Callable[..., Gaussians]) -> None:
    fixed = Fixed(**random_gaussians(3).tensors())
    with pytest.raises(LuxelError, match=r"Gaussians cannot be moved.*Select, hide or delete"):
        fixed.transformed(Similarity(scale=2.0))
    with pytest.raises(LuxelError, match=r"Gaussians have no size.*by position, opacity or colour"):
        _ = fixed.sizes


def test_convexes_have_no_normals() -> None:
    camera = axis_camera()
    with pytest.raises(ValueError, match="with_normals must be False for convexes"):
        rasterize(random_convexes(3), camera, normals=True)
    assert rasterize(random_convexes(3), camera).normals is None, "the remedy works"


def test_names_of_primitives_are_taken_once() -> None:
    with pytest.raises(ValueError, match=r"spec.name must be new, got gaussians"):
        register(replace(PRIMITIVES["gaussians"], strategies=()))
    assert PRIMITIVES["gaussians"].strategies


def test_a_specification_and_its_parameters_have_one_name() -> None:
    wrong = replace(PRIMITIVES["gaussians"], name="blobs")
    with pytest.raises(
        ValueError, match=r"spec.name and spec.noun must be those of the parameters, got blobs"
    ):
        _ = wrong.engine
