"""Finds and loads the native libraries, one per backend; struct layouts are parsed from the headers in cuda/abi.

Importing this module needs neither a compiler nor a GPU: a library is loaded at its first use, and a missing one raises
`NativeError`.
"""

from __future__ import annotations

import ctypes
import difflib
import functools
import hashlib
import importlib.metadata
import os
import re
from collections.abc import Set
from pathlib import Path
from typing import Any

import torch  # first: the CPU library must share torch's OpenMP runtime
from torch import Tensor

from luxel.render.errors import NativeError

_SCALARS = {
    "int32_t": ctypes.c_int32,
    "int64_t": ctypes.c_int64,
    "float": ctypes.c_float,
    "double": ctypes.c_double,
}
_STRUCT = re.compile(r"typedef struct (luxel_\w+) \{(.*?)\} \1;", re.DOTALL)
_FUNCTION = re.compile(r"LUXEL_API (int|int64_t) (luxel_\w+)\(const (luxel_\w+_args)\* args\);")
_FIELD = re.compile(r"^\s*(?:const )?(\w+)(\*?)\s+(\w+);", re.MULTILINE)
BASE = "base.h"  # the header of the folder abi that declares what the others use
_REBUILD = "Reinstall luxel (`pip install --force-reinstall luxel`, or `make build` in a checkout)."


@functools.cache
def native_folder() -> Path:
    """The folder that holds the libraries and, in its folder include, headers (`luxel.render.jit.include_dir`).

    ``LUXEL_NATIVE_DIR`` where it is set, else ``luxel/native`` of the installed distribution.

    Raises:
        NativeError: it does not exist or has no headers.
    """
    if chosen := os.environ.get("LUXEL_NATIVE_DIR"):
        folder = Path(chosen)
        if not (folder / "include" / "abi" / BASE).is_file():
            raise NativeError(
                f"LUXEL_NATIVE_DIR={chosen} holds no include/abi/{BASE}.",
                "Unset it, or point it at luxel/native.",
            )
        return folder
    try:
        for file in importlib.metadata.files("luxel") or []:
            if file.parts[-4:] == ("native", "include", "abi", BASE):
                folder = Path(str(file.locate())).parents[2]
                if folder.is_dir():
                    return folder.resolve()
    except importlib.metadata.PackageNotFoundError:
        pass
    raise NativeError("The native libraries of luxel are not installed.", _REBUILD)


def headers() -> list[Path]:
    """The headers of the C ABI, in the order in which they are hashed."""
    return sorted((native_folder() / "include" / "abi").glob("*.h"))


@functools.cache
def layouts() -> tuple[dict[str, type[ctypes.Structure]], dict[str, tuple[str, str]], str]:
    """Structs by name, functions by name as (result type, struct), and the SHA-256 of the headers."""
    raw = b"".join(header.read_bytes() for header in headers())
    text = re.sub(r"/\*.*?\*/", "", raw.decode(), flags=re.DOTALL)
    bodies: dict[str, str] = dict(_STRUCT.findall(text))

    @functools.cache
    def layout(name: str) -> type[ctypes.Structure]:
        members, embedded = [], []
        for kind, star, field in _FIELD.findall(bodies[name]):
            if kind in bodies and not star:
                embedded.append(field)
                members.append((field, layout(kind)))
            else:
                members.append((field, ctypes.c_void_p if star else _SCALARS[kind]))
        return type(name, (ctypes.Structure,), {"_anonymous_": embedded, "_fields_": members})

    structs = {name: layout(name) for name in bodies}
    functions = {name: (result, struct) for result, name, struct in _FUNCTION.findall(text)}
    return structs, functions, hashlib.sha256(raw).hexdigest()


def _fields(struct: type[ctypes.Structure]) -> set[str]:
    """Names of all fields, those of embedded structs too."""
    names: set[str] = set()
    for name, kind, *_ in struct._fields_:
        names |= _fields(kind) if issubclass(kind, ctypes.Structure) else {name}
    return names


