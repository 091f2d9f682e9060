"""What every command that computes waits for, begun while its options are read and torch is imported: the GPU."""

from __future__ import annotations

import ctypes
import sys
import threading
from collections.abc import Sequence
from contextlib import suppress


def begin(arguments: Sequence[str]) -> threading.Thread | None:
    """Opens the GPU in a thread for a command that will compute, unless torch is there already.

    Args:
        arguments: of the command; with `--help` or `--device cpu` nothing is opened.
    """
    from luxel.viewer.options import given

    if "torch" in sys.modules or {"-h", "--help"} & set(arguments) or given(arguments, "--device") == "cpu":
        return None
    thread = threading.Thread(target=open_gpu, name="luxel-open-gpu", daemon=True)
    thread.start()
    return thread


def open_gpu() -> None:
    """Makes the primary context of the first GPU, the one that torch works in; without one nothing happens.

    The calls are C functions, during which Python runs on. Whatever fails here is left to torch, which tries again and
    says what is wrong.
    """
    with suppress(AttributeError, OSError):
        driver, device, context = ctypes.CDLL("libcuda.so.1"), ctypes.c_int(), ctypes.c_void_p()
        if driver.cuInit(0) == 0 and driver.cuDeviceGet(ctypes.byref(device), 0) == 0:
            driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), device)
