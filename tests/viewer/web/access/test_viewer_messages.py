"""What a page may send, and what is ignored: controls, cameras, uploads, malformed messages."""

from __future__ import annotations

import contextlib
import logging
import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from page_client import CAMERA, PageClient, until
from page_driver import FakeTrainer
from shown import TrainingSession, ViewerApp
from stream_sink import flat
from websockets.exceptions import ConnectionClosed

from luxel.render.errors import LuxelError
from luxel.viewer.web.access import messages
from luxel.viewer.web.access.limits import Limits, TokenBucket
from luxel.viewer.web.navigate import MAX_PIXELS, MAX_SIDE, Pose


@pytest.fixture(scope="module")
def served() -> Iterator[ViewerApp]:
    with ViewerApp(TrainingSession(FakeTrainer()), port=0, render=flat) as running:
        yield running


@pytest.fixture
def app(served: ViewerApp) -> ViewerApp:
    until(lambda: served.pages == 0, "a page of the test before is still there")
    assert served.guard is not None
    served.guard.messages.dropped.clear()
    return served


@pytest.fixture
def page(app: ViewerApp) -> Iterator[PageClient]:
    with PageClient(app) as client:
        yield client


def dropped(app: ViewerApp) -> dict[str, int]:
    assert app.guard is not None
    return dict(app.guard.messages.dropped)


def test_pause_of_all_pages_survives_messages_that_replace_its_properties(
    app: ViewerApp, page: PageClient
) -> None:
    pause = page.control("Pause training")
    before = {name: getattr(pause._impl, name) for name in ("update_cb", "sync_cb", "props", "gui_api")}
    for updates in (
        {"update_cb": []},
        {"sync_cb": None},
        {"props": {}},
        {"removed": True},
        {"value": True, "props": 1},
    ):
        page.update(pause, **updates)
    page.update(pause, label="owned", disabled=True)
    page.synchronize()
    assert {name: getattr(pause._impl, name) for name in before} == before and not pause._impl.removed
    assert pause.label == "Pause training" and not pause.disabled
    assert sum(dropped(app).values()) == 6
    page.set(pause, True)
    until(lambda: app.session.paused, "the button is dead")
    app.session.resume()


@pytest.mark.parametrize(
    ("label", "value", "expected"),
    [
        ("Share of time", -5, 0.05),
        ("Share of time", 1e300, 0.95),
        ("Share of time", 2**63, 0.95),
        ("Share of time", 0.4, 0.4),
        ("Resolution", 1e9, 200),
        ("Near", 0, 1e-4),
        ("Output", "depth", "depth"),
        ("Antialiased", True, True),
        ("Background colour", [300, -4, 7.4], (255, 0, 7)),
    ],
)
def test_values_are_clamped_to_the_range_of_their_control(
    page: PageClient, label: str, value: Any, expected: Any
) -> None:
    control = page.control(label)
    page.set(control, value)
    page.synchronize()
    assert control.value == expected and type(control.value) is type(expected)


@pytest.mark.parametrize(
    ("label", "value"),
    [
        ("Share of time", math.nan),
        ("Share of time", math.inf),
        ("Share of time", "0.5"),
        ("Share of time", True),
        ("Share of time", [0.5]),
        ("Share of time", None),
        ("Output", "no such output"),
        ("Output", 3),
        ("Antialiased", 1),
        ("Antialiased", "yes"),
        ("Background colour", [1, 2]),
        ("Background colour", [1, 2, math.nan]),
        ("Background colour", "red"),
        ("Up", ["+x"]),
        ("Pause training", False),
        ("Keyframe", "1"),
    ],
)
def test_values_that_do_not_fit_change_nothing(
    app: ViewerApp, page: PageClient, label: str, value: Any
) -> None:
    control = page.control(label)
    before = control.value
    page.set(control, value)
    page.synchronize()
    assert control.value == before and sum(dropped(app).values()) == 1


def test_progress_bars_and_disabled_controls_are_not_input(app: ViewerApp, page: PageClient) -> None:
    bar = app.server.gui.add_progress_bar(10.0)
    share = page.control("Share of time")
    share.disabled = True
    page.set(bar, 99.0)
    page.set(share, 0.9)
    page.synchronize()
    assert bar.value == 10.0 and share.value != 0.9
    share.disabled = False
    bar.remove()


