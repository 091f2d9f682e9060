"""Which Linux distributions a wheel runs on: the manylinux tag that its libraries allow, and why not a lower one.

    python tests/packaging/check_wheel.py dist/luxel-*.whl                 prints needs, sizes and the tag
    python tests/packaging/check_wheel.py --most 2.28 --retag dist/*.whl   gives the wheel that tag; exit status 1 where
                                                                           a symbol is newer or a library not allowed

The rules are those of PEP 600 and of auditwheel's policies, with one exception that each report states: libgomp is
torch's own, which is loaded first (docs/packaging.md).
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import zipfile
from dataclasses import dataclass
from pathlib import Path

from elf import Elf
from fatbin import bytes_by_target

# Libraries that a distribution has, of those that PEP 600 allows; ours need no others.
SYSTEM = {
    *("libc.so.6", "libm.so.6", "libpthread.so.0", "libdl.so.2", "librt.so.1"),
    *("libgcc_s.so.1", "libstdc++.so.6", "ld-linux-x86-64.so.2"),
}
OF_TORCH = {"libgomp.so.1"}
LIMIT_MB = 100
# The newest symbol versions of libstdc++ and libgcc where glibc is 2.28: those of GCC 8.
COMPILER_LIMITS = {
    "GLIBCXX": (3, 4, 24),
    "CXXABI": (1, 3, 11),
    "GCC": (7, 0, 0),
    "GOMP": (4, 5),
    "OMP": (4, 5),
}
RELEASE = {*(f"sm_{number}" for number in (75, 80, 86, 89, 90, 100, 120)), "ptx_120"}
OLDEST = (2, 28)  # of the tags that are given


@dataclass(frozen=True)
class Needs:
    """What a library asks of a system."""

    glibc: tuple[int, ...]
    newest: list[str]  # symbols that need this version of glibc
    foreign: list[str]  # libraries that neither the system nor torch brings
    too_new: list[str]  # symbols of libstdc++, libgcc or libgomp that GCC 8 has not


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("."))


def needs_of(library: Elf) -> Needs:
    """Reads what a library needs."""
    glibc, newest, too_new = (0,), [], []
    for version, symbols in library.needed_symbols().items():
        family, _, number = version.partition("_")
        if family == "GLIBC":
            if _numbers(number) > glibc:
                glibc, newest = _numbers(number), symbols
        elif family not in COMPILER_LIMITS or _numbers(number) > COMPILER_LIMITS[family]:
            too_new += [f"{symbol}@{version}" for symbol in symbols]
    foreign = [name for name in library.needed if name not in SYSTEM | OF_TORCH]
    return Needs(glibc, sorted(newest), foreign, sorted(too_new))


def examine(wheel: Path, most: tuple[int, ...], kernels: bool = False) -> tuple[str, list[str]]:
    """The platform tag of a wheel and what is wrong with it; prints a report.

    Args:
        most: the newest glibc that it may need.
        kernels: it must hold those of every GPU that a release supports.
    """
    problems, glibc, machine, targets = [], OLDEST, "", set()
    with zipfile.ZipFile(wheel) as archive:
        for file in sorted(archive.infolist(), key=lambda file: -file.compress_size):
            if not file.filename.endswith(".so"):
                continue
            library = Elf(archive.read(file))
            machine = library.machine
            needs = needs_of(library)
            glibc = max(glibc, needs.glibc)
            name = file.filename.rpartition("/")[2]
            version = ".".join(map(str, needs.glibc))
            print(f"{name}: {file.file_size / 1e6:.1f} MB, in the wheel {file.compress_size / 1e6:.1f} MB")
            print(f"  glibc {version} for {', '.join(needs.newest)}; libraries: {' '.join(library.needed)}")
            for target, size in sorted(bytes_by_target(library).items()):
                print(f"  {target:<8} {size / 1e6:5.1f} MB")
                targets.add(target)
            if needs.glibc > most:
                problems.append(f"{name} needs glibc {version} for {', '.join(needs.newest)}")
            problems += [f"{name} needs {foreign}, which no wheel brings" for foreign in needs.foreign]
            problems += [f"{name} needs {symbol}, which GCC 8 has not" for symbol in needs.too_new]
            if library.search_paths:
                problems.append(f"{name} searches libraries in {library.search_paths}")
            if library.section(".debug_info") or library.section(".symtab"):
                problems.append(f"{name} is not stripped")
    if kernels and (missing := RELEASE - targets):
        problems.append(f"it has no kernels for {', '.join(sorted(missing))}")
    size = wheel.stat().st_size / 1e6
    if not machine:
        problems.append("it holds no library")
    if size > LIMIT_MB:
        problems.append(f"it takes {size:.1f} MB, more than {LIMIT_MB}")
    tag = f"manylinux_{glibc[0]}_{glibc[1]}_{machine}"
    print(f"{wheel.name}: {size:.1f} MB, {tag} (with torch's libgomp)")
    return tag, problems


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("wheels", nargs="+", type=Path)
    parser.add_argument("--most", default="2.28", help="newest glibc that a library may need")
    parser.add_argument("--kernels", action="store_true", help="kernels of every supported GPU must be there")
    parser.add_argument("--retag", action="store_true", help="give the wheels the tag; files are renamed")
    options = parser.parse_args()
    status = 0
    for wheel in options.wheels:
        tag, problems = examine(wheel, _numbers(options.most), options.kernels)
        for problem in problems:
            print(f"{wheel.name}: {problem}.", file=sys.stderr)
            status = 1
        if options.retag and not problems:
            command = [sys.executable, "-m", "wheel", "tags", "--remove", "--platform-tag", tag, str(wheel)]
            subprocess.run(command, check=True)
    return status


if __name__ == "__main__":
    sys.exit(main())
