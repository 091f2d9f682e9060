"""Each header of cuda/math compiles alone, by g++ and by NVRTC, and needs no other folder."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from header_users import CPU_ONLY, USERS, source

from luxel.render.errors import NativeError
from luxel.render.jit.nvrtc import Nvrtc, nvrtc

MATH = Path(__file__).resolve().parents[3] / "cuda" / "math"
HEADERS = sorted(str(path.relative_to(MATH)) for path in MATH.rglob("*.h"))


@pytest.fixture(scope="module")
def include(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the headers of math and nothing else."""
    folder = tmp_path_factory.mktemp("include")
    shutil.copytree(MATH, folder / "math")
    return folder


@pytest.fixture(scope="module")
def compiler() -> Nvrtc:
    try:
        return nvrtc()
    except NativeError as error:
        pytest.skip(f"headers are not compiled by NVRTC: {error}")


def test_every_header_has_a_user() -> None:
    assert set(HEADERS) == set(USERS)


@pytest.mark.skipif(shutil.which("g++") is None, reason="headers are not compiled by g++, which is missing")
@pytest.mark.parametrize("header", HEADERS)
def test_a_header_compiles_alone_on_the_cpu(header: str, include: Path, tmp_path: Path) -> None:
    file = tmp_path / "user.cpp"
    file.write_text(source(header))
    words = ["g++", "-std=c++17", "-Wall", "-Wextra", "-Werror", "-Wno-unknown-pragmas", "-fsyntax-only"]
    done = subprocess.run(
        [*words, "-I", str(include), str(file)], capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("header", [header for header in HEADERS if header not in CPU_ONLY])
def test_a_header_compiles_alone_for_the_gpu(header: str, include: Path, compiler: Nvrtc) -> None:
    """Without the option that takes functions without annotations for those of the GPU."""
    options = ["--std=c++17", "--gpu-architecture=sm_90", f"--include-path={include}"]
    code = compiler.compile(source(header, "__device__", "__global__"), header, options)
    assert code.startswith(b"\x7fELF") and b"run" in code
