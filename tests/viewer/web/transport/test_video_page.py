"""The page's decoders of video, fed with frames that the server's encoder made."""

from __future__ import annotations

import base64
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from shown import ViewerApp
from stream_sink import shifting_images

from luxel.viewer.web.transport.video import CODECS, VideoEncoder

# Shows frames as a page does; returns the pixels of the canvas after each, RGB.
SHOW = """async ({ codec, frames }) => {
  const { Screen } = await import("/luxel/canvas.js?video");
  const canvas = new OffscreenCanvas(1, 1);
  const screen = new Screen(canvas);
  const shown = [];
  for (const [number, { key, data }] of frames.entries()) {
    await screen.showVideo(Uint8Array.from(atob(data), (c) => c.charCodeAt(0)), codec, key, number, () => true);
    const pixels = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data;
    shown.push({ size: [canvas.width, canvas.height], mean: [0, 1, 2].map((c) =>
      pixels.filter((_, i) => i % 4 === c).reduce((a, b) => a + b, 0) / (pixels.length / 4)),
      some: [...pixels.slice(0, 4 * canvas.width)] });
  }
  screen.endVideo();
  return shown;
}"""


@pytest.mark.slow
@pytest.mark.parametrize("codec", CODECS)
def test_a_page_decodes_the_frames(shown: ViewerApp, open_page: Callable[..., Any], codec: str) -> None:
    page = open_page(shown)
    known = page.evaluate('import("/luxel/video.js?video").then(({ videoCodecs }) => videoCodecs())')
    if codec not in known:
        pytest.skip(f"this browser decodes no {codec}")
    given = shifting_images(5)
    encoder = VideoEncoder(codec, 320, 240, 2_000_000)
    frames = [encoder.encode(image, k / 30) for k, image in enumerate(given)]
    sent = [{"key": frame.key, "data": base64.b64encode(frame.data).decode()} for frame in frames]
    for image, actual in zip(given, page.evaluate(SHOW, {"codec": codec, "frames": sent}), strict=True):
        assert actual["size"] == [320, 240]
        assert np.abs(np.array(actual["mean"]) - image.mean((0, 1))).max() < 2
        row = np.array(actual["some"]).reshape(320, 4)[:, :3]
        assert np.abs(row - image[0]).mean() < 8
    alone = page.evaluate(SHOW, {"codec": codec, "frames": [sent[1], sent[0]]})
    assert alone[0]["size"] == [1, 1], "a frame whose forerunner is missing is not shown"
    assert alone[1]["size"] == [320, 240]
