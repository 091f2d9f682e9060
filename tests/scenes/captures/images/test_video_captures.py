"""Videos as captures: which frames are chosen, how they are turned, and poses of a video of a made-up place."""

from __future__ import annotations

import io
import math
import struct
import wave
from pathlib import Path

import av
import numpy as np
import pytest
from PIL import Image, ImageFilter

import luxel.scenes as scenes
from luxel.render.geometry.camera import Camera
from luxel.scenes.captures.colmap_process import features
from luxel.scenes.captures.films.film import opened_film
from luxel.scenes.captures.images import video_frames
from luxel.scenes.captures.images.video_frames import (
    FrameMeasure,
    choose_frames,
    decode_frames,
    select,
)
from luxel.scenes.captures.poses import sfm
from luxel.scenes.synthetic.captures.courtyard import courtyard_scene
from luxel.scenes.synthetic.toy import as_bytes
from luxel.viewer.films.film import write_film


def texture(shift: int, blur: float = 0.0, size: tuple[int, int] = (96, 64)) -> np.ndarray:
    """A random grey texture that has moved by so many pixels, uint8 [H, W, 3]."""
    rows = np.random.default_rng(0).integers(0, 256, (size[1] // 4, 64, 1), np.uint8).repeat(3, 2)
    wide = rows.repeat(4, 0).repeat(4, 1)[:, shift : shift + size[0]]
    return np.asarray(Image.fromarray(wide).filter(ImageFilter.GaussianBlur(blur)))


def measure(index: int, sharpness: float = 1.0, level: float | None = None) -> FrameMeasure:
    return FrameMeasure(
        index, 0.1 * index, sharpness, np.full((18, 32), 10.0 * index if level is None else level)
    )


def test_the_sharpest_of_each_part_is_chosen() -> None:
    sharpness = [1, 3, 2, 2, 1, 5, 4, 4, 6]
    chosen, blurred, repeated = select([measure(i, s) for i, s in enumerate(sharpness)], 3)
    assert [m.index for m in chosen] == [1, 5, 8] and (blurred, repeated) == (0, 0)
    every, _, _ = select([measure(i, 1.0) for i in range(5)], 100)
    assert [m.index for m in every] == [0, 1, 2, 3, 4], "no frame is taken twice"


def test_blurred_and_repeated_frames_are_left_out() -> None:
    frames = [measure(i, 0.2 if i == 6 else 1.0, 0.0 if i in (8, 9) else None) for i in range(12)]
    chosen, blurred, repeated = select(frames, 12)
    assert [m.index for m in chosen] == [0, 1, 2, 3, 4, 5, 7, 8, 10, 11]
    assert (blurred, repeated) == (1, 1)


@pytest.mark.parametrize(("seconds", "count"), [(1.0, 60), (60.0, 120), (3600.0, 300)])
def test_how_many_frames_are_chosen_follows_the_length(seconds: float, count: int) -> None:
    assert video_frames.default_count(seconds) == count


@pytest.fixture
def moving(tmp_path: Path) -> Path:
    """24 frames at 8 a second: frame 5 is blurred, frames 10 to 12 are the same."""
    shifts = [3 * (10 if 10 <= i <= 12 else i) for i in range(24)]
    images = [texture(shift, 4.0 if i == 5 else 0.0) for i, shift in enumerate(shifts)]
    write_film(tmp_path / "walk.mp4", images, 8)
    return tmp_path / "walk.mp4"


def test_frames_of_a_file(moving: Path) -> None:
    selection = choose_frames(moving, 24)
    assert selection.total == 24 and selection.blurred == 1 and selection.repeated == 2
    indices = [m.index for m in selection.frames]
    assert indices == [0, 1, 2, 3, 4, *range(6, 11), *range(13, 24)]
    assert selection.frames[5].time == pytest.approx(6 / 8)
    for measured, pixels in decode_frames(moving, selection.frames[3:5]):
        grey = pixels.mean(2)  # the colours of such small squares have half the resolution
        assert pixels.shape == (64, 96, 3) and np.abs(grey - texture(3 * measured.index).mean(2)).mean() < 8
        assert np.abs(grey - texture(3 * measured.index + 12).mean(2)).mean() > 30


def test_colours_are_those_of_the_video(tmp_path: Path) -> None:
    colours = ((220, 30, 40), (20, 200, 60), (40, 50, 210), (128, 128, 128))
    write_film(tmp_path / "flat.mp4", [np.full((64, 96, 3), colour, np.uint8) for colour in colours], 8)
    frames = decode_frames(tmp_path / "flat.mp4", [measure(i) for i in range(4)])
    for (_, pixels), colour in zip(frames, colours, strict=True):
        assert np.abs(pixels.mean((0, 1)) - colour).max() < 3


def test_videos_held_upright_are_turned(moving: Path) -> None:
    upright = turned(moving, quarter_turns=1)
    ((_, before),) = decode_frames(moving, choose_frames(moving).frames[:1])
    ((_, after),) = decode_frames(upright, choose_frames(upright).frames[:1])
    assert after.shape == (96, 64, 3)
    np.testing.assert_array_equal(after, np.rot90(before, -1), "clockwise, as players show it")


def turned(path: Path, quarter_turns: int) -> Path:
    """The video with the matrix in its track header (ISO 14496-12, 8.3.2) that turns it clockwise."""
    data = bytearray(path.read_bytes())
    at = data.index(b"tkhd") + 4 + 4 + 20 + 8 + 8
    one, c, s = (
        1 << 16,
        round(math.cos(quarter_turns * math.pi / 2)),
        round(math.sin(quarter_turns * math.pi / 2)),
    )
    data[at : at + 36] = struct.pack(">9i", c * one, s * one, 0, -s * one, c * one, 0, 0, 0, 1 << 30)
    out = path.with_name("turned.mp4")
    out.write_bytes(data)
    return out


def test_pixels_become_square(tmp_path: Path) -> None:
    with av.open(str(tmp_path / "wide.mp4"), "w") as container:
        stream = container.add_stream("libx264", rate=8)
        stream.width, stream.height, stream.pix_fmt = 96, 64, "yuv420p"
        stream.codec_context.sample_aspect_ratio = 2
        for i in range(4):
            container.mux(stream.encode(av.VideoFrame.from_ndarray(texture(3 * i), "rgb24")))
        container.mux(stream.encode(None))
    selection = choose_frames(tmp_path / "wide.mp4")
    assert [pixels.shape for _, pixels in decode_frames(tmp_path / "wide.mp4", selection.frames)] == 4 * [
        (64, 192, 3)
    ]


def test_what_is_no_usable_video_is_refused(tmp_path: Path, moving: Path) -> None:
    def refused(path: Path, match: str) -> None:
        with pytest.raises(scenes.CaptureError, match=match):
            scenes.open(path, cache_dir=tmp_path / "cache")

    (tmp_path / "text.mp4").write_text("no video")
    refused(tmp_path / "text.mp4", "cannot be read as a video")
    (tmp_path / "cut.mp4").write_bytes(moving.read_bytes()[:200])
    refused(tmp_path / "cut.mp4", "cannot be read as a video")
    buffer = io.BytesIO()
    with wave.open(buffer, "wb") as sound:
        sound.setnchannels(1)
        sound.setsampwidth(2)
        sound.setframerate(8000)
        sound.writeframes(bytes(16000))
    (tmp_path / "wave.avi").write_bytes(buffer.getvalue())
    refused(tmp_path / "wave.avi", "this is no MP4, MOV, Matroska, WebM, AVI or MPEG-TS file")
    with av.open(str(tmp_path / "sound.avi"), "w") as container:
        sound_stream = container.add_stream("pcm_s16le", rate=8000, layout="mono")
        frame = av.AudioFrame.from_ndarray(np.zeros((1, 8000), np.int16), "s16", "mono")
        frame.rate = 8000
        container.mux(sound_stream.encode(frame))
    refused(tmp_path / "sound.avi", "there is no video in this file")
    with av.open(str(tmp_path / "empty.avi"), "w") as container:
        stream = container.add_stream("mpeg4", rate=8)
        stream.width, stream.height, stream.pix_fmt = 96, 64, "yuv420p"
        container.start_encoding()
    refused(tmp_path / "empty.avi", "there are no frames in this video")
    write_film(tmp_path / "still.mp4", [texture(0)] * 20, 8)
    refused(tmp_path / "still.mp4", "only 1 of 20 frames can be used")
    refused(tmp_path, "there are 7 videos")
    with pytest.raises(scenes.CaptureError, match=r"megapixels; the limit is 0\.001"):
        scenes.open(moving, max_megapixels=0.001, cache_dir=tmp_path / "cache")


def test_a_video_that_changes_while_it_is_read_is_refused(moving: Path) -> None:
    beyond = [FrameMeasure(99, 0.0, 1.0, np.zeros((18, 32), np.float32))]
    with pytest.raises(scenes.CaptureError, match="has changed while it was read"):
        list(decode_frames(moving, beyond))


def walk(count: int) -> list[Camera]:
    """Cameras on a quarter of a loop through the courtyard, looking past its middle."""
    cameras = []
    for i in range(count):
        angle = 0.5 * math.pi * i / count
        eye = (5.5 * math.cos(angle), 5.5 * math.sin(angle), 1.6 + 0.3 * math.sin(6 * angle))
        cameras.append(Camera.look_at(eye, (0.0, 0.0, 1.0), (0, 0, 1), fov_y=0.9, width=480, height=320))
    return cameras


@pytest.mark.slow
def test_poses_of_a_video_of_a_made_up_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("pycolmap", reason="pycolmap is not installed: structure from motion was not tested")
    monkeypatch.setattr(features, "FEATURES", 2048)
    place, cameras = courtyard_scene(device="cpu", shadow_side=512), walk(28)
    images = [as_bytes(place.render(camera).rgb) for camera in cameras]
    smooth = [Image.fromarray(image).filter(ImageFilter.GaussianBlur(3)) for image in images]
    (tmp_path / "folder").mkdir()
    path = tmp_path / "folder" / "courtyard.mp4"
    write_film(
        path, [image for pair in zip(images, map(np.asarray, smooth), strict=True) for image in pair], 10
    )
    capture = scenes.open(tmp_path / "folder", cache_dir=tmp_path / "cache", frames=28)
    assert capture.name == "courtyard" and capture.format == "video (structure from motion)"
    assert len(capture.views) >= 0.95 * len(cameras)
    numbers = [int(view.name.split("-")[1].split(".")[0]) for view in capture.views]
    assert all(number % 2 == 0 for number in numbers), "every second frame is blurred"
    assert [view.time for view in capture.views] == pytest.approx([number / 10 for number in numbers])
    truth = np.stack([centre_of(cameras[number // 2]) for number in numbers])
    ours = np.stack([centre_of(view.camera) for view in capture.views])
    assert distances(ours, truth).max() < 0.01 * np.linalg.norm(np.ptp(truth, axis=0))
    monkeypatch.setattr(sfm, "_reconstruct", None)  # would be called without the cache
    again = scenes.open(path, cache_dir=tmp_path / "cache", frames=28)
    assert [view.name for view in again.views] == [view.name for view in capture.views]


def centre_of(camera: Camera) -> np.ndarray:
    matrix = camera.world_to_cam.double().numpy()
    return -matrix[:3, :3].T @ matrix[:3, 3]


def distances(ours: np.ndarray, truth: np.ndarray) -> np.ndarray:
    """Of positions [V, 3] after the best similarity (Umeyama 1991), in units of the truth."""
    a, b = ours - ours.mean(0), truth - truth.mean(0)
    u, s, vt = np.linalg.svd(b.T @ a)
    sign = np.diag([1, 1, np.sign(np.linalg.det(u @ vt))])
    scale = (s * np.diag(sign)).sum() / (a**2).sum()
    return np.linalg.norm(scale * a @ (u @ sign @ vt).T - b, axis=1)


PLAYLISTS = {
    "ffconcat": "ffconcat version 1.0\nfile clip.mp4\n",
    "HLS": "#EXTM3U\n#EXT-X-TARGETDURATION:10\n#EXTINF:10,\nclip.mp4\n#EXT-X-ENDLIST\n",
    "HLS with a key": '#EXTM3U\n#EXT-X-TARGETDURATION:10\n#EXT-X-KEY:METHOD=AES-128,URI="key"\n#EXTINF:10,\nclip.mp4\n',
    "SDP": "v=0\no=- 0 0 IN IP4 127.0.0.1\ns=x\nc=IN IP4 127.0.0.1\nt=0 0\nm=video 9 RTP/AVP 96\n",
    "DASH": "<?xml version='1.0'?><MPD xmlns='urn:mpeg:dash:schema:mpd:2011' type='static'><Period/></MPD>",
    "ASX": "[Reference]\nRef1=http://127.0.0.1:9/ref\n",
}


@pytest.mark.parametrize("name", PLAYLISTS)
@pytest.mark.parametrize("suffix", [".mp4", ".mkv", ".m2ts", ".avi"])
def test_playlists_are_no_videos(tmp_path: Path, moving: Path, name: str, suffix: str) -> None:
    """A file that names others opens none of them, whatever its suffix."""
    moving.rename(tmp_path / "clip.mp4")
    path = tmp_path / f"list{suffix}"
    path.write_text(PLAYLISTS[name])
    with pytest.raises(scenes.CaptureError) as caught, opened_film(path) as film:
        next(film.frames())
    assert str(path) in caught.value.problem and "\n" not in str(caught.value)


@pytest.mark.parametrize("suffix", [".mp4", ".mov", ".m4v", ".mkv", ".webm", ".avi", ".mts", ".m2ts"])
def test_all_containers_are_read(tmp_path: Path, suffix: str) -> None:
    container_format = {".m4v": "mp4", ".mts": "mpegts", ".m2ts": "mpegts"}.get(suffix)
    with av.open(str(tmp_path / f"film{suffix}"), "w", format=container_format) as container:
        stream = container.add_stream("libvpx" if suffix == ".webm" else "mpeg4", rate=8)
        stream.width, stream.height, stream.pix_fmt = 96, 64, "yuv420p"
        for number in range(4):
            container.mux(stream.encode(av.VideoFrame.from_ndarray(texture(3 * number), "rgb24")))
        container.mux(stream.encode(None))
    with opened_film(tmp_path / f"film{suffix}") as film:
        assert len(list(film.frames())) == 4
    assert film.state.lost == 0 and not film.state.cut_short
