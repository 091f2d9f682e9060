"""Damaged and hostile SOG scenes: every one is refused in a line, before memory is allocated for it."""

from __future__ import annotations

import io
import json
import struct
import tracemalloc
import zipfile
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest
import torch
from sog_samples import bundle, changed, entries, webp

from luxel.render.primitives import Gaussians
from luxel.scenes import load_primitives, save_scene
from luxel.scenes.errors import CaptureError
from luxel.scenes.files.sog import containers


@pytest.fixture
def small(tmp_path: Path) -> bytes:
    scene = Gaussians.empty(1).map(lambda t: torch.full((5, *t.shape[1:]), 0.25))
    save_scene(tmp_path / "small.sog", scene)
    return (tmp_path / "small.sog").read_bytes()


def refusal(path: Path, data: bytes) -> str:
    path.write_bytes(data)
    with pytest.raises(CaptureError) as refused:
        load_primitives(path)
    assert path.name in refused.value.problem and "\n" not in refused.value.problem
    assert refused.value.remedy
    return refused.value.problem


def section(data: bytes, name: str, **fields: Any) -> bytes:
    """A bundle of which fields of a section of meta.json are replaced."""
    meta = json.loads(entries(data)["meta.json"])
    return changed(data, **{name: meta[name] | fields})


FIELDS: list[tuple[str, str, dict[str, Any]]] = [
    ("mins of means must be 3 finite numbers", "means", {"mins": [0, 1]}),
    ("mins of means must be 3 finite numbers", "means", {"mins": [0, 1, "x"]}),
    ("maxs of means must be 3 finite numbers", "means", {"maxs": [0, 1, float("nan")]}),
    ("maxs of means must be 3 finite numbers", "means", {"maxs": [0, 1, True]}),
    ("maxs of means must be 3 finite numbers", "means", {"maxs": None}),
    ("codebook of scales must be 256", "scales", {"codebook": [0.5] * 255}),
    ("codebook of sh0 must be 256", "sh0", {"codebook": [float("inf")] * 256}),
    ("codebook of shN must be 256", "shN", {"codebook": {}}),
    ("cannot be read as", "scales", {"codebook": [10**400] * 256}),
    ("means names no 2 files", "means", {"files": ["means_l.webp"]}),
    ("quats names no 1 files", "quats", {"files": [7]}),
    ("quats names no 1 files", "quats", {"files": "quats.webp"}),
    ("the archive has no file", "quats", {"files": ["other.webp"]}),
    ("'meta.json' is no WebP image", "quats", {"files": ["meta.json"]}),
    ("spherical harmonics of degree 4", "shN", {"bands": 4}),
    ("spherical harmonics of degree", "shN", {"bands": [1]}),
    ("'shN_centroids.webp' has 192x1 pixels", "shN", {"bands": 2}),
    ("the palette of 0 entries lacks", "shN", {"count": 0}),
    ("the palette of 99999999999 entries", "shN", {"count": 99999999999}),
    ("the palette of many entries", "shN", {"count": "many"}),
    ("'shN_centroids.webp' has 192x1 pixels", "shN", {"count": 65536}),
]


@pytest.mark.parametrize(("message", "name", "fields"), FIELDS)
def test_damaged_sections(
    tmp_path: Path, small: bytes, message: str, name: str, fields: dict[str, Any]
) -> None:
    assert message in refusal(tmp_path / "a.sog", section(small, name, **fields))


@pytest.mark.parametrize(
    ("message", "fields"),
    [
        ("SOG of version 3; luxel reads 1 and 2", {"version": 3}),
        ("SOG of version ['2']", {"version": ["2"]}),
        ("None Gaussians are announced", {"count": None, "means": None}),
        ("-1 Gaussians are announced", {"count": -1}),
        ("True Gaussians are announced", {"count": True}),
        ("5.5 Gaussians are announced", {"count": 5.5}),
        ("1000000000 Gaussians are announced", {"count": 1000000000}),
        ("has 4x4 pixels for 17 entries", {"count": 17}),
        ("meta.json says nothing of scales", {"scales": None}),
        ("meta.json says nothing of quats", {"quats": [1, 2]}),
        ("meta.json says nothing of shN", {"shN": 7}),
    ],
)
def test_damaged_meta(tmp_path: Path, small: bytes, message: str, fields: dict[str, Any]) -> None:
    assert message in refusal(tmp_path / "a.sog", changed(small, **fields))


