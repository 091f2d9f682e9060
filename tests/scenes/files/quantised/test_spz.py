"""SPZ: files of other programs, what is lost when writing, flags, and damaged files."""

from __future__ import annotations

import gzip
import logging
import struct
import zlib
from dataclasses import replace
from pathlib import Path

import pytest
import torch
import zstandard
from knot_scene import DATA, assert_within, edge, knot, losses, turns

from luxel.render.primitives import Gaussians
from luxel.scenes import CaptureError, load_primitives, save_scene
from luxel.scenes.files.quantised import spz
from luxel.scenes.files.scene_files import load_facts, lost_by
from luxel.scenes.files.scene_format import SceneFacts


def gzipped(data: bytes) -> bytes:
    """Without the time, so that every process that collects these tests gives them the same names."""
    return gzip.compress(data, mtime=0)


# Half steps of 12 fraction bits in three axes, of 1/16, of 9 bits, of 1/255, of 1/38.25.
QUANTISED = {
    "position": 2.2e-4,
    "log scale": 0.0313,
    "rotation": 0.19,
    "alpha": 2e-3,
    "dc": 0.0132,
    "rest": 0.03,
}


def load(path: Path, axes: str | None = None) -> Gaussians:
    scene = load_primitives(path, axes=axes)
    assert isinstance(scene, Gaussians)
    return scene


@pytest.mark.parametrize("name", ["knot2k-v3.spz", "knot2k-v4.spz"])
def test_files_of_the_reference_library(name: str) -> None:
    read = load(DATA / name)
    assert (read.count, read.sh_degree) == (2000, 3)
    actual = losses(knot(), read)
    assert_within(actual, QUANTISED)
    assert actual["rest"] > 0.02  # written with 5 and 4 bits: weak coefficients are 0 in it


def test_files_whose_axes_were_not_converted() -> None:
    path = DATA / "knot2k-sparkraw-v2.spz"
    read = load(path, axes="RDF")
    # Version 2 has bytes for x, y and z; near a turn of half a circle w is the small remainder, and coarse.
    # The program that wrote it rounds other numbers down, too.
    limits = {
        "position": 1.4e-5,
        "log scale": 0.034,
        "rotation": 11,
        "alpha": 2.2e-3,
        "dc": 0.014,
        "rest": 0.0275,
    }
    assert_within(losses(knot(), read), limits)
    assert float(turns(knot().quats, read.quats).median()) < 0.8
    turned = load(path)
    assert torch.equal(turned.means, read.means * torch.tensor([1, -1, -1]))


def test_the_antialiased_flag(tmp_path: Path) -> None:
    assert load_facts(DATA / "knot2k-sparkraw-v2.spz") == SceneFacts(antialiased=True)
    for name in ("knot2k-v3.spz", "knot2k-v4.spz"):
        assert load_facts(DATA / name) == SceneFacts(antialiased=False)
    for version, antialiased in ((3, True), (4, True), (4, None)):
        facts = SceneFacts(antialiased=antialiased, metres=2.0)
        save_scene(tmp_path / "a.spz", edge(), facts=facts, version=version)
        assert load_facts(tmp_path / "a.spz") == SceneFacts(antialiased=bool(antialiased))
    assert lost_by(tmp_path / "a.spz", edge(), SceneFacts(antialiased=True, metres=2.0)) == [
        "the length of a unit"
    ]
    with pytest.raises(CaptureError, match="a\\.ply"):
        spz.read_spz_facts(tmp_path / "a.ply")


@pytest.mark.parametrize("version", [3, 4])
@pytest.mark.parametrize("degree", [0, 1, 2, 3])
def test_what_is_written_is_read(tmp_path: Path, version: int, degree: int) -> None:
    source = replace(knot(), sh_rest=knot().sh_rest[:, : (degree + 1) ** 2 - 1])
    save_scene(tmp_path / "a.spz", source, version=version)
    read = load(tmp_path / "a.spz")
    assert (read.count, read.sh_degree) == (2000, degree)
    # 22 fraction bits hold the scene; 8 bits of coefficients: steps of 1/128.
    assert_within(losses(source, read), QUANTISED | {"position": 2.1e-7, "rest": 0.0023})
    torch.testing.assert_close(read.means, source.means, atol=2e-7, rtol=0)  # in their order


def test_versions_hold_the_same(tmp_path: Path) -> None:
    for version in (3, 4):
        save_scene(tmp_path / f"{version}.spz", knot(), version=version)
    old, new = ((tmp_path / f"{version}.spz") for version in (3, 4))
    assert old.read_bytes()[:2] == b"\x1f\x8b" and new.read_bytes()[:4] == b"NGSP"
    assert new.stat().st_size < old.stat().st_size < 64 * 2000
    for name, tensor in load(old).tensors().items():
        assert torch.equal(getattr(load(new), name), tensor), name
    (tmp_path / "plain.spz").write_bytes(gzip.decompress(old.read_bytes()))
    assert torch.equal(load(tmp_path / "plain.spz").means, load(old).means)


