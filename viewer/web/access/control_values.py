"""The values that a page may give to controls: of the control's type, in its range, among its options."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import viser

MAX_TEXT = 10_000  # characters of a text field


class Refused(Exception):
    """A message, or a part of it, that a page may not send; the text is the reason, without anything it sent."""


def finite(value: Any) -> float:
    """A finite number.

    Raises:
        Refused: it is none.
    """
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise Refused("a number that is none")
    try:
        if math.isfinite(value := float(value)):
            return value
    except OverflowError:
        pass
    raise Refused("a number that is not finite")


def checked_value(handle: Any, value: Any, *, hidden: bool = False) -> Any:
    """The value that a control takes when a page sends ``value``.

    Args:
        handle: viser's handle of the control.
        value: as received.
        hidden: accept it for a control that is not visible, too.

    Returns:
        A value of the type that the control has; numbers are clamped to its range.

    Raises:
        Refused: the control is disabled, hidden or not for input, or the value does not fit it.
    """
    check = next((check for kind, check in _CONTROLS.items() if isinstance(handle, kind)), None)
    if check is None:
        raise Refused("a control that takes no input")
    if handle._impl.props.disabled or not (hidden or handle._impl.props.visible):
        raise Refused("a disabled control")
    return check(handle, value)


def _clamp(value: Any, low: float | None, high: float | None, whole: bool) -> float:
    value = finite(value)
    value = value if low is None else max(value, low)
    value = value if high is None else min(value, high)
    return round(value) if whole else value


def _number(handle: Any, value: Any) -> float:
    props = handle._impl.props
    return _clamp(value, props.min, props.max, isinstance(handle.value, int))


def _sequence(value: Any, length: int) -> Sequence[Any]:
    if not isinstance(value, list | tuple) or len(value) != length:
        raise Refused("a vector of another length")
    return value


def _numbers(handle: Any, value: Any) -> list[float]:
    props, now = handle._impl.props, handle.value
    values = _sequence(value, len(now))
    return sorted(
        _clamp(v, props.min, props.max, isinstance(n, int)) for v, n in zip(values, now, strict=True)
    )


def _vector(handle: Any, value: Any) -> list[float]:
    props, length = handle._impl.props, len(handle.value)
    low, high = props.min or [None] * length, props.max or [None] * length
    return [_clamp(v, a, b, False) for v, a, b in zip(_sequence(value, length), low, high, strict=True)]


def _colour(handle: Any, value: Any) -> list[float]:
    return [_clamp(v, 0, 255, True) for v in _sequence(value, len(handle.value))]


def _flag(handle: Any, value: Any) -> bool:
    if not isinstance(value, bool):
        raise Refused("a switch that is neither on nor off")
    return value


def _press(handle: Any, value: Any) -> bool:
    if value is not True:
        raise Refused("a button that is not pressed")
    return True


def _option(handle: Any, value: Any) -> str:
    if not isinstance(value, str) or value not in handle._impl.props.options:
        raise Refused("an option that there is not")
    return value


def _text(handle: Any, value: Any) -> str:
    if not isinstance(value, str) or len(value) > MAX_TEXT:
        raise Refused("a text that is none or too long")
    return value


_CONTROLS: dict[type, Callable[[Any, Any], Any]] = {
    viser.GuiButtonHandle: _press,
    viser.GuiButtonGroupHandle: _option,
    viser.GuiDropdownHandle: _option,
    viser.GuiCheckboxHandle: _flag,
    viser.GuiSliderHandle: _number,
    viser.GuiNumberHandle: _number,
    viser.GuiMultiSliderHandle: _numbers,
    viser.GuiVector2Handle: _vector,
    viser.GuiVector3Handle: _vector,
    viser.GuiRgbHandle: _colour,
    viser.GuiRgbaHandle: _colour,
    viser.GuiTextHandle: _text,
}
