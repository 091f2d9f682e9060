"""Camera paths on the page: keyframes edited and opened, and videos rendered beside the pages."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from page_driver import at_rest, ball, drag, newest_client, ring, until
from shown import PathVideo, StaticSession, ViewerApp

from luxel.render.errors import LuxelError
from luxel.render.geometry.camera import Camera
from luxel.render.raster.rasterize import rasterize
from luxel.scenes.paths import CameraPath, resized
from luxel.viewer.films.film import write_film
from luxel.viewer.web.camera_path.keyframes import MAX_OPENED, keyframes_of
from luxel.viewer.web.navigate import Pose
from luxel.viewer.web.offline import open_offline_page
from luxel.viewer.web.panels.camera_path import CameraPathPanel
from luxel.viewer.web.shading.shading import DisplaySettings


def cameras(count: int, width: int = 32, height: int = 24) -> list[Camera]:
    return [
        Camera.look_at((3.0, 0.1 * i - 1, 0.5), (0, 0, 0), fov_y=0.8, width=width, height=height)
        for i in range(count)
    ]


def panel_at(app: ViewerApp, poses: list[Camera]) -> tuple[Any, CameraPathPanel]:
    """An offline page whose panel has a keyframe for each camera."""
    opened = open_offline_page(app, Pose.of_camera(poses[0]), width=32, height=24)
    panel = next(panel for panel in opened.panels if isinstance(panel, CameraPathPanel))
    for camera in poses:
        opened.page.place(Pose.of_camera(camera))
        panel.add()
    return opened, panel


def heights(panel: CameraPathPanel) -> list[float]:
    return [round(float(keyframe.camera.position[1]), 3) for keyframe in panel._keyframes]


@pytest.fixture
def app(tmp_path: Path) -> Any:
    with ViewerApp(StaticSession(ball(), folder=tmp_path), port=0) as app:
        yield app


def test_keyframes_are_inserted_replaced_and_moved(app: ViewerApp) -> None:
    opened, panel = panel_at(app, cameras(3))
    assert heights(panel) == [-1.0, -0.9, -0.8]
    panel._move(-1)
    assert heights(panel) == [-1.0, -0.8, -0.9] and panel._chosen.value == "2"
    panel._move(-1)
    panel._move(-1)
    assert heights(panel) == [-0.8, -1.0, -0.9] and panel._chosen.value == "1", "it was the first already"
    opened.page.place(Pose.of_camera(cameras(9)[8]))
    panel._edit("Replace")
    assert heights(panel) == [-0.2, -1.0, -0.9]
    panel.add()
    assert heights(panel) == [-0.2, -0.2, -1.0, -0.9] and panel._chosen.value == "2"
    panel._place.value = 1.0
    panel._scrub()
    assert opened.page.client.camera.position[1] == pytest.approx(-0.9, abs=1e-5)
    panel._choose(2)
    assert panel._chosen.value == "3" and len(panel._lines._nodes) == 5, "four frustums and a line"
    panel._show_path.value = False
    panel._draw()
    assert not panel._lines._nodes


def test_a_saved_path_is_opened_again(app: ViewerApp) -> None:
    _, panel = panel_at(app, cameras(3))
    panel._seconds.value = 2.0
    content = panel.save().read_bytes()
    for _ in range(3):
        panel._edit("Delete")
    panel.open(content)
    assert len(panel._keyframes) == MAX_OPENED and panel._seconds.value == 2.0
    assert heights(panel)[0] == -1.0 and heights(panel)[-1] == -0.8
    for bad in (b"", b"{}", b"\xff", b"[" * 100_000):
        before = list(panel._keyframes)
        with pytest.raises(LuxelError):
            panel.open(bad)
        assert panel._keyframes == before
    few, seconds = keyframes_of(CameraPath(cameras(4), 2.0, [0.0, 1.0, 2.0, 3.0]))
    assert [keyframe.time for keyframe in few] == [0, 1, 2, 3] and seconds == 2.0


def test_cameras_keep_their_vertical_field_of_view_in_another_size() -> None:
    camera = cameras(1, 40, 30)[0]
    assert resized([camera]) == [camera]
    wide = resized([camera], 160, 60)[0]
    assert (wide.width, wide.height) == (160, 60)
    assert wide.intrinsics.tolist() == pytest.approx([2 * float(camera.intrinsics[1])] * 2 + [80, 30])
    assert [(c.width, c.height) for c in resized([camera], width=80)] == [(80, 60)]
    assert [(c.width, c.height) for c in resized([camera], height=60)] == [(80, 60)]


def video(session: StaticSession, file: Path, render: Callable[..., Any] = rasterize, count: int = 6):
    ended, shares = threading.Event(), []

    def changed(job: PathVideo) -> None:
        shares.append(job.share)
        if job.state != "rendering":
            ended.set()

    job = PathVideo(session, render, CameraPath(cameras(count), 10.0), DisplaySettings(), file, changed)
    return job, ended, shares


def test_a_video_shows_the_path(tmp_path: Path) -> None:
    av = pytest.importorskip("av", reason="video test not run: no PyAV")
    job, ended, shares = video(StaticSession(ball()), tmp_path / "path.mp4")
    job.start()
    assert ended.wait(60) and job.state == "done", job.message
    assert shares[:-1] == pytest.approx([i / 6 for i in range(1, 7)]) and job.frames == 6
    with av.open(str(tmp_path / "path.mp4")) as film:
        stream = film.streams.video[0]
        assert (stream.width, stream.height, float(stream.average_rate)) == (32, 24, 10.0)
        frames = [frame.to_ndarray(format="rgb24").astype(float) for frame in film.decode(stream)]
    assert len(frames) == 6
    for frame, camera in zip(frames, cameras(6), strict=True):
        expected = rasterize(ball(), camera).rgb.clamp(0, 1).numpy() * 255
        assert np.abs(frame - expected).mean() < 12, "not this camera, beyond what compression changes"


def test_a_cancelled_or_failed_video_leaves_no_file(tmp_path: Path) -> None:
    pytest.importorskip("av", reason="video test not run: no PyAV")
    job, ended, _ = video(StaticSession(ball()), tmp_path / "path.mp4", count=5000)
    job.start()
    job.cancel(wait=60)
    assert ended.wait(60) and job.state == "cancelled" and job.frames < 5000

    def broken(*_: Any, **__: Any) -> Any:
        raise LuxelError("the kernel tripped.")

    job, ended, _ = video(StaticSession(ball()), tmp_path / "path.mp4", broken)
    job.start()
    assert ended.wait(60) and job.state == "failed" and "tripped" in job.message
    assert list(tmp_path.iterdir()) == []


def test_two_videos_at_once_get_two_names(tmp_path: Path) -> None:
    """The second one begins and ends while the first one encodes; what is there already stays."""
    pytest.importorskip("av", reason="video test not run: no PyAV")
    (tmp_path / "path.mp4").write_bytes(b"an earlier video")
    inner: list[PathVideo] = []

    def changed(job: PathVideo) -> None:
        if job.frames == 3 and not inner:
            second, ended, _ = video(StaticSession(ball()), tmp_path / "path.mp4", count=2)
            inner.append(second)
            second.start()
            assert ended.wait(60)

    path = CameraPath(cameras(6), 10.0)
    first = PathVideo(
        StaticSession(ball()), rasterize, path, DisplaySettings(), tmp_path / "path.mp4", changed
    )
    first.start()
    first._thread.join(60)
    assert (first.state, inner[0].state) == ("done", "done"), first.message
    assert (inner[0].file, first.file) == (tmp_path / "path-2.mp4", tmp_path / "path-3.mp4")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["path-2.mp4", "path-3.mp4", "path.mp4"]
    assert (tmp_path / "path.mp4").read_bytes() == b"an earlier video"


def test_a_saved_path_takes_no_name_of_a_link(app: ViewerApp, tmp_path: Path) -> None:
    _, panel = panel_at(app, cameras(3))
    (tmp_path / "path.json").symlink_to(tmp_path / "missing.json")
    assert panel.save() == tmp_path / "path-2.json" and panel.save() == tmp_path / "path-3.json"
    assert (tmp_path / "path.json").is_symlink() and not (tmp_path / "missing.json").exists()


@pytest.mark.slow
def test_a_path_is_drawn_and_its_video_arrives_on_the_page(
    open_page: Callable[..., Any], tmp_path: Path
) -> None:
    pytest.importorskip("av", reason="video test not run: no PyAV")
    with ViewerApp(StaticSession(ball(), ring(), "ball"), port=0) as app:
        page = open_page(app, width=1280, height=800)
        client = newest_client(app)
        at_rest(app, client)
        panels = app._pages[client.client_id].panels
        panel = next(panel for panel in panels if isinstance(panel, CameraPathPanel))
        page.get_by_text("Camera path", exact=True).click()
        for by in ((0, 0), (140, 30), (140, -60)):
            if by != (0, 0):
                drag(page, client, by)
                at_rest(app, client)
            count = len(panel._keyframes)
            page.get_by_role("button", name="Add keyframe").click()
            until(lambda count=count: len(panel._keyframes) == count + 1, "no keyframe")
        panel._seconds.value = 0.2
        client.camera.position = 2.2 * np.asarray(client.camera.position)
        at_rest(app, client)
        page.mouse.move(1100, 600)
        page.mouse.wheel(0, 2000)
        page.screenshot(path=tmp_path / "path.png")
        with page.expect_download(timeout=60_000) as download:
            page.get_by_role("button", name="Render video").click()
        assert download.value.suggested_filename == "path.mp4"
        assert Path(download.value.path()).stat().st_size > 1000


def frames(count: int = 3) -> Iterator[np.ndarray]:
    yield from (np.full((24, 32, 3), 80 * i, np.uint8) for i in range(count))


def test_without_pyav_frames_are_written_as_images(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "av", None)
    with pytest.raises(LuxelError, match=r"PyAV.*is not installed\. .*pip install av.*folder"):
        write_film(tmp_path / "path.mp4", frames(), 10.0)
    assert write_film(tmp_path / "images", frames(), 10.0) == 3
    assert len(list((tmp_path / "images").glob("*.png"))) == 3


@pytest.mark.parametrize(
    ("suffix", "codec"), [(".mp4", "h264"), (".mov", "h264"), (".mkv", "h264"), (".webm", "vp9")]
)
def test_every_container_holds_the_frames(tmp_path: Path, suffix: str, codec: str) -> None:
    av = pytest.importorskip("av", reason="video test not run: no PyAV")
    given = [np.full((25, 33, 3), (80 * i, 255 - 80 * i, 40), np.uint8) for i in range(4)]
    assert write_film(tmp_path / f"film{suffix}", iter(given), 29.97) == 4
    with av.open(str(tmp_path / f"film{suffix}")) as film:
        stream = film.streams.video[0]
        assert stream.codec_context.name.removeprefix("lib").startswith(codec)
        assert float(stream.average_rate) == pytest.approx(29.97, abs=1e-3)
        read = [frame.to_ndarray(format="rgb24", src_colorspace=1) for frame in film.decode(stream)]
    assert len(read) == 4
    for image, expected in zip(read, given, strict=True):
        assert image.shape == (26, 34, 3) and np.abs(image[:25, :33].astype(int) - expected).max() < 6


def test_a_video_on_a_full_disk_is_one_message(tmp_path: Path) -> None:
    """Files of this process may not grow beyond 2 kB: to FFmpeg that is what a full disk is like."""
    pytest.importorskip("av", reason="video test not run: no PyAV")
    code = (
        "import resource, signal, sys; from pathlib import Path; import numpy as np\n"
        "sys.dont_write_bytecode = True\n"  # its files would be cut short too
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (2000, 2000))\n"
        "from luxel.viewer.films.film import write_film\n"
        "noise = np.random.default_rng(0).integers(0, 255, (60, 48, 64, 3), dtype=np.uint8)\n"
        "try: write_film(Path(sys.argv[1]), iter(noise), 10.0)\n"
        "except ValueError as error: print(error.problem, '|', error.remedy)\n"
    )
    path = tmp_path / "path.mp4"
    done = subprocess.run(
        [sys.executable, "-c", code, str(path)], capture_output=True, text=True, timeout=120, check=True
    )
    assert done.stdout.startswith(f"{path}: cannot be written (") and len(done.stdout.splitlines()) == 1
    assert "Free some space" in done.stdout and done.stderr == "", "lines of FFmpeg"
    assert list(tmp_path.iterdir()) == []
