"""Films of high dynamic range, as phones write them: their colours in standard range, by number."""

from __future__ import annotations

from pathlib import Path

import av
import numpy as np
import pytest
from film_writing import require_encoder

from luxel.scenes.captures.films.film import opened_film
from luxel.scenes.captures.films.film_state import film_warnings
from luxel.scenes.captures.films.tone_mapping import compressed, light_to_pq, pq_to_light

TRANSFERS = {"PQ": 16, "HLG": 18}
BLOCK = 16  # pixels of a side


def patches(seed: int = 0) -> np.ndarray:
    """Signals R'G'B' in [0, 1] of 6 by 4 patches: greys in the first two rows, then colours; [4, 6, 3]."""
    out = np.random.default_rng(seed).uniform(0.15, 0.75, (4, 6, 3))
    out[0], out[1] = np.linspace(0, 0.45, 6)[:, None], np.linspace(0.5, 1, 6)[:, None]
    return out


def planes_of(signals: np.ndarray) -> list[np.ndarray]:
    """Y'CbCr of BT.2020 (non-constant luminance), limited range, 10 bits."""
    red, green, blue = np.moveaxis(signals, -1, 0)
    luma = 0.2627 * red + 0.6780 * green + 0.0593 * blue
    differences = (blue - luma) / 1.8814, (red - luma) / 1.4746
    values = [4 * (219 * luma + 16), *(4 * (224 * value + 128) for value in differences)]
    return [np.round(value).astype(np.uint16) for value in values]