def test_controls_of_another_page_are_out_of_reach(app: ViewerApp, page: PageClient) -> None:
    with PageClient(app) as other:
        resolution = other.control("Resolution")
        page.set(resolution, 20)
        page.synchronize()
        assert resolution.value == 100
        assert dropped(app) == {"GuiUpdateMessage: a control that is not on this page": 1}
        other.set(resolution, 20)
        other.synchronize()
        assert resolution.value == 20


@pytest.mark.parametrize(
    "change",
    [
        {"position": [math.nan, 0, 0]},
        {"position": [math.inf, 0, 0]},
        {"position": [1e30, 0, 0]},
        {"position": [0, 0]},
        {"position": "here"},
        {"wxyz": [0, 0, 0, 0]},
        {"wxyz": [math.nan] * 4},
        {"fov": math.nan},
        {"fov": None},
        {"image_width": math.inf},
        {"image_width": "wide"},
        {"look_at": [math.nan, 0, 0]},
        {"up_direction": None},
    ],
)
def test_impossible_cameras_are_ignored(app: ViewerApp, page: PageClient, change: dict[str, Any]) -> None:
    page.send(CAMERA | {"position": [9.0, 9.0, 9.0]} | change)
    page.send(CAMERA | {"position": [1.0, 2.0, 3.0]})
    page.synchronize()
    camera = app.server.get_clients()[page.id].camera
    assert np.isfinite(camera.position).all() and np.isfinite(camera.wxyz).all()
    assert len(dropped(app)) == 1, "only the impossible one"


@pytest.mark.parametrize("size", [(10**6, 10**6), (10**15, 1), (-5, 0), (7680, 4320), (2**62, 2**62)])
def test_absurd_sizes_are_clamped(app: ViewerApp, page: PageClient, size: tuple[int, int]) -> None:
    page.send(CAMERA | {"image_width": size[0], "image_height": size[1], "wxyz": [2, 0, 0, 0], "fov": 50.0})
    camera = app.server.get_clients()[page.id].camera
    until(lambda: camera.image_width != 64, "the camera was not taken")
    width, height = camera.image_width, camera.image_height
    assert 1 <= width <= MAX_SIDE and 1 <= height <= MAX_SIDE and width * height <= MAX_PIXELS
    assert camera.fov == 3.0 and np.linalg.norm(camera.wxyz) == pytest.approx(1)
    if size == (7680, 4320):
        assert width / height == pytest.approx(16 / 9, rel=1e-3), "a large screen keeps its shape"


def test_poses_of_a_stream_are_clamped_whatever_sends_them() -> None:
    one = np.array([1.0, 0, 0, 0])
    good = Pose(one, np.zeros(3), 1.0, 64, 48)
    assert good.clamped() is good
    for bad in (
        Pose(one * 0, np.zeros(3), 1.0),
        Pose(one * math.nan, np.zeros(3), 1.0),
        Pose(one, np.array([0, math.nan, 0]), 1.0),
        Pose(one, np.zeros(3), math.nan),
    ):
        assert bad.clamped() is None
    large = Pose(3 * one, np.zeros(3), 0.0, 10**6, 10**6).clamped()
    assert large is not None and large.width * large.height <= MAX_PIXELS and large.fov_y > 0
    assert np.linalg.norm(large.wxyz) == pytest.approx(1)


GARBAGE: list[Callable[[int], Any]] = [
    lambda i: b"",
    lambda i: b"\xc1" * 10,
    lambda i: "a text",
    lambda i: {"type": "x" * 500_000 + str(i)},
    lambda i: {"type": ["GuiUpdateMessage"]},
    lambda i: {"type": "SceneNodeUpdateMessage", "name": "/", "updates": {}},
    lambda i: {"type": "RunJavascriptMessage", "source": "alert(1)"},
    lambda i: {"type": "ShareUrlRequest"},
    lambda i: {"no": "type"},
    lambda i: {"type": "GuiUpdateMessage", "uuid": str(i), "updates": {"value": 1}},
    lambda i: {"type": "GuiUpdateMessage", "uuid": [], "updates": []},
    lambda i: {"type": "SceneNodeClickMessage", "name": f"/{i}", "ray_origin": [1]},
    lambda i: {"type": "LocalStorageGetItemResponseMessage", "value": 3},
    lambda i: {"type": "GetRenderResponseMessage", "payload": b"x", "render_uuid": "x"},
    lambda i: {"type": "TransformControlsDragEndMessage", "name": "/none"},
    lambda i: {"type": "FileTransferPart", "transfer_uuid": "x", "part_index": 0, "content": b"x" * 9999},
    lambda i: b"\x91" * 5000,
]


