"""Samples of capture formats: each file of a small capture, whose other files are unchanged."""

from __future__ import annotations

import atexit
import io
import json
import os
import shutil
import struct
import tempfile
from functools import cache, partial
from pathlib import Path

import numpy as np
from PIL import Image

from luxel.render.errors import LuxelError
from luxel.render.geometry.camera import Points
from luxel.scenes import save_points
from luxel.scenes.captures.capture_format import ReadOptions
from luxel.scenes.captures.contents import image_files
from luxel.scenes.captures.depth.depth_maps import read_depth
from luxel.scenes.captures.depth.tracks import visible_points
from luxel.scenes.captures.exposure_data import (
    APERTURE,
    APEX_APERTURE,
    APEX_TIME,
    EXIF_IFD,
    SENSITIVITY,
    TIME,
    Exposure,
    relative_stops,
)
from luxel.scenes.captures.formats import colmap
from luxel.scenes.captures.images.images import decode, read_header
from luxel.scenes.captures.images.video_frames import choose_frames, decode_frames
from luxel.scenes.captures.lenses.lens import fit_to_file, pinhole_of
from luxel.scenes.captures.lenses.lens_models import EQUIRECTANGULAR
from luxel.scenes.captures.lenses.undistortion import undistortion_maps
from luxel.scenes.captures.open_capture import read_contents
from luxel.scenes.captures.panorama_options import PanoramaOptions
from luxel.scenes.captures.panoramas.recognition import are_panoramas, is_panorama_video
from luxel.scenes.synthetic.toy import ring_cameras
from luxel.viewer.films.film import write_film

try:
    from .sample import Sample, written
except ImportError:  # the tests import this file by itself
    from sample import Sample, written

COEFFICIENTS = (  # of every lens model of COLMAP, in the order of its numbers: parameters after the principal point
    (), (), (0.05,), (0.05, -0.03), (0.05, -0.03, 0.002, -0.001), (0.03, -0.01, 0.002, 0.001),
    (0.05, -0.03, 0.002, -0.001, 0.01, 0.02, 0.01, 0.001), (0.7,), (0.03,), (0.03, -0.01),
    (0.03, -0.01, 0.002, -0.001, 0.003, 0.001, 0.002, -0.003),
    (0.03, -0.01, 0.004, 0.002, 0.0, 0.0, 0.002, -0.001, 0.003, 0.0, -0.002, 0.0),
    (-0.08,), (-0.08,), (), (), (0.6, 1.1),
)  # fmt: skip
DATA = Path(__file__).resolve().parents[1] / "scenes" / "data"
FEW_VIEWS = PanoramaOptions(views=3)  # cutting takes longer than reading


