"""One function of a user, compiled for a device and called for many elements: a loss with its gradient, or the like."""

from __future__ import annotations

import ctypes
import functools
import re
from collections.abc import Sequence
from typing import Any, Protocol

import torch
from torch import Tensor

from luxel.render.errors import LuxelError
from luxel.render.jit.cuda_driver import CudaFunction
from luxel.render.jit.headers import include_dir
from luxel.render.jit.nvrtc import nvrtc
from luxel.render.jit.shared_object import cached, cpu_object, load_object
from luxel.render.jit.signature import Parameter, parameters_of
from luxel.render.native import cuda_problem

_PRELUDE = """#include "math/hd.h"
using namespace luxel;
using real = {real};
#line 1 "{entry}"
{source}
"""
_CPU_ENTRY = """
extern "C" __attribute__((visibility("default"))) void luxel_run({parameters}) {{
#pragma omp parallel for schedule(static) if (luxel_count >= 4096)
  for (int64_t luxel_i = 0; luxel_i < luxel_count; ++luxel_i) {entry}({arguments});
}}
"""
_GPU_ENTRY = """
extern "C" __global__ void luxel_run({parameters}) {{
  const int64_t luxel_step = static_cast<int64_t>(gridDim.x) * blockDim.x;
  for (int64_t luxel_i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; luxel_i < luxel_count;
       luxel_i += luxel_step)
    {entry}({arguments});
}}
"""


class _Runner(Protocol):
    def launch(self, count: int, arguments: Sequence[Any]) -> None: ...


class _CpuFunction:
    """A function of a shared object, which takes a count of elements first."""

    def __init__(self, code: bytes, name: str, parameters: Sequence[Parameter]) -> None:
        self._object = load_object(code, name)
        self._function = self._object.luxel_run
        self._function.restype = None
        self._function.argtypes = [ctypes.c_int64, *(parameter.ctype for parameter in parameters)]

    def launch(self, count: int, arguments: Sequence[Any]) -> None:
        self._function(count, *arguments)


class Kernel:
    """A compiled function; calling it runs it for elements 0 to count - 1, in any order and at the same time.

    Args:
        entry: name of the function.
        device: on which it runs.
        parameters: after the number of the element.
        runner: that calls it.
    """

    def __init__(
        self, entry: str, device: torch.device, parameters: Sequence[Parameter], runner: _Runner
    ) -> None:
        self.entry, self.device, self.parameters = entry, device, tuple(parameters)
        self._runner = runner

    def __call__(self, count: int, *arguments: Tensor | float | int | None) -> None:
        """Runs the function; on a GPU it is started on torch's current stream.

        Args:
            count: number of elements.
            arguments: one for each parameter: a contiguous tensor of its type on the kernel's device, None for a null
                pointer, or a number. The function must stay within the tensors.

        Raises:
            ValueError: an argument does not fit its parameter.
        """
        if len(arguments) != len(self.parameters):
            names = ", ".join(parameter.name for parameter in self.parameters)
            raise ValueError(
                f"{self.entry} takes {len(self.parameters)} arguments ({names}), got {len(arguments)}"
            )
        values = [self._value(p, argument) for p, argument in zip(self.parameters, arguments, strict=True)]
        if count > 0:
            self._runner.launch(count, values)

    def _value(self, parameter: Parameter, argument: Tensor | float | int | None) -> Any:
        name = f"{self.entry}: {parameter.name}"
        if not parameter.pointer:
            if isinstance(argument, Tensor) or argument is None:
                raise ValueError(f"{name} must be a number, got {_described(argument)}")
            return parameter.ctype(argument)
        if argument is None:
            return parameter.ctype(None)
        if (
            not isinstance(argument, Tensor)
            or argument.dtype != parameter.dtype
            or argument.device != self.device
            or not argument.is_contiguous()
        ):
            expected = f"a contiguous tensor of {parameter.dtype} on {self.device}"
            raise ValueError(f"{name} must be {expected}, got {_described(argument)}")
        return parameter.ctype(argument.data_ptr())


def _described(argument: object) -> str:
    if not isinstance(argument, Tensor):
        return repr(argument)
    order = "" if argument.is_contiguous() else "a tensor that is not contiguous of "
    return f"{order}{argument.dtype} on {argument.device}"


