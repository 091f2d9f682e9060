"""Builds the CUDA kernels from the source archive with pip's compiler, on a machine that seems to have no CUDA toolkit.

Makes a virtual environment, installs the packages of `luxel[nvcc]` into it, hides every toolkit of the system (an empty
folder is mounted over it for this process and its children alone, which takes root), and installs the source archive.
Passes if the CUDA library is there, with kernels of the architecture, built by the nvcc of the environment.

    make sdist && python tests/packaging/try_nvcc.py dist/luxel-*.tar.gz --architectures 90-real
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
import tomllib
from pathlib import Path

from elf import Elf
from fatbin import bytes_by_target

TOOLKITS = ("/usr/local/cuda", "/opt/cuda")  # where find_nvcc.cmake looks, beside PATH
HIDDEN = "LUXEL_TOOLKITS_HIDDEN"


def hide_toolkits() -> None:
    """Runs this script again in a mount namespace in which the system's toolkits are empty."""
    folders = sorted({str(Path(place).resolve()) for place in TOOLKITS if Path(place).exists()})
    on_path = (Path(place) / "nvcc" for place in [*os.environ["PATH"].split(os.pathsep), "/usr/local/bin"])
    programs = sorted({str(place) for place in on_path if place.is_file()})
    with tempfile.NamedTemporaryFile(prefix="no-nvcc-", delete=False) as nothing:
        mounts = [f"mount --bind {nothing.name} {place}" for place in programs]
    mounts += [f"mount -t tmpfs none {place}" for place in folders]
    script = " && ".join([*mounts, 'exec "$@"'])
    command = ["unshare", "--mount", "sh", "-c", script, "sh", sys.executable, *sys.argv]
    os.execvpe(command[0], command, {**os.environ, HIDDEN: "1"})


def requirements(archive: Path) -> list[str]:
    """What `luxel[nvcc]` adds, from the archive's pyproject.toml."""
    with tarfile.open(archive) as files:
        member = next(m for m in files.getmembers() if re.fullmatch(r"[^/]+/pyproject\.toml", m.name))
        text = files.extractfile(member)
        assert text is not None
        return tomllib.loads(text.read().decode())["project"]["optional-dependencies"]["nvcc"]


def build(archive: Path, architectures: str, python: str, folder: Path) -> str:
    """Builds and installs the archive; returns what was built.

    Raises:
        RuntimeError: the kernels were not built, or by another compiler.
    """
    if system := shutil.which("nvcc"):
        raise RuntimeError(f"there is still {system}")
    venv = folder / "venv"
    environment = {k: v for k, v in os.environ.items() if k not in ("CUDA_HOME", "CUDA_PATH", "CUDACXX")}
    environment["PATH"] = f"{venv / 'bin'}:{environment['PATH']}"
    subprocess.run([python, "-m", "venv", str(venv)], check=True)
    pip = [str(venv / "bin" / "python"), "-m", "pip", "install"]
    subprocess.run([*pip, "--quiet", *requirements(archive)], check=True, env=environment)
    define = f"--config-settings=cmake.define.LUXEL_CUDA_ARCHITECTURES={architectures}"
    done = subprocess.run(
        [*pip, "--verbose", "--no-deps", define, str(archive)],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    compiler = re.search(r"luxel: CUDA compiler (\S+)", done.stdout)
    if done.returncode or compiler is None or not compiler[1].startswith(str(venv)):
        raise RuntimeError(
            f"pip install ended with {done.returncode}, compiler {compiler}:\n{done.stdout[-6000:]}"
        )
    (library,) = venv.glob("lib/python*/site-packages/luxel/native/libluxel_cuda.so")
    targets = bytes_by_target(Elf(library.read_bytes()))
    if not targets:
        raise RuntimeError(f"{library} holds no kernels")
    version = subprocess.run([compiler[1], "--version"], capture_output=True, text=True, check=True).stdout
    kernels = ", ".join(f"{target} {size / 1e6:.2f} MB" for target, size in sorted(targets.items()))
    release = re.search(r"release .*", version)
    return f"nvcc of pip, {release[0] if release else version}: {kernels}"


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("archive", type=Path)
    parser.add_argument("--architectures", default="90-real")
    parser.add_argument("--python", default=sys.executable)
    options = parser.parse_args()
    if HIDDEN not in os.environ:
        hide_toolkits()
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="luxel-nvcc-") as folder:
        print(build(options.archive.resolve(), options.architectures, options.python, Path(folder).resolve()))
    print(f"{time.monotonic() - started:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
