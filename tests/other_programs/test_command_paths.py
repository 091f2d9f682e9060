"""Paths on the command line: ~ in every option, links that go in circles, and outputs that exist already."""

from __future__ import annotations

import dataclasses
import importlib
import json
import os
import typing
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ray_cast_capture import ring, write_colmap, write_images

from luxel.render.bounds import option_types, takes
from luxel.render.errors import LuxelError
from luxel.scenes import save_scene
from luxel.scenes.synthetic.toy import torus_knot
from luxel.viewer.cli import COMMANDS, main, parse
from luxel.viewer.commands.bench import SUBCOMMANDS
from luxel.viewer.options import PathText, option_name

RESUMED = "--resume"  # names a run that is read while options are parsed
Option = tuple[str, Any]  # its name on the command line, and its type


def command_types() -> Iterator[tuple[str, list[str], type]]:
    """Every command and subcommand: its name, the words that choose it, and its options."""
    for name, (attribute, _) in COMMANDS.items():
        command: Any = getattr(importlib.import_module(f"luxel.viewer.commands.{name}"), attribute)
        for words in ([], ["--field", "image"]) if name == "train" else ([],):
            kind = command.variant(words) if hasattr(command, "variant") else command
            if name == "bench":
                yield from ((name, [word], inner) for word, inner in SUBCOMMANDS.items())
            else:
                yield name, words, kind


def path_options(kind: type, prefix: str = "") -> Iterator[Option]:
    """Every option of a dataclass, and of those in it, that is a path."""
    for entry in dataclasses.fields(kind):
        hint = option_types(kind)[entry.name]
        name = option_name(hint, entry.name, prefix)
        inner = typing.get_args(hint)[0] if hasattr(hint, "__metadata__") else hint
        if dataclasses.is_dataclass(inner):
            yield from path_options(typing.cast(type, inner), name and f"{name}.")
        elif takes(hint, Path) or PathText() in getattr(hint, "__metadata__", ()):
            yield name, hint


def paths_in(value: Any) -> Iterator[Any]:
    """All paths, and texts that may be paths, that a command holds."""
    for entry in dataclasses.fields(value):
        held = getattr(value, entry.name)
        if dataclasses.is_dataclass(held):
            yield from paths_in(held)
        else:
            yield from (
                each for each in (held if isinstance(held, tuple) else [held]) if isinstance(each, Path | str)
            )


ALL = list(command_types())


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home folder, and another current folder beside it."""
    (tmp_path / "home").mkdir()
    (tmp_path / "here").mkdir()
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path / "here")
    return tmp_path / "home"


def test_the_walk_meets_the_path_options_of_all_commands() -> None:
    names = {(name, *words[:1], option) for name, words, kind in ALL for option, _ in path_options(kind)}
    for each in [
        ("train", "--run"),
        ("train", "CAPTURE"),
        ("train", "--field", "DATA"),
        ("view", "--token-file"),
        ("export", "--out"),
        ("bench", "compare", "BEFORE.json"),
        ("bench", "raster", "--scene"),
    ]:
        assert each in names
    assert {name for name, *_ in names} == set(COMMANDS) - {"doctor"}


@pytest.mark.parametrize("joined", [True, False], ids=["--out=~/x", "--out ~/x"])
@pytest.mark.parametrize(("name", "words", "kind"), ALL, ids=[" ".join([n, *w]) for n, w, _ in ALL])
def test_the_home_folder_in_every_path_option(
    name: str, words: list[str], kind: type, joined: bool, home: Path
) -> None:
    arguments, expected = list(words), []
    for row, (option, hint) in enumerate(path_options(kind)):
        if option == RESUMED:
            continue
        value = f"~/{row} of {name}"
        expected.append(str(home / f"{row} of {name}"))
        many = takes(hint, tuple) or any(
            typing.get_origin(a) is tuple for a in (hint, *typing.get_args(hint))
        )
        if not option.startswith("--"):
            arguments.append(value)
        elif joined and not many:
            arguments.append(f"{option}={value}")
        else:
            arguments += [option, value]
    options = parse(name, arguments)
    actual = [str(each) for each in paths_in(options)]
    assert set(expected) <= set(actual)
    assert not [each for each in actual if each.startswith("~")]


def refused(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    """The message of a command that does not accept what it is given."""
    capsys.readouterr()
    assert main(arguments) == 2
    message = capsys.readouterr().err
    assert message.startswith("luxel: ") and "Traceback" not in message
    return message


def test_export_writes_into_the_home_folder(home: Path) -> None:
    save_scene(home / "a.ply", torus_knot(8))
    assert main(["export", "~/a.ply", "--out=~/b.splat"]) == 0
    assert (home / "b.splat").stat().st_size == 8 * 32 and not list(Path.cwd().iterdir())


def test_the_home_folder_of_a_run_that_is_resumed(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It is read while the options are parsed."""
    for option in (["--resume=~/run"], ["--resume", "~/run"]):
        assert f"{home}/run" in refused(["train", *option], capsys)