def capture_samples() -> list[Sample]:
    """Each file of each capture format; the others of its capture are unchanged."""
    out = [_in_capture("capture transforms.json: nerfstudio", "transforms.json", _transforms())]
    out += [_in_capture("capture transforms.json: Blender", "transforms_train.json", _blender())]
    for suffix, variant in ((".bin", "binary"), (".txt", "text")):
        model = _colmap(text=suffix == ".txt")
        out += [
            _in_capture(f"capture COLMAP model: {variant} {name}", name, model)
            for name in model
            if suffix in name
        ]
    out.append(Sample("lens models: cameras.txt", ".txt", _lenses(), _read_lenses))
    out.append(_in_capture("capture LLFF: three images", "poses_bounds.npy", _llff()))
    out.append(_in_capture("capture Polycam raw export: poses", "keyframes/cameras/0.json", _polycam()))
    out.append(_in_capture("capture transforms.json: panoramas", "transforms.json", _panoramas()))
    out.append(_in_capture("capture transforms.json: a panorama", "pano1.jpg", _panoramas()))
    for name in ("poses_bounds.npy", "cam1.mp4"):
        out.append(_in_capture(f"capture synchronised cameras: {name}", name, _film_cameras()))
    out.append(_in_capture("capture synchronised cameras: folders", "transforms.json", _folder_cameras()))
    depth = io.BytesIO()
    np.save(depth, np.ones((6, 8), np.float32))
    out.append(Sample("depth map .npy: floats", ".npy", depth.getvalue(), read_depth))
    depth = io.BytesIO()
    Image.fromarray(np.arange(48, dtype=np.uint16).reshape(6, 8)).save(depth, "PNG")
    out.append(Sample("depth map .png: 16 bits", ".png", depth.getvalue(), read_depth))
    depth = io.BytesIO()
    Image.fromarray(np.arange(48, dtype=np.uint8).reshape(6, 8)).save(depth, "PNG")
    out.append(Sample("inverse depth .png: 8 bits", ".png", depth.getvalue(), _read_inverse_depth))
    for name, channel in (("depth", None), ("layers", "left.Z")):
        data = (DATA / f"{name}.exr").read_bytes()
        out.append(Sample(f"depth map .exr: {name}", ".exr", data, partial(read_depth, channel=channel)))
    for suffix, variant in ((".bin", "binary"), (".txt", "text")):
        model = _colmap(text=suffix == ".txt")
        out += [
            Sample(
                f"tracks of points: {variant} {name}", suffix, model[name], partial(_read_tracks, name, model)
            )
            for name in model
            if name in (f"images{suffix}", f"points3D{suffix}")
        ]
    out.append(Sample("exposure .jpg: EXIF", ".jpg", _exposed(), _read_exposure))
    out.append(Sample("panorama .jpg: metadata", ".jpg", _panorama(), _recognise))
    index = struct.pack(">I4s", 16 + 80, b"moov") + struct.pack(">I4s", 88, b"sv3d") + b"equi".ljust(80)
    out.append(Sample("panorama .mp4: metadata", ".mp4", index, is_panorama_video))
    photographs = {f"{index}.png": _png() for index in range(3)}
    out.append(Sample("capture photographs: one image", ".png", _png(), partial(_check_image, photographs)))
    for suffix, variant in ((".mp4", "H.264"), (".webm", "VP9")):
        out.append(Sample(f"capture video: {variant}", suffix, _video(suffix), _check_video))
    return out


def _read_inverse_depth(path: Path) -> object:
    depth = read_depth(path, inverse=True)
    assert np.isfinite(depth).all() and (depth >= 0).all()
    return depth


def _read_tracks(file: str, files: dict[str, bytes], path: Path) -> object:
    """The points that each image sees, where the file of a path takes the place of one of the model's."""
    folder = _filled({f"tracks/{name}": data for name, data in files.items()}) / "tracks"
    shutil.copyfile(path, folder / file)
    try:
        seen = visible_points(folder)
    finally:
        (folder / file).write_bytes(files[file])
    assert all(np.isfinite(xyz).all() for xyz in seen.values())
    return seen


def _panorama() -> bytes:
    mark = b'<x GPano:ProjectionType="equirectangular"/>'
    file = io.BytesIO()
    ramp = np.arange(32 * 64 * 3, dtype=np.uint8).reshape(32, 64, 3)
    Image.fromarray(ramp).save(file, "JPEG", xmp=mark, exif=_exif({TIME: 0.01, APERTURE: 2.0}))
    return file.getvalue()


def _exif(tags: dict[int, float]) -> Image.Exif:
    exif = Image.Exif()
    exif.get_ifd(EXIF_IFD).update({**tags, SENSITIVITY: 100})
    return exif


def _exposed() -> bytes:
    """A small image whose bytes are mostly EXIF data; damage to the time and the f-number leaves the APEX values."""
    tags = {TIME: 0.01, APERTURE: 2.0, APEX_TIME: 6.6, APEX_APERTURE: 2.0}
    file = io.BytesIO()
    Image.new("RGB", (1, 1)).save(file, "JPEG", exif=_exif(tags))
    return file.getvalue()


def _read_exposure(path: Path) -> object:
    header = read_header(path)
    if header.exposure is not None:
        known = {"a": header.exposure, "b": Exposure(0.01), "c": Exposure(0.02, 100, 2.8)}
        assert np.isfinite(list(relative_stops(known).values())).all() and str(header.exposure)
    return header


def _lenses() -> bytes:
    rows = []
    for model, (name, count) in enumerate(colmap.MODEL_NUMBERS):
        rest = COEFFICIENTS[model] if name != EQUIRECTANGULAR else ()
        values = [60.0, 61.0, 32.0, 24.0][4 - count + len(rest) :] + list(rest)
        rows.append(f"{model} {name} 64 48 {' '.join(map(str, values))}")
    return "\n".join(rows).encode()


