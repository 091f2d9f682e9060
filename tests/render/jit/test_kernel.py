"""One function compiled at run time: its results, its arguments, and what is wrong in one clear sentence."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from luxel.render import jit, native
from luxel.render.errors import LuxelError, NativeError
from luxel.render.jit import compilers, cuda_driver, kernel, nvrtc
from luxel.render.jit.headers import include_dir
from luxel.render.jit.signature import parameters_of

CUDA = Path(__file__).resolve().parents[3] / "cuda"
SOURCE = """
#include "math/vec.h"  // of luxel
void lengths(int64_t i, const real* points, real scale, int32_t shift, real* out, uint8_t* flags) {
  out[i] = scale * root(dot(load3(points + 3 * i), load3(points + 3 * i))) + real(shift);
  if (flags != nullptr) flags[i] = out[i] > real(2);
}
"""
needs_compiler = pytest.mark.skipif(shutil.which("g++") is None, reason="kernels are compiled with g++")


@pytest.fixture(autouse=True)
def nothing_compiled() -> Iterator[None]:
    """No kernel is remembered by the process."""
    kernel._compiled.cache_clear()
    nvrtc.nvrtc.cache_clear()
    yield
    kernel._compiled.cache_clear()
    nvrtc.nvrtc.cache_clear()


def test_every_header_is_installed() -> None:
    installed = {str(path.relative_to(include_dir())) for path in include_dir().rglob("*.h")}
    for folder in ("math", "abi", "kernels/raster", "device"):
        assert {str(path.relative_to(CUDA)) for path in (CUDA / folder).rglob("*.h")} <= installed
    device_code = [path for path in (CUDA / "kernels" / "raster").rglob("*.cuh")]
    assert device_code and all((include_dir() / path.relative_to(CUDA)).is_file() for path in device_code)
    assert not [path for path in include_dir().rglob("*") if path.suffix in (".cpp", ".cu", ".in")]


def test_headers_that_are_not_installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("luxel.render.jit.headers.native_folder", lambda: tmp_path)
    with pytest.raises(NativeError, match=r"include has no math/hd\.h\. Reinstall luxel"):
        jit.include_dir()


@needs_compiler
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("count", [0, 7, 10_000])
def test_a_function_is_called_for_every_element(device: torch.device, dtype: torch.dtype, count: int) -> None:
    generator = torch.Generator().manual_seed(1)
    points = torch.randn(count, 3, generator=generator, dtype=dtype).to(device)
    out, flags = (
        torch.full((count + 1,), -1.0, dtype=dtype, device=device),
        torch.zeros_like(points[:, 0]).byte(),
    )
    compiled = jit.compile(SOURCE, "lengths", device, dtype=dtype)
    compiled(count, points, 0.5, 1, out, flags)
    expected = 0.5 * points.norm(dim=1) + 1
    torch.testing.assert_close(out[:count], expected)
    assert torch.equal(flags.bool(), out[:count] > 2) and out[count] == -1
    compiled(count, points, 2.0, 0, out, None)
    torch.testing.assert_close(out[:count], 2 * points.norm(dim=1))
    assert jit.compile(SOURCE, "lengths", device, dtype=dtype) is compiled


@needs_compiler
def test_options_reach_the_compiler(device: torch.device) -> None:
    source = "void fill(int64_t i, int64_t* out) { out[i] = VALUE + i; }"
    out = torch.zeros(3, dtype=torch.int64, device=device)
    jit.compile(source, "fill", device, options=("-DVALUE=40",))(3, out)
    assert out.tolist() == [40, 41, 42]


@needs_compiler
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((1.0,), r"lengths takes 5 arguments \(points, scale, shift, out, flags\), got 1"),
        (
            (None, 1.0, 1, "out", None),
            r"lengths: out must be a contiguous tensor of torch\.float32 on cpu, got 'out'",
        ),
        (
            (None, 1.0, 1, torch.zeros(2, dtype=torch.float64), None),
            r"lengths: out must be .* got torch\.float64 on cpu",
        ),
        (
            (torch.zeros(3, 2).T, 1.0, 1, None, None),
            r"lengths: points must be .* got a tensor that is not contiguous",
        ),
        (
            (torch.zeros(3, device="meta"), 1.0, 1, None, None),
            r"points must be .* got torch\.float32 on meta",
        ),
        (
            (None, torch.zeros(1), 1, None, None),
            r"lengths: scale must be a number, got torch\.float32 on cpu",
        ),
        ((None, 1.0, None, None, None), r"lengths: shift must be a number, got None"),
    ],
)
def test_arguments_that_do_not_fit(arguments: tuple[object, ...], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        jit.compile(SOURCE, "lengths")(1, *arguments)


@pytest.mark.parametrize(
    "source",
    ["void other(int64_t i) {}", "int run(int64_t i) {}", "void run(float x) {}", "// void run(int64_t i)"],
)
def test_a_source_without_the_function(source: str) -> None:
    with pytest.raises(LuxelError, match=r"no function `void run\(int64_t i, \.\.\.\)`\. Give the name"):
        jit.compile(source, "run")


@pytest.mark.parametrize("parameter", ["std::string x", "half* x", "float** x", "float& x", "float"])
def test_a_parameter_of_another_type(parameter: str) -> None:
    with pytest.raises(
        LuxelError, match=r"run: the parameter `.*` is neither a number nor a pointer to numbers"
    ):
        jit.compile(f"void run(int64_t i, {parameter}) {{}}", "run")


def test_parameters_are_read_from_the_source() -> None:
    source = "void run(int64_t n, /* a, b */ const real* const image, // in\n  double\n eps, int32_t *out) {}"
    parameters = parameters_of(source, "run", torch.float64)
    assert [(p.name, p.dtype, p.pointer) for p in parameters] == [
        ("image", torch.float64, True),
        ("eps", torch.float64, False),
        ("out", torch.int32, True),
    ]
    assert parameters_of("void run(int64_t i) {}", "run", torch.float32) == []


@needs_compiler
def test_a_source_that_does_not_compile() -> None:
    source = "\nvoid run(int64_t i, float* out) {\n  out[i] = rot(2.0f);\n}\n"
    with pytest.raises(
        jit.CompileError, match=r"(?s)^run does not compile with g\+\+:.*Correct the source"
    ) as caught:
        jit.compile(source, "run")
    assert "run:3:" in caught.value.problem and "rot" in caught.value.problem


def test_what_cannot_be_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ValueError, match=r"dtype must be torch\.float32 or torch\.float64, got torch\.int32"):
        jit.compile(SOURCE, "lengths", dtype=torch.int32)
    with pytest.raises(ValueError, match=r"entry must be the name of a function, got 'a; b'"):
        jit.compile(SOURCE, "a; b")
    with pytest.raises(ValueError, match=r"device must be a CPU or a GPU of CUDA, got meta"):
        jit.compile(SOURCE, "lengths", "meta")
    monkeypatch.setattr(kernel, "cuda_problem", lambda: "it is asleep.")
    with pytest.raises(
        LuxelError, match=r"lengths cannot be compiled for cuda: it is asleep\. Compile it for the CPU"
    ):
        jit.compile(SOURCE, "lengths", "cuda")


def test_a_machine_without_compilers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compilers.shutil, "which", lambda *arguments, **named: None)
    with pytest.raises(NativeError, match=r"neither g\+\+ nor c\+\+ is on the PATH\. Install g\+\+"):
        jit.compile(SOURCE, "lengths")
    with pytest.raises(NativeError, match=r"There is no nvcc, .* Install a CUDA toolkit"):
        compilers.nvcc()
    monkeypatch.setattr(nvrtc, "_candidates", lambda: iter(["/missing/libnvrtc.so"]))
    with pytest.raises(NativeError, match=r"NVRTC \(libnvrtc\) is not installed.*pip install luxel\[nvcc\]"):
        kernel.gpu_code("", "run", (9, 0))


def test_another_c_compiler_than_gcc_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    programs = {"g++": None, "c++": shutil.which("g++") or "/bin/true"}
    monkeypatch.setattr(compilers.shutil, "which", programs.get)
    assert compilers.cpp_compiler().path == programs["c++"]


class FakeNvrtc:
    """A libnvrtc in which compiling fails."""

    def __init__(self, status: int) -> None:
        self.status = status

    def nvrtcCompileProgram(self, *arguments: object) -> int:
        return self.status

    def nvrtcGetProgramLog(self, program: object, text: object) -> int:
        text.value = b"run(2): error"  # type: ignore[attr-defined]
        return 0

    def nvrtcGetProgramLogSize(self, program: object, size: object) -> int:
        size._obj.value = 20  # type: ignore[attr-defined]
        return 0

    def nvrtcGetErrorString(self, status: int) -> bytes:
        return b"NVRTC_ERROR_INVALID_OPTION"

    def nvrtcCreateProgram(self, *arguments: object) -> int:
        return 0

    nvrtcDestroyProgram = nvrtcCreateProgram


@pytest.mark.parametrize(
    ("status", "message"),
    [
        (6, r"(?s)run\.cu does not compile with NVRTC:\nrun\(2\): error\n Correct the source"),
        (5, r"nvrtcCompileProgram of fake failed: NVRTC_ERROR_INVALID_OPTION\. Reinstall it"),
    ],
)
def test_failures_of_nvrtc(status: int, message: str) -> None:
    compiler = object.__new__(nvrtc.Nvrtc)
    compiler.path, compiler._library = "fake", FakeNvrtc(status)  # type: ignore[assignment]
    with pytest.raises(NativeError, match=message):
        compiler.compile("", "run.cu", [])


def test_the_same_source_compiles_for_gpus() -> None:
    try:
        version = nvrtc.nvrtc().version
    except NativeError as error:
        pytest.skip(f"kernels are not compiled by NVRTC: {error}")
    parameters = parameters_of(SOURCE, "lengths", torch.float32)
    whole = kernel.complete_source(SOURCE, "lengths", parameters, torch.float32, gpu=True)
    code = kernel.gpu_code(whole, "lengths", (9, 0))
    assert version >= (11, 0) and code.startswith(b"\x7fELF") and b"luxel_run" in code
    with pytest.raises(jit.CompileError, match="lengths"):
        kernel.gpu_code(whole.replace("load3(", "lod3("), "lengths", (9, 0))


def test_failures_of_the_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> None:
        raise OSError("no such file")

    monkeypatch.setattr(cuda_driver.ctypes, "CDLL", missing)
    with pytest.raises(NativeError, match=r"libcuda does not load \(no such file\)\. Install the driver"):
        cuda_driver.CudaDriver()
    driver = object.__new__(cuda_driver.CudaDriver)
    fake = SimpleNamespace(cuInit=lambda flags: 100, cuGetErrorString=lambda status, text: 0)
    driver._library = fake  # type: ignore[assignment]
    with pytest.raises(NativeError, match=r"cuInit failed: unknown error\. Run `luxel doctor`"):
        driver.call("cuInit", 0)


@pytest.mark.gpu
def test_a_kernel_keeps_to_the_stream_of_torch(gpu: torch.device) -> None:
    """A slow operation before it on the same stream is waited for; a stream of its own is honoured."""
    source = "void twice(int64_t i, const float* x, float* out) { out[i] = 2 * x[i]; }"
    twice = jit.compile(source, "twice", gpu)
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        x = torch.ones(1 << 20, device=gpu)
        for _ in range(50):
            x = x + 1
        out = torch.empty_like(x)
        twice(x.numel(), x, out)
    stream.synchronize()
    assert bool((out == 102).all())


def test_importing_needs_no_compiler_and_no_library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LUXEL_NATIVE_DIR", str(tmp_path))
    native.native_folder.cache_clear()
    try:
        assert callable(jit.compile)
        with pytest.raises(NativeError, match="holds no include/abi"):
            jit.include_dir()
    finally:
        native.native_folder.cache_clear()