def write_hdr(
    path: Path, signals: np.ndarray, transfer: str, codec: str, pix_fmt: str, primaries: int = 9
) -> Path:
    """A film of patches with the colours of a phone's HDR film."""
    require_encoder(codec)
    large = signals.repeat(BLOCK, 0).repeat(BLOCK, 1)
    height, width = large.shape[:2]
    frame = av.VideoFrame(width, height, pix_fmt)
    half = 2 if "420" in pix_fmt else 1
    for number, (plane, values) in enumerate(zip(frame.planes, planes_of(large), strict=True)):
        values = values[::half, ::half] if number else values
        rows = np.zeros((plane.height, plane.line_size // 2), np.uint16)
        rows[:, : values.shape[1]] = values
        plane.update(rows.tobytes())
    options = {"x265-params": "log-level=none:crf=0"} if codec == "libx265" else {}
    with av.open(str(path), "w") as output:
        stream = output.add_stream(codec, rate=10, options=options)
        stream.width, stream.height, stream.pix_fmt = width, height, pix_fmt
        for marked in (frame, stream.codec_context):
            marked.color_trc, marked.color_primaries = TRANSFERS[transfer], primaries
            marked.colorspace, marked.color_range = 9, 1
        for number in range(3):
            frame.pts = number
            output.mux(stream.encode(frame))
        output.mux(stream.encode(None))
    return path


def pq_inverse(nits: float) -> float:
    y = (nits / 10000) ** 0.1593017578125
    return ((0.8359375 + 18.8515625 * y) / (1 + 18.6875 * y)) ** 78.84375


def pq_nits(signal: float) -> float:
    root = signal ** (1 / 78.84375)
    return 10000 * (max(root - 0.8359375, 0) / (18.8515625 - 18.6875 * root)) ** (1 / 0.1593017578125)


def hlg_linear(signal: float) -> float:
    if signal <= 0.5:
        return signal * signal / 3
    return (np.exp((signal - 0.55991073) / 0.17883277) + 0.28466892) / 12


def eetf(nits: float, peak: float = 1000.0, white: float = 203.0) -> float:
    """BT.2390's curve of one luminance."""
    top, e = pq_inverse(peak), pq_inverse(min(nits, peak)) / pq_inverse(peak)
    maximum = pq_inverse(white) / top
    start = 1.5 * maximum - 0.5
    if e < start:
        return nits
    t = (e - start) / (1 - start)
    hermite = (2 * t**3 - 3 * t**2 + 1) * start + (t**3 - 2 * t**2 + t) * (1 - start)
    return pq_nits((hermite + (3 * t**2 - 2 * t**3) * maximum) * top)


BT2020_TO_XYZ = np.array(
    [[0.636958, 0.144617, 0.168881], [0.262700, 0.677998, 0.059302], [0.0, 0.028073, 1.060985]]
)
BT709_TO_XYZ = np.array(
    [[0.412391, 0.357584, 0.180481], [0.212639, 0.715169, 0.072192], [0.019331, 0.119195, 0.950532]]
)


def expected_levels(signal: np.ndarray, transfer: str) -> np.ndarray:
    """Levels 0 to 255 of one colour in standard range."""
    if transfer == "HLG":
        scene = np.array([hlg_linear(v) for v in signal])
        nits = 1000 * scene * max(scene @ [0.2627, 0.6780, 0.0593], 1e-9) ** 0.2
    else:
        nits = np.array([min(pq_nits(v), 1000.0) for v in signal])
    largest = nits.max()
    light = nits * (eetf(largest) / largest if largest > 0 else 1) / 203
    converted = np.linalg.inv(BT709_TO_XYZ) @ BT2020_TO_XYZ @ light
    return 255 * np.clip(converted, 0, 1) ** (1 / 2.4)


def test_the_curves_have_the_values_of_the_recommendations() -> None:
    assert pq_to_light(np.array([0.5, 0.75, 1.0])) == pytest.approx([92.2457, 983.383, 10000], rel=1e-4)
    assert light_to_pq(np.array([100.0, 203.0, 1000.0])) == pytest.approx([0.5081, 0.5807, 0.7518], abs=1e-4)
    light = np.array([1.0, 50.0, 90.0, 150.0, 203.0, 600.0, 1000.0])
    assert compressed(light, 1000.0) == pytest.approx([eetf(nits) for nits in light], rel=1e-6)
    assert compressed(light, 1000.0)[-1] == pytest.approx(203.0, rel=1e-6)
    assert (np.diff(compressed(np.linspace(0, 4000, 4000), 4000.0)) > 0).all()
    assert compressed(light, 100.0) == pytest.approx(light), "films that are no brighter stay"


@pytest.mark.parametrize(
    ("name", "codec", "pix_fmt", "tolerance"),
    [
        ("lossless.mkv", "ffv1", "yuv444p10le", 3),
        ("phone.mov", "libx265", "yuv420p10le", 5),
        ("phone.mp4", "libx265", "yuv420p10le", 5),
        ("web.webm", "libsvtav1", "yuv420p10le", 9),
    ],
)
@pytest.mark.parametrize("transfer", TRANSFERS)
def test_colours_of_high_dynamic_range_are_mapped(
    tmp_path: Path, transfer: str, name: str, codec: str, pix_fmt: str, tolerance: float
) -> None:
    signals = patches() * (0.75 if transfer == "PQ" else 1.0)
    path = write_hdr(tmp_path / name, signals, transfer, codec, pix_fmt)
    with opened_film(path) as film:
        pixels = [film.pixels(frame) for frame in film.frames()]
    assert film.state.transfer == transfer and len(pixels) == 3
    centres = pixels[1].reshape(4, BLOCK, 6, BLOCK, 3)[:, 5:-5, :, 5:-5].mean((1, 3))
    expected = np.array([[expected_levels(value, transfer) for value in row] for row in signals])
    bright = expected > 24  # the gamma of the display is steep below
    assert np.abs(centres - expected)[bright].max() < tolerance
    assert np.abs(centres - expected)[~bright].max() < 4 * tolerance
    plain = 255 * signals
    assert np.abs(plain - expected).mean() > 15, "as they are, the colours would be wrong"
    assert film_warnings({name: film.state}) == [
        f"{name}: colours of high dynamic range ({transfer}) are mapped to the standard range."
    ]


@pytest.mark.parametrize("transfer", TRANSFERS)
def test_greys_stay_grey_and_ascend(tmp_path: Path, transfer: str) -> None:
    ramp = np.linspace(0, 1, 24).reshape(4, 6, 1).repeat(3, 2)
    path = write_hdr(tmp_path / "ramp.mkv", ramp, transfer, "ffv1", "yuv444p10le")
    with opened_film(path) as film:
        pixels = film.pixels(next(film.frames()))
    levels = pixels.reshape(4, BLOCK, 6, BLOCK, 3)[:, 8, :, 8].reshape(24, 3).astype(int)
    assert np.ptp(levels, axis=1).max() <= 2
    assert (np.diff(levels.mean(1)) >= 0).all() and levels[0].max() <= 2 and levels[-1].min() >= 254


def test_films_of_standard_range_are_as_they_were(tmp_path: Path) -> None:
    path = write_hdr(tmp_path / "plain.mkv", patches(), "HLG", "ffv1", "yuv444p10le")
    with av.open(str(path)) as source:
        frame = next(source.decode(video=0))
    frame.color_trc = 1  # BT.709
    with av.open(str(tmp_path / "sdr.mkv"), "w") as output:
        stream = output.add_stream("ffv1", rate=10)
        stream.width, stream.height, stream.pix_fmt = frame.width, frame.height, "yuv444p10le"
        stream.codec_context.color_trc, stream.codec_context.colorspace = 1, 9
        frame.pts = 0
        output.mux(stream.encode(frame))
        output.mux(stream.encode(None))
    with opened_film(tmp_path / "sdr.mkv") as film:
        pixels = film.pixels(next(film.frames()))
    centres = pixels.reshape(4, BLOCK, 6, BLOCK, 3)[:, 8, :, 8]
    assert np.abs(centres - 255 * patches()).max() < 3 and film.state.transfer == ""
