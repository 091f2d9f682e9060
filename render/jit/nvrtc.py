"""NVRTC, NVIDIA's compiler of CUDA C++ as a library: it needs neither a GPU nor a toolkit."""

from __future__ import annotations

import ctypes
import functools
import importlib.util
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

import torch

from luxel.render.errors import NativeError
from luxel.render.jit.errors import compile_error

_SUCCESS, _COMPILATION = 0, 6  # nvrtcResult
_MISSING = "NVRTC (libnvrtc) is not installed, with which sources are compiled for GPUs."
_REMEDY = "`pip install luxel[nvcc]`, or install a torch with CUDA, which brings it."


class Nvrtc:
    """A loaded libnvrtc.

    Args:
        path: of the library, or its name where the system's loader finds it.

    Raises:
        OSError: it does not load.
    """

    def __init__(self, path: str) -> None:
        self.path, self._library = path, ctypes.CDLL(path)
        self._library.nvrtcGetErrorString.restype = ctypes.c_char_p
        major, minor = ctypes.c_int(), ctypes.c_int()
        self._call("nvrtcVersion", ctypes.byref(major), ctypes.byref(minor))
        self.version = (major.value, minor.value)

    def compile(self, source: str, name: str, options: Sequence[str]) -> bytes:
        """Machine code (a cubin) of a source text.

        Args:
            source: CUDA C++.
            name: that the compiler's messages give it.
            options: of NVRTC, with ``--gpu-architecture=sm_NN``.

        Raises:
            CompileError: it does not compile; with the compiler's text.
            NativeError: NVRTC reported another failure.
        """
        program = ctypes.c_void_p()
        self._call("nvrtcCreateProgram", ctypes.byref(program), source.encode(), name.encode(), 0, None, None)
        try:
            words = (ctypes.c_char_p * len(options))(*(option.encode() for option in options))
            status = self._library.nvrtcCompileProgram(program, len(options), words)
            if status == _COMPILATION:
                log = self._text("nvrtcGetProgramLog", program).decode(errors="replace")
                raise compile_error(name, "NVRTC", log)
            self._check("nvrtcCompileProgram", status)
            return self._text("nvrtcGetCUBIN", program)
        finally:
            self._library.nvrtcDestroyProgram(ctypes.byref(program))

    def _text(self, function: str, program: ctypes.c_void_p) -> bytes:
        size = ctypes.c_size_t()
        self._call(f"{function}Size", program, ctypes.byref(size))
        text = ctypes.create_string_buffer(size.value)
        self._call(function, program, text)
        return text.raw if function == "nvrtcGetCUBIN" else text.value

    def _call(self, function: str, *arguments: object) -> None:
        self._check(function, getattr(self._library, function)(*arguments))

    def _check(self, function: str, status: int) -> None:
        if status != _SUCCESS:
            reason = self._library.nvrtcGetErrorString(status).decode()
            raise NativeError(f"{function} of {self.path} failed: {reason}.", "Reinstall it.")


def _candidates() -> Iterator[str]:
    """Libraries of pip's packages, of torch, of toolkits, and of the system; those of torch's CUDA version first."""
    folders = [Path(torch.__file__).parent / "lib"]
    if packages := importlib.util.find_spec("nvidia"):
        folders += [
            folder
            for location in packages.submodule_search_locations or ()
            for folder in sorted(Path(location).glob("*/lib"))
        ]
    toolkits = (os.environ.get("CUDA_HOME"), os.environ.get("CUDA_PATH"), "/usr/local/cuda", "/opt/cuda")
    folders += [Path(toolkit) / "lib64" for toolkit in toolkits if toolkit]
    files = [str(file) for folder in folders for file in sorted(folder.glob("libnvrtc*.so*"))]
    files = [file for file in files if "builtins" not in file and ".alt." not in file]
    major = (torch.version.cuda or "").split(".")[0]
    names = [f"libnvrtc.so.{number}" for number in (major, "13", "12") if number]
    yield from sorted(files, key=lambda file: f".so.{major}" not in file)
    yield from dict.fromkeys(names)


@functools.cache
def nvrtc() -> Nvrtc:
    """The NVRTC of this machine.

    Raises:
        NativeError: there is none that loads.
    """
    for path in _candidates():
        try:
            return Nvrtc(path)
        except OSError:
            continue
    raise NativeError(_MISSING, _REMEDY)


__all__ = ["Nvrtc", "nvrtc"]