def compile(
    source: str,
    entry: str,
    device: torch.device | str = "cpu",
    *,
    dtype: torch.dtype = torch.float32,
    options: Sequence[str] = (),
) -> Kernel:
    """Compiles a function of a source for a device: on CPUs by the C++ compiler, on GPUs by NVRTC.

    The same source serves both. It sees luxel's headers (``#include "math/vec.h"``, `include_dir`), the namespace
    luxel, and a type ``real``. Compiled objects are stored in the user's cache folder, by all that they depend on.

    Args:
        source: C++17. Its function is ``void entry(int64_t i, ...)``; each parameter after the number of the element is
            a number or a pointer to numbers: float, double, int32_t, int64_t, uint8_t or real.
        entry: name of the function.
        device: "cpu", "cuda" or a GPU by number.
        dtype: float32 or float64, what ``real`` is.
        options: of both compilers, such as "-DNAME=VALUE".

    Raises:
        LuxelError: the source has no such function, or a parameter has another type.
        CompileError: it does not compile; with the compiler's text.
        NativeError: there is no compiler, or no usable GPU.
        ValueError: another dtype, entry or type of device.
    """
    if dtype not in (torch.float32, torch.float64):
        raise ValueError(f"dtype must be torch.float32 or torch.float64, got {dtype}")
    if not re.fullmatch(r"[A-Za-z_]\w*", entry):
        raise ValueError(f"entry must be the name of a function, got {entry!r}")
    target = torch.device(device)
    if target.type == "cuda":
        if problem := cuda_problem():
            raise LuxelError(f"{entry} cannot be compiled for {target}: {problem}", "Compile it for the CPU.")
        target = torch.device("cuda", torch.cuda.current_device() if target.index is None else target.index)
    elif target.type != "cpu":
        raise ValueError(f"device must be a CPU or a GPU of CUDA, got {target}")
    else:
        target = torch.device("cpu")
    return _compiled(source, entry, target, dtype, tuple(options))


@functools.lru_cache(maxsize=256)
def _compiled(
    source: str, entry: str, device: torch.device, dtype: torch.dtype, options: tuple[str, ...]
) -> Kernel:
    parameters = parameters_of(source, entry, dtype)
    source_text = complete_source(source, entry, parameters, dtype, gpu=device.type == "cuda")
    if device.type == "cpu":
        runner: _Runner = _CpuFunction(cpu_object(source_text, entry, options), entry, parameters)
    else:
        code = gpu_code(source_text, entry, torch.cuda.get_device_capability(device), options)
        runner = CudaFunction(code, "luxel_run", device.index)
    return Kernel(entry, device, parameters, runner)


def complete_source(
    source: str, entry: str, parameters: Sequence[Parameter], dtype: torch.dtype, *, gpu: bool
) -> str:
    """A source with a function ``luxel_run`` that calls the entry for each element.

    Args:
        gpu: for NVRTC, else for a C++ compiler.
    """
    real = "double" if dtype == torch.float64 else "float"
    text = _PRELUDE.format(real=real, entry=entry, source=source)
    declared = ", ".join(["int64_t luxel_count", *(parameter.written for parameter in parameters)])
    arguments = ", ".join(["luxel_i", *(parameter.name for parameter in parameters)])
    template = _GPU_ENTRY if gpu else _CPU_ENTRY
    return text + template.format(parameters=declared, entry=entry, arguments=arguments)


def gpu_code(source: str, name: str, capability: tuple[int, int], options: Sequence[str] = ()) -> bytes:
    """A cubin of a complete source; needs NVRTC, but no GPU.

    Args:
        source: CUDA C++. Functions without annotations are those of the GPU.
        name: that messages of the compiler give it.
        capability: the compute capability of the GPU.
        options: more options of NVRTC.

    Raises:
        CompileError: it does not compile; with the compiler's text.
        NativeError: NVRTC is not installed, or failed.
    """
    compiler, number = nvrtc(), "{}{}".format(*capability)
    words = ("--std=c++17", "-default-device", f"--gpu-architecture=sm_{number}", *options)
    parts = ("nvrtc", "{}.{}".format(*compiler.version), *words, name, source)
    with_headers = (*words, f"--include-path={include_dir()}")
    return cached(parts, lambda: compiler.compile(source, f"{name}.cu", with_headers))


__all__ = ["Kernel", "compile", "complete_source", "gpu_code"]
