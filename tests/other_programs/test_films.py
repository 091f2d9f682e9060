"""Films of phones, camcorders and editors: their frames are those that players show, and what is not used is named."""

from __future__ import annotations

from fractions import Fraction
from itertools import product
from pathlib import Path

import av
import numpy as np
import pytest
from film_writing import packets_of, require_encoder, texture, write_film
from ray_cast_capture import ring, surface_points

from luxel import scenes
from luxel.render.geometry.camera import Points
from luxel.scenes.captures.capture_format import ReadOptions
from luxel.scenes.captures.contents import CaptureContents, SourceImage, image_files
from luxel.scenes.captures.films import film as films
from luxel.scenes.captures.images.video_frames import choose_frames, decode_frames
from luxel.scenes.captures.lenses.lens import Lens
from luxel.scenes.captures.unposed import video
from luxel.scenes.errors import CaptureError

ONE = 1 << 16


@pytest.fixture(autouse=True)
def poses_of_a_ring(monkeypatch: pytest.MonkeyPatch) -> None:
    """The frames get poses of a ring instead of those that structure from motion would estimate."""

    def estimated(path: Path, folder: Path, options: ReadOptions, *, panoramas: bool) -> CaptureContents:
        files = image_files(folder)
        images = []
        for file, pose in zip(files, ring(len(files)), strict=True):
            height, width = scenes_size(file)
            lens = Lens(width, height, float(width), float(width), 0.5 * width, 0.5 * height)
            images.append(SourceImage(f"images/{file.name}", file, lens, np.linalg.inv(pose)))
        xyz, rgb = surface_points()
        return CaptureContents("", images, points=Points(xyz.astype(np.float32), rgb), pose_report="made up")

    monkeypatch.setattr(video, "estimated", estimated)


def scenes_size(file: Path) -> tuple[int, int]:
    from PIL import Image

    with Image.open(file) as image:
        return image.height, image.width


def frames_of(path: Path) -> list[np.ndarray]:
    """All frames of a film that are not blurred and do not repeat."""
    return [pixels for _, pixels in decode_frames(path, choose_frames(path, 1000).frames)]


# Display matrices


def quadrants(shift: int = 0) -> np.ndarray:
    """Red, green over blue, white, and a grey stripe that moves."""
    pixels = np.zeros((64, 96, 3), np.uint8)
    pixels[:32, :48], pixels[:32, 48:] = (220, 20, 20), (20, 220, 20)
    pixels[32:, :48], pixels[32:, 48:] = (20, 20, 220), (230, 230, 230)
    pixels[:, 8 * shift : 8 * shift + 8] = 128
    return pixels


MATRICES = [(a, 0, 0, d) for a, d in product((1, -1), repeat=2)] + [
    (0, b, c, 0) for b, c in product((1, -1), repeat=2)
]


def shown_by_matrix(pixels: np.ndarray, a: int, b: int, c: int, d: int) -> np.ndarray:
    """Each stored pixel in the column a p + c q and the row b p + d q, from 0."""
    rows, columns = np.mgrid[: pixels.shape[0], : pixels.shape[1]]
    column, row = a * columns + c * rows, b * columns + d * rows
    column, row = column - column.min(), row - row.min()
    out = np.zeros((row.max() + 1, column.max() + 1, 3), pixels.dtype)
    out[row, column] = pixels
    return out


@pytest.mark.parametrize("suffix", [".mp4", ".mov"])
@pytest.mark.parametrize(("a", "b", "c", "d"), MATRICES)
def test_frames_are_turned_and_mirrored_as_the_display_matrix_says(
    tmp_path: Path, suffix: str, a: int, b: int, c: int, d: int
) -> None:
    stored = [quadrants(i) for i in range(6)]
    matrix = [a * ONE, b * ONE, 0, c * ONE, d * ONE, 0, 0, 0, 1 << 30]
    path = write_film(tmp_path / f"film{suffix}", stored, matrix=matrix, pix_fmt="yuv444p")
    for pixels, original in zip(frames_of(path), stored, strict=True):
        expected = shown_by_matrix(original, a, b, c, d)
        assert pixels.shape == expected.shape
        assert np.abs(pixels.astype(int) - expected).mean() < 3
    capture = scenes.open(path)
    assert capture.warnings == [] and capture.unused == []
    assert np.abs(capture.views[2].read().rgb.astype(int) - shown_by_matrix(stored[2], a, b, c, d)).mean() < 4


