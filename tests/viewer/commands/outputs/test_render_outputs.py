"""What `luxel render` and `luxel export` replace and delete: what luxel wrote, and with --force what is named."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from bad_input import Refused
from PIL import Image

from luxel.render.errors import LuxelError
from luxel.render.geometry.camera import Points
from luxel.render.primitives import Gaussians
from luxel.render.primitives.gaussians4d import Gaussians4d
from luxel.render.storage.manifest import NAME as MANIFEST
from luxel.scenes import save_primitive_ply, save_scene
from luxel.scenes.captures.formats.colmap_writing import save_colmap
from luxel.scenes.files.images.image_files import write_image
from luxel.scenes.files.ply import save_points
from luxel.scenes.files.registry import writable_suffixes
from luxel.viewer.cli import main
from luxel.viewer.films.film import write_film

SMALL = ("--frames", "2", "--width", "32", "--height", "24", "--device", "cpu")


def hashes(folder: Path) -> dict[str, str]:
    """SHA-256 of the files below a folder, by name."""
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


@pytest.fixture
def scene(tmp_path: Path, grid: Callable[..., Gaussians]) -> Path:
    save_primitive_ply(tmp_path / "grid.ply", grid())
    return tmp_path / "grid.ply"


@pytest.fixture
def moving(tmp_path: Path, carousel: Callable[..., Gaussians4d]) -> Path:
    save_primitive_ply(tmp_path / "moving.ply", carousel())
    return tmp_path / "moving.ply"


def frames(shade: int, count: int = 3, then: Callable[[], object] = lambda: None) -> Iterator[np.ndarray]:
    """Grey frames; ``then`` is called before the last one."""
    for number in range(count):
        if number == count - 1:
            then()
        yield np.full((24, 32, 3), shade, np.uint8)


def shade_of(film: Path) -> tuple[int, int]:
    """Number of frames, and the grey of the first one."""
    av = pytest.importorskip("av", reason="video test not run: no PyAV")
    with av.open(str(film)) as container:
        images = [frame.to_ndarray(format="rgb24") for frame in container.decode(video=0)]
    return len(images), round(float(images[0].mean()))


def test_a_film_replaces_no_file_without_force(scene: Path, tmp_path: Path, refused: Refused) -> None:
    pytest.importorskip("av", reason="video test not run: no PyAV")
    film = tmp_path / "tour.mp4"
    film.write_bytes(b"precious video")
    assert "--force" in refused("render", scene, "--out", film, *SMALL, names="tour.mp4: already exists")
    beside = tmp_path / "grid-orbit.mp4"
    beside.symlink_to(tmp_path / "missing.mp4")
    refused("render", scene, *SMALL, names="grid-orbit.mp4: already exists")
    assert film.read_bytes() == b"precious video" and beside.is_symlink()
    assert main(["render", str(scene), "--out", str(film), *SMALL, "--force"]) == 0
    assert shade_of(film)[0] == 2
    assert main(["render", str(scene), *SMALL, "--force"]) == 0
    assert not beside.is_symlink() and not (tmp_path / "missing.mp4").exists(), "the link is replaced"


def test_a_film_of_a_run_replaces_its_earlier_one(run: Path, refused: Refused) -> None:
    pytest.importorskip("av", reason="video test not run: no PyAV")
    assert main(["render", str(run), *SMALL]) == 0
    before, film = hashes(run), run / "orbit.mp4"
    assert main(["render", str(run), *SMALL, "--frames", "4"]) == 0
    assert shade_of(film)[0] == 4
    changed = {name for name, digest in hashes(run).items() if before.get(name) != digest}
    assert changed == {"orbit.mp4", MANIFEST}
    film.write_bytes(b"cut by hand")
    refused("render", run, *SMALL, names="orbit.mp4: luxel did not write this file, or it was changed since")
    refused("render", run, "--out", film, *SMALL, names="orbit.mp4")
    assert film.read_bytes() == b"cut by hand"
    assert main(["render", str(run), *SMALL, "--force"]) == 0 and shade_of(film)[0] == 2
    assert main(["render", str(run), "--out", str(film), *SMALL]) == 0, "it is luxel's again"


def test_frames_replace_only_frames_of_luxel(scene: Path, tmp_path: Path, refused: Refused) -> None:
    folder = tmp_path / "frames"
    folder.mkdir()
    (folder / "00001.png").write_bytes(b"a photograph")
    (folder / "00007.png").write_bytes(b"another one")
    before = hashes(folder)
    said = refused("render", scene, "--out", folder, *SMALL, names="00001.png: luxel did not write this file")
    assert "--force" in said and hashes(folder) == before, "refused before the first frame is written"
    longer = ["render", str(scene), "--out", str(folder), *SMALL, "--frames", "5"]
    assert main([*longer, "--force"]) == 0
    assert sorted(os.listdir(folder)) == [MANIFEST, *(f"0000{i}.png" for i in range(5)), "00007.png"]
    assert main(["render", str(scene), "--out", str(folder), *SMALL]) == 0, "they are luxel's"
    assert sorted(os.listdir(folder)) == [MANIFEST, "00000.png", "00001.png", "00007.png"]
    assert (folder / "00007.png").read_bytes() == b"another one"
    (folder / "00000.png").unlink()
    (folder / "00000.png").symlink_to(folder / "00007.png")
    refused("render", scene, "--out", folder, *SMALL, "--force", names="00000.png: this is a symbolic link")
    assert (folder / "00007.png").read_bytes() == b"another one"


@pytest.mark.parametrize(
    ("suffix", "options"),
    [
        (".gif", ["--loop", "2", "--fps", "20"]),
        (".webp", ["--quality", "60", "--loop", "0"]),
        (".apng", []),
        (".webm", ["--quality", "40"]),
    ],
)
def test_films_with_alpha_and_their_options(
    scene: Path, tmp_path: Path, suffix: str, options: list[str]
) -> None:
    pytest.importorskip("av", reason="video test not run: no PyAV")
    film = tmp_path / f"film{suffix}"
    words = ["render", str(scene), "--out", str(film), *SMALL, "--frames", "3", "--transparent", *options]
    assert main(words) == 0
    assert shade_of(film)[0] == 3 if suffix != ".webp" else film.stat().st_size > 100
    if suffix != ".webm":
        with Image.open(film) as image:
            assert image.n_frames == 3 and image.size == (32, 24)
            assert image.info.get("loop") == (1 if suffix == ".gif" else 0), "GIF counts repeats"
            alpha = np.array(image.convert("RGBA"))[..., 3]
        assert alpha.min() == 0 and alpha.max() > 150


def test_options_of_other_formats_are_refused_before_the_scene_is_opened(
    tmp_path: Path, refused: Refused
) -> None:
    missing = tmp_path / "missing.ply"
    refused("render", missing, "--out", tmp_path / "a.mp4", "--transparent", names=".mp4 has no alpha")
    refused("render", missing, "--transparent", names="missing-orbit.mp4: .mp4 has no alpha")
    refused(
        "render",
        missing,
        "--out",
        tmp_path / "a.mov",
        "--loop",
        "2",
        names="a.mov: .mov does not say how often",
    )
    refused(
        "render",
        missing,
        "--out",
        tmp_path / "a.apng",
        "--quality",
        "2",
        names="a.apng: .apng has no quality",
    )
    refused(
        "render",
        missing,
        "--out",
        tmp_path / "a.gif",
        "--fps",
        "60",
        names="a.gif: .gif has at most 50 frames",
    )


def test_one_image_of_a_scene(scene: Path, tmp_path: Path, refused: Refused) -> None:
    """That of the first camera of the path, with its alpha."""
    size = ("--width", "32", "--height", "24", "--device", "cpu")
    still, folder = tmp_path / "view.png", tmp_path / "frames"
    assert main(["render", str(scene), "--out", str(still), *size, "--transparent"]) == 0
    assert main(["render", str(scene), "--out", str(folder), *SMALL, "--transparent"]) == 0
    assert np.array_equal(np.array(Image.open(still)), np.array(Image.open(folder / "00000.png")))
    refused("render", scene, "--out", still, *size, names="view.png: already exists")
    for option in (("--frames", "3"), ("--fps", "20"), ("--loop", "1")):
        refused("render", scene, "--out", still, *option, names=f"{option[0]}: view.png is one image")
    jpeg = tmp_path / "view.jpg"
    refused("render", scene, "--out", jpeg, "--transparent", names="view.jpg: .jpg images have no alpha")
    refused("render", scene, "--at", "0003", names="--at 0003 needs the views of a capture")


def test_the_image_of_a_view(run: Path, tmp_path: Path, refused: Refused) -> None:
    """It has the camera of the view, in its own size or another; a film of it stands still."""
    from luxel.viewer.scene_loading.capture_options import load_origin

    views = load_origin(run, None).open().views
    still, film = tmp_path / "view.png", tmp_path / "film"
    assert (
        main(["render", str(run), "--at", Path(views[2].name).stem, "--out", str(still), "--device", "cpu"])
        == 0
    )
    assert (
        main(
            [
                "render",
                str(run),
                "--at",
                views[2].name,
                "--out",
                str(film),
                "--frames",
                "2",
                "--device",
                "cpu",
            ]
        )
        == 0
    )
    image = np.array(Image.open(still)).astype(float)
    assert image.shape[:2] == (views[2].camera.height, views[2].camera.width)
    errors = [np.abs(image - view.read().rgb).mean() for view in views]
    assert int(np.argmin(errors)) == 2, "it is another view's camera"
    for name in ("00000.png", "00001.png"):
        assert np.array_equal(np.array(Image.open(film / name)), image)
    refused("render", run, "--at", "nothing", "--out", tmp_path / "b.png", names="views has that name")


def test_frames_of_an_interrupted_render_are_complete(tmp_path: Path) -> None:
    def interrupt() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_film(tmp_path / "frames", frames(90, 3, interrupt), 10.0)
    assert sorted(os.listdir(tmp_path / "frames")) == [MANIFEST, "00000.png", "00001.png"]
    with pytest.raises(KeyboardInterrupt):
        write_film(tmp_path / "film.mp4", frames(90, 3, interrupt), 10.0)
    assert os.listdir(tmp_path) == ["frames"]


def test_of_two_renders_into_one_name_the_first_one_gets_it(tmp_path: Path) -> None:
    """The second one begins and ends while the first one encodes: no file of one is in the other's."""
    pytest.importorskip("av", reason="video test not run: no PyAV")
    film = tmp_path / "y.mp4"
    with pytest.raises(LuxelError, match=r"y\.mp4: another file has got this name meanwhile\."):
        write_film(film, frames(60, 9, lambda: write_film(film, frames(180, 4), 10.0)), 10.0)
    count, shade = shade_of(film)
    assert count == 4 and abs(shade - 180) < 4 and os.listdir(tmp_path) == ["y.mp4"]


