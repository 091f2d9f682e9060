"""Damage to files: seeded functions from bytes to bytes, and to the name of a file.

Each takes the bytes and a `random.Random`, and returns other bytes, at most `GROWTH` longer. The same seed gives the
same damage on every machine.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable
from random import Random

GROWTH = 4096  # bytes that a mutator adds at most
Mutator = Callable[[bytes, Random], bytes]

COUNTS = (0, 1, 2, 3, 255, 65535, 2**31 - 1, 2**31, 2**32 - 1, 2**40, 2**62, 2**63 - 1, 2**63, 2**64 - 1)
WORDS = (
    b"nan", b"-nan", b"inf", b"-inf", b"1e999", b"-1e999", b"1e-999", b"-0", b"-1", b"0", b"1", b"2147483648",
    b"4294967296", b"9223372036854775807", b"9223372036854775808", b"18446744073709551616", b"1" * 400, b"1" * 5000,
    b"0x10", b"1_000", b"true", b"null", b"NaN", b"Infinity", b"{}", b"[]", b'""', b"\xff\xfe", b"\xc3\x28", b"'",
    b"[" * 4000, b'{"a":' * 800, b"\0", b"\r", b"\n", b"%s", b"../../etc/passwd", b"a" * 300,
)  # fmt: skip
FLOATS = (float("nan"), float("inf"), -float("inf"), 0.0, -0.0, 1e308, -1e308, 1e-320, 1e39)
NUMBER = re.compile(rb"-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?")


def flip(data: bytes, random: Random) -> bytes:
    """One to eight bits change."""
    out = bytearray(data)
    for _ in range(random.randint(1, 8)):
        out[random.randrange(len(out))] ^= 1 << random.randrange(8)
    return bytes(out)


def flip_head(data: bytes, random: Random) -> bytes:
    """One to four bytes of the first 512 get other values: headers are there."""
    out = bytearray(data)
    for _ in range(random.randint(1, 4)):
        out[random.randrange(min(len(out), 512))] = random.randrange(256)
    return bytes(out)


def cut(data: bytes, random: Random) -> bytes:
    """The end is missing."""
    return data[: random.randrange(len(data))]


def remove(data: bytes, random: Random) -> bytes:
    """Up to 64 bytes are missing."""
    at = random.randrange(len(data))
    return data[:at] + data[at + random.randint(1, 64) :]


def insert(data: bytes, random: Random) -> bytes:
    """Up to 64 random bytes too many."""
    at = random.randint(0, len(data))
    return data[:at] + random.randbytes(random.randint(1, 64)) + data[at:]


def repeat(data: bytes, random: Random) -> bytes:
    """A part of up to 4096 bytes is there twice."""
    at = random.randrange(len(data))
    return data[:at] + data[at : at + random.randint(1, GROWTH)] + data[at:]


def blank(data: bytes, random: Random) -> bytes:
    """A part is all zeros, as after a lost block, or all ones."""
    at = random.randrange(len(data))
    size = min(random.choice((8, 64, 512, 4096)), len(data) - at)
    return data[:at] + random.choice((b"\0", b"\xff")) * size + data[at + size :]


def swap(data: bytes, random: Random) -> bytes:
    """Two parts of the same size change places."""
    size = random.randint(1, max(1, len(data) // 4))
    a = random.randrange(max(1, len(data) // 2 - size + 1))
    b = random.randrange(a + size, max(a + size + 1, len(data) - size + 1))
    return data[:a] + data[b : b + size] + data[a + size : b] + data[a : a + size] + data[b + size :]


def count(data: bytes, random: Random) -> bytes:
    """A 1 to 8 byte integer, little- or big-endian, becomes an extreme one, mostly in the first 512 bytes."""
    size = random.choice((1, 2, 4, 8))
    value = random.choice(COUNTS) % (1 << (8 * size))
    room = len(data) if random.random() < 0.3 else min(len(data), 512)
    at = random.randrange(max(1, room - size + 1))
    return data[:at] + value.to_bytes(size, random.choice(("little", "big"))) + data[at + size :]


def real(data: bytes, random: Random) -> bytes:
    """A float32 or float64 becomes infinite, not a number, or extreme."""
    value = random.choice(FLOATS)
    packed = (
        struct.pack("<d", value) if random.random() < 0.5 or abs(value) > 3e38 else struct.pack("<f", value)
    )
    at = random.randrange(max(1, len(data) - len(packed) + 1))
    return data[:at] + packed + data[at + len(packed) :]


def number(data: bytes, random: Random) -> bytes:
    """A number in text becomes another word: huge, not finite, of another type."""
    places = list(NUMBER.finditer(data[:65536]))
    if not places:
        return word(data, random)
    place = random.choice(places)
    return data[: place.start()] + random.choice(WORDS) + data[place.end() :]


def word(data: bytes, random: Random) -> bytes:
    """A hostile word is inserted."""
    at = random.randint(0, len(data))
    return data[:at] + random.choice(WORDS) + data[at:]


def noise(data: bytes, random: Random) -> bytes:
    """Everything behind the first bytes is random."""
    kept = random.choice((0, 4, 16, 128))
    return data[:kept] + random.randbytes(min(len(data), 2048))


def empty(data: bytes, random: Random) -> bytes:
    """No bytes."""
    return b""


MUTATORS: dict[str, Mutator] = {
    function.__name__: function
    for function in (
        flip, flip_head, cut, remove, insert, repeat, blank, swap, count, real, number, word, noise, empty
    )
}  # fmt: skip
RARE = ("empty", "noise")


def mutate(data: bytes, random: Random) -> tuple[bytes, list[str]]:
    """Damages bytes by one to three mutators.

    Returns:
        The damaged bytes, and the names of the mutators in their order.
    """
    usual = [name for name in MUTATORS if name not in RARE]
    names = [
        random.choice(RARE if random.random() < 0.03 else usual)
        for _ in range(random.choice((1, 1, 1, 2, 3)))
    ]
    for name in names:
        data = MUTATORS[name](data, random) if data else data
    return data, names


def mislabel(content: dict[str, bytes], name: str, random: Random) -> bytes:
    """The bytes of another file under the name of this one.

    Args:
        content: bytes of files by name; more than one.
        name: of the file that gets other bytes.
    """
    return content[random.choice(sorted(set(content) - {name}))]