@pytest.mark.parametrize("degrees", [7, 30, 95, 200])
def test_other_angles_are_taken_to_the_nearest_axes(tmp_path: Path, degrees: int) -> None:
    c, s = np.cos(np.radians(degrees)), np.sin(np.radians(degrees))
    matrix = [round(v * ONE) for v in (c, s, 0, -s, c, 0, 0, 0)] + [1 << 30]
    stored = [quadrants(i) for i in range(4)]
    path = write_film(tmp_path / "film.mp4", stored, matrix=matrix)
    nearest = round(degrees / 90)  # quarter turns, clockwise
    for pixels, original in zip(frames_of(path), stored, strict=True):
        assert np.abs(pixels.astype(int) - np.rot90(original, -nearest)).mean() < 6


# Films that are cut short or damaged

INTRA = {"mp4": ("libx264", {"crf": "10", "g": "1", "bf": "0"}), "avi": ("mpeg4", {"g": "1", "q": "2"})}


@pytest.mark.parametrize("share", [0.3, 0.6, 0.9])
@pytest.mark.parametrize("container", ["mp4", "mov", "mkv", "avi"])
def test_a_film_cut_short_is_named_with_its_frames(tmp_path: Path, container: str, share: float) -> None:
    codec, options = INTRA.get(container, INTRA["mp4"])
    moved = {"movflags": "faststart"} if container in ("mp4", "mov") else None
    frames = [texture(3 * i) for i in range(20)]
    path = write_film(tmp_path / f"walk.{container}", frames, codec=codec, options=options, mux=moved)
    places = packets_of(path)
    cut = places[0][0] + round(share * (places[-1][0] - places[0][0])) + places[0][1] // 2
    whole = sum(position + size <= cut for position, size in places)
    path.write_bytes(path.read_bytes()[:cut])
    capture = scenes.open(path)
    assert len(capture.views) == whole
    (entry,) = capture.unused
    assert entry.kind == "frames of films" and entry.harm == 2 and entry.count == 20 - whole
    expected = f"walk.{container}: {whole} of 20 frames could be read; the film is cut short."
    assert capture.warnings == [f"{expected} Copy or export it again."]
    assert scenes.open(path).warnings == capture.warnings, "also where its frames are cached"


@pytest.mark.parametrize("container", ["mp4", "avi", "mkv"])
def test_damaged_frames_in_the_middle_are_counted(tmp_path: Path, container: str) -> None:
    codec, options = ("libx264", {"crf": "10", "g": "1", "bf": "0"}) if container != "avi" else INTRA["avi"]
    path = write_film(
        tmp_path / f"walk.{container}", [texture(3 * i) for i in range(20)], codec=codec, options=options
    )
    data = bytearray(path.read_bytes())
    for number in (7, 8, 13):
        position, size = packets_of(path)[number]
        data[position + 12 : position + size] = bytes(size - 12)
    path.write_bytes(data)
    capture = scenes.open(path)
    first = int(capture.views[0].name[-10:-4])
    numbers = [first + round(10 * view.time) for view in capture.views]
    assert len(numbers) > 10 and not {7, 8, 13} & set(numbers)
    for number, view in zip(numbers, capture.views, strict=True):
        assert np.abs(view.read().rgb.mean(2) - texture(3 * number).mean(2)).mean() < 16
    assert capture.warnings == [
        f"walk.{container}: 17 of 20 frames could be read; the film is damaged. Copy or export it again."
    ]


def test_a_film_of_which_nothing_can_be_decoded_is_refused(tmp_path: Path) -> None:
    path = write_film(tmp_path / "walk.mp4", [texture(3 * i) for i in range(6)])
    data = bytearray(path.read_bytes())
    for position, size in packets_of(path):
        data[position : position + size] = bytes(size)
    path.write_bytes(data)
    with pytest.raises(CaptureError, match=r"walk\.mp4") as caught:
        scenes.open(path)
    assert "ffmpeg -i VIDEO" in caught.value.remedy


def test_frames_of_another_size_are_counted(tmp_path: Path) -> None:
    options = {"crf": "10", "g": "1", "bf": "0"}
    parts = [
        write_film(
            tmp_path / f"{size[0]}.ts",
            [texture(3 * i, size) for i in range(count)],
            container="mpegts",
            options=options,
        )
        for size, count in (((96, 64), 6), ((64, 48), 4))
    ]
    path = tmp_path / "call.mts"
    path.write_bytes(b"".join(part.read_bytes() for part in parts))
    capture = scenes.open(path)
    assert {view.read().rgb.shape for view in capture.views} == {(64, 96, 3)}
    (entry,) = (entry for entry in capture.unused if entry.kind == "frames of another size")
    assert entry.count == 4 and entry.harm == 2
    assert entry.sentence() in capture.warnings
    assert "call.mts: 4 of 10 frames are not of 96x64 pixels" in entry.problem


