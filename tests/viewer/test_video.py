"""Videos: complete files, and errors without the lines of the encoder."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import imageio_ffmpeg
import numpy as np
import pytest

from luxel.render.errors import LuxelError
from luxel.viewer.video import write_video

FRAMES = [np.full((31, 33, 3), value, np.uint8) for value in (0, 90, 200)]


def test_videos_are_complete(tmp_path: Path) -> None:
    assert write_video(tmp_path / "a.mp4", FRAMES, 24.0, lambda: None) == 3
    assert [path.name for path in tmp_path.iterdir()] == ["a.mp4"]


@pytest.mark.parametrize("moment", ["while frames are sent", "at the end"])
def test_an_encoder_that_stops_is_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moment: str, capfd: pytest.CaptureFixture[str]
) -> None:
    def stopping(*args: object, **options: object) -> Iterator[None]:
        yield None
        while moment == "at the end":
            yield None
        raise OSError("Broken pipe\n\nFFMPEG COMMAND:\n/usr/bin/ffmpeg -y\n\nFFMPEG STDERR OUTPUT:\n")

    monkeypatch.setattr(imageio_ffmpeg, "write_frames", stopping)
    with pytest.raises(LuxelError, match=r"a\.mp4: cannot be written \(the encoder ffmpeg stopped") as caught:
        write_video(tmp_path / "a.mp4", FRAMES, 24.0, lambda: None)
    assert "\n" not in str(caught.value) and "--out" in caught.value.remedy
    assert list(tmp_path.iterdir()) == [] and capfd.readouterr().err == ""
