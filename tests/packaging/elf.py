"""What a 64-bit ELF library needs and holds, read from the file: no binutils, no package.

Layouts: System V ABI, "Object Files" and "Dynamic Linking"; symbol versions: Linux Standard Base 5, chapter 10.7.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

_NEEDED, _SONAME = 1, 14  # DT_NEEDED, DT_SONAME
_RPATHS = (15, 29)  # DT_RPATH, DT_RUNPATH
_BY_MACHINE = {62: "x86_64", 183: "aarch64"}


@dataclass(frozen=True)
class Section:
    """A part of the file by name."""

    name: str
    data: bytes


class Elf:
    """A little-endian 64-bit ELF file.

    Args:
        raw: the whole file.

    Raises:
        ValueError: it is none.
    """

    def __init__(self, raw: bytes) -> None:
        if raw[:6] != b"\x7fELF\x02\x01":
            raise ValueError("this is no little-endian 64-bit ELF file")
        self.raw = raw
        self.machine = _BY_MACHINE.get(struct.unpack_from("<H", raw, 18)[0], "unknown")
        (table,) = struct.unpack_from("<Q", raw, 40)
        entry, count, names = struct.unpack_from("<HHH", raw, 58)
        if table and count == 0:  # more sections than 16 bits count: the first header has the number
            (count,) = struct.unpack_from("<Q", raw, table + 32)
        if table and names == 0xFFFF:
            (names,) = struct.unpack_from("<I", raw, table + 40)
        headers = [struct.unpack_from("<IIQQQQ", raw, table + entry * i) for i in range(count)]
        texts = self._data(headers[names]) if headers else b""
        self.sections = [Section(_text(texts, header[0]), self._data(header)) for header in headers]

    def _data(self, header: tuple[int, ...]) -> bytes:
        nothing_in_the_file = 8  # SHT_NOBITS
        return b"" if header[1] == nothing_in_the_file else self.raw[header[4] : header[4] + header[5]]

    def section(self, name: str) -> bytes:
        """The bytes of a section; empty where there is none."""
        return next((section.data for section in self.sections if section.name == name), b"")

    def _dynamic(self, *tags: int) -> list[str]:
        names = self.section(".dynstr")
        return [
            _text(names, value)
            for tag, value in struct.iter_unpack("<QQ", self.section(".dynamic"))
            if tag in tags
        ]

    @property
    def needed(self) -> list[str]:
        """File names of the libraries that the loader must find."""
        return self._dynamic(_NEEDED)

    @property
    def soname(self) -> str:
        return "".join(self._dynamic(_SONAME))

    @property
    def search_paths(self) -> list[str]:
        """Folders that the library itself adds to the search for what it needs."""
        return self._dynamic(*_RPATHS)

    def needed_versions(self) -> dict[int, str]:
        """Symbol versions that other libraries must have, such as GLIBC_2.27, by the number used in this file."""
        table, names, versions, at = self.section(".gnu.version_r"), self.section(".dynstr"), {}, 0
        while table:
            _, count, _, auxiliary, following = struct.unpack_from("<HHIII", table, at)
            entry = at + auxiliary
            for _ in range(count):
                _, _, number, name, next_entry = struct.unpack_from("<IHHII", table, entry)
                versions[number] = _text(names, name)
                entry += next_entry
            if not following:
                break
            at += following
        return versions

    def needed_symbols(self) -> dict[str, list[str]]:
        """Names of undefined symbols by the version that they need."""
        names, numbers, versions = (
            self.section(".dynstr"),
            self.section(".gnu.version"),
            self.needed_versions(),
        )
        symbols: dict[str, list[str]] = {}
        for i, (name, _, _, defined_in, _, _) in enumerate(
            struct.iter_unpack("<IBBHQQ", self.section(".dynsym"))
        ):
            version = versions.get(struct.unpack_from("<H", numbers, 2 * i)[0] & 0x7FFF) if numbers else None
            if defined_in == 0 and version:
                symbols.setdefault(version, []).append(_text(names, name))
        return symbols


def _text(table: bytes, start: int) -> str:
    return table[start : table.index(b"\0", start)].decode()
