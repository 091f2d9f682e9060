"""Images as files, with and without the fast encoder."""

from __future__ import annotations

import io
import subprocess
import sys
from concurrent.futures import Future

import numpy as np
import pytest
import torch
from PIL import Image

from luxel.viewer.web.transport import encoders


def _image() -> np.ndarray:
    rows, columns = np.mgrid[0:48, 0:70]
    return np.stack([rows * 5, columns * 3, 255 - rows * 4], axis=-1).astype(np.uint8)


def _decoded(file: bytes) -> tuple[str | None, np.ndarray]:
    image = Image.open(io.BytesIO(file))
    return image.format, np.asarray(image.convert("RGB"))


@pytest.mark.parametrize("fast", [True, False])
@pytest.mark.parametrize("quality", [70, 95])
def test_jpeg_shows_the_image(monkeypatch: pytest.MonkeyPatch, fast: bool, quality: int) -> None:
    if fast:
        pytest.importorskip("simplejpeg")
    else:
        monkeypatch.setattr(encoders, "simplejpeg", None)
    kind, shown = _decoded(encoders.encode_jpeg(torch.from_numpy(_image()), quality))
    assert kind == "JPEG"
    assert np.abs(shown.astype(int) - _image()).mean() < 3
    assert np.abs(shown.astype(int) - _image()[..., ::-1]).mean() > 20, (
        "the test would not notice swapped channels"
    )


def test_png_is_lossless() -> None:
    kind, shown = _decoded(encoders.encode_png(_image()))
    assert kind == "PNG"
    assert np.array_equal(shown, _image())


def test_view_of_a_larger_image_is_encoded() -> None:
    cut = np.pad(_image(), ((0, 8), (0, 8), (0, 0)))[:48, :70]
    assert encoders.encode_jpeg(cut, 90) == encoders.encode_jpeg(_image(), 90)


def test_nvjpeg_that_fails_is_replaced_by_the_cpu(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    class Stream:
        def __enter__(self) -> None: ...

        def __exit__(self, *_: object) -> None: ...

        def synchronize(self) -> None: ...

    class OnGpu(torch.Tensor):
        """A tensor that says that it is on a GPU, and can be copied from there."""

        is_cuda = True  # type: ignore[assignment]

    def fails(image: torch.Tensor, quality: int) -> None:
        raise RuntimeError("no nvJPEG")

    search: Future = Future()
    monkeypatch.setattr(encoders, "gpu_jpeg", lambda: fails)
    monkeypatch.setattr(encoders, "_search", lambda: search)
    monkeypatch.setattr(encoders, "_broken", [])
    monkeypatch.setattr(encoders, "_side_stream", lambda device: Stream())
    monkeypatch.setattr(torch.cuda, "stream", lambda stream: stream)
    image = torch.from_numpy(_image()).as_subclass(OnGpu)
    monkeypatch.setattr(encoders, "as_array", lambda image: _image())
    assert encoders.jpeg_encoder(on_gpu=True) == "nvJPEG (torchvision)"
    assert _decoded(encoders.encode_jpeg(image, 95))[0] == "JPEG", "by the CPU, until nvJPEG is there"
    assert not encoders._broken
    search.set_result(fails)
    with caplog.at_level("WARNING", "luxel.viewer"):
        assert _decoded(encoders.encode_jpeg(image, 95))[0] == "JPEG"
        assert _decoded(encoders.encode_jpeg(image, 95))[0] == "JPEG"
    assert len(caplog.records) == 1 and "no nvJPEG" in caplog.text
    assert encoders.jpeg_encoder(on_gpu=True) != "nvJPEG (torchvision)"


@pytest.mark.gpu
def test_nvjpeg_comes_without_the_package_of_torchvision(gpu: torch.device) -> None:
    pytest.importorskip("torchvision", reason="nvJPEG comes with torchvision")
    code = """
import sys, torch
from luxel.viewer.web.transport import encoders
rows, columns = torch.meshgrid(torch.arange(48), torch.arange(70), indexing="ij")
image = torch.stack([rows * 5, columns * 3, 255 - rows * 4], -1).to("cuda", torch.uint8)
first = encoders.encode_jpeg(image, 95)
assert encoders._search().result() is not None
sys.stdout.buffer.write(encoders.encode_jpeg(image, 95) if "torchvision" not in sys.modules else b"imported")
"""
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, timeout=60)
    kind, shown = _decoded(result.stdout)
    assert kind == "JPEG", result.stderr.decode()
    assert np.abs(shown.astype(int) - _image()).mean() < 3
