"""Damage to the bytes of a file: flips, cuts, insertions, other numbers, huge counts, by a seeded generator."""

from __future__ import annotations

import re
import struct
from collections.abc import Callable

import numpy as np

MAX_EDITS = 4  # of one call of `mutate`
NUMBER = re.compile(rb"-?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?")
TOKEN = re.compile(rb"\"[^\"\\]{0,60}\"|[A-Za-z_][A-Za-z_0-9]{0,40}|\[|\]|\{|\}|null|true|false")
# Numbers in text that readers must not believe: beyond 64 bits, beyond doubles, signs, none at all.
NUMBERS = (
    b"0", b"-1", b"1", b"3", b"255", b"65536", b"2147483647", b"-2147483649", b"4294967296", b"9223372036854775807",
    b"9223372036854775808", b"18446744073709551616", b"1" + b"0" * 40, b"9" * 5000, b"1e308", b"1e999", b"-1e999",
    b"nan", b"inf", b"-inf", b"NaN", b"Infinity", b"1e-320", b"0x10", b"1_000", b"", b"+", b"\xd9\xa3",
)  # fmt: skip
TOKENS = (
    b"null", b"true", b"[]", b"{}", b'""', b'"\\u0000"', b'"../../etc/passwd"', b'"\\ud800"', b"[" * 3000, b"{" * 50,
    b"NaN", b"-", b"list", b"vertex", b"ascii", b'"' + b"a" * 5000 + b'"', b"\0", b"\xff\xfe", b"f", b"v",
)  # fmt: skip
COUNTS = (
    0,
    1,
    2,
    255,
    256,
    65535,
    1 << 20,
    (1 << 31) - 1,
    1 << 31,
    (1 << 32) - 1,
    1 << 40,
    1 << 62,
    (1 << 64) - 1,
)
WORDS = (
    b"\0" * 8,
    b"\xff" * 8,
    struct.pack("<f", float("nan")),
    struct.pack("<f", float("inf")),
    struct.pack("<d", float("nan")),
    struct.pack("<d", -1e308),
    b"\r\n",
    b"\n",
)
Edit = Callable[[bytes, np.random.Generator], bytes]


def mutate(data: bytes, random: np.random.Generator) -> bytes:
    """The data after 1 to `MAX_EDITS` random edits; the same generator state gives the same result.

    Args:
        data: any bytes, also none.
        random: the source of all choices.
    """
    for _ in range(1 + int(random.integers(MAX_EDITS))):
        data = EDITS[int(random.integers(len(EDITS)))](data, random)
    return data


def _at(data: bytes, random: np.random.Generator) -> int:
    """A position; half of them are near the beginning, where headers are."""
    room = len(data) if random.random() < 0.5 else min(len(data), 128)
    return int(random.integers(room + 1))


def _span(data: bytes, random: np.random.Generator) -> tuple[int, int]:
    start = _at(data, random)
    return start, min(len(data), start + int(2 ** random.uniform(0, 10)))


def flip(data: bytes, random: np.random.Generator) -> bytes:
    """One to eight bits inverted."""
    out = bytearray(data)
    for _ in range(int(random.integers(1, 9)) if data else 0):
        out[min(_at(data, random), len(data) - 1)] ^= 1 << int(random.integers(8))
    return bytes(out)


def overwrite(data: bytes, random: np.random.Generator) -> bytes:
    """Bytes replaced by others, the length unchanged."""
    at, word = _at(data, random), _word(random)
    return (data[:at] + word + data[at + len(word) :])[: len(data)]


def insert(data: bytes, random: np.random.Generator) -> bytes:
    """Bytes inserted."""
    at = _at(data, random)
    return data[:at] + _word(random) + data[at:]


def cut(data: bytes, random: np.random.Generator) -> bytes:
    """The end missing, as after an interrupted copy."""
    return data[: int(random.integers(len(data) + 1))]


def remove(data: bytes, random: np.random.Generator) -> bytes:
    """A part missing."""
    start, end = _span(data, random)
    return data[:start] + data[end:]


def repeat(data: bytes, random: np.random.Generator) -> bytes:
    """A part twice."""
    start, end = _span(data, random)
    return data[:end] + data[start:end] + data[end:]


def move(data: bytes, random: np.random.Generator) -> bytes:
    """A part copied over another place."""
    start, end = _span(data, random)
    at = _at(data, random)
    return data[:at] + data[start:end] + data[at + end - start :]


def zero(data: bytes, random: np.random.Generator) -> bytes:
    """A part set to zero, as in a file whose blocks were never written."""
    start, end = _span(data, random)
    return data[:start] + bytes(end - start) + data[end:]


def other_count(data: bytes, random: np.random.Generator) -> bytes:
    """An integer of 2, 4 or 8 bytes, of either byte order, replaced by a small or huge one."""
    size = int(random.choice((2, 4, 8)))
    value = COUNTS[int(random.integers(len(COUNTS)))] % (1 << 8 * size)
    at = _at(data, random) // 2 * 2
    order = "little" if random.random() < 0.7 else "big"
    return (data[:at] + value.to_bytes(size, order) + data[at + size :])[: max(len(data), at + size)]


def other_number(data: bytes, random: np.random.Generator) -> bytes:
    """A number in text replaced by another."""
    return _replace(NUMBER, NUMBERS, data, random)


def other_token(data: bytes, random: np.random.Generator) -> bytes:
    """A string, name or bracket in text replaced by another value."""
    return _replace(TOKEN, TOKENS, data, random)


EDITS: tuple[Edit, ...] = (
    flip, overwrite, insert, cut, remove, repeat, move, zero, other_count, other_number, other_number, other_token,
)  # fmt: skip


def _word(random: np.random.Generator) -> bytes:
    if random.random() < 0.5:
        return WORDS[int(random.integers(len(WORDS)))]
    return random.bytes(int(random.integers(1, 17)))


def _replace(
    pattern: re.Pattern[bytes], values: tuple[bytes, ...], data: bytes, random: np.random.Generator
) -> bytes:
    """One match of the pattern in the first 64 kB replaced by one of the values."""
    matches = list(pattern.finditer(data, 0, 1 << 16))
    if not matches:
        return data
    match = matches[int(random.integers(len(matches)))]
    return data[: match.start()] + values[int(random.integers(len(values)))] + data[match.end() :]