def test_garbage_ends_no_page_and_is_logged_once_a_kind(
    app: ViewerApp, page: PageClient, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    for i in range(5):
        page.send(*(make(i) for make in GARBAGE))
    page.synchronize()
    assert not page.closed.is_set() and app.pages == 1
    counts = dropped(app)
    assert sum(counts.values()) == 5 * len(GARBAGE)
    lines = [record for record in caplog.records if "was ignored" in record.message]
    assert len(lines) == len(counts) <= len(GARBAGE) + 1, "one line for each reason"
    assert all(len(record.message) < 200 and not record.exc_info for record in caplog.records)
    assert not any(record.name == "asyncio" for record in caplog.records)


def upload(control: Any, size: int = 200) -> tuple[dict[str, Any], Callable[..., dict[str, Any]]]:
    """The messages of an upload to a control: its start, and a function that makes a part."""
    target = {"source_component_uuid": control._impl.uuid, "transfer_uuid": "t"}
    start = target | {"type": "FileTransferStartUpload", "filename": "f", "mime_type": ""}
    part = target | {"type": "FileTransferPart"}
    return (
        start | {"part_count": 2, "size_bytes": size},
        lambda index, content: (
            part
            | {
                "part_index": index,
                "content": content,
            }
        ),
    )


def test_upload_without_a_control_is_not_kept(app: ViewerApp, page: PageClient) -> None:
    start, part = upload(page.control("Resolution"))
    page.send(start, part(0, b"x" * 100))
    page.synchronize()
    gui = app.server.get_clients()[page.id].gui
    assert not gui._current_file_upload_states and not app.server.gui._current_file_upload_states


def test_upload_goes_to_its_control_and_no_other(app: ViewerApp, page: PageClient) -> None:
    resolution = page.control("Resolution")
    button = app.server.get_clients()[page.id].gui.add_upload_button("Upload")
    start, part = upload(button)
    _, elsewhere = upload(resolution)
    page.send(start, part(0, b"x" * 300), part(0, b"x" * 100), elsewhere(1, b"y" * 100), start)
    page.synchronize()
    assert resolution.value == 100 and len(dropped(app)) == 3
    page.send(part(1, b"y" * 100))
    until(lambda: len(button.value.content) == 200, "an upload that is wanted did not arrive")
    assert button.value.content == b"x" * 100 + b"y" * 100


def test_oversized_message_closes_its_page_only(app: ViewerApp, page: PageClient) -> None:
    with PageClient(app) as other:
        with contextlib.suppress(ConnectionClosed):
            page.send(b"x" * (Limits().message_bytes + 1))
        assert page.closed.wait(20)
        until(lambda: app.pages == 1, "the page that was closed is still there")
        other.synchronize()


def test_a_page_that_floods_is_read_at_its_rate() -> None:
    now = [0.0]
    bucket = TokenBucket(rate=10.0, burst=5.0, clock=lambda: now[0])
    assert [bucket.take() for _ in range(5)] == [0.0] * 5
    assert bucket.take() == pytest.approx(0.1) and bucket.take(3) == pytest.approx(0.4)
    now[0] = 10.0
    assert bucket.take(5) == 0.0, "the budget is full again, and no fuller"
    assert bucket.take() > 0


def test_viser_with_other_messages_does_not_start(monkeypatch: pytest.MonkeyPatch) -> None:
    shapes = messages.SHAPES | {"GuiUpdateMessage": {"uuid": messages.SHAPES["GuiUpdateMessage"]["uuid"]}}
    monkeypatch.setattr(messages, "SHAPES", shapes)
    app = ViewerApp(TrainingSession(FakeTrainer()), port=0, render=flat)
    with pytest.raises(LuxelError, match="cannot check the messages"):
        app.start()