class Library:
    """One loaded backend: calls its stages by name.

    Args:
        path: the shared library.
        backend: "cpu" or "cuda".

    Raises:
        NativeError: the file is missing, does not load, or was built from other headers.
    """

    def __init__(self, path: Path, backend: str) -> None:
        self.path, self.backend = path, backend
        if not path.is_file():
            raise NativeError(f"{path.name} is not installed.", _REBUILD)
        try:
            self._handle = ctypes.CDLL(str(path))
        except OSError as error:
            raise NativeError(f"{path.name} does not load ({error}).", _REBUILD) from error
        structs, functions, sha256 = layouts()
        self._handle.luxel_abi_sha256.restype = ctypes.c_char_p
        self._handle.luxel_last_error.restype = ctypes.c_char_p
        self._handle.luxel_abi_sizeof.restype = ctypes.c_int64
        self._handle.luxel_policy.restype = ctypes.c_char_p
        if self._handle.luxel_abi_sha256().decode() != sha256:
            raise NativeError(
                f"{path.name} was built for another version of luxel (its C ABI differs).", _REBUILD
            )
        for name, struct in structs.items():
            size = self._handle.luxel_abi_sizeof(name.encode())
            if size != ctypes.sizeof(struct):
                raise NativeError(
                    f"{path.name} lays out {name} in {size} bytes, Python in {ctypes.sizeof(struct)}.",
                    _REBUILD,
                )
        self._functions: dict[str, tuple[Any, type[ctypes.Structure], frozenset[str]]] = {}
        for name, (result, struct) in functions.items():
            function = getattr(self._handle, name)  # declared in the very header that was hashed above
            function.argtypes = [ctypes.c_void_p]
            function.restype = ctypes.c_int64 if result == "int64_t" else ctypes.c_int
            fields = frozenset(_fields(structs[struct]))
            self._functions[name.removeprefix("luxel_")] = (function, structs[struct], fields)

    def cpu_level(self) -> int:
        """The level of x86-64 that this processor runs: 3 or 1."""
        return self._handle.luxel_cpu_level()

    def policy(self, number: int) -> tuple[str, int, int, int] | None:
        """Name, row, piece and flags of a policy, see cuda/abi/raster.h; None: there is none of that number."""
        row, piece, flags = ctypes.c_int32(), ctypes.c_int32(), ctypes.c_int32()
        name = self._handle.luxel_policy(number, ctypes.byref(row), ctypes.byref(piece), ctypes.byref(flags))
        return None if name is None else (name.decode(), row.value, piece.value, flags.value)

    def add_policy(self, shared_object: ctypes.CDLL) -> int:
        """Takes the policy of a shared object that cuda/kernels/raster/policy_object.h made; returns its number.

        Raises:
            NativeError: it is no such object, was compiled with other headers, or its name is in use.
        """
        try:
            entry = shared_object.luxel_policy_object
        except AttributeError as error:
            raise NativeError(
                f"The shared object has no policy for {self.path.name}.",
                "Make it with the header kernels/raster/policy_object.h.",
            ) from error
        entry.restype = ctypes.c_void_p
        size = ctypes.c_int64()
        stages = entry(ctypes.cast(self._handle.luxel_set_last_error, ctypes.c_void_p), ctypes.byref(size))
        number = self._handle.luxel_add_policy(ctypes.c_void_p(stages), size)
        if number < 0:
            raise NativeError(
                f"{self.path.name} does not take the policy: {self._handle.luxel_last_error().decode()}.",
                "Give it another name, or compile it again.",
            )
        return number

    def call(self, stage: str, device: torch.device, dtype: torch.dtype, **arguments: Any) -> int:
        """Runs a stage on torch's current stream of ``device``.

        Tensors are passed by address and must be contiguous; None is a null pointer; the rest are scalars.

        Raises:
            NativeError: the stage reported a failure, or this library has no such stage.
            TypeError: an argument is not a field of the stage's struct.
            ValueError: a tensor is not contiguous.
        """
        if stage not in self._functions:
            raise NativeError(
                f"{self.path.name} has no stage {stage}: it was built for another version.", _REBUILD
            )
        function, struct, fields = self._functions[stage]
        if not arguments.keys() <= fields:
            unknown = _with_similar(arguments.keys() - fields, fields)
            raise TypeError(f"{stage}: its argument struct has no field {unknown}")
        args = struct()
        args.dtype = 1 if dtype == torch.float64 else 0
        if device.type == "cuda":
            index = torch.cuda.current_device() if device.index is None else device.index
            args.device = index
            args.stream = torch.cuda.current_stream(index).cuda_stream
        for name, value in arguments.items():
            if isinstance(value, Tensor):
                if not value.is_contiguous():
                    raise ValueError(f"{stage}: {name} {list(value.shape)} must be contiguous")
                value = value.data_ptr()
            setattr(args, name, value)
        status = function(ctypes.byref(args))
        if status < 0:
            raise NativeError(
                f"{stage} on {device}: {self._handle.luxel_last_error().decode()}.",
                "Run `luxel doctor`: it says what is wrong with this machine and its libraries.",
            )
        return status


