"""Finding, checking and loading the native libraries: layouts agree, and what is wrong is one clear sentence."""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from luxel.render import native
from luxel.render.errors import LuxelError, NativeError

HEADERS = sorted(file.name for file in (Path(__file__).parents[2] / "cuda" / "abi").iterdir())
CPU_LIBRARIES = ("libluxel_cpu.so", "libluxel_cpu_v3.so")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """A copy of the native folder that a test may damage; nothing loaded is remembered before or after."""
    copy = tmp_path / "native"
    copy.mkdir()
    shutil.copytree(native.native_folder() / "include" / "abi", copy / "include" / "abi")
    for name in CPU_LIBRARIES:
        if (native.native_folder() / name).is_file():
            shutil.copy(native.native_folder() / name, copy / name)
    caches = (native.native_folder, native.layouts, native.cpu_library)
    for cached in caches:
        cached.cache_clear()
    monkeypatch.setenv("LUXEL_NATIVE_DIR", str(copy))
    yield copy
    for cached in caches:
        cached.cache_clear()


@pytest.mark.parametrize("name", CPU_LIBRARIES)
def test_layouts_are_those_of_the_compiler(name):
    path = native.native_folder() / name
    if not path.is_file():
        pytest.skip(f"{name} is not built on this architecture")
    library = ctypes.CDLL(str(path))
    library.luxel_abi_sizeof.restype = ctypes.c_int64
    structs, functions, _ = native.layouts()
    assert {"luxel_project_gaussians_args", "luxel_bin_splats_args", "luxel_blend_args"} <= set(structs)
    for struct, layout in structs.items():
        assert library.luxel_abi_sizeof(struct.encode()) == ctypes.sizeof(layout), struct
        if struct.endswith("_args"):
            assert [field for field, *_ in layout._fields_][:3] == ["dtype", "device", "stream"], struct
    for function in functions:
        assert hasattr(library, function), f"{name} lacks {function}"
    assert library.luxel_abi_sizeof(b"no_such_struct") == -1


def test_every_struct_of_the_headers_is_parsed():
    assert native.headers() == sorted((native.native_folder() / "include" / "abi").iterdir())
    text = "".join(header.read_text() for header in native.headers())
    structs, functions, _ = native.layouts()
    assert text.count("typedef struct") == len(structs)
    assert text.count("_args* args);") == len(functions)


def test_fields_of_an_embedded_struct_are_the_outer_ones():
    structs, _, _ = native.layouts()
    blend, binned = structs["luxel_blend_args"], structs["luxel_binned_splats"]
    args = blend(count=7, max_alpha=0.5)
    assert (args.binned.count, args.binned.max_alpha) == (7, 0.5)
    assert blend.capacity.offset == blend.binned.offset + binned.capacity.offset


def test_missing_library(folder):
    (folder / "libluxel_cpu.so").unlink()
    with pytest.raises(NativeError, match=r"libluxel_cpu\.so is not installed\. Reinstall luxel") as caught:
        native.cpu_library()
    assert isinstance(caught.value, LuxelError) and caught.value.remedy


def test_missing_fast_twin_falls_back(folder):
    (folder / "libluxel_cpu_v3.so").unlink(missing_ok=True)
    assert native.cpu_library().path.name == "libluxel_cpu.so"


def test_library_that_is_none(folder):
    (folder / "libluxel_cpu.so").write_bytes(b"")
    with pytest.raises(NativeError, match=r"libluxel_cpu\.so does not load"):
        native.cpu_library()


@pytest.mark.parametrize("name", HEADERS)
def test_library_of_another_version(folder, name):
    with (folder / "include" / "abi" / name).open("a") as header:
        header.write("\n/* one line more */\n")
    with pytest.raises(NativeError, match=r"libluxel_cpu\.so was built for another version of luxel"):
        native.cpu_library()


def test_library_of_more_headers(folder):
    (folder / "include" / "abi" / "train.h").unlink()
    with pytest.raises(NativeError, match=r"libluxel_cpu\.so was built for another version of luxel"):
        native.cpu_library()


