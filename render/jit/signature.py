"""The parameters of a function that is compiled at run time, as its source states them."""

from __future__ import annotations

import ctypes
import re
from typing import Any, NamedTuple

import torch

from luxel.render.errors import LuxelError

_NUMBERS: dict[str, tuple[Any, torch.dtype]] = {
    "float": (ctypes.c_float, torch.float32),
    "double": (ctypes.c_double, torch.float64),
    "int32_t": (ctypes.c_int32, torch.int32),
    "int64_t": (ctypes.c_int64, torch.int64),
    "uint8_t": (ctypes.c_uint8, torch.uint8),
}
_PARAMETER = re.compile(r"(?:const\s+)?(\w+)\s*(\*?)\s*(?:const\s+)?(\w+)")


class Parameter(NamedTuple):
    """A parameter of a function.

    Args:
        name: in its source.
        written: type and name, as its source has them.
        ctype: of a number, c_void_p of a pointer.
        dtype: of the number, or of the elements of the tensor.
        pointer: it takes a tensor.
    """

    name: str
    written: str
    ctype: Any
    dtype: torch.dtype
    pointer: bool


def parameters_of(source: str, entry: str, dtype: torch.dtype) -> list[Parameter]:
    """The parameters of ``void entry(int64_t i, ...)`` after the first.

    Args:
        source: C++.
        entry: name of the function.
        dtype: of the type that the source calls ``real``.

    Raises:
        LuxelError: the source has no such function, or a parameter has another type.
    """
    text = re.sub(r"//[^\n]*|/\*.*?\*/", " ", source, flags=re.DOTALL)
    head = re.search(rf"\bvoid\s+{re.escape(entry)}\s*\(\s*int64_t\s+\w+\s*(?:,([^()]*))?\)", text)
    if head is None:
        raise LuxelError(
            f"The source has no function `void {entry}(int64_t i, ...)`.",
            "Give the name of a function that takes the number of an element first.",
        )
    numbers = {**_NUMBERS, "real": _NUMBERS["double" if dtype == torch.float64 else "float"]}
    parameters = []
    for written in filter(None, (part.strip() for part in (head[1] or "").split(","))):
        match = _PARAMETER.fullmatch(written)
        if match is None or match[1] not in numbers:
            raise LuxelError(
                f"{entry}: the parameter `{written}` is neither a number nor a pointer to numbers.",
                f"Numbers are {', '.join(numbers)}.",
            )
        ctype, element = numbers[match[1]]
        pointer = bool(match[2])
        parameters.append(
            Parameter(
                match[3], " ".join(written.split()), ctypes.c_void_p if pointer else ctype, element, pointer
            )
        )
    return parameters


__all__ = ["Parameter", "parameters_of"]
