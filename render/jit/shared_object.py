"""Shared objects that are compiled at run time, from memory into this process."""

from __future__ import annotations

import ctypes
import hashlib
import os
import platform
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from luxel.render.errors import NativeError
from luxel.render.jit import object_cache
from luxel.render.jit.compilers import (
    CPU_OPTIONS,
    NVCC_OPTIONS,
    cpp_compiler,
    machine_options,
    nvcc,
    run_compiler,
)
from luxel.render.jit.headers import digest_of, include_dir

_FORMAT = "1"  # of keys


def cached(parts: Sequence[str], make: Callable[[], bytes]) -> bytes:
    """The object of the parts that it depends on: from the cache of this user, else made and stored there.

    Args:
        parts: source, options, compiler version and architecture; the headers are added.
    """
    words = (_FORMAT, digest_of(include_dir()), *parts)
    key = hashlib.sha256("".join(f"{len(word)}:{word}" for word in words).encode()).hexdigest()
    content = object_cache.read(key)
    if content is None:
        content = make()
        object_cache.write(key, content)
    return content


def cpu_object(source: str, name: str, options: Sequence[str] = ()) -> bytes:
    """A shared object for the CPU, of the instructions of luxel's own library.

    Args:
        source: C++, which finds luxel's headers.
        name: that messages of the compiler give it, an identifier.
        options: more options of the compiler.

    Raises:
        CompileError: it does not compile; with the compiler's text.
        NativeError: there is no C++ compiler.
    """
    compiler = cpp_compiler()
    words = (*CPU_OPTIONS, *machine_options(), *options)
    parts = ("cpu", platform.machine(), compiler.path, compiler.version, *words, name, source)
    with_headers = (*words, "-I", str(include_dir()))
    return cached(parts, lambda: run_compiler(compiler, source, name, with_headers))


def gpu_object(source: str, name: str, capability: tuple[int, int], options: Sequence[str] = ()) -> bytes:
    """A shared object for a GPU, by nvcc.

    Args:
        capability: the compute capability of the GPU.
        source, name, options: as in `cpu_object`.

    Raises:
        CompileError: it does not compile; with the compiler's text.
        NativeError: there is no nvcc.
    """
    compiler, number = nvcc(), "{}{}".format(*capability)
    words = (*NVCC_OPTIONS, f"-gencode=arch=compute_{number},code=sm_{number}", *options)
    parts = ("nvcc", platform.machine(), compiler.path, compiler.version, *words, name, source)
    with_headers = (*words, "-I", str(include_dir()))
    return cached(parts, lambda: run_compiler(compiler, source, name, with_headers))


def load_object(content: bytes, name: str) -> ctypes.CDLL:
    """Loads a shared object into this process, for as long as that lives.

    Args:
        content: of the object.
        name: for messages.

    Raises:
        NativeError: it does not load.
    """
    try:
        return _from_memory(content, name)
    except OSError:  # the system allows no code in memory
        pass
    with tempfile.TemporaryDirectory(prefix="luxel-jit-") as folder:
        file = Path(folder) / f"{name}.so"
        file.write_bytes(content)
        try:
            return ctypes.CDLL(str(file))
        except OSError as error:
            raise NativeError(
                f"The shared object of {name} does not load ({error}).", "Compile it again."
            ) from error


def _from_memory(content: bytes, name: str) -> ctypes.CDLL:
    """From a file in memory, which stays open: the loader knows objects by their paths, and this one has its number."""
    handle = os.memfd_create(name)
    try:
        with open(handle, "wb", closefd=False) as file:
            file.write(content)
        return ctypes.CDLL(f"/proc/self/fd/{handle}")
    except BaseException:
        os.close(handle)
        raise


__all__ = ["cached", "cpu_object", "gpu_object", "load_object"]