def test_folder_without_header(folder):
    (folder / "include" / "abi" / "base.h").unlink()
    with pytest.raises(NativeError, match=r"holds no include/abi/base\.h"):
        native.cpu_library()


def test_unknown_field_is_refused():
    """A misspelt field would otherwise become an attribute of the ctypes struct that no kernel reads."""
    library, cpu = native.cpu_library(), torch.device("cpu")
    message = r"bin_splats_workspace: its argument struct has no field capasity \(did you mean capacity"
    with pytest.raises(TypeError, match=message):
        library.call("bin_splats_workspace", cpu, torch.float32, visible_capacity=1, capasity=1)
    with pytest.raises(TypeError, match=r"no field zzz$"):
        library.call("bin_splats_workspace", cpu, torch.float32, zzz=1)
    with pytest.raises(ValueError, match=r"order_positions: x \[3, 5\] must be contiguous"):
        library.call("order_positions", cpu, torch.float32, x=torch.zeros(5, 3).t())
    assert library.call("bin_splats_workspace", cpu, torch.float32, visible_capacity=1, capacity=1) > 0


def test_unknown_stage_is_refused():
    with pytest.raises(NativeError, match="has no stage bin_splat:"):
        native.cpu_library().call("bin_splat", torch.device("cpu"), torch.float32)


def test_device_without_kernels():
    with pytest.raises(NativeError, match="meta"):
        native.library_for(torch.device("meta"))


def test_importing_needs_no_library(tmp_path):
    """The engine imports without libraries; asking for one gives the sentence, not a traceback from ctypes."""
    script = (
        "import luxel.render.raster.rasterize, luxel.render.train, luxel.render.native as n\n"
        "try: n.cpu_library()\n"
        "except n.NativeError as e: print('said:', e)\n"
    )
    environment = {**os.environ, "LUXEL_NATIVE_DIR": str(tmp_path), "CUDA_VISIBLE_DEVICES": ""}
    done = subprocess.run(
        [sys.executable, "-c", script], env=environment, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("said:") and done.stdout.count("\n") == 1


def test_a_reason_is_given_wherever_cuda_is_not_used():
    problem = native.cuda_problem()
    assert (native.best_device().type == "cuda") == (problem == "")
    if problem and not torch.cuda.is_available():
        with pytest.raises(NativeError, match="No usable GPU"):
            native.library_for(torch.device("cuda"))


def test_libraries_that_are_not_installed(folder, monkeypatch):
    monkeypatch.delenv("LUXEL_NATIVE_DIR")
    monkeypatch.setattr(native.importlib.metadata, "files", lambda name: [])
    with pytest.raises(NativeError, match=r"native libraries of luxel are not installed\. Reinstall luxel"):
        native.native_folder()
    monkeypatch.setenv("LUXEL_NATIVE_DIR", str(folder))
    assert native.cpu_library(), "with the libraries again it loads"


def test_a_library_that_lays_out_a_struct_differently(folder, monkeypatch):
    structs, functions, sha256 = native.layouts()
    name = sorted(structs)[0]
    longer = type(name, (ctypes.Structure,), {"_fields_": [("first", ctypes.c_int64 * 99)]})
    monkeypatch.setattr(native, "layouts", lambda: ({**structs, name: longer}, functions, sha256))
    with pytest.raises(NativeError, match=rf"lays out {name} in \d+ bytes, Python in 792\. Reinstall luxel"):
        native.cpu_library()


def test_a_stage_that_fails_names_itself_and_the_device(monkeypatch):
    library = native.cpu_library()
    _, struct, fields = library._functions["bin_splats_workspace"]
    monkeypatch.setitem(library._functions, "bin_splats_workspace", (lambda args: -1, struct, fields))
    with pytest.raises(NativeError, match=r"^bin_splats_workspace on cpu: .*`luxel doctor`"):
        library.call("bin_splats_workspace", torch.device("cpu"), torch.float32, capacity=1)