def test_home_folders_that_there_are_not(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for arguments in (["train", "--resume=~no-such-user/run"], ["view", "~no-such-user/a.ply"]):
        message = refused(arguments, capsys)
        assert "~no-such-user" in message and "no such home folder" in message
        assert "--resume" in message or "SCENE" in message


def test_a_tilde_inside_a_name_stays(home: Path) -> None:
    options = parse("export", ["a~b/~c.ply", "--out=x~/~.ply"])
    assert (options.scene, options.out) == (Path("a~b/~c.ply"), Path("x~/~.ply"))


CIRCLES = [
    ["train", "{}"],
    ["train", "{}", "--field", "image"],
    ["train", "--resume", "{}"],
    ["train", "photos", "--run", "{}"],
    ["inspect", "{}"],
    ["inspect", "photos", "--out", "{}"],
    ["view", "{}"],
    ["view", "a.ply", "--token-file", "{}"],
    ["eval", "{}"],
    ["render", "{}"],
    ["render", "a.ply", "--path", "{}"],
    ["export", "{}", "--out", "b.ply"],
    ["export", "a.ply", "--out", "{}"],
    ["segment", "{}", "--auto"],
    ["bench", "train", "{}"],
    ["bench", "compare", "a.json", "{}"],
    ["demo", "--run", "{}"],
]


@pytest.mark.parametrize("arguments", CIRCLES, ids=" ".join)
@pytest.mark.parametrize("name", ["loop", "loop.ply", "a/b", "loop/inside"])
def test_links_in_a_circle_are_named(
    arguments: list[str], name: str, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A link to itself, two that point at each other, and a path through one."""
    for link, target in (("loop", "loop"), ("loop.ply", "loop.ply"), ("a", "c"), ("c", "a")):
        os.symlink(target, link)
    message = refused([word.format(name) for word in arguments], capsys)
    assert f" {name}: its symbolic links lead in a circle." in message


def write_capture(folder: Path) -> Path:
    """A capture of eight images with poses and points."""
    poses = ring()
    names = write_images(folder / "images", poses)
    write_colmap(folder / "sparse/0", names, poses)
    return folder


@pytest.mark.parametrize(
    ("link", "target"),
    [
        ("images/more", ".."),
        ("images/zzz.png", "zzz.png"),
        ("masks", "masks"),
        ("depths", "../{}/depths"),
        ("self", "."),
        ("sparse/0/points3D.bin", "points3D.bin"),
        (".luxel", ".luxel"),
    ],
)
def test_links_in_a_circle_inside_a_capture_are_harmless(
    link: str, target: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    capture = write_capture(tmp_path / "capture")
    os.symlink(target.format("capture"), capture / link)
    assert main(["inspect", str(capture), "--no-estimate", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["views"]


@pytest.mark.parametrize("link", ["images", "images/0003.png", "sparse/0/images.txt"])
def test_what_a_capture_needs_is_named_where_it_is_a_circle(
    link: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    capture = write_capture(tmp_path / "capture")
    (capture / link).rename(tmp_path / "moved")
    os.symlink(Path(link).name, capture / link)
    message = refused(["inspect", str(capture), "--no-estimate"], capsys)
    assert str(capture) in message


def test_a_link_to_what_is_there_is_followed(home: Path) -> None:
    save_scene(home / "a.ply", torus_knot(8))
    os.symlink(home / "a.ply", "link.ply")
    assert parse("export", ["link.ply", "--out", "b.ply"]).scene == Path("link.ply")


def test_a_name_that_no_path_can_have_is_the_option_s_own_message(home: Path) -> None:
    with pytest.raises(LuxelError, match="--out has a NUL character"):
        parse("export", ["a.ply", "--out", "a\0.ply"])
