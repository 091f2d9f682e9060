"""The encoders of films: each writes frames as they come and retains none.

An encoder is a context manager (path, (width, height), options) -> write, and ``write`` takes a frame, uint8 [H, W, 3],
or [H, W, 4] with straight alpha where the options say so. The file is complete when the context ends.

imageio writes what it can: PNG files, still images and the single frames of WebP. Its plugin for PyAV is not used for
films: it gives encoders no options, converts colours by BT.601, sets up the filter that GIF needs in another size, and
its releases up to 2.37.2 fail with PyAV 18. Animated WebP has no encoder that is both streamed and right: imageio and
Pillow hold all frames, FFmpeg's ``libwebp_anim`` all compressed frames, and its ``libwebp`` blends transparent frames
into each other. Its container is written here.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import numpy as np

from luxel.viewer.films.encoders.apng import encode_apng
from luxel.viewer.films.encoders.gif import encode_gif
from luxel.viewer.films.encoders.video import encode_h264, encode_vp9
from luxel.viewer.films.encoders.webp import encode_webp
from luxel.viewer.films.film_format import FilmOptions

Write = Callable[[np.ndarray], None]
Encoder = Callable[[Path, tuple[int, int], FilmOptions], AbstractContextManager[Write]]

ENCODERS: dict[str, Encoder] = {
    ".mp4": encode_h264,
    ".mov": encode_h264,
    ".mkv": encode_h264,
    ".webm": encode_vp9,
    ".gif": encode_gif,
    ".webp": encode_webp,
    ".apng": encode_apng,
}
