"""The messages of the image stream."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
import viser.transforms as vtf

from luxel.viewer.web.navigate import Pose
from luxel.viewer.web.transport.quaternion import quaternion
from luxel.viewer.web.transport.wire import (
    MAX_SIDE,
    CameraMessage,
    DisplayedMessage,
    ImageHeader,
    camera_text,
    parse,
    rendered_text,
    split_image,
)


def _pose() -> Pose:
    rotation = vtf.SO3.exp(np.array([0.3, -1.2, 2.0]))
    return Pose(rotation.wxyz, np.array([1.0, -2.5, 40.0]), 0.8, 1280, 720)


def _camera(**changed: Any) -> str:
    return json.dumps({**json.loads(camera_text(3, _pose())), **changed})


def test_camera_arrives_as_it_was_sent() -> None:
    message = parse(camera_text(7, _pose()))
    assert isinstance(message, CameraMessage)
    assert message.sequence == 7
    assert np.allclose(message.pose.rotation, _pose().rotation, atol=1e-12)
    assert np.allclose(message.pose.position, _pose().position)
    assert (message.pose.fov_y, message.pose.width, message.pose.height) == (0.8, 1280, 720)


def test_acknowledgement_arrives_as_it_was_sent() -> None:
    assert parse(rendered_text(5, 1.5, 20.0)) == DisplayedMessage(5, 1.5, 20.0)
    assert parse(rendered_text(5)) == DisplayedMessage(5, 0.0, None)


def test_image_header_has_the_layout_that_the_page_reads() -> None:
    header = ImageHeader(70_000, 9, 1280, 720, 2.5, 4.25, full=True, png=True)
    message = header.pack() + b"file"
    assert len(message) == 24 + 4
    assert int.from_bytes(message[8:12], "little") == 70_000, "stream.js reads the sequence at byte 8"
    assert int.from_bytes(message[12:16], "little") == 9, "stream.js reads the number at byte 12"
    assert message[1] & 2, "stream.js takes this flag for PNG"
    assert split_image(message) == (header, b"file")
    with pytest.raises(ValueError, match="version"):
        split_image(b"\x02" + message[1:])
    for other in range(3, 256):
        with pytest.raises(ValueError, match="version"):
            split_image(message[:6] + bytes([other]) + message[7:])


def test_impossible_canvas_is_clamped() -> None:
    message = parse(_camera(width=1e6, height=0))
    assert isinstance(message, CameraMessage)
    assert (message.pose.width, message.pose.height) == (MAX_SIDE, 1)


IDENTITY = [1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{}",
        "[" * 2000,
        b"{}",
        '{"type": "camera"}',
        "x" * 5000,
        _camera(sequence=0),
        _camera(sequence=1.5),
        _camera(sequence=True),
        _camera(fov=float("nan")),
        _camera(fov=4.0),
        _camera(width=float("nan")),
        _camera(matrix=IDENTITY[:11]),
        _camera(matrix=[*IDENTITY[:11], float("inf")]),
        _camera(matrix=[-1, *IDENTITY[1:]]),
        _camera(matrix=[2 * x for x in IDENTITY]),
        _camera(matrix=["1", *IDENTITY[1:]]),
        _camera(matrix=[10**400, *IDENTITY[1:]]),
        '{"type": "drawn", "image": 1, "decode": -1}',
        '{"type": "drawn", "image": -1, "decode": 1}',
        '{"type": "drawn", "image": 1, "decode": 1, "latency": "long"}',
        '{"type": "decoders", "video": "vp8"}',
    ],
)
def test_anything_else_is_refused(text: str | bytes) -> None:
    with pytest.raises(ValueError):
        parse(text)


@pytest.mark.parametrize("axis", [(1, 0, 0), (0, 1, 0), (0, 0, 1), (1, -2, 3)])
@pytest.mark.parametrize("angle", [0.0, 0.3, np.pi / 2, 3.0, np.pi, 4.5])
def test_quaternion_turns_as_the_matrix(axis: tuple[float, ...], angle: float) -> None:
    rotation = vtf.SO3.exp(angle * np.array(axis) / np.linalg.norm(axis)).as_matrix()
    wxyz = np.array(quaternion(rotation.reshape(-1).tolist()))
    assert np.linalg.norm(wxyz) == pytest.approx(1.0)
    np.testing.assert_allclose(vtf.SO3(wxyz).as_matrix(), rotation, atol=1e-12)


def test_what_is_no_rotation_has_no_quaternion() -> None:
    for matrix in (-np.eye(3), np.diag([1, 1, -1.0]), 2 * np.eye(3), np.zeros((3, 3)), np.eye(3) + 0.01):
        with pytest.raises(ValueError, match="rotation"):
            quaternion(matrix.reshape(-1).tolist())