def test_time_slices_delete_and_replace_only_their_own(moving: Path, tmp_path: Path) -> None:
    folder = tmp_path / "slices"
    folder.mkdir()
    for name in ("frame-00001.ply", "frame-00009.ply", "notes.txt"):
        (folder / name).write_text("mine")
    words = ["export", str(moving), "--out", str(folder), "--force", "--frames"]
    assert main([*words, "4"]) == 0
    assert (folder / "frame-00009.ply").read_text() == (folder / "notes.txt").read_text() == "mine"
    assert (folder / "frame-00001.ply").read_bytes()[:3] == b"ply"
    assert main([*words, "2"]) == 0
    names = ["frame-00000.ply", "frame-00001.ply", "frame-00009.ply", "notes.txt"]
    assert sorted(os.listdir(folder)) == [MANIFEST, *names]


def test_time_slices_of_python_replace_no_file_of_another(
    carousel: Callable[..., Gaussians4d], tmp_path: Path
) -> None:
    from luxel.scenes import save_time_slices

    (tmp_path / "frame-00001.ply").write_text("mine")
    with pytest.raises(LuxelError, match=r"frame-00001\.ply: luxel did not write this file"):
        save_time_slices(tmp_path, carousel(), [0.0, 0.5])
    assert os.listdir(tmp_path) == ["frame-00001.ply"]