# Interlaced films

FIRST, SPEED, WIDE = 8, 4, 20  # of a bar: column at time 0, columns in a field, width


def fields(number: int, top_first: bool) -> np.ndarray:
    """An interlaced frame: a bright bar, in the rows of the second field 4 pixels further on."""
    pixels = np.full((64, 96, 3), 40, np.uint8)
    for second in (0, 1):
        start = FIRST + SPEED * (2 * number + second)
        pixels[second if top_first else 1 - second :: 2, start : start + WIDE] = 220
    return pixels


X264 = {"crf": "4", "x264-params": "interlaced=1"}
INTERLACED = {
    "mp4, top first": ("film.mp4", "libx264", X264, "tff"),
    "mp4, bottom first": ("film.mp4", "libx264", X264, "bff"),
    "AVCHD": ("film.mts", "libx264", X264, "tff"),
    "AVCHD of m2ts": ("film.m2ts", "libx264", X264, "tff"),
    "MPEG-2": ("film.mkv", "mpeg2video", {"q": "1", "qmin": "1", "flags": "+ildct+ilme"}, "tff"),
}


@pytest.mark.parametrize("kind", INTERLACED)
def test_interlaced_frames_show_one_time(tmp_path: Path, kind: str) -> None:
    name, codec, options, order = INTERLACED[kind]
    container = "mpegts" if name.endswith("ts") else None
    drawn = [fields(i, order == "tff") for i in range(8)]
    path = write_film(
        tmp_path / name, drawn, 25, codec=codec, options=options, container=container, field_order=order
    )
    with av.open(str(path)) as check:
        assert next(check.decode(video=0)).interlaced_frame, "the test's film is not interlaced"
    capture = scenes.open(path)
    assert [view.time for view in capture.views] == pytest.approx([i / 25 for i in range(8)])
    for number, view in enumerate(capture.views):
        grey = view.read().rgb.mean(2)[8:-8]
        start = FIRST + SPEED * 2 * number  # of the first field
        for row in grey > 130:
            columns = np.flatnonzero(row)
            assert abs(columns[0] - start) <= 1 and abs(columns[-1] - (start + WIDE - 1)) <= 1, number
    assert capture.warnings == [f"{name}: the film is interlaced; its frames are deinterlaced."]


@pytest.mark.parametrize("suffix", [".mp4", ".mkv", ".mts"])
def test_progressive_frames_are_as_they_were_decoded(tmp_path: Path, suffix: str) -> None:
    path = write_film(
        tmp_path / f"film{suffix}",
        [texture(3 * i) for i in range(6)],
        container="mpegts" if suffix == ".mts" else None,
    )
    with av.open(str(path)) as container:
        expected = [frame.to_ndarray(format="rgb24") for frame in container.decode(video=0)]
    assert len(expected) == 6
    for pixels, decoded in zip(frames_of(path), expected, strict=True):
        np.testing.assert_array_equal(pixels, decoded)


# Alpha channels


def cut_out(number: int) -> np.ndarray:
    """An orange square of 24 pixels that moves over transparent blue, RGBA."""
    pixels = np.zeros((64, 96, 4), np.uint8)
    pixels[..., :3] = (30, 60, 200)
    pixels[20:44, 10 + 8 * number : 34 + 8 * number] = (220, 140, 40, 255)
    return pixels


ALPHA = {
    "ProRes 4444": ("alpha.mov", "prores_ks", "yuva444p10le", {"profile": "4444"}),
    "VP9": ("alpha.webm", "libvpx-vp9", "yuva420p", {"crf": "4", "b": "0"}),
    "VP8": ("alpha.webm", "libvpx", "yuva420p", {"auto-alt-ref": "0", "crf": "4", "b": "2000000"}),
    "VP9 in Matroska": ("alpha.mkv", "libvpx-vp9", "yuva420p", {"crf": "4", "b": "0"}),
    "PNG": ("alpha.mov", "png", "rgba", {}),
    "Animation": ("alpha.mov", "qtrle", "argb", {}),
    "FFV1": ("alpha.mkv", "ffv1", "bgra", {}),
    "Ut Video": ("alpha.avi", "utvideo", "gbrap", {}),
}


