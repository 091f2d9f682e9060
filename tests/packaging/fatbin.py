"""The device code within a library or object file: bytes by architecture, and by kernel where it is not compressed.

A section .nv_fatbin is a row of containers, one per source file; each holds entries, PTX or an ELF file of one
architecture. NVIDIA does not document the layout; the fields used here are those that its tools print.

    python tests/packaging/fatbin.py libluxel_cuda.so              bytes by architecture
    python tests/packaging/fatbin.py --kernels build/**/*.cu.o     bytes by kernel and instantiation, of files that were
                                                                   compiled with --compress-mode=none
"""

from __future__ import annotations

import argparse
import re
import struct
import subprocess
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from elf import Elf

_MAGIC = 0xBA55ED50
_KINDS = {1: "ptx", 2: "sm"}


@dataclass(frozen=True)
class Entry:
    """Code for one architecture."""

    target: str  # "sm_90", or "ptx_120"
    stored: int  # bytes in the file
    payload: bytes  # as stored: compressed or not


def entries(section: bytes) -> Iterator[Entry]:
    """The entries of a section .nv_fatbin."""
    at = 0
    while at + 16 <= len(section):
        magic, _, header, size = struct.unpack_from("<IHHQ", section, at)
        if magic != _MAGIC:  # padding between containers
            at += 8
            continue
        inner, end = at + header, at + header + size
        while inner + 32 <= end:
            kind, _, entry_header, padded = struct.unpack_from("<HHIQ", section, inner)
            (architecture,) = struct.unpack_from("<I", section, inner + 28)
            start = inner + entry_header
            yield Entry(
                f"{_KINDS.get(kind, kind)}_{architecture}",
                entry_header + padded,
                section[start : start + padded],
            )
            inner = start + padded
        at = end


def kernel_bytes(cubin: bytes) -> Counter[str]:
    """Bytes of a kernel's sections by its mangled name; the rest under the name of the section."""
    totals: Counter[str] = Counter()
    for section in Elf(cubin).sections:
        match = re.match(
            r"\.(?:text|nv\.info|nv\.constant\d|nv\.shared|nv\.capmerc\.text|nv\.merc\..*?|nv\.compat)\.(_Z.*)",
            section.name,
        )
        totals[match[1] if match else section.name] += len(section.data)
    return totals


def bytes_by_target(library: Elf) -> Counter[str]:
    """Bytes of device code in a library by what it is for, as they are stored."""
    totals: Counter[str] = Counter()
    for entry in entries(library.section(".nv_fatbin")):
        totals[entry.target] += entry.stored
    return totals


def print_kernels(file: Path, library: Elf) -> None:
    """Prints bytes by kernel of one object file, largest first."""
    totals: Counter[str] = Counter()
    for entry in entries(library.section(".nv_fatbin")):
        if entry.payload[:4] == b"\x7fELF":
            totals += kernel_bytes(entry.payload)
    ordered = totals.most_common()
    mangled = "\n".join(name for name, _ in ordered)
    names = subprocess.run(["c++filt", "-p"], input=mangled, capture_output=True, text=True, check=True)
    print(f"{sum(totals.values()):>11,} {file.name}")
    for (_, size), name in zip(ordered, names.stdout.splitlines(), strict=True):
        print(f"{size:>11,}   {name}")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--kernels", action="store_true")
    options = parser.parse_args()
    by_target: Counter[str] = Counter()
    for file in options.files:
        library = Elf(file.read_bytes())
        by_target += bytes_by_target(library)
        if options.kernels:
            print_kernels(file, library)
    for target, size in sorted(by_target.items()):
        print(f"{size:>11,} {target}")


if __name__ == "__main__":
    main()
