"""What compiling at run time can fail of."""

from __future__ import annotations

from luxel.render.errors import NativeError


class CompileError(NativeError):
    """A source does not compile; the problem ends with what the compiler wrote."""


def compile_error(name: str, compiler: str, log: str) -> CompileError:
    """The error of a source.

    Args:
        name: of the source.
        compiler: that refused it.
        log: what the compiler wrote.
    """
    return CompileError(f"{name} does not compile with {compiler}:\n{log.strip()}\n", "Correct the source.")


__all__ = ["CompileError", "compile_error"]
