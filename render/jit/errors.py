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
        super().__init__(f"{name}: {compiler} does not compile it.\n{log.strip()}\n", "Correct the source.")
        self.log = log


__all__ = ["CompileError"]
