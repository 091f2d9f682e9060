"""Films of every format, decoded again: frames, size, times, alpha, loops and quality; and what formats refuse."""

from __future__ import annotations

import gc
import subprocess
import sys
import weakref
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from PIL import Image, ImageSequence

from luxel.render.errors import LuxelError
from luxel.viewer.films.encoders import webp
from luxel.viewer.films.film import write_film
from luxel.viewer.films.film_format import FORMATS, FilmOptions, check_options, film_format

av = pytest.importorskip("av", reason="films not tested: no PyAV")

WIDTH, HEIGHT, COUNT = 33, 25, 4  # odd: only 4:2:0 chroma is padded
ANIMATIONS = (".gif", ".webp", ".apng")


def frames(count: int = 3) -> Iterator[np.ndarray]:
    yield from (np.full((24, 32, 3), 80 * i, np.uint8) for i in range(count))


def disc(number: int) -> np.ndarray:
    """A coloured disc that moves to the right, on nothing, uint8 [H, W, 4]."""
    rows, columns = np.mgrid[:HEIGHT, :WIDTH]
    inside = (rows - 12) ** 2 + (columns - 8 - 5 * number) ** 2 < 50
    image = np.zeros((HEIGHT, WIDTH, 4), np.uint8)
    image[inside] = (60 * number + 40, 200 - 30 * number, 90, 255)
    return image


def opaque(number: int) -> np.ndarray:
    return np.full((HEIGHT, WIDTH, 3), (60 * number, 250 - 60 * number, 40), np.uint8)


def decoded(path: Path, alpha: bool) -> tuple[list[np.ndarray], list[float]]:
    """The frames of a film in their own size, and for how many seconds each is shown."""
    if path.suffix in ANIMATIONS:
        with Image.open(path) as film:
            shown = [
                (np.array(frame.convert("RGBA" if alpha else "RGB")), frame.info["duration"] / 1000)
                for frame in _loaded(film)
            ]
        return [image for image, _ in shown], [seconds for _, seconds in shown]
    images, times = [], []
    with av.open(str(path)) as film:
        stream = film.streams.video[0]
        decoder = av.CodecContext.create("libvpx-vp9", "r") if alpha else None
        for packet in film.demux(stream):
            for frame in decoder.decode(packet) if decoder else packet.decode():
                image = frame.to_ndarray(format="rgb24", src_colorspace=1)
                images.append(np.dstack([image, _plane(frame, 3)]) if alpha else image)
                times.append(float(frame.pts * stream.time_base))
        step = 1 / float(stream.average_rate)
    return [image[:HEIGHT, :WIDTH] for image in images], np.diff([*times, times[-1] + step]).tolist()


def _plane(frame: av.VideoFrame, number: int) -> np.ndarray:
    """A plane of a frame, uint8 [H, W]: FFmpeg's conversion to RGBA leaves alpha out in the last columns."""
    plane = frame.planes[number]
    return np.frombuffer(plane, np.uint8).reshape(plane.height, plane.line_size)[:, : plane.width]


def _loaded(film: Image.Image) -> Iterator[Image.Image]:
    for frame in ImageSequence.Iterator(film):
        frame.load()  # durations are known from then on
        yield frame