def _read_lenses(path: Path) -> object:
    """Each changed line as a model of COLMAP, and the pinhole camera of its lens at a small size."""
    folder = _filled({f"1/{name}.txt": b"#\n" for name in ("cameras", "images", "points3D")}) / "1"
    errors, lenses = [], []
    for line in set(path.read_bytes().splitlines()) - set(_lenses().splitlines()):
        (folder / "cameras.txt").write_bytes(line)
        try:
            lenses += colmap.read_model(folder).lenses.values()
            if lenses and lenses[-1].model != EQUIRECTANGULAR:
                lens = fit_to_file(lenses[-1], (16, 12), "lens")
                assert (np.abs(pinhole_of(lens).matrix()) < 1e30).all(), "not finite in single precision"
                undistortion_maps(lens)
        except LuxelError as error:
            errors.append(error)
    if errors:
        raise errors[0]
    return lenses


def _recognise(path: Path) -> object:
    """Whether an image is a panorama, by both of its options, and its header."""
    certain = PanoramaOptions("equirectangular")
    return are_panoramas([path], PanoramaOptions()), read_header(path), are_panoramas([path], certain)


def _panoramas() -> dict[str, bytes]:
    frames = [
        {"file_path": f"pano{index}.jpg", "transform_matrix": pose.tolist()}
        for index, pose in enumerate(_poses())
    ]
    document = {"camera_model": "EQUIRECTANGULAR", "frames": frames}
    return {
        "transforms.json": json.dumps(document).encode(),
        **{f"pano{index}.jpg": _panorama() for index in range(3)},
    }


def _film_cameras() -> dict[str, bytes]:
    table = np.stack([np.r_[np.c_[np.eye(3), [0, 0, i], [32, 32, 30]].ravel(), 1, 9] for i in range(3)])
    file = io.BytesIO()
    np.save(file, table)
    return {"poses_bounds.npy": file.getvalue(), **{f"cam{index}.mp4": _video(".mp4") for index in range(3)}}


def _folder_cameras() -> dict[str, bytes]:
    frames = [
        {"file_path": f"cam{index}", "transform_matrix": pose.tolist(), "k1": 0.01}
        for index, pose in enumerate(_poses())
    ]
    document = {"w": 64, "h": 48, "fl_x": 60.0, "fps": 25, "camera_model": "OPENCV", "frames": frames}
    images = {f"cam{camera}/{frame}.png": _png() for camera in range(3) for frame in range(2)}
    return {"transforms.json": json.dumps(document).encode(), **images}


def _llff() -> dict[str, bytes]:
    file = io.BytesIO()
    np.save(
        file, np.stack([np.r_[np.c_[np.eye(3), [0, 0, i], [48, 64, 60]].ravel(), 1, 9] for i in range(3)])
    )
    return {"poses_bounds.npy": file.getvalue(), **{f"images/{index}.png": _png() for index in range(3)}}


def _polycam() -> dict[str, bytes]:
    files = {}
    for number, pose in enumerate(_poses()):
        rows = {f"t_{row}{column}": pose[row, column] for row in range(3) for column in range(4)}
        lens = {"fx": 60, "fy": 60, "cx": 32, "cy": 24, "width": 64, "height": 48}
        files[f"keyframes/cameras/{number}.json"] = json.dumps({**lens, **rows}).encode()
        files[f"keyframes/images/{number}.png"] = _png()
    return files


def _video(suffix: str) -> bytes:
    rows = np.random.default_rng(0).integers(0, 256, (32, 64, 1), np.uint8).repeat(3, 2)
    frames = [np.ascontiguousarray(rows[:, 3 * i : 3 * i + 32]) for i in range(4)]
    return written(f"walk{suffix}", lambda p: write_film(p, frames, 8))


def _check_video(path: Path) -> object:
    """What is read of a video before structure from motion begins."""
    return list(decode_frames(path, choose_frames(path).frames))


def _in_capture(name: str, file: str, files: dict[str, bytes]) -> Sample:
    return Sample(name, Path(file).suffix, files[file], partial(_read_capture, file, files))