@pytest.mark.parametrize(("far", "bits"), [(0.0, 30), (0.9, 23), (1.1, 22), (300.0, 14), (2e6, 2), (1e9, 0)])
def test_fraction_bits_follow_the_extent(tmp_path: Path, far: float, bits: int) -> None:
    source = edge()
    source.means[:] = 0
    source.means[3, 1] = far
    source.means[4, 0] = float("nan")
    save_scene(tmp_path / "a.spz", source)
    assert gzip.decompress((tmp_path / "a.spz").read_bytes())[13] == bits
    expected = min(far, float((1 << 23) - 1))
    assert abs(float(load(tmp_path / "a.spz").means[3, 1]) - expected) <= 0.5 * 2.0**-bits


def clipped(source: Gaussians) -> Gaussians:
    """What the ranges of SPZ leave of a scene."""
    return replace(
        source,
        log_scales=source.log_scales.clamp(-10, 255 / 16 - 10),
        sh_dc=source.sh_dc.clamp(-0.5 / 0.15, 0.5 / 0.15),
        sh_rest=source.sh_rest.clamp(-1, 127 / 128),
    )


@pytest.mark.parametrize("name", ["edge16-v3.spz", "edge16-v4.spz", "own"])
def test_extreme_values(tmp_path: Path, name: str) -> None:
    path = DATA / name
    if name == "own":
        path = tmp_path / "a.spz"
        save_scene(path, edge())
    expected, read = clipped(edge()), load(path)
    torch.testing.assert_close(read.means, expected.means, atol=1.3e-4, rtol=0)
    torch.testing.assert_close(read.log_scales, expected.log_scales, atol=0.0313, rtol=0)
    torch.testing.assert_close(
        read.opacity_logits.sigmoid(), expected.opacity_logits.sigmoid(), atol=2e-3, rtol=0
    )
    torch.testing.assert_close(read.sh_dc, expected.sh_dc, atol=0.0132, rtol=0)
    torch.testing.assert_close(read.sh_rest, expected.sh_rest, atol=0.0625, rtol=0)
    assert read.sh_rest[14, 0, 0] > 0.9 and read.sh_rest[14, 14, 2] < -0.9
    assert float(turns(expected.quats, read.quats).max()) < 0.19
    assert all(bool(tensor.isfinite().all()) for tensor in read.tensors().values())


@pytest.mark.parametrize("version", [3, 4])
def test_scenes_that_are_empty_or_not_finite(tmp_path: Path, version: int) -> None:
    save_scene(tmp_path / "a.spz", Gaussians.empty(2), version=version)
    assert (load(tmp_path / "a.spz").count, load(tmp_path / "a.spz").sh_degree) == (0, 2)
    broken = edge().map(lambda t: torch.full_like(t, float("nan")))
    broken.means[1:3, 0] = torch.tensor([float("inf"), -float("inf")])
    broken.sh_rest[2] = 3e38
    save_scene(tmp_path / "a.spz", broken, version=version)
    assert load(tmp_path / "a.spz").quats[0].tolist() == [1, 0, 0, 0]


def packed(version: int = 3, count: int = 2, degree: int = 0, bits: int = 12, flags: int = 0) -> bytes:
    """The header and as many bytes as the six arrays have."""
    widths = 9 + 1 + 3 + 3 + (3 if version == 2 else 4) + 3 * ((degree + 1) ** 2 - 1)
    head = struct.pack("<4s2I4B", b"NGSP", version, count, degree, bits, flags, 0)
    return head + bytes(range(128, 128 + widths)) * count


def test_coefficients_of_degree_4_are_left_out(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "a.spz").write_bytes(gzipped(packed(degree=4)))
    with caplog.at_level(logging.WARNING):
        read = load(tmp_path / "a.spz")
    assert read.sh_degree == 3 and "degree 4 are left out" in caplog.text
    assert read.sh_rest[1, 0, 0] == -20 / 128


@pytest.mark.parametrize("version", [2, 3])
def test_what_follows_is_ignored(tmp_path: Path, version: int) -> None:
    (tmp_path / "a.spz").write_bytes(gzipped(packed(version, flags=2) + b"records of extensions"))
    assert load(tmp_path / "a.spz").count == 2


