"""Compiling C++ and CUDA C++ at run time, against the maths that is installed with the package."""

from luxel.render.lazy_exports import lazy_exports

__getattr__ = lazy_exports(
    __name__,
    {
        "CompileError": "errors",
        "Kernel": "kernel",
        "compile": "kernel",
        "include_dir": "headers",
    },
)