@pytest.mark.parametrize("suffix", FORMATS)
def test_every_format_holds_frames_size_and_duration(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"film{suffix}"
    assert write_film(path, map(opaque, range(COUNT)), FilmOptions(12.5)) == COUNT
    images, seconds = decoded(path, False)
    assert len(images) == COUNT and sum(seconds) == pytest.approx(COUNT / 12.5, abs=2e-3)
    for number, image in enumerate(images):
        assert image.shape == (HEIGHT, WIDTH, 3)
        assert np.abs(image.astype(int) - opaque(number)).max() < 6
    assert [file.name for file in tmp_path.iterdir()] == [path.name]


@pytest.mark.parametrize(
    ("suffix", "codec"), [(".mp4", "h264"), (".mov", "h264"), (".mkv", "h264"), (".webm", "vp9")]
)
def test_videos_state_their_colours_and_rate(tmp_path: Path, suffix: str, codec: str) -> None:
    write_film(tmp_path / f"film{suffix}", map(opaque, range(COUNT)), 29.97)
    with av.open(str(tmp_path / f"film{suffix}")) as film:
        stream = film.streams.video[0]
        frame = next(film.decode(stream))
        assert stream.codec_context.name.removeprefix("lib").startswith(codec)
        assert float(stream.average_rate) == pytest.approx(29.97, abs=1e-3)
        assert (frame.width, frame.height, frame.format.name) == (34, 26, "yuv420p")
        assert (frame.colorspace, frame.color_range) == (1, 1), "BT.709, limited range"


@pytest.mark.parametrize("suffix", [suffix for suffix, known in FORMATS.items() if known.alpha])
def test_alpha_comes_back(tmp_path: Path, suffix: str) -> None:
    """No frame shows through the next one, whatever blends them."""
    path = tmp_path / f"film{suffix}"
    write_film(path, map(disc, range(COUNT)), FilmOptions(10, alpha=True))
    images, _ = decoded(path, True)
    assert len(images) == COUNT
    for number, image in enumerate(images):
        expected = disc(number)
        inside = expected[..., 3] > 0
        assert np.abs(image[..., 3].astype(int) - expected[..., 3]).max() <= (12 if suffix == ".webm" else 0)
        assert np.abs(image.astype(int) - expected)[inside].mean() < 12


def test_frames_with_alpha_are_png_files(tmp_path: Path) -> None:
    assert write_film(tmp_path, map(disc, range(2)), FilmOptions(10, alpha=True)) == 2
    assert np.array_equal(np.array(Image.open(tmp_path / "00001.png")), disc(1))


def test_webm_without_alpha_in_the_encoder_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Codec:
        video_formats = None

    monkeypatch.setattr(av, "Codec", lambda name, mode: Codec())
    with pytest.raises(LuxelError, match=r"VP9 encoder of this PyAV has no alpha\. Write \.webp"):
        write_film(tmp_path / "film.webm", map(disc, range(2)), FilmOptions(10, alpha=True))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("suffix", ANIMATIONS)
@pytest.mark.parametrize("loop", [None, 0, 1, 3])
def test_a_film_is_played_so_often(tmp_path: Path, suffix: str, loop: int | None) -> None:
    """GIF counts how often it is played again, and says nothing of what is played once."""
    write_film(tmp_path / f"film{suffix}", map(opaque, range(2)), FilmOptions(10, loop=loop))
    with Image.open(tmp_path / f"film{suffix}") as film:
        stated = film.info.get("loop")
    if suffix == ".gif":
        assert stated == {None: 0, 0: 0, 1: None, 3: 2}[loop]
    else:
        assert stated == (loop or 0)


@pytest.mark.parametrize("suffix", [".mp4", ".webm", ".webp"])
def test_quality_is_a_matter_of_size(tmp_path: Path, suffix: str) -> None:
    noise = np.random.default_rng(0).integers(0, 256, (3, 48, 64, 3), dtype=np.uint8)
    sizes = {}
    for quality in (20, 90, None, 100):
        path = tmp_path / f"{quality}{suffix}"
        write_film(path, iter(noise), FilmOptions(10, quality=quality))
        sizes[quality] = path.stat().st_size
    assert sizes[20] < 0.8 * sizes[90] and sizes[90] == sizes[None] < sizes[100]
    if suffix == ".webp":
        assert all(map(np.array_equal, decoded_webp(tmp_path / "100.webp"), noise)), "100 is lossless"


def decoded_webp(path: Path) -> list[np.ndarray]:
    with Image.open(path) as film:
        return [np.array(frame.convert("RGB")) for frame in ImageSequence.Iterator(film)]


@pytest.mark.parametrize("suffix", [*FORMATS, ""])
def test_no_frame_is_retained(tmp_path: Path, suffix: str) -> None:
    """Memory does not grow with the number of frames: of forty, two or three exist at a time."""
    alive: list[weakref.ref[np.ndarray]] = []
    most = 0

    def given() -> Iterator[np.ndarray]:
        nonlocal most
        for number in range(40):
            image = np.full((16, 16, 3), 6 * number, np.uint8)
            alive.append(weakref.ref(image))
            yield image
            del image
            most = max(most, sum(reference() is not None for reference in alive))

    gc.disable()
    try:
        write_film(tmp_path / f"film{suffix}", given(), 25)
    finally:
        gc.enable()
    assert most <= 3


def test_an_exception_leaves_no_film(tmp_path: Path) -> None:
    def broken() -> Iterator[np.ndarray]:
        yield from frames(2)
        raise KeyboardInterrupt

    for suffix in FORMATS:
        with pytest.raises(KeyboardInterrupt):
            write_film(tmp_path / f"film{suffix}", broken(), 10)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        (
            "a.mp4",
            FilmOptions(30, alpha=True),
            r"\.mp4 has no alpha\. .*folder for PNG files, .*\.webp or \.apng",
        ),
        ("a.mkv", FilmOptions(30, alpha=True), r"\.mkv has no alpha"),
        ("a.gif", FilmOptions(30, quality=50), r"\.gif has no quality to choose\. Leave --quality out"),
        ("frames", FilmOptions(30, quality=50), r"PNG files has no quality"),
        ("a.mov", FilmOptions(30, loop=2), r"does not say how often.*\.gif, \.webp or \.apng"),
        ("a.gif", FilmOptions(60), r"at most 50 frames per second, not 60\. Give --fps 50"),
    ],
)
def test_options_that_a_format_does_not_have(
    tmp_path: Path, name: str, options: FilmOptions, message: str
) -> None:
    with pytest.raises(LuxelError, match=message):
        check_options(tmp_path / name, options, 64, 48)


def test_other_names_and_sizes_are_refused(tmp_path: Path) -> None:
    with pytest.raises(
        LuxelError, match=r"a\.avi: frames cannot be written as \.avi\. .*\.mp4, .* or \.apng"
    ):
        film_format(tmp_path / "a.avi")
    with pytest.raises(LuxelError, match=r"at most 16383 pixels along a side, not 16384x10"):
        write_film(tmp_path / "a.webp", [np.zeros((10, 16384, 3), np.uint8)], 10)
    assert list(tmp_path.iterdir()) == []


def test_a_webp_beyond_the_size_of_its_container_is_a_message(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(webp, "MAX_BYTES", 200)
    with pytest.raises(LuxelError, match=r"cannot be written \(File too large\)"):
        write_film(tmp_path / "a.webp", map(opaque, range(4)), 10)
    assert list(tmp_path.iterdir()) == []


def test_without_pyav_frames_are_written_as_images(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.startswith("luxel.viewer.films.encoders")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "av", None)
    with pytest.raises(LuxelError, match=r"PyAV.*is not installed\. .*pip install av.*folder"):
        write_film(tmp_path / "path.mp4", frames(), 10.0)
    assert write_film(tmp_path / "images", frames(), 10.0) == 3
    assert len(list((tmp_path / "images").glob("*.png"))) == 3


def test_a_video_on_a_full_disk_is_one_message(tmp_path: Path) -> None:
    """Files of this process may not grow beyond 2 kB: to FFmpeg that is what a full disk is like."""
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