@pytest.mark.parametrize("kind", ALPHA)
def test_alpha_channels_of_films_cut_out_as_those_of_images_do(tmp_path: Path, kind: str) -> None:
    name, codec, pix_fmt, options = ALPHA[kind]
    drawn = [cut_out(i) for i in range(7)]
    path = write_film(tmp_path / name, drawn, codec=codec, pix_fmt=pix_fmt, options=options)
    capture = scenes.open(path)
    assert capture.cutout and capture.background == (1.0, 1.0, 1.0)
    assert capture.warnings == [] and capture.unused == [] and len(capture.views) == 7
    for view, expected in zip(capture.views, drawn, strict=True):
        pixels = view.read()
        assert pixels.alpha is not None
        assert np.abs(pixels.alpha.astype(int) - expected[..., 3]).mean() < 1.5
        inside = np.zeros((64, 96), bool)
        inside[23:41] = np.roll(expected[..., 3] > 0, 0)[23:41]
        inside &= np.roll(inside, 3, 1) & np.roll(inside, -3, 1)
        assert np.abs(pixels.rgb[inside].astype(int) - (220, 140, 40)).max() < 12


def test_an_opaque_alpha_channel_is_none(tmp_path: Path) -> None:
    drawn = [np.dstack([texture(3 * i), np.full((64, 96), 255, np.uint8)]) for i in range(6)]
    path = write_film(tmp_path / "opaque.mov", drawn, codec="png", pix_fmt="rgba", options={})
    capture = scenes.open(path)
    assert not capture.cutout and capture.warnings == []
    assert all(view.path.suffix == ".jpg" for view in capture.views)


def test_alpha_that_no_decoder_reads_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(films.ALPHA_DECODERS, "vp9", "no-such-decoder")
    path = write_film(
        tmp_path / "alpha.webm",
        [np.dstack([texture(3 * i), cut_out(i)[..., 3]]) for i in range(6)],
        codec="libvpx-vp9",
        pix_fmt="yuva420p",
        options={"crf": "4", "b": "0"},
    )
    capture = scenes.open(path)
    assert [(entry.kind, entry.harm) for entry in capture.unused] == [("alpha channels", 3)]
    assert "alpha.webm: the alpha channel is not used" in capture.warnings[0]


# Several streams


def write_streams(path: Path, sizes: list[tuple[int, int]], cover: int | None = None) -> Path:
    """A film with a stream of each size; the stream of the index ``cover`` is a cover."""
    require_encoder("libx264")
    with av.open(str(path), "w") as output:
        streams = []
        for index, (width, height) in enumerate(sizes):
            stream = output.add_stream("libx264" if index != cover else "mjpeg", rate=10)
            stream.width, stream.height = width, height
            stream.pix_fmt = "yuv420p" if index != cover else "yuvj420p"
            if index == cover:
                stream.disposition = av.stream.Disposition.attached_pic
            else:
                stream.options = {"crf": "4"}
            streams.append(stream)
        for number in range(6):
            for index, stream in enumerate(streams):
                if index == cover and number:
                    continue
                frame = av.VideoFrame.from_ndarray(texture(3 * number, sizes[index]), "rgb24")
                frame.pts = number
                output.mux(stream.encode(frame))
        for stream in streams:
            output.mux(stream.encode(None))
    return path


@pytest.mark.parametrize("suffix", [".mp4", ".mkv", ".mov"])
@pytest.mark.parametrize(
    ("sizes", "harm"),
    [
        ([(48, 32), (96, 64)], 1),
        ([(96, 64), (48, 32)], 1),
        ([(96, 64), (96, 64)], 2),
        ([(32, 20), (48, 32), (96, 64)], 1),
    ],
)
def test_the_largest_video_stream_is_used(
    tmp_path: Path, suffix: str, sizes: list[tuple[int, int]], harm: int
) -> None:
    capture = scenes.open(write_streams(tmp_path / f"film{suffix}", sizes))
    pixels = capture.views[3].read().rgb
    assert pixels.shape == (64, 96, 3)
    assert np.abs(pixels.astype(int) - texture(9)).mean() < 12
    assert [(e.kind, e.count, e.harm) for e in capture.unused] == [("video streams", len(sizes) - 1, harm)]
    assert f"of {len(sizes)} video streams the largest, 96x64, is used" in capture.warnings[0]
    assert capture.warnings[0].startswith(f"film{suffix}: ") and len(capture.warnings) == 1


