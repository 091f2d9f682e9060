"""viser's page in parts. As it comes it is one file that unpacks its script and styles on the page, which takes a
browser half a second and hides them from its cache; in files of their own they are compiled while they arrive."""

from __future__ import annotations

import gzip
import hashlib
import json
import re
from dataclasses import dataclass, field

import numpy as np
import zstandard

PACKED = re.compile(r'<script data-p="([^"]*)" data-ss="(\d+)" data-cs="(\d+)">(.*?)</script>', re.DOTALL)
ALPHABET = re.compile(r'const A=("(?:[^"\\]|\\.)*");')
DECODER = re.compile(r'const gzWasm=("(?:[^"\\]|\\.)*");')
LARGEST = 2**26  # bytes that may be unpacked
# viser's page takes the decoder of its messages from a global.
LOADER = """<link rel="modulepreload" href="/luxel/{script}"><script type="module">
const styles = Object.assign(document.createElement("link"), {{ rel: "stylesheet", href: "/luxel/{styles}" }});
const styled = new Promise((done) => (styles.onload = styles.onerror = done));
document.head.append(styles);
[globalThis.__viserZstdWasm] = await Promise.all([WebAssembly.compileStreaming(fetch("/luxel/{decoder}")), styled]);
await import("/luxel/{script}");
</script>"""


@dataclass(frozen=True)
class ViserPage:
    """A page whose script and styles are files.

    Args:
        html: of the page.
        files: by name, which changes with the content.
    """

    html: bytes
    files: dict[str, bytes] = field(default_factory=dict)


def unpack(html: bytes) -> ViserPage:
    """Takes viser's page apart; a page of another form stays whole, without files."""
    page = html.decode()
    packed = PACKED.search(page)
    alphabet, decoder = (pattern.search(packed[4]) if packed else None for pattern in (ALPHABET, DECODER))
    if packed is None or alphabet is None or decoder is None:
        return ViserPage(html)
    digits = json.loads(alphabet[1])
    try:
        frame = from_base88(packed[1], digits)
        content = zstandard.ZstdDecompressor().decompress(frame, max_output_size=LARGEST)
        wasm = gzip.decompress(from_base88(json.loads(decoder[1]), digits))
    except (zstandard.ZstdError, OSError, EOFError, ValueError):
        return ViserPage(html)
    border = int(packed[2])
    parts = {"styles": content[:border], "script": content[border:], "decoder": wasm}
    suffixes = {"styles": "css", "script": "js", "decoder": "wasm"}
    names = {part: f"viser-{hashlib.sha256(parts[part]).hexdigest()[:12]}.{suffixes[part]}" for part in parts}
    loader = LOADER.format(**names)
    whole = page[: packed.start()] + loader + page[packed.end() :]
    return ViserPage(whole.encode(), {names[part]: parts[part] for part in parts})


def from_base88(text: str, alphabet: str) -> bytes:
    """The bytes of a text, four to five characters, the last few to one more.

    Raises:
        ValueError: it is no such text.
    """
    table = np.full(256, -1, np.int64)
    table[list(alphabet.encode("ascii"))] = np.arange(len(alphabet))
    digits = table[np.frombuffer(text.encode("latin-1"), np.uint8)]
    if len(alphabet) != 88 or (digits < 0).any():
        raise ValueError("a character is not of the alphabet")
    whole, rest = divmod(len(digits), 5)
    values = digits[: 5 * whole].reshape(whole, 5) @ 88 ** np.arange(4, -1, -1)
    last = 0
    for digit in digits[5 * whole :].tolist():
        last = 88 * last + digit
    if values.max(initial=0) >= 2**32 or last >= 256 ** max(rest - 1, 0) + (rest == 0):
        raise ValueError("a group of characters is too large")
    return values.astype(">u4").tobytes() + last.to_bytes(max(rest - 1, 0), "big")
