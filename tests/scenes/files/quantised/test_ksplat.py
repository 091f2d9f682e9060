""".ksplat: files of another program at three levels of compression, sections, and damaged files."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest
import torch
from knot_scene import DATA, assert_within, knot, losses

from luxel.render.primitives import Gaussians
from luxel.scenes import CaptureError, load_primitives, save_scene

# Of the program that wrote them: colours and opacities are rounded down to bytes at all levels, halves too.
LIMITS = {"position": 2e-7, "log scale": 1e-6, "rotation": 1e-3, "alpha": 4.1e-3, "dc": 0.0141, "rest": 1e-6}
HALVES = LIMITS | {"position": 8e-5, "log scale": 1e-3, "rotation": 0.06, "rest": 3e-5}
BYTES = HALVES | {"rest": 8e-4}
SMALL = [(DATA / f"knot64-c{level}.ksplat").read_bytes() for level in range(3)]


def load(path: Path) -> Gaussians:
    scene = load_primitives(path)
    assert isinstance(scene, Gaussians)
    return scene


@pytest.mark.parametrize(
    ("name", "count", "limits"),
    [
        ("knot64-c0.ksplat", 64, LIMITS),
        ("knot64-c1.ksplat", 64, HALVES),
        ("knot64-c2.ksplat", 64, BYTES),
        ("knot2k-c1.ksplat", 2000, HALVES),
        ("knot2k-c2.ksplat", 2000, BYTES),
    ],
)
def test_files_of_another_program(name: str, count: int, limits: dict[str, float]) -> None:
    """The files of 64 are cut from those of 2,000."""
    read = load(DATA / name)
    assert (read.count, read.sh_degree) == (count, 2)
    assert_within(losses(knot(), read), limits)


def two_sections(data: bytes, degree: int) -> bytes:
    """The file with a section before its own, of one Gaussian of a lower degree, at level 0."""
    size = 44 + 12 * ((degree + 1) ** 2 - 1)
    head = bytearray(data[:4096])
    struct.pack_into("<4I", head, 4, 2, 2, 65, 65)
    section = bytearray(1024)
    struct.pack_into("<2I", section, 0, 1, 1)
    struct.pack_into("<H", section, 40, degree)
    record = struct.pack("<10f4B", 1, 2, 3, 0, 1, 2, 0.5, 0.5, 0.5, 0.5, 255, 0, 128, 64)
    return bytes(head) + section + data[4096:5120] + record + bytes(size - 44) + data[5120:]


@pytest.mark.parametrize("degree", [0, 1])
def test_sections_of_other_degrees(tmp_path: Path, degree: int) -> None:
    (tmp_path / "a.ksplat").write_bytes(two_sections(SMALL[0], degree))
    read, one = load(tmp_path / "a.ksplat"), load(DATA / "knot64-c0.ksplat")
    assert (read.count, read.sh_degree) == (65, 2)
    assert torch.equal(read.sh_rest[1:], one.sh_rest) and not read.sh_rest[0].any()
    assert (
        read.means[0].tolist() == [1, 2, 3] and abs(float(read.opacity_logits[0].sigmoid()) - 64 / 255) < 1e-6
    )
    assert read.log_scales[0, 1:].tolist() == [0, pytest.approx(0.693147)] and read.log_scales[0, 0] < -20
    assert read.sh_dc[0, 0] == pytest.approx(0.5 / 0.28209479)


def test_defaults_of_numbers_that_are_0(tmp_path: Path) -> None:
    data = bytearray(SMALL[2])
    struct.pack_into("<I", data, 4096 + 24, 0)  # steps of centres
    (tmp_path / "a.ksplat").write_bytes(data)
    assert torch.equal(load(tmp_path / "a.ksplat").means, load(DATA / "knot64-c2.ksplat").means)
    struct.pack_into("<2f", data, 36, 0, 0)  # range of coefficients
    (tmp_path / "a.ksplat").write_bytes(data)
    low, high = struct.unpack_from("<2f", SMALL[2], 36)
    expected = (load(DATA / "knot64-c2.ksplat").sh_rest - low) / (high - low) * 3 - 1.5
    torch.testing.assert_close(load(tmp_path / "a.ksplat").sh_rest, expected, atol=1e-5, rtol=0)


def test_it_is_not_written(tmp_path: Path) -> None:
    with pytest.raises(CaptureError, match=r"\.ksplat is not a scene format that luxel writes"):
        save_scene(tmp_path / "a.ksplat", knot())


def changed(level: int, form: str, at: int, *values: float) -> bytes:
    data = bytearray(SMALL[level])
    struct.pack_into(form, data, at, *values)
    return bytes(data)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (SMALL[0][:5119], "cut short, or not a .ksplat file: 5119 bytes"),
        (changed(0, "B", 0, 1), "version 1.1 and compression level 0 cannot be read"),
        (changed(0, "B", 1, 0), "version 0.0 and compression level 0 cannot be read"),
        (changed(0, "<H", 20, 3), "version 0.1 and compression level 3 cannot be read"),
        (changed(0, "<I", 4, 0), "cannot be read as a .ksplat file"),
        (changed(0, "<I", 4, 2**32 - 1), "announce 4294967295 sections, which its bytes cannot hold"),
        (SMALL[0][:-1], "announce a section of 64 Gaussians, which its bytes cannot hold"),
        (changed(0, "<2I", 4096, 2**32 - 1, 2**32 - 1), "announce a section of 4294967295 Gaussians"),
        (changed(0, "<I", 4096, 65), "announce a section of 65 Gaussians"),
        (changed(1, "<I", 4096 + 36, 2**32 - 1), "announce a section of 64 Gaussians"),
        (changed(1, "<H", 4096 + 40, 3), "up to degree 2, not 3"),
        (
            changed(1, "<I", 4096 + 32, 1),
            "damaged: 1 full buckets of 256 Gaussians and 1 others are not those of 64",
        ),
        (changed(1, "<I", 5120, 63), "damaged: 0 full buckets of 256 Gaussians and 1 others are not those"),
        (changed(1, "<I", 5120, 2**32 - 1), "damaged: 0 full buckets of 256"),
        (changed(2, "<H", 4096 + 20, 4), "damaged: 0 full buckets of 256"),
    ],
)
def test_damaged_files(tmp_path: Path, data: bytes, message: str) -> None:
    (tmp_path / "a.ksplat").write_bytes(data)
    with pytest.raises(CaptureError, match=rf"a\.ksplat: .*{message}") as refused:
        load(tmp_path / "a.ksplat")
    assert refused.value.remedy