def test_a_cover_is_no_video_stream(tmp_path: Path) -> None:
    path = write_streams(tmp_path / "film.mp4", [(96, 64), (192, 128)], cover=1)
    with av.open(str(path)) as check:
        assert len(check.streams.video) == 2, "the test's film has no cover"
    capture = scenes.open(path)
    assert capture.views[0].read().rgb.shape == (64, 96, 3)
    assert capture.warnings == [] and capture.unused == []


def test_sound_and_titles_are_silent(tmp_path: Path) -> None:
    require_encoder("libx264")
    with av.open(str(tmp_path / "film.mkv"), "w") as output:
        stream = output.add_stream("libx264", rate=10, options={"crf": "4"})
        stream.width, stream.height, stream.pix_fmt = 96, 64, "yuv420p"
        sound = output.add_stream("pcm_s16le", rate=8000, layout="mono")
        for number in range(6):
            output.mux(stream.encode(av.VideoFrame.from_ndarray(texture(3 * number), "rgb24")))
            samples = av.AudioFrame.from_ndarray(np.zeros((1, 4000), np.int16), "s16", "mono")
            samples.rate, samples.pts = 8000, 4000 * number
            output.mux(sound.encode(samples))
        output.mux(stream.encode(None))
    capture = scenes.open(tmp_path / "film.mkv")
    assert len(capture.views) == 6 and capture.warnings == [] and capture.unused == []


# Timestamps


@pytest.mark.parametrize(
    ("suffix", "precision"), [(".mp4", 1e-4), (".mov", 1e-4), (".mkv", 1.1e-3), (".mts", 1e-4)]
)
@pytest.mark.parametrize(
    "times",
    [
        [0, 0.1, 0.3, 0.35, 0.9, 1.0],
        [2.5, 2.6, 2.8, 3.0, 3.4, 3.5],
        [0, 1 / 30, 2 / 30, 4 / 30, 5 / 30, 9 / 30],
    ],
    ids=["variable rate", "late start", "dropped frames"],
)
def test_times_are_those_of_the_timestamps(
    tmp_path: Path, suffix: str, precision: float, times: list[float]
) -> None:
    frames = [texture(3 * i) for i in range(6)]
    container = "mpegts" if suffix == ".mts" else None
    path = write_film(tmp_path / f"film{suffix}", frames, times=times, container=container)
    capture = scenes.open(path)
    numbers = [int(view.name[-10:-4]) for view in capture.views]
    assert len(numbers) >= 4
    assert [view.time for view in capture.views] == pytest.approx(
        [times[number] - times[numbers[0]] for number in numbers], abs=precision
    )
    assert capture.warnings == [] and capture.unused == []


def test_frames_without_data_are_not_missing(tmp_path: Path) -> None:
    """AVI has no timestamps: programs write frames of 0 bytes where the one before stays."""
    times = [0, 0.1, 0.4, 0.5, 0.6, 1.0, 1.1]
    path = write_film(
        tmp_path / "screen.avi",
        [texture(3 * i) for i in range(7)],
        times=times,
        unit=Fraction(1, 10),
        codec="mpeg4",
        options={"q": "2"},
    )
    with av.open(str(path)) as check:
        assert check.streams.video[0].frames == 12, "the test's film has no such frames"
    capture = scenes.open(path)
    numbers = [int(view.name[-10:-4]) for view in capture.views]
    assert [view.time for view in capture.views] == pytest.approx(
        [times[number] - times[numbers[0]] for number in numbers]
    )
    assert capture.warnings == [] and capture.unused == []


def test_frames_that_an_edit_list_leaves_out_are_not_missing(tmp_path: Path) -> None:
    path = write_film(
        tmp_path / "film.mp4",
        [texture(3 * i) for i in range(12)],
        times=[i / 10 for i in range(12)],
        options={"crf": "10", "g": "12", "bf": "0"},
    )
    data = bytearray(path.read_bytes())
    at = data.index(b"elst")  # version 0: flags, count, then duration, media time and rate
    ticks = int.from_bytes(data[data.index(b"mdhd") + 16 : data.index(b"mdhd") + 20], "big")
    data[at + 16 : at + 20] = round(0.5 * ticks).to_bytes(4, "big")  # begins at 0.5 s
    data[at + 12 : at + 16] = (700).to_bytes(4, "big")  # milliseconds of the movie
    path.write_bytes(data)
    capture = scenes.open(path)
    assert [view.time for view in capture.views] == pytest.approx([i / 10 for i in range(7)], abs=1e-3)
    assert np.abs(capture.views[0].read().rgb.astype(int) - texture(15)).mean() < 12
    assert capture.warnings == [] and capture.unused == []