def zstd_file(head: bytes, frames: list[bytes], sizes: list[int], at: int = 32) -> bytes:
    table = b"".join(struct.pack("<2Q", len(frame), size) for frame, size in zip(frames, sizes, strict=True))
    return (
        head[:15]
        + bytes([len(frames)])
        + struct.pack("<I12x", at)
        + bytes(at - 32)
        + table
        + b"".join(frames)
    )


def test_records_before_the_table_and_frames_without_sizes(tmp_path: Path) -> None:
    sizes = [18, 2, 6, 6, 8]
    frames = []
    for size in sizes:
        stream = zstandard.ZstdCompressor().compressobj()
        frames.append(stream.compress(bytes(size)) + stream.flush())
    assert zstandard.frame_content_size(frames[0]) == -1
    (tmp_path / "a.spz").write_bytes(zstd_file(packed(4), frames, sizes, at=48))
    read = load(tmp_path / "a.spz")
    assert read.count == 2 and read.means.tolist() == [[0, 0, 0]] * 2
    bomb = zstandard.ZstdCompressor().compressobj()
    frames[2] = bomb.compress(bytes(1 << 22)) + bomb.flush()
    (tmp_path / "a.spz").write_bytes(zstd_file(packed(4), frames, sizes))
    with pytest.raises(CaptureError, match=r"a\.spz: cannot be read as an SPZ file"):
        load(tmp_path / "a.spz")
    frames[2] = zstandard.compress(bytes(1 << 22))
    (tmp_path / "a.spz").write_bytes(zstd_file(packed(4), frames, sizes))
    with pytest.raises(CaptureError, match=r"cut short or damaged: 2 Gaussians need 6 bytes where 0 are"):
        load(tmp_path / "a.spz")


V4 = (DATA / "edge16-v4.spz").read_bytes()


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"PK\3\4" + bytes(40), "this is not an SPZ file"),
        (gzipped(b"short"), "this is not an SPZ file"),
        (gzipped(b"XGSP" + packed()[4:]), "this is not an SPZ file"),
        (b"\x1f\x8b" + bytes(40), "cannot be read as an SPZ file"),
        (gzipped(packed(version=1)), "SPZ of version 1 cannot be read"),
        (packed(version=5), "SPZ of version 5 cannot be read"),
        (gzipped(packed(degree=5)), "up to degree 4, not 5"),
        (gzipped(packed()[:-1]), "2 Gaussians need 40 bytes where 39 are"),
        (packed()[:-1], "2 Gaussians need 40 bytes where 39 are"),
        (gzipped(packed())[:-20], "2 Gaussians need 40 bytes where"),
        (gzipped(packed()[:8] + b"\xff" * 4 + packed()[12:]), "4294967295 Gaussians in the header"),
        (V4[:8] + b"\xff" * 4 + V4[12:], "4294967295 Gaussians in the header"),
        (V4[:130], "cannot be read as an SPZ file"),
        (V4[:100], "16 Gaussians need 128 bytes where 100 are"),
        (V4[:-1], "cannot be read as an SPZ file"),
        (V4[:8] + b"\x11" + V4[9:], "17 Gaussians need 153 bytes where 0 are"),
        (V4[:15] + b"\5" + V4[16:], "cannot be read as an SPZ file|cut short or damaged"),
        (V4[:12] + b"\2" + V4[13:], "16 Gaussians need 384 bytes where 0 are"),
    ],
)
def test_damaged_files(tmp_path: Path, data: bytes, message: str) -> None:
    (tmp_path / "a.spz").write_bytes(data)
    with pytest.raises(CaptureError, match=rf"a\.spz: .*({message})") as refused:
        load(tmp_path / "a.spz")
    assert refused.value.remedy


def test_a_wrong_check_sum(tmp_path: Path) -> None:
    data = bytearray(gzipped(packed()))
    data[-8] ^= 1
    (tmp_path / "a.spz").write_bytes(data)
    with pytest.raises(CaptureError, match="incorrect data check"):
        load(tmp_path / "a.spz")


def test_more_than_the_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.spz").write_bytes(zlib.compress(packed(), wbits=31))
    monkeypatch.setattr(spz, "LARGE", 100)
    monkeypatch.setattr(spz, "available_memory", lambda: 150)
    with pytest.raises(CaptureError, match=r"a\.spz: an SPZ file that does not fit into the free memory"):
        load(tmp_path / "a.spz")


def test_versions_that_are_not_written(tmp_path: Path) -> None:
    with pytest.raises(
        CaptureError, match=r"a\.spz: luxel writes no SPZ of version 2\. Choose version 3 or 4"
    ):
        save_scene(tmp_path / "a.spz", edge(), version=2)
    assert not list(tmp_path.iterdir())