def _with_similar(unknown: Set[str], fields: Set[str]) -> str:
    """Names that a stage's struct lacks, each with similar ones that it has."""
    parts = []
    for name in sorted(unknown):
        near = difflib.get_close_matches(name, fields, n=3, cutoff=0.5)
        parts.append(f"{name} (did you mean {' or '.join(near)}?)" if near else name)
    return ", ".join(parts)


@functools.cache
def cpu_library() -> Library:
    """The CPU twin that fits this processor: x86-64-v3 where it can run, else the baseline.

    ``LUXEL_CPU_LEVEL=1`` chooses the baseline.
    """
    folder = native_folder()
    baseline = Library(folder / "libluxel_cpu.so", "cpu")
    fast = folder / "libluxel_cpu_v3.so"
    highest = int(os.environ.get("LUXEL_CPU_LEVEL", "3"))
    return Library(fast, "cpu") if min(baseline.cpu_level(), highest) >= 3 and fast.is_file() else baseline


def cpu_instructions() -> str:
    """The instructions that computing on the CPU uses here, on which the last bits of results depend: the level of
    luxel's library and the capability of torch; empty where the library cannot be loaded."""
    try:
        library = cpu_library()
    except NativeError:
        return ""
    level = 3 if library.path.stem.endswith("_v3") else 1
    return f"x86-64 level {level}, torch {torch.backends.cpu.get_cpu_capability()}"


def keep_freed_memory() -> None:
    """Lets this process reuse large blocks of host memory instead of returning them (glibc; elsewhere nothing).

    A training step on the CPU allocates the same large tensors again and again; by default each is made of fresh
    pages, which the operating system clears first.
    """
    mmap_threshold, trim_threshold = -3, -1  # M_MMAP_THRESHOLD, M_TRIM_THRESHOLD of malloc.h
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):
        return
    mallopt(mmap_threshold, 1 << 30)
    mallopt(trim_threshold, 1 << 30)


@functools.cache
def cuda_library() -> Library:
    """The CUDA kernels.

    Raises:
        NativeError: no library for CUDA, or no GPU that torch can use.
    """
    if not torch.cuda.is_available():
        raise NativeError(f"No usable GPU: {cuda_problem()}", "luxel runs on the CPU meanwhile.")
    return Library(native_folder() / "libluxel_cuda.so", "cuda")


def cuda_problem() -> str:
    """Why CUDA cannot be used here, as one sentence; empty where it can."""
    if torch.version.cuda is None:
        return "this torch was built without CUDA; install one with it."
    if not torch.cuda.is_available():
        return f"torch (CUDA {torch.version.cuda}) finds no GPU or the NVIDIA driver is too old for it."
    try:
        library = native_folder() / "libluxel_cuda.so"
    except NativeError as error:
        return str(error)
    if not library.is_file():
        return (
            "luxel was built without its CUDA kernels; install the wheel that has them, or build with nvcc."
        )
    return ""


def library_for(device: torch.device) -> Library:
    """The backend of a device.

    Raises:
        NativeError: there is none for it.
    """
    if device.type == "cpu":
        return cpu_library()
    if device.type == "cuda":
        return cuda_library()
    raise NativeError(f"luxel has no kernels for {device.type} devices.", "Use cpu or cuda.")


def best_device() -> torch.device:
    """cuda where it works, else cpu."""
    return torch.device("cpu" if cuda_problem() else "cuda")
