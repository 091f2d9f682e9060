"""Errors for the user: one sentence that names what is wrong, one that says what to do."""

from __future__ import annotations


class LuxelError(ValueError):
    """Invalid input, or a missing device or package; the command line prints it without a traceback.

    Args:
        problem: what is wrong, naming the file, field or device.
        remedy: what the user can do about it.
    """

    def __init__(self, problem: str, remedy: str = "") -> None:
        super().__init__(f"{problem} {remedy}".strip())
        self.problem = problem
        self.remedy = remedy


class NativeError(LuxelError):
    """A native library is missing, does not fit this version of luxel, or reported a failure."""
