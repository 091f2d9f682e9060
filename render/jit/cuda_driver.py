"""Functions of machine code on a GPU, by the driver's own interface, in the context that torch uses."""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch

from luxel.render.errors import NativeError

THREADS = 256  # of a block
_BLOCKS = 1 << 20  # at most; further elements are taken by the same threads


class CudaDriver:
    """libcuda.

    Raises:
        NativeError: it is missing, or reports a failure.
    """

    def __init__(self) -> None:
        try:
            self._library = ctypes.CDLL("libcuda.so.1")
        except OSError as error:
            raise NativeError(
                f"The NVIDIA driver's libcuda does not load ({error}).", "Install the driver."
            ) from error
        self.call("cuInit", ctypes.c_uint(0))

    def call(self, function: str, *arguments: Any) -> None:
        """Calls a function.

        Raises:
            NativeError: it failed.
        """
        status = getattr(self._library, function)(*arguments)
        if status:
            text = ctypes.c_char_p()
            self._library.cuGetErrorString(status, ctypes.byref(text))
            reason = (text.value or b"unknown error").decode()
            raise NativeError(f"{function} failed: {reason}.", "Run `luxel doctor`.")

    @contextmanager
    def context(self, device: int) -> Iterator[None]:
        """Makes the context of a GPU that torch uses that of this thread."""
        self.call("cuCtxPushCurrent_v2", self._primary(device))
        try:
            yield
        finally:
            self.call("cuCtxPopCurrent_v2", ctypes.byref(ctypes.c_void_p()))

    @functools.cache  # noqa: B019 one driver for the life of the process
    def _primary(self, device: int) -> ctypes.c_void_p:
        handle, context = ctypes.c_int(), ctypes.c_void_p()
        properties = torch.cuda.get_device_properties(device)
        bus = f"{properties.pci_domain_id:04x}:{properties.pci_bus_id:02x}:{properties.pci_device_id:02x}.0"
        self.call("cuDeviceGetByPCIBusId", ctypes.byref(handle), bus.encode())
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(context), handle)
        return context


@functools.cache
def cuda_driver() -> CudaDriver:
    """The driver, loaded once."""
    return CudaDriver()


class CudaFunction:
    """A function of a cubin on one GPU.

    Args:
        code: the cubin.
        name: of the function, which takes a count of elements first.
        device: number of the GPU.
    """

    def __init__(self, code: bytes, name: str, device: int) -> None:
        self.device, self._driver = device, cuda_driver()
        torch.cuda.init()
        module, self._function = ctypes.c_void_p(), ctypes.c_void_p()
        with self._driver.context(device):
            self._driver.call("cuModuleLoadData", ctypes.byref(module), code)
            self._driver.call("cuModuleGetFunction", ctypes.byref(self._function), module, name.encode())

    def launch(self, count: int, arguments: Sequence[Any]) -> None:
        """Starts it for ``count`` elements on torch's current stream.

        Args:
            arguments: of ctypes, after the count.
        """
        values = [ctypes.c_int64(count), *arguments]
        addresses = (ctypes.c_void_p * len(values))(*(ctypes.addressof(value) for value in values))
        blocks = min(-(-count // THREADS), _BLOCKS)
        stream = ctypes.c_void_p(torch.cuda.current_stream(self.device).cuda_stream)
        sizes = (blocks, 1, 1, THREADS, 1, 1, 0)
        with self._driver.context(self.device):
            self._driver.call(
                "cuLaunchKernel", self._function, *map(ctypes.c_uint, sizes), stream, addresses, None
            )


__all__ = ["CudaFunction", "cuda_driver"]
