"""viser's page taken apart, and pages that are not."""

from __future__ import annotations

import pytest

from luxel.viewer.web.transport.routes import VISER_PAGE
from luxel.viewer.web.transport.viser_page import from_base88, unpack


def test_page_of_viser_has_a_script_styles_and_a_decoder() -> None:
    page = unpack(VISER_PAGE.read_bytes())
    kinds = {name.rsplit(".")[-1]: content for name, content in page.files.items()}
    assert set(kinds) == {"js", "css", "wasm"} and len(kinds["js"]) > 1_000_000
    assert b"mantine" in kinds["css"] and all(name.encode() in page.html for name in page.files)


@pytest.mark.parametrize(
    "change",
    [
        lambda page: b"<head></head>",
        lambda page: page.replace(b"data-ss=", b"data-sz="),
        lambda page: page.replace(b"const gzWasm=", b"const wasm="),
        lambda page: page.replace(b'data-p="', b'data-p="!!!!!'),
        lambda page: page.replace(b'data-p="', b"data-p=\"'"),
        lambda page: page.replace(b'const A="!#', b'const A="#!'),
    ],
)
def test_another_page_stays_whole(change: object) -> None:
    page = change(VISER_PAGE.read_bytes())  # type: ignore[operator]
    left = unpack(page)
    assert left.html == page and left.files == {}


def test_groups_of_characters_become_bytes() -> None:
    alphabet = "".join(chr(33 + i) for i in range(88))
    assert from_base88('!!!!"', alphabet) == bytes([0, 0, 0, 1])
    assert from_base88('"!', alphabet) == bytes([88])
    for text in ("~", "xxxxx", "x" * 7):
        with pytest.raises(ValueError):
            from_base88(text, alphabet)