@pytest.mark.parametrize(
    "text",
    [b"", b"[]", b"7", b"\xff\xfe", b"{", b'{"a":' * 100_000, b" " * (5 << 20)],
    ids=lambda t: str(t[:6]),
)
def test_meta_that_is_no_object(tmp_path: Path, small: bytes, text: bytes) -> None:
    refusal(tmp_path / "a.sog", bundle(entries(small) | {"meta.json": text}))
    folder = tmp_path / "folder"
    folder.mkdir()
    refusal(folder / "meta.json", text)


def test_damaged_archives(tmp_path: Path, small: bytes) -> None:
    path = tmp_path / "a.sog"
    for size in (1, 20, 200, len(small) // 2, len(small) - 1):
        refusal(path, small[:size])
    files = entries(small)
    assert "has no file 'meta.json'" in refusal(path, bundle({"b.txt": b"x"}))
    assert "has no file 'scales.webp'" in refusal(
        path, bundle({name: data for name, data in files.items() if name != "scales.webp"})
    )
    damaged = bytearray(small)
    at = small.index(b"VP8L") + 12
    damaged[at] ^= 0xFF
    assert "CRC" in refusal(path, bytes(damaged))
    many = bundle({f"{i}.txt": b"" for i in range(1100)} | files)
    assert "more than 1000 files" in refusal(path, many)


def test_damaged_images(tmp_path: Path, small: bytes) -> None:
    path, files = tmp_path / "a.sog", entries(small)
    for data, message in (
        (b"", "is no WebP image"),
        (b"\x89PNG" + bytes(60), "is no WebP image"),
        (files["sh0.webp"][:-5], "are damaged or cut short"),
        (webp(np.zeros((1, 4, 4), np.uint8)), "has 4x1 pixels for 5 entries"),
    ):
        assert message in refusal(path, bundle(files | {"scales.webp": data}))


def test_files_outside_of_a_folder_are_not_read(tmp_path: Path, small: bytes) -> None:
    (tmp_path / "secret.webp").write_bytes(entries(small)["quats.webp"])
    folder = tmp_path / "scene"
    folder.mkdir()
    for name in ("../secret.webp", str(tmp_path / "secret.webp"), "..\\secret.webp", "..", ""):
        for file, data in entries(section(small, "quats", files=[name])).items():
            (folder / file).write_bytes(data)
        with pytest.raises(CaptureError, match="outside of the scene"):
            load_primitives(folder)
    for file, data in entries(small).items():
        (folder / file).write_bytes(data)
    assert load_primitives(folder).count == 5
    (folder / "quats.webp").unlink()
    with pytest.raises(CaptureError, match=r"quats\.webp: cannot be read: there is no such file"):
        load_primitives(folder)


def test_large_images_are_refused_before_they_are_decoded(
    tmp_path: Path, small: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*args: object) -> None:
        raise AssertionError("an image was decoded")

    monkeypatch.setattr(cv2, "imdecode", refuse)
    bits = 16383 | 16383 << 14
    head = (
        b"RIFF"
        + struct.pack("<I", 40)
        + b"WEBPVP8L"
        + struct.pack("<I", 28)
        + b"\x2f"
        + struct.pack("<I", bits)
    )
    bomb = head + bytes(40)
    path = tmp_path / "a.sog"
    assert "16384x16384 pixels for 5 entries" in refusal(
        path, bundle(entries(small) | dict.fromkeys(("quats.webp", "means_l.webp"), bomb))
    )


def test_archives_that_inflate_are_refused(tmp_path: Path, small: bytes) -> None:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in entries(small).items():
            archive.writestr(name, data if name != "quats.webp" else data + bytes(40 << 20))
    tracemalloc.start()
    problem = refusal(tmp_path / "a.sog", out.getvalue())
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert "'quats.webp' would have 41,9" in problem
    assert peak < 8 << 20


def test_scenes_beyond_the_memory_are_refused(
    tmp_path: Path, small: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(containers, "available_memory", lambda: 4 * containers.MEMORY)
    assert "does not fit into the free memory" in refusal(tmp_path / "a.sog", small)
