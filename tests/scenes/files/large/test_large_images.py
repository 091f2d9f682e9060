"""Images that announce more than there is, or than fits: refused before memory is taken, in a process of their own."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import simplejpeg
from image_makers import gradient, one_bit_png, retag
from PIL import Image

READ = """
import json, resource, sys
from pathlib import Path
from luxel.render.errors import LuxelError
from luxel.scenes.files.images.image_files import read_image

def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10

path, size = Path(sys.argv[1]), int(sys.argv[2]) or None
before, said, shape = peak(), "", None
try:
    shape = read_image(path, size).shape
except LuxelError as error:
    said = str(error)
print(json.dumps({"said": said, "shape": shape, "bytes": peak() - before}))
"""


def read_apart(path: Path, size: int = 0) -> dict:
    """What reading an image gives: the message or the shape, and by how many bytes the process grew.

    Fails where anything but luxel writes to stderr.
    """
    done = subprocess.run(
        [sys.executable, "-c", READ, str(path), str(size)],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    assert done.stderr == ""
    return json.loads(done.stdout)


def test_a_png_of_3600_megapixels_is_refused_by_its_header(tmp_path: Path) -> None:
    path = tmp_path / "a.png"
    one_bit_png(path, 60_000)
    assert 430_000 < path.stat().st_size < 445_000
    result = read_apart(path)
    assert "60000x60000 pixels, 3600 megapixels; the limit is 400" in result["said"]
    assert "--max-megapixels 3600" in result["said"] and result["bytes"] < 16 << 20


@pytest.mark.parametrize("compression", ["tiff_lzw", "tiff_adobe_deflate"])
def test_a_small_tiff_that_announces_gigabytes_is_refused(tmp_path: Path, compression: str) -> None:
    path = tmp_path / "a.tif"
    gradient(48, 36).save(path, compression=compression)
    assert path.stat().st_size < 8000
    retag(path, {256: 28_000, 257: 14_000, 278: 14_000})  # below the limit on pixels
    result = read_apart(path)
    assert "cannot be read as an image" in result["said"] and result["bytes"] < 16 << 20


@pytest.mark.parametrize("compression", ["tiff_lzw", "tiff_adobe_deflate"])
def test_a_damaged_tiff_is_refused_in_luxels_words_alone(tmp_path: Path, compression: str) -> None:
    path = tmp_path / "a.tif"
    gradient(256, 192).save(path, compression=compression)
    data = bytearray(path.read_bytes())
    data[len(data) // 3 : len(data) // 2] = b"\xff" * (len(data) // 2 - len(data) // 3)
    path.write_bytes(data)
    assert "cannot be read as an image" in read_apart(path)["said"]


@pytest.mark.slow
def test_a_jpeg_of_200_megapixels_is_read_small(tmp_path: Path) -> None:
    path = tmp_path / "a.jpg"
    ramp = np.tile(np.arange(20_000, dtype=np.uint32)[None] * 255 // 20_000, (10_000, 1)).astype(np.uint8)
    path.write_bytes(simplejpeg.encode_jpeg(ramp[..., None], 80, "GRAY"))
    with Image.open(path) as image:
        assert image.size == (20_000, 10_000)
    small = read_apart(path, 1000)
    assert small["shape"] == [500, 1000, 3] and small["bytes"] < path.stat().st_size + (120 << 20)