def test_images_beside_meta_json_that_luxel_did_not_write_stay(scene: Path, tmp_path: Path) -> None:
    folder = tmp_path / "sog"
    folder.mkdir()
    (folder / "means_l.webp").write_bytes(b"a photograph")
    (folder / "quats-2.webp").write_bytes(b"another one")
    (folder / "meta.json").write_text('{"means": {"files": ["means_l.webp", "quats-2.webp"]}}')
    words = ["export", str(scene), "--out", str(folder / "meta.json")]
    assert main(words) == 2
    for _ in range(2):
        assert main([*words, "--force"]) == 0
        assert (folder / "means_l.webp").read_bytes() == b"a photograph"
        assert (folder / "quats-2.webp").read_bytes() == b"another one"
    images = [name for name in os.listdir(folder) if name.endswith(".webp")]
    assert len(images) in (2 + 5, 2 + 7), f"one scene: {images}"
    assert main(["export", str(folder), "--out", str(tmp_path / "again.ply")]) == 0


def test_a_link_in_the_place_of_an_export_is_named(scene: Path, tmp_path: Path, refused: Refused) -> None:
    (tmp_path / "soft.splat").symlink_to(tmp_path / "missing.splat")
    refused("export", scene, "--out", tmp_path / "soft.splat", names="soft.splat: already exists")
    assert main(["export", str(scene), "--out", str(tmp_path / "soft.splat"), "--force"]) == 0
    assert not (tmp_path / "soft.splat").is_symlink() and not (tmp_path / "missing.splat").exists()