@cache
def _capture_folder(process: int, names: tuple[str, ...]) -> Path:
    """A folder for the files of one capture, of this process alone."""
    folder = Path(tempfile.mkdtemp(prefix="luxel-capture-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def _filled(files: dict[str, bytes]) -> Path:
    folder = _capture_folder(os.getpid(), tuple(files))
    for name, data in files.items():
        if not (folder / name).exists():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes(data)
    return folder


def _read_capture(file: str, files: dict[str, bytes], path: Path) -> object:
    """A capture in which the file of a path takes the place of one of its files."""
    folder = _filled(files)
    shutil.copyfile(path, folder / file)
    try:
        return read_contents(folder, ReadOptions(panorama=FEW_VIEWS))
    finally:
        (folder / file).write_bytes(files[file])


def _check_image(files: dict[str, bytes], path: Path) -> object:
    """What structure from motion reads of a photograph before it begins."""
    folder = _filled(files)
    shutil.copyfile(path, folder / "1.png")
    return [(read_header(file), decode(file, oriented=True)) for file in image_files(folder)]


def _png() -> bytes:
    file = io.BytesIO()
    Image.fromarray(np.arange(48 * 64 * 3, dtype=np.uint8).reshape(48, 64, 3)).save(file, "PNG")
    return file.getvalue()


def _transforms() -> dict[str, bytes]:
    frames = [
        {"file_path": f"{index}.png", "transform_matrix": pose.tolist(), "time": 0.5 * index}
        for index, pose in enumerate(_poses())
    ]
    lens = {"w": 64, "h": 48, "fl_x": 60.0, "fl_y": 61.0, "cx": 32.0, "cy": 24.0, "k1": 0.01, "p1": 0.0}
    points = Points(np.ones((4, 3), np.float32), np.zeros((4, 3), np.uint8))
    document = {
        **lens,
        "ply_file_path": "points.ply",
        "frames": frames,
        "train_filenames": ["0.png", "1.png"],
    }
    document |= {"camera_model": "OPENCV", "test_filenames": ["2.png"]}
    return {
        "transforms.json": json.dumps(document).encode(),
        "points.ply": written("points.ply", lambda p: save_points(p, points)),
        **{f"{index}.png": _png() for index in range(3)},
    }


def _blender() -> dict[str, bytes]:
    frames = [
        {"file_path": f"./{i}", "rotation": 0.1, "transform_matrix": p.tolist()}
        for i, p in enumerate(_poses())
    ]
    document = json.dumps({"camera_angle_x": 0.7, "frames": frames}).encode()
    return {"transforms_train.json": document, **{f"{index}.png": _png() for index in range(3)}}


def _poses() -> list[np.ndarray]:
    return [camera.cam_to_world.double().numpy() @ np.diag([1.0, -1, -1, 1]) for camera in ring_cameras(3)]


def _colmap(text: bool) -> dict[str, bytes]:
    images = {f"{index}.png": _png() for index in (1, 2)}
    if text:
        return {
            "cameras.txt": b"# cameras\n1 OPENCV 64 48 60 61 32 24 0.01 0 0 0\n",
            "images.txt": b"1 1 0 0 0 0 0 3 1 1.png\n1 2 -1\n2 1 0 0.1 0 0 0 3 1 2.png\n\n",
            "points3D.txt": b"1 0 0 1 10 20 30 0.5 1 0 2 0\n2 0 1 1 10 20 30 0.5 1 0 2 0\n",
            **images,
        }
    rows = b"".join(
        struct.pack("<i7di", i, 1, 0, 0, 0, 0, 0, 3, 1)
        + f"{i}.png\0".encode()
        + struct.pack("<Qddq", 1, 5, 6, -1)
        for i in (1, 2)
    )
    points = b"".join(struct.pack("<Q3d3BdQ4i", i, 1, 2, 3, 9, 9, 9, 0.5, 2, 1, 0, 2, 0) for i in (1, 2))
    return {
        "cameras.bin": struct.pack("<QiiQQ8d", 1, 1, 4, 64, 48, 60, 61, 32, 24, 0.01, 0, 0, 0),
        "images.bin": struct.pack("<Q", 2) + rows,
        "points3D.bin": struct.pack("<Q", 2) + points,
        **images,
    }
