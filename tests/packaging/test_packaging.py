"""The checks of a wheel, and the wheel itself as people install it: without a compiler, without the checkout."""

from __future__ import annotations

import os
import struct
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

import check_wheel
import pytest
import torch
from elf import Elf
from fatbin import bytes_by_target, entries

from luxel.render import native

ROOT = Path(__file__).resolve().parents[2]
HERE = Path(__file__).parent


def cpu_library() -> Path:
    return native.native_folder() / "libluxel_cpu.so"


def a_wheel(folder: Path, **libraries: bytes) -> Path:
    """A wheel of nothing but libraries."""
    path = folder / "luxel-0-py3-none-linux_x86_64.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in libraries.items():
            archive.writestr(f"luxel/native/{name}.so", content)
    return path


def container(*parts: tuple[int, int, bytes]) -> bytes:
    """Device code as nvcc stores it: (kind, architecture, payload) each."""
    inner = b""
    for kind, architecture, payload in parts:
        header = struct.pack("<HHIQIIII", kind, 1, 64, len(payload), 0, 0, 0, architecture)
        inner += header.ljust(64, b"\0") + payload
    return struct.pack("<IHHQ", 0xBA55ED50, 1, 16, len(inner)) + inner


def test_what_a_library_needs_is_read_as_the_loader_reads_it():
    library = Elf(cpu_library().read_bytes())
    assert {"libc.so.6", "libgomp.so.1"} <= set(library.needed) and not library.search_paths
    by_version = library.needed_symbols()
    assert "GOMP_parallel" in by_version["GOMP_4.0"]
    assert all(symbols for version, symbols in by_version.items() if version.startswith("GLIBC_"))
    assert set(by_version) <= set(library.needed_versions().values())


def test_a_file_that_is_no_library_is_refused():
    with pytest.raises(ValueError, match="no little-endian 64-bit ELF"):
        Elf(b"\x7fELF\x01\x01 of 32 bits")


def test_the_native_libraries_load_where_glibc_is_2_28(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    """Built on a newer system, they still ask for no newer symbol (cuda/link/glibc_2_28.S)."""
    libraries = {path.stem: path.read_bytes() for path in native.native_folder().glob("*.so")}
    tag, problems = check_wheel.examine(a_wheel(tmp_path, **libraries), (2, 28))
    assert problems == []
    assert tag == f"manylinux_2_28_{Elf(cpu_library().read_bytes()).machine}"
    assert "libluxel_cpu.so: " in capsys.readouterr().out


@pytest.mark.parametrize(
    ("glibc", "limit", "kernels", "problem"),
    [
        ((2, 10), 100, False, "needs glibc 2.2"),
        ((2, 28), 0.001, False, "more than 0.001"),
        ((2, 28), 100, True, "no kernels for ptx_120, sm_100"),
    ],
)
def test_a_wheel_that_breaks_a_limit_is_refused(glibc, limit, kernels, problem, tmp_path, monkeypatch):
    monkeypatch.setattr(check_wheel, "LIMIT_MB", limit)
    wheel = a_wheel(tmp_path, libluxel_cpu=cpu_library().read_bytes())
    _, problems = check_wheel.examine(wheel, glibc, kernels)
    assert len(problems) == 1 and problem in problems[0]


def test_a_library_that_no_system_has_and_a_new_libstdcxx_are_found(monkeypatch):
    library = Elf(cpu_library().read_bytes())
    monkeypatch.setattr(check_wheel, "OF_TORCH", set())
    monkeypatch.setitem(check_wheel.COMPILER_LIMITS, "GOMP", (3, 0))
    needs = check_wheel.needs_of(library)
    assert needs.foreign == ["libgomp.so.1"] and "GOMP_parallel@GOMP_4.0" in needs.too_new


def test_a_wheel_without_libraries_is_refused(tmp_path: Path):
    assert "it holds no library" in check_wheel.examine(a_wheel(tmp_path), (2, 28))[1]


def test_device_code_is_counted_by_architecture():
    """Containers are padded to eight bytes; PTX and machine code of one number are kept apart."""
    section = container((2, 90, b"x" * 8), (1, 120, b"y" * 16)) + bytes(8) + container((2, 90, b"z" * 24))
    counted = [(entry.target, entry.payload[:1], entry.stored) for entry in entries(section)]
    assert counted == [("sm_90", b"x", 72), ("ptx_120", b"y", 80), ("sm_90", b"z", 88)]
    installed = native.native_folder() / "libluxel_cuda.so"
    for cuda in filter(Path.is_file, (installed, ROOT / "build" / "cuda-check" / "libluxel_cuda.so")):
        assert sum(bytes_by_target(Elf(cuda.read_bytes())).values()) > 1e6


def test_the_version_stands_in_one_place():
    """pyproject.toml has it; everything else asks the installed package."""
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    sources = [
        path for folder in ("render", "scenes", "viewer", "cuda") for path in (ROOT / folder).rglob("*.*")
    ]
    texts = {
        path: path.read_text() for path in sources if path.suffix in (".py", ".txt", ".cpp", ".h", ".cu")
    }
    assert not [path for path, text in texts.items() if f'"{version}"' in text]


@pytest.mark.slow
def test_the_source_archive_has_every_source(tmp_path: Path):
    """All that a build reads, and nothing that a build leaves behind."""
    code = f"import scikit_build_core.build as backend; backend.build_sdist({str(tmp_path)!r})"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    (archive,) = tmp_path.glob("luxel-*.tar.gz")
    with tarfile.open(archive) as files:
        packed = {name.partition("/")[2] for name in files.getnames()}
    expected = [
        path for folder in ("cuda", "render", "scenes", "viewer") for path in (ROOT / folder).rglob("*")
    ]
    sources = {str(p.relative_to(ROOT)) for p in expected if p.is_file() and "__pycache__" not in p.parts}
    assert not sources - packed
    assert {"pyproject.toml", "README.md", "LICENSE", "Makefile"} <= packed
    assert not [name for name in packed if name.startswith((".venv", "build", "dist", "runs"))]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of this checkout, of the libraries that `make build` has compiled."""
    cache = next((ROOT / "build").glob("py3-none-*/CMakeCache.txt"), None)
    if cache is None or f"CMAKE_COMMAND:INTERNAL={sys.prefix}/" not in cache.read_text():
        pytest.skip(
            "wheel test not run: this environment has built nothing here (make build), all would be compiled"
        )
    folder = tmp_path_factory.mktemp("dist")
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    command = [
        sys.executable,
        "-m",
        "pip",
        "wheel",
        "--no-build-isolation",
        "--no-deps",
        "-w",
        str(folder),
        str(ROOT),
    ]
    done = subprocess.run(command, env={**os.environ, "PATH": path}, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    (made,) = folder.glob("*.whl")
    return made


@pytest.mark.slow
def test_the_wheel_works_where_there_is_no_compiler(wheel: Path):
    """Checked, then installed beside borrowed packages: luxel doctor, and luxel train for 30 steps."""
    tools = [sys.executable, str(HERE / "check_wheel.py"), str(wheel)]
    checked = subprocess.run(tools, capture_output=True, text=True)
    assert checked.returncode == 0, checked.stdout + checked.stderr
    assert "manylinux_2_28_" in checked.stdout
    packages = Path(torch.__file__).parents[1]
    command = [sys.executable, str(HERE / "try_wheel.py"), str(wheel), "--borrow", str(packages)]
    done = subprocess.run([*command, "--only", "doctor", "train"], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "| luxel doctor |" in done.stdout and "30 steps; scene.ply of" in done.stdout