def test_names_of_255_bytes_are_written(grid: Callable[..., Gaussians], tmp_path: Path) -> None:
    """The longest names of a file; longer ones are a message about the name."""
    pytest.importorskip("av", reason="video test not run: no PyAV")
    for suffix in writable_suffixes():
        if suffix != "meta.json":
            name = "n" * (255 - len(suffix)) + suffix
            save_scene(tmp_path / name, grid())
            assert (tmp_path / name).stat().st_size > 100
    save_primitive_ply(tmp_path / "grid.ply", grid())
    film = tmp_path / ("n" * 251 + ".mp4")
    assert main(["render", str(tmp_path / "grid.ply"), "--out", str(film), *SMALL]) == 0
    assert shade_of(film)[0] == 2
    assert not [name for name in os.listdir(tmp_path) if name.startswith(".luxel")]
    too_long = r"File name too long\)\. Give a shorter name\."  # some file systems have a lower limit
    with pytest.raises(LuxelError, match=too_long):
        save_scene(tmp_path / ("n" * 252 + ".spz"), grid())
    with pytest.raises(LuxelError, match=too_long):
        write_film(tmp_path / ("n" * 252 + ".mp4"), frames(20), 10.0)


def write_short_film(folder: Path) -> None:
    pytest.importorskip("av", reason="video test not run: no PyAV")
    write_film(folder / "film.mp4", frames(20), 10.0)


def write_model(folder: Path) -> None:
    save_colmap(folder, [], Points(np.zeros((0, 3), np.float32), np.zeros((0, 3), np.uint8)))


WRITERS: dict[str, Callable[[Path], object]] = {
    "film": write_short_film,
    "frames": lambda folder: write_film(folder, frames(20), 10.0),
    "image": lambda folder: write_image(folder / "a.png", 32, 24, frames(20, 1)),
    "model": write_model,
    "points": lambda folder: save_points(
        folder / "a.ply", Points(np.zeros((1, 3)), np.zeros((1, 3), np.uint8))
    ),
}


@pytest.mark.parametrize("kind", WRITERS)
def test_content_and_name_are_on_the_disk(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The content is flushed before a file gets its name, and the folder afterwards."""
    events: list[tuple[str, int]] = []
    flush, rename, link = os.fsync, os.rename, os.link

    def fsync(file: int) -> None:
        events.append(("flushed", os.fstat(file).st_ino))
        flush(file)

    def named(call: Callable[..., None]) -> Callable[..., None]:
        def give(source: str, target: str, **options: Any) -> None:
            status = os.stat(source, dir_fd=options["src_dir_fd"], follow_symlinks=False)
            events.append(("named", status.st_ino))
            call(source, target, **options)

        return give

    monkeypatch.setattr(os, "fsync", fsync)
    monkeypatch.setattr(os, "rename", named(rename))
    monkeypatch.setattr(os, "link", named(link))
    WRITERS[kind](tmp_path)
    names = [place for place, (event, _) in enumerate(events) if event == "named"]
    assert names
    for place in names:
        assert ("flushed", events[place][1]) in events[:place], "a name for content that is not on the disk"
    assert ("flushed", tmp_path.stat().st_ino) in events[names[-1] :], "the name is not on the disk"
