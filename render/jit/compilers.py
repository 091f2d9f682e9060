"""The compiler programs of this machine: a C++ compiler for CPUs, nvcc for shared objects on GPUs."""

from __future__ import annotations

import functools
import importlib.util
import os
import platform
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from luxel.render.errors import NativeError
from luxel.render.jit.errors import compile_error
from luxel.render.native import cpu_library

# As CMakeLists.txt has them for the libraries: with NaN and infinities as they are.
CPU_OPTIONS = (
    *("-std=c++17", "-O3", "-fPIC", "-shared", "-fvisibility=hidden", "-fopenmp"),
    *("-fno-math-errno", "-fno-trapping-math", "-ffp-contract=fast"),
)
NVCC_OPTIONS = (
    *("-std=c++17", "-O3", "-shared", "-cudart=static", "--expt-relaxed-constexpr"),
    "-Xcompiler=-fPIC,-fvisibility=hidden",
)


class Compiler(NamedTuple):
    """A compiler program.

    Args:
        path: of the program.
        version: what it says of itself.
        suffix: of its sources.
    """

    path: str
    version: str
    suffix: str


def cpp_compiler() -> Compiler:
    """g++, else the system's C++ compiler.

    Raises:
        NativeError: there is none.
    """
    path = shutil.which("g++") or shutil.which("c++")
    if path is None:
        raise NativeError(
            "There is no C++ compiler to compile a source for the CPU with: neither g++ nor c++ is on the PATH.",
            "Install g++.",
        )
    return Compiler(path, _version(path), ".cpp")


def nvcc() -> Compiler:
    """nvcc of the PATH, of a toolkit, or of pip's packages.

    Raises:
        NativeError: there is none.
    """
    toolkits = [os.environ.get("CUDA_HOME"), os.environ.get("CUDA_PATH"), "/usr/local/cuda", "/opt/cuda"]
    folders = [Path(toolkit) / "bin" for toolkit in toolkits if toolkit]
    if packages := importlib.util.find_spec("nvidia"):
        folders += [
            f
            for location in packages.submodule_search_locations or ()
            for f in sorted(Path(location).glob("*/bin"))
        ]
    candidates = (shutil.which("nvcc", path=path) for path in (None, *map(str, folders)))
    path = next(filter(None, candidates), None)
    if path is None:
        raise NativeError(
            "There is no nvcc, with which a policy is compiled for GPUs.",
            "Install a CUDA toolkit, or `pip install luxel[nvcc]`.",
        )
    return Compiler(path, _version(path), ".cu")


@functools.cache
def _version(path: str) -> str:
    done = subprocess.run([path, "--version"], capture_output=True, text=True, timeout=60)
    return done.stdout


def machine_options() -> tuple[str, ...]:
    """The instructions that luxel's own library uses here."""
    wide = platform.machine().lower() in ("x86_64", "amd64") and cpu_library().path.stem.endswith("_v3")
    return ("-march=x86-64-v3",) if wide else ()


def run_compiler(compiler: Compiler, source: str, name: str, options: Sequence[str]) -> bytes:
    """The object that a compiler program makes of a source text, in a temporary folder of its own.

    Args:
        name: that its messages give the source, without suffix.

    Raises:
        CompileError: it does not compile; with the compiler's text.
    """
    with tempfile.TemporaryDirectory(prefix="luxel-jit-") as folder:
        file = Path(folder) / f"{name}{compiler.suffix}"
        file.write_text(source)
        words = [compiler.path, *options, file.name, "-o", "object"]
        done = subprocess.run(words, cwd=folder, capture_output=True, text=True, errors="replace")
        if done.returncode:
            raise compile_error(name, Path(compiler.path).name, done.stderr or done.stdout)
        return (Path(folder) / "object").read_bytes()


__all__ = [
    "CPU_OPTIONS",
    "NVCC_OPTIONS",
    "Compiler",
    "cpp_compiler",
    "machine_options",
    "nvcc",
    "run_compiler",
]
