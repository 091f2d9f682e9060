"""What compiling at run time can fail of."""

from __future__ import annotations

from luxel.render.errors import NativeError


class CompileError(NativeError):
    """A source does not compile.

    Args:
        name: of the source.
        compiler: that refused it.
        log: what the compiler wrote.
    """

    def __init__(self, name: str, compiler: str, log: str) -> None:
        super().__init__(f"{name} does not compile, {compiler} says where to correct it:\n{log.strip()}")
        self.log = log


__all__ = ["CompileError"]
