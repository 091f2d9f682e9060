"""Fields of images of linear colours, and Radiance HDR files."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import cv2
import numpy as np
import pytest
import torch
from PIL import Image

from luxel.render.errors import LuxelError
from luxel.render.fields.config import defaults
from luxel.render.fields.data.high_dynamic_range import HdrImage, relative_squared_error, tone_mapped
from luxel.render.fields.image import ImageField
from luxel.render.fields.training.trainer import FieldTrainer
from luxel.scenes.errors import CaptureError
from luxel.scenes.files.large.radiance_hdr import read_hdr
from luxel.viewer.cli import main


def gradient(height: int = 40, width: int = 48) -> np.ndarray:
    """Linear colours from 0.01 to 100."""
    x = np.linspace(-2, 2, width)[None, :, None] + np.linspace(-0.5, 0.5, height)[:, None, None]
    return (10 ** (x + np.array([0.0, 0.1, -0.1]))).astype(np.float32)


def hdr_bytes(width: int, pixels: bytes, height: int = 1, head: bytes = b"FORMAT=32-bit_rle_rgbe\n") -> bytes:
    return b"#?RADIANCE\n" + head + f"\n-Y {height} +X {width}\n".encode() + pixels


def test_the_reader_agrees_with_opencv(tmp_path: Path) -> None:
    for width in (48, 7):  # narrow rows are not encoded
        image = gradient(40, width)
        cv2.imwrite(str(tmp_path / "a.hdr"), image[..., ::-1])
        read = read_hdr(tmp_path / "a.hdr")
        assert read.shape == image.shape and read.dtype == np.float32
        brightest = image.max(-1, keepdims=True)
        assert (np.abs(read - image) / brightest).max() < 1 / 127


def test_runs_and_flat_pixels_are_decoded(tmp_path: Path) -> None:
    path = tmp_path / "a.hdr"
    encoded = bytes([2, 2, 0, 9]) + bytes([128 + 9, 64, 4, 1, 2, 3, 4, 128 + 5, 7, 128 + 9, 0, 128 + 9, 129])
    path.write_bytes(hdr_bytes(9, encoded))
    read = read_hdr(path)[0]
    assert read[:, 0] == pytest.approx(64.5 / 128) and read[:, 2] == pytest.approx(0.5 / 128)
    assert read[:, 1] * 128 == pytest.approx([1.5, 2.5, 3.5, 4.5, 7.5, 7.5, 7.5, 7.5, 7.5])
    path.write_bytes(hdr_bytes(1, bytes([9, 9, 9, 0])))
    assert not read_hdr(path).any(), "an exponent of 0 is black"


@pytest.mark.parametrize(
    "data, wrong",
    [
        (b"no image", "not a Radiance"),
        (hdr_bytes(4, bytes(16), head=b"FORMAT=32-bit_rle_xyze\n"), "not RGBE"),
        (b"#?RADIANCE\n\n+X 3 -Y 3\n" + bytes(40), "size is missing"),
        (hdr_bytes(60_000, bytes(100), 60_000), "megapixels"),
        (hdr_bytes(9000, bytes(100), 9000), "cannot hold so many"),
        (hdr_bytes(4, bytes(15)), "cannot hold|ends early"),
        (hdr_bytes(9, bytes([2, 2, 0, 8]) + bytes(30)), "another width"),
        (hdr_bytes(9, bytes([2, 2, 0, 9, 128 + 10]) + bytes(30)), "longer than its row"),
        (hdr_bytes(9, bytes([2, 2, 0, 9, 0]) + bytes(30)), "longer than its row"),
        (hdr_bytes(2, bytes([9, 9, 9, 9, 1, 1, 1, 2])), "old manner"),
        (hdr_bytes(9, bytes([9, 2, 0, 9]) * 8), "ends early"),
    ],
)
def test_damaged_files(data: bytes, wrong: str, tmp_path: Path) -> None:
    path = tmp_path / "a.hdr"
    path.write_bytes(data)
    with pytest.raises(CaptureError, match=wrong):
        read_hdr(path)


def test_any_damage_is_an_error_with_a_remedy(tmp_path: Path) -> None:
    path = tmp_path / "a.hdr"
    cv2.imwrite(str(path), gradient(6, 20))
    data, random = path.read_bytes(), np.random.default_rng(0)
    refused = 0
    for _ in range(300):
        damaged = bytearray(data[: random.integers(1, len(data) + 1)])
        for at in random.integers(0, len(damaged), 3):
            damaged[at] = random.integers(256)
        path.write_bytes(damaged)
        try:
            assert np.isfinite(read_hdr(path)).all()
        except CaptureError as error:
            refused += 1
            assert error.remedy
    assert refused > 200


def test_loss_and_tone_mapping() -> None:
    values = torch.tensor([0.0, 3.0], requires_grad=True)
    targets = torch.tensor([0.1, 2.0])
    loss = relative_squared_error(values, targets)
    loss.backward()
    assert loss.item() == pytest.approx((0.01 / 0.01 + 1 / 9.01) / 2)
    torch.testing.assert_close(values.grad, torch.tensor([-0.1 / 0.01, 1 / 9.01]))
    linear = torch.tensor([0.0, 0.001, 0.18, 1.0, 7.0])
    expected = torch.tensor([0.0, 0.01292, 0.46136, 1.0, 1.0])
    torch.testing.assert_close(tone_mapped(linear), expected, atol=1e-5, rtol=0)
    torch.testing.assert_close(tone_mapped(linear / 8, 3.0), expected, atol=1e-5, rtol=0)


def test_a_field_learns_dark_and_bright_places(tmp_path: Path) -> None:
    image = HdrImage(gradient())
    run = FieldTrainer.new(
        replace(defaults("image"), batch=2048, steps=400, width=16, log2_entries=12),
        image,
        tmp_path,
        say=lambda _: None,
    )
    assert run.config.linear and run.run(progress=False).scores["psnr"] > 25
    field = run.application
    for exposure in (-5.0, 4.0):
        field.exposure = exposure
        assert field.evaluate()["psnr"] > 20


@pytest.mark.parametrize("pixels", [np.zeros((4, 4), np.float32), np.zeros((4, 4, 3), np.uint8)])
def test_what_is_no_hdr_image(pixels: np.ndarray) -> None:
    with pytest.raises(LuxelError, match="must be"):
        HdrImage(pixels)
    with pytest.raises(LuxelError, match="negative or not finite"):
        HdrImage(np.full((2, 2, 3), np.nan, np.float32))


def test_the_data_must_fit_the_field() -> None:
    made = ImageField(replace(defaults("image"), linear=True, log2_entries=4, width=16, finest=16))
    with pytest.raises(LuxelError, match="one of HDR images"):
        made.begin(np.zeros((4, 4, 3), np.uint8), torch.device("cpu"))
    with pytest.raises(LuxelError, match="linear is for fields of images"):
        replace(defaults("sdf"), linear=True).check()


def test_through_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, run = tmp_path / "a.hdr", tmp_path / "run"
    cv2.imwrite(str(path), gradient())
    quick = ["--device", "cpu", "--batch", "512", "--log2-entries", "10", "--width", "16", "--steps", "40"]
    words = ["train", str(path), "--field", "image", *quick]
    assert main([*words, "--max-size", "9", "--run", str(run)]) != 0
    assert "keep their size" in capsys.readouterr().err
    assert main([*words, "--run", str(run)]) == 0
    means = []
    for exposure in ("-2", "2"):
        out = tmp_path / f"out{exposure}.png"
        drawn = ["render", str(run), "--device", "cpu", "--out", str(out), "--exposure", exposure]
        assert main(drawn) == 0
        means.append(np.array(Image.open(out)).mean())
    assert means[1] > means[0] + 20
    Image.fromarray(np.zeros((8, 8, 3), np.uint8)).save(tmp_path / "b.png")
    assert (
        main(["train", str(tmp_path / "b.png"), "--field", "image", *quick, "--run", str(tmp_path / "r")])
        == 0
    )
    assert main(["render", str(tmp_path / "r"), "--device", "cpu", "--exposure", "1"]) != 0
    assert "not the field of an HDR image" in capsys.readouterr().err
