"""OpenEXR files: colours in linear light and as photographs, depth by channel, damage, and a missing library."""

from __future__ import annotations

import importlib
import io
import json
import struct
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import luxel.scenes as scenes
from luxel.scenes.captures.contents import SourceImage, image_files
from luxel.scenes.captures.depth.depth_maps import read_depth
from luxel.scenes.captures.images.images import decode, read_header
from luxel.scenes.captures.lenses.lens import Lens
from luxel.scenes.captures.poses.workspace import prepare, suffix_for
from luxel.scenes.files.exr import channels
from luxel.scenes.files.exr.colours import SRGB, srgb_bytes, to_srgb
from luxel.scenes.files.exr.values import read_exr, read_exr_depth
from luxel.scenes.files.images.image_files import read_image
from luxel.scenes.files.pixel_limit import MAX_MEGAPIXELS, set_max_megapixels
from luxel.viewer.cli import main
from luxel.viewer.scene_loading.capture_options import load_origin

DATA = Path(__file__).parents[2] / "data"
Y, X = np.mgrid[:12, :16].astype(np.float32)
DEPTH = 1 + X / 8 + Y / 4
COLOURS = np.stack([X / 4, Y / 3, (X + Y) / 64], -1)
ACES = (0.7347, 0.2653, 0.0, 1.0, 0.0001, -0.077, 0.32168, 0.33767)
OpenEXR: Any = pytest.importorskip("OpenEXR", reason="OpenEXR is not installed: its files were not tested")


def write(path: Path, values: dict[str, np.ndarray], **header: Any) -> Path:
    """A file of one part."""
    first = {"compression": OpenEXR.ZIP_COMPRESSION, "type": OpenEXR.scanlineimage}
    OpenEXR.File({**first, **header}, values).write(str(path))
    return path


def test_colours_are_linear() -> None:
    for name in ("colours.exr", "layers.exr"):
        read = read_exr(DATA / name)
        assert read.dtype == np.float32 and np.abs(read - COLOURS).max() < 2e-3, name


def test_photographs_are_in_srgb_with_straight_alpha() -> None:
    path = DATA / "colours.exr"
    header = read_header(path)
    assert header.size(True) == (16, 12) and header.has_alpha
    alpha = np.where(X < 8, 1, 0.5)[..., None]
    straight = (COLOURS / alpha).clip(0, 1)
    expected = 255 * np.where(straight <= 0.0031308, 12.92 * straight, 1.055 * straight ** (1 / 2.4) - 0.055)
    pixels = decode(path)
    assert pixels.shape == (12, 16, 4) and np.abs(pixels[..., :3] - expected).max() < 1.1
    assert np.abs(pixels[..., 3] - 255 * alpha[..., 0]).max() <= 0.5
    on_white = expected * alpha + 255 * (1 - alpha)
    assert np.abs(read_image(path) - on_white).max() < 2


def test_what_is_no_number_is_black_or_white() -> None:
    linear = np.array([[[np.nan, np.inf, -np.inf]]], np.float32)
    assert srgb_bytes(linear, None).tolist() == [[[0, 255, 0]]]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert srgb_bytes(linear, np.full((1, 1), 0.5, np.float32)).tolist() == [[[0, 255, 0, 128]]]
    assert srgb_bytes(np.ones((1, 1, 3), np.float32), np.zeros((1, 1), np.float32))[0, 0, 3] == 0


def test_negative_colours_are_black(tmp_path: Path) -> None:
    write(tmp_path / "a.exr", {"RGB": np.full((4, 5, 3), -0.1, np.float32)})
    assert not read_exr(tmp_path / "a.exr").any()


def test_colours_of_other_primaries_are_converted(tmp_path: Path) -> None:
    matrix = to_srgb(np.reshape(ACES, (4, 2)))
    assert matrix @ np.ones(3) == pytest.approx(np.ones(3))
    assert matrix[0] == pytest.approx([2.5217, -1.1341, -0.3876], abs=1e-3), "of ACES 2065-1"
    assert to_srgb(np.array(SRGB)) == pytest.approx(np.eye(3))
    rgb = np.full((4, 5, 3), 0.5, np.float32)
    rgb[0, 0] = 0.5, 0.4, 0.3
    write(tmp_path / "a.exr", {"RGB": rgb}, chromaticities=ACES)
    read = read_exr(tmp_path / "a.exr")
    assert read[1:] == pytest.approx(np.full((3, 5, 3), 0.5), abs=1e-5)
    assert read[0, 0] == pytest.approx(matrix @ rgb[0, 0], abs=1e-5)
    write(tmp_path / "a.exr", {"RGB": rgb}, chromaticities=(0.3,) * 8)
    with pytest.raises(scenes.CaptureError, match=r"a\.exr.*are no colours"):
        read_exr(tmp_path / "a.exr")
    for wrong in (np.full((4, 2), np.nan), np.array([*SRGB[:3], (0.6, 0.39616)])):
        with pytest.raises(ValueError, match="are no colours"):
            to_srgb(wrong)


