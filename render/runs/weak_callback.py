"""Methods that parts of an object call, without keeping the object that holds them."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")


def weakly(method: Callable[P, R]) -> Callable[P, R]:
    """The same without a reference to the object of the method.

    An object and a part that calls back would hold each other until Python searches for such circles, which it does by
    the number of objects: gigabytes on a GPU can wait for it.

    Raises:
        ReferenceError: by the call, where the object is gone.
    """
    reference = weakref.WeakMethod(method)

    def call(*args: P.args, **options: P.kwargs) -> R:
        bound = reference()
        if bound is None:
            raise ReferenceError("the object of this method is gone")
        return bound(*args, **options)

    return call
