"""Messages of the image stream between a page and the server, on a websocket of their own.

Page to server, JSON text:

* ``{"type": "camera", "sequence": n, "matrix": [12 numbers], "fov": f, "width": w, "height": h}``: the camera of the
  frame that the page has just drawn. ``sequence`` counts the cameras of the page from 1 on; ``matrix`` is camera to
  world [3, 4] in rows, OpenCV axes; ``fov`` is vertical, in radians; the size is that of the canvas in device pixels.
  Sent at most once per animation frame, only if it changed and little waits to be sent.
* ``{"type": "drawn", "image": k, "decode": ms, "latency": ms or null}``: image k is on the page. ``latency`` is the
  time from the frame whose camera the image shows until it was displayed, by the clock of the page; null for a further
  image of the same camera.
* ``{"type": "decoders", "video": ["h264", "vp8"]}``: the video codecs that the page decodes, after it has connected;
  again where one has failed, without it. The next frame of video then needs none before it.

Server to page, binary: a header of 24 bytes (`ImageHeader`), then a JPEG or PNG file or, on slow links, a frame of
video. At most two images are on their way; then the server waits for a ``drawn``. It always renders the newest camera,
so nothing queues on a slow link.
"""

from __future__ import annotations

import json
import math
import struct
from dataclasses import dataclass
from typing import Any

import numpy as np

from luxel.viewer.web.navigate import Pose
from luxel.viewer.web.transport.json_fields import count, number, read_object
from luxel.viewer.web.transport.quaternion import quaternion
from luxel.viewer.web.transport.video import CODECS

STREAM_PATH = "/luxel/stream"
MAX_MESSAGE = 2048  # bytes of a message from a page
MAX_SIDE = 8192  # pixels of a canvas
MAX_COUNT = 2**32 - 1

_HEADER = struct.Struct("<BBHHHIIff")
_VERSION, _FULL, _PNG, _KEY = 1, 1, 2, 4
_VIDEO = (None, *CODECS)  # by number in the header


@dataclass(frozen=True)
class CameraMessage:
    """The camera of a frame that a page has drawn; ``sequence`` counts from 1."""

    sequence: int
    pose: Pose


@dataclass(frozen=True)
class DisplayedMessage:
    """An image is on the page.

    Args:
        image: its number.
        decode_ms: time the page took to decode it.
        latency_ms: from the frame whose camera it shows until it was displayed; None for a further image of that
            camera.
    """

    image: int
    decode_ms: float
    latency_ms: float | None


@dataclass(frozen=True)
class DecodersMessage:
    """The video codecs that a page decodes, among CODECS."""

    video: tuple[str, ...]


@dataclass(frozen=True)
class ImageHeader:
    """What precedes an image: version, flags (1: full resolution, 2: PNG, 4: key frame), width, height, 2 bytes for the
    video codec (0: none, 1: H.264, 2: VP8), sequence, image, render and encode time; little endian, 24 bytes.

    Args:
        sequence: of the camera that the image shows; 0: a camera that did not come through the stream.
        image: number of the image on this connection, from 1 on.
        width, height: pixels.
        render_ms, encode_ms: times.
        full: whether the image has the full resolution.
        png: whether it is a PNG file.
        video: codec, one of CODECS; None: a PNG or JPEG file.
        key: whether a frame of video needs none before it.
    """

    sequence: int
    image: int
    width: int
    height: int
    render_ms: float
    encode_ms: float
    full: bool
    png: bool
    video: str | None = None
    key: bool = False

    def pack(self) -> bytes:
        """The header as bytes."""
        flags = _FULL * self.full | _PNG * self.png | _KEY * self.key
        return _HEADER.pack(
            *(_VERSION, flags, self.width, self.height, _VIDEO.index(self.video)),
            *(self.sequence, self.image, self.render_ms, self.encode_ms),
        )


def split_image(message: bytes) -> tuple[ImageHeader, bytes]:
    """Header and image file of a binary message.

    Raises:
        ValueError: the message is too short or of another version.
    """
    if len(message) < _HEADER.size or message[0] != _VERSION:
        raise ValueError("not an image message of this version")
    _, flags, width, height, video, sequence, image, render_ms, encode_ms = _HEADER.unpack_from(message)
    if video >= len(_VIDEO):
        raise ValueError("not an image message of this version")
    full, png, key = (bool(flags & flag) for flag in (_FULL, _PNG, _KEY))
    header = ImageHeader(sequence, image, width, height, render_ms, encode_ms, full, png, _VIDEO[video], key)
    return header, message[_HEADER.size :]


def camera_text(sequence: int, pose: Pose) -> str:
    """A camera message as a page sends it."""
    matrix = np.concatenate([pose.rotation, pose.position[:, None]], axis=1)
    size = {"fov": pose.fov_y, "width": pose.width, "height": pose.height}
    return json.dumps({"type": "camera", "sequence": sequence, "matrix": matrix.reshape(-1).tolist(), **size})


def rendered_text(image: int, decode_ms: float = 0.0, latency_ms: float | None = None) -> str:
    """An acknowledgement as a page sends it."""
    return json.dumps({"type": "drawn", "image": image, "decode": decode_ms, "latency": latency_ms})


def decoders_text(codecs: tuple[str, ...]) -> str:
    """A message with the video codecs of a page as the page sends it."""
    return json.dumps({"type": "decoders", "video": list(codecs)})


def parse(message: str | bytes) -> CameraMessage | DisplayedMessage | DecodersMessage:
    """The message of a page.

    Raises:
        ValueError: it is not of this protocol, or a number is out of range.
    """
    fields = read_object(message, MAX_MESSAGE)
    if fields.get("type") == "camera":
        return CameraMessage(count(fields.get("sequence"), "sequence", MAX_COUNT), _pose(fields))
    if fields.get("type") == "drawn":
        latency = None if fields.get("latency") is None else number(fields.get("latency"), "latency", 0, 1e7)
        return DisplayedMessage(
            count(fields.get("image"), "image", MAX_COUNT),
            number(fields.get("decode"), "decode", 0, 1e7),
            latency,
        )
    if fields.get("type") == "decoders":
        codecs = fields.get("video")
        if not isinstance(codecs, list):
            raise ValueError("video must be a list of codecs")
        return DecodersMessage(tuple(name for name in CODECS if name in codecs))
    raise ValueError("unknown type of message")


def _pose(fields: dict[str, Any]) -> Pose:
    given = fields.get("matrix")
    if not isinstance(given, list) or len(given) != 12:
        raise ValueError("matrix must have 12 numbers")
    matrix = [number(x, "matrix", -1e9, 1e9) for x in given]
    wxyz = quaternion([*matrix[0:3], *matrix[4:7], *matrix[8:11]])
    fov = number(fields.get("fov"), "fov", 1e-3, math.pi - 1e-3)
    width, height = (
        min(max(int(number(fields.get(key), key, 0, 1e9)), 1), MAX_SIDE) for key in ("width", "height")
    )
    return Pose(np.array(wxyz), np.array(matrix[3::4]), fov, width, height)