def test_layers_of_colours(tmp_path: Path) -> None:
    first, second = np.zeros((4, 5), np.float32), np.ones((4, 5), np.float32)

    def layer(name: str, values: np.ndarray) -> dict[str, np.ndarray]:
        return {f"{name}{base}": values for base in "RGB"}

    path = tmp_path / "a.exr"
    write(path, layer("View.DiffCol.", first) | layer("View.Combined.", second))
    assert (read_exr(path) == 1).all()
    write(path, layer("View.Combined.", first) | layer("Composite.Combined.", second))
    assert (read_exr(path) == 1).all()
    write(path, layer("a.", first) | layer("b.", second))
    with pytest.raises(scenes.CaptureError, match=r"several layers of colours; its channels are .*a\.B"):
        read_exr(path)
    write(path, {"Y": second})
    assert (read_exr(path) == 1).all() and decode(path).shape == (4, 5, 3)
    for read in (read_exr, read_image, read_header):
        with pytest.raises(scenes.CaptureError, match=r"depth\.exr.*no colours R, G, B; its channels are Z"):
            read(DATA / "depth.exr")


def test_data_beside_the_display_window_are_cut_off(tmp_path: Path) -> None:
    window = (np.array([-1, 2], np.int32), np.array([14, 13], np.int32))
    shown = (np.array([0, 0], np.int32), np.array([9, 9], np.int32))
    write(tmp_path / "a.exr", {"Z": DEPTH}, dataWindow=window, displayWindow=shown)
    depth = read_exr_depth(tmp_path / "a.exr")
    assert depth.shape == (10, 10) and not depth[:2].any()
    assert (depth[2:] == DEPTH[:8, 1:11]).all()


def test_depth_is_found_by_its_name(tmp_path: Path) -> None:
    assert (read_depth(DATA / "depth.exr") == DEPTH).all()
    path = tmp_path / "a.exr"
    grey = np.repeat(DEPTH[..., None], 3, -1)
    cases: list[dict[str, np.ndarray]] = [
        {"V": DEPTH},
        {"RGB": grey},
        {"ViewLayer.Depth.Z": DEPTH, "ViewLayer.Normal.X": Y, "ViewLayer.Normal.Z": X},
        {"Z": DEPTH, "other.Z": X},
        {"RGB": grey * 2, "depth": DEPTH},
        {"RGBA": np.concatenate([grey, grey[..., :1]], -1)},
    ]
    for values in cases:
        write(path, values)
        assert np.abs(read_depth(path) - DEPTH).max() < 1e-6, list(values)


def test_depth_that_is_not_clear_names_the_channels(tmp_path: Path) -> None:
    path = DATA / "layers.exr"
    with pytest.raises(
        scenes.CaptureError, match=r"several channels of depth; .*rgb\.B.*left\.Z.*right\.Z"
    ) as e:
        read_depth(path)
    assert "--depth-channel" in e.value.remedy
    assert np.abs(read_depth(path, channel="left.Z") - DEPTH).max() < 1e-4
    assert read_depth(path, channel="right.Z") == pytest.approx(1 + X / 1000), "integers are millimetres"
    with pytest.raises(scenes.CaptureError, match=r"no channel 'Z', but rgb\.B"):
        read_depth(path, channel="Z")
    with pytest.raises(scenes.CaptureError, match="colours and no depth"):
        read_depth(write(tmp_path / "a.exr", {"RGB": COLOURS}))
    many = {f"N{i}.{axis}": X for i in range(20) for axis in "XYZ"}
    with pytest.raises(scenes.CaptureError, match=r"no channel of depth; .* and 36 more"):
        read_depth(write(tmp_path / "a.exr", many))


def test_what_shows_nothing_has_no_depth(tmp_path: Path) -> None:
    values = np.array([[1e10, 2, np.inf], [np.nan, -1, 3]], np.float32)
    for dtype in (np.float32, np.float16):
        with np.errstate(over="ignore"):
            stored = np.minimum(values, np.finfo(dtype).max).astype(dtype)
        write(tmp_path / "a.exr", {"Z": stored})
        assert read_depth(tmp_path / "a.exr").tolist() == [[0, 2, 0], [0, 0, 3]]
        inverse = read_depth(tmp_path / "a.exr", inverse=True)
        assert inverse == pytest.approx(np.array([[0, 0.5, 0], [0, 0, 1 / 3]]))


@pytest.mark.parametrize("name", ["depth.exr", "colours.exr", "layers.exr"])
def test_damage_is_refused_quietly(name: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    path, data = tmp_path / "a.exr", (DATA / name).read_bytes()
    for cut in (4, 60, 200, len(data) // 2, len(data) - 9):
        path.write_bytes(data[:cut])
        for read in (read_depth, read_exr, read_image):
            with pytest.raises(scenes.CaptureError, match=r"a\.exr") as refused:
                read(path)
            assert refused.value.remedy
    assert capfd.readouterr() == ("", "")
    path.write_bytes(b"\x89PNG" + data)
    with pytest.raises(scenes.CaptureError, match="not an OpenEXR file"):
        read_exr(path)


def test_lines_of_others_are_printed(capfd: pytest.CaptureFixture[str]) -> None:
    said: list[str] = []
    with channels._captured(said):
        print("of another thread")
        print("Warning: Exception raised reading pixel data for part 0 - cut")
        io.FileIO(2, "w", closefd=False).write(b"also\nx: (EXR_ERR_BAD) y\n")
    assert capfd.readouterr() == ("of another thread\n", "also\n") and said == ["cut", "y"]


def changed(data: bytes, name: bytes, at: int, value: bytes) -> bytes:
    """A file with other bytes in the value of an attribute."""
    start = data.index(name) + at
    return data[:start] + value + data[start + len(value) :]


def box(width: int, height: int) -> bytes:
    return b"".join(int(v).to_bytes(4, "little", signed=True) for v in (0, 0, width - 1, height - 1))


def test_sizes_are_checked_before_memory_is_allocated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data, path = (DATA / "colours.exr").read_bytes(), tmp_path / "a.exr"
    window = b"dataWindow\0box2i\0"
    path.write_bytes(changed(data, window, len(window) + 4, box(60_000, 60_000)))
    for read in (read_exr, read_image, read_depth):
        with pytest.raises(scenes.CaptureError, match="60000x60000 pixels, 3600 megapixels"):
            read(path)
    deflated = (DATA / "depth.exr").read_bytes()
    path.write_bytes(changed(deflated, window, len(window) + 4, box(9000, 9000)))
    with pytest.raises(scenes.CaptureError, match="81000000 values are announced, and 455 bytes cannot"):
        read_depth(path)
    shown = b"displayWindow\0box2i\0"
    path.write_bytes(changed(deflated, shown, len(shown) + 4, box(9000, 9000)))
    with pytest.raises(scenes.CaptureError, match="it shows 9000x9000 pixels and has data for"):
        read_depth(path)
    tiled, tiles = (DATA / "layers.exr").read_bytes(), b"tiledesc\0"
    path.write_bytes(changed(tiled, tiles, len(tiles) + 4, struct.pack("<II", 32, 1 << 24)))
    with pytest.raises(scenes.CaptureError, match="its tiles have 32x16777216 pixels"):
        read_exr(path)
    monkeypatch.setattr(channels, "available_memory", lambda: 1000)
    with pytest.raises(scenes.CaptureError, match="GB of memory are free"):
        read_exr(DATA / "colours.exr")


def test_the_limit_of_megapixels_holds(tmp_path: Path) -> None:
    set_max_megapixels(1e-4)
    try:
        for read in (read_exr, read_image):
            with pytest.raises(scenes.CaptureError, match=r"the limit is 0\.0001"):
                read(DATA / "colours.exr")
    finally:
        set_max_megapixels(MAX_MEGAPIXELS)


def part(number: int, **given: Any) -> Any:
    """The header of a part as the library gives it, of a file that it does not write."""
    sample = OpenEXR.File(str(DATA / "depth.exr"), header_only=True).parts[0].header
    return type("Part", (), {"header": {**sample, "name": str(number), **given}})()


@pytest.mark.parametrize(
    "given, wrong",
    [
        ([{"type": OpenEXR.deepscanline}], "only deep samples"),
        ([{"channels": [OpenEXR.Channel("RY", np.zeros((6, 8), np.float16), 2, 2)]}], "fewer pixels"),
        ([], "it has no parts"),
        ([{"dataWindow": ((0, 0), (7, -1))}], "it has no pixels"),
    ],
)
def test_files_without_flat_channels(given: list[dict], wrong: str, monkeypatch: pytest.MonkeyPatch) -> None:
    parts = [part(number, **header) for number, header in enumerate(given)]
    stand_in = type("Library", (), {"File": lambda *_, **__: type("File", (), {"parts": parts})()})
    monkeypatch.setattr(channels, "library", lambda path: stand_in)
    with pytest.raises(scenes.CaptureError, match=wrong):
        read_exr(DATA / "depth.exr")


def test_a_channel_without_pixels_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with (DATA / "depth.exr").open("rb") as stream:
        file = channels.ExrFile(DATA / "depth.exr", stream)
        header = OpenEXR.File(str(DATA / "depth.exr"), header_only=True).parts[0].header
        monkeypatch.setattr(file, "_parts", lambda header_only: [(header, {})])
        with pytest.raises(ValueError, match="channel Z is incomplete"):
            file.read(["Z"])


def test_photographs_may_be_exr(tmp_path: Path) -> None:
    source = tmp_path / "a.exr"
    source.write_bytes((DATA / "colours.exr").read_bytes())
    assert image_files(tmp_path) == [source] and suffix_for(source) == ".jpg"
    header = read_header(source)
    prepare(
        SourceImage("a", source, Lens(16, 12, 1, 1, 0.5, 0.5), np.eye(4)),
        header,
        tmp_path / "0.jpg",
        tmp_path,
    )
    with Image.open(tmp_path / "0.jpg") as copy:
        assert copy.format == "JPEG" and copy.size == (16, 12)
    assert source not in image_files(tmp_path), "OpenEXR beside photographs is something else"


@pytest.mark.parametrize("read", [read_depth, read_exr, read_image])
def test_without_the_library_it_is_said_how_to_get_it(
    read: Callable[[Path], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    original = importlib.import_module

    def refuse(name: str, *rest: Any) -> Any:
        if name == channels.LIBRARY:
            raise ImportError(name)
        return original(name, *rest)

    monkeypatch.setattr(importlib, "import_module", refuse)
    with pytest.raises(scenes.CaptureError, match=r"colours\.exr: OpenEXR images need a library") as refused:
        read(DATA / "colours.exr")
    assert "luxel[exr]" in str(refused.value.remedy)


def test_a_field_of_an_image(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    quick = ["--device", "cpu", "--batch", "512", "--log2-entries", "10", "--width", "16", "--steps", "40"]
    words = ["train", str(DATA / "colours.exr"), "--field", "image", *quick, "--run", str(tmp_path / "run")]
    assert main(words) == 0, capsys.readouterr().err
    words = ["render", str(tmp_path / "run"), "--device", "cpu", "--out", str(tmp_path / "a.png")]
    assert main([*words, "--exposure", "1"]) == 0
    with Image.open(tmp_path / "a.png") as image:
        assert image.size == (16, 12)


def test_captures_name_the_channel_of_depth(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    frames = []
    for index in range(4):
        Image.fromarray(np.full((12, 16, 3), 40 * index, np.uint8)).save(tmp_path / f"{index}.png")
        write(tmp_path / f"{index}.exr", {"left.Z": DEPTH + index, "right.Z": X})
        pose = np.eye(4)
        pose[0, 3] = index
        frame = {"file_path": f"{index}.png", "depth_file_path": f"{index}.exr"}
        frames.append(frame | {"transform_matrix": pose.tolist()})
    document = {"fl_x": 20.0, "w": 16, "h": 12, "frames": frames}
    (tmp_path / "transforms.json").write_text(json.dumps(document))
    (tmp_path / "points3D.ply").write_text(
        "ply\nformat ascii 1.0\nelement vertex 2\nproperty float x\nproperty float y\nproperty float z\nend_header\n"
        "0 0 -3\n1 0 -3\n"
    )
    capture = scenes.open(tmp_path, depth_channel="left.Z")
    assert (capture.depths["2.png"]() == DEPTH + 2).all()
    words = ["train", str(tmp_path), "--depth", "maps", "--device", "cpu", "--steps", "2"]
    assert main([*words, "--run", str(tmp_path / "a")]) == 2
    assert "several channels of depth" in capsys.readouterr().err
    words += ["--depth-channel", "left.Z", "--run", str(tmp_path / "run")]
    assert main(words) == 0, capsys.readouterr().err
    assert load_origin(tmp_path / "run").depth_channel == "left.Z"
