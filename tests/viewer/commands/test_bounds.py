"""Every number of every command has bounds, and one rule refuses what is outside them, however it is given."""

from __future__ import annotations

import dataclasses
import importlib
import json
import math
import re
import typing
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import pytest

from luxel.render.bounds import Bounds, Options, OutOfBounds, bounds_of, check_all, option_types, takes
from luxel.render.errors import LuxelError
from luxel.render.fields.applications import APPLICATIONS
from luxel.render.fields.config import FieldConfig, defaults
from luxel.render.primitives import PRIMITIVES
from luxel.render.train.config import TrainConfig
from luxel.render.train.presets import preset
from luxel.scenes import save_scene
from luxel.scenes.synthetic.toy import torus_knot
from luxel.viewer.cli import COMMANDS, main, parse
from luxel.viewer.commands.bench import SUBCOMMANDS
from luxel.viewer.options import option_name

BAD = ("nan", "inf", "-inf", str(10**30), "-1", "0", str(2**63), "-0.5", "1e300")
LONGEST = "n" * 256


class Leaf(NamedTuple):
    """A number of a command."""

    words: tuple[str, ...]  # that choose the command
    option: str
    owner: type
    name: str
    hint: Any

    @property
    def bounds(self) -> Bounds:
        bounds = bounds_of(self.hint)
        assert bounds is not None, f"{' '.join(self.words)} {self.option}: a number without bounds"
        return bounds

    @property
    def whole(self) -> bool:
        return not takes(self.hint, float)

    @property
    def values(self) -> int:
        """How many values the option takes on the command line."""
        pairs = [t for t in _parts(self.hint) if typing.get_origin(t) is tuple]
        return 2 if pairs and ... not in typing.get_args(pairs[0]) else 1

    def made_of(self, value: Any) -> Any:
        is_tuple = any(typing.get_origin(part) is tuple for part in _parts(self.hint))
        return (value,) * self.values if is_tuple else value


def _parts(hint: Any) -> Iterator[Any]:
    yield hint
    for part in typing.get_args(hint):
        yield from _parts(part)


def _leaves(kind: type, words: tuple[str, ...], prefix: str = "") -> Iterator[Leaf]:
    for field in dataclasses.fields(kind):
        hint = option_types(kind)[field.name]
        name = option_name(hint, field.name, prefix)
        groups = [part for part in _parts(hint) if isinstance(part, type) and dataclasses.is_dataclass(part)]
        for group in groups:
            yield from _leaves(group, words, name and f"{name}.")
        if not groups and (takes(hint, int) or takes(hint, float)):
            yield Leaf(words, name, kind, field.name, hint)


def _all_leaves() -> Iterator[Leaf]:
    chosen: list[tuple[str, ...]] = [
        ("train", "--primitive", spec.name, "--strategy", strategy)
        for spec in PRIMITIVES.values()
        for strategy in spec.strategies
    ]
    chosen += [("train", "--field", name) for name in APPLICATIONS]
    chosen += [(name,) for name in COMMANDS if name not in ("train", "bench")]
    for words in chosen:
        kind = getattr(importlib.import_module(f"luxel.viewer.commands.{words[0]}"), COMMANDS[words[0]][0])
        kind = kind.variant(words[1:]) if hasattr(kind, "variant") else kind
        if hasattr(kind, "defaults"):  # options of a field are those of its application's configuration
            yield from _leaves(type(kind.defaults(words[1:]).config), words)
        yield from _leaves(kind, words)
    for name, kind in SUBCOMMANDS.items():
        yield from _leaves(kind, ("bench", name))


LEAVES = tuple(_all_leaves())
DISTINCT = tuple({(leaf.owner.__name__, leaf.name): leaf for leaf in LEAVES}.values())
# One of each command, and of options that stand in a group.
SOME = tuple({(leaf.words[0], *leaf.words[1:2], leaf.option.count(".")): leaf for leaf in LEAVES}.values())


def _number(text: str, whole: bool) -> float:
    return int(text) if whole and text.lstrip("-").isdigit() else float(text)


def _required(kind: type) -> dict[str, Any]:
    missing = dataclasses.MISSING
    return {
        field.name: (Path("x"),) if takes(option_types(kind)[field.name], tuple) else Path("x")
        for field in dataclasses.fields(kind)
        if field.default is missing and field.default_factory is missing
    }


def test_every_number_has_bounds() -> None:
    assert len(DISTINCT) > 120, "the walk lost its way"
    for leaf in LEAVES:
        low, high = leaf.bounds.low, leaf.bounds.high
        assert math.isfinite(low) and math.isfinite(high) and low < high, leaf
        assert issubclass(leaf.owner, Options), leaf


@pytest.mark.parametrize("leaf", DISTINCT, ids=lambda leaf: f"{leaf.owner.__name__}.{leaf.name}")
def test_a_dataclass_is_within_bounds_or_refused(leaf: Leaf) -> None:
    kind, required = leaf.owner, _required(leaf.owner)
    accepted = 0
    for text in BAD:
        value = _number(text, leaf.whole)
        allowed = leaf.bounds.low <= value <= leaf.bounds.high
        allowed &= not (leaf.bounds.above and value == leaf.bounds.low)
        allowed &= not (leaf.bounds.below and value == leaf.bounds.high)
        allowed &= not leaf.whole or isinstance(value, int)
        if allowed:
            accepted += 1
            kind(**{**required, leaf.name: leaf.made_of(value)})
        else:
            with pytest.raises(OutOfBounds) as refusal:
                kind(**{**required, leaf.name: leaf.made_of(value)})
            assert refusal.value.name == leaf.name and f"{refusal.value.bounds}" in refusal.value.remedy
    assert accepted < len(BAD) and not leaf.bounds.allow(math.nan)


def _refused(leaf: Leaf, text: str) -> bool:
    """Whether the command line refuses a value of an option; its own way to do so names the option and its bounds."""
    given = [f"{leaf.option}={text}"] if leaf.values == 1 else [leaf.option, *[text] * leaf.values]
    words = [*leaf.words[1:], *([] if leaf.words[0] in ("train", "demo") else ["x"]), *given]
    if leaf.words[0] == "bench":
        words = [leaf.words[1], *(["x"] if leaf.words[1] == "train" else []), *given]
    try:
        parse(leaf.words[0], words)
    except OutOfBounds as error:
        assert error.name == leaf.option
        return True
    except SystemExit as end:  # tyro: no number of that type, such as nan for a whole number
        assert end.code == 2
        return True
    return False


@pytest.mark.parametrize("leaf", SOME, ids=lambda leaf: f"{leaf.owner.__name__}.{leaf.name}")
def test_the_command_line_refuses_by_the_same_rule(leaf: Leaf, capsys: pytest.CaptureFixture[str]) -> None:
    assert _refused(leaf, str(10**30)), leaf.option


@pytest.mark.slow
@pytest.mark.parametrize("leaf", DISTINCT, ids=lambda leaf: f"{leaf.owner.__name__}.{leaf.name}")
def test_each_option_refuses_on_the_command_line(leaf: Leaf, capsys: pytest.CaptureFixture[str]) -> None:
    assert _refused(leaf, str(-(10**30)) if leaf.whole else "nan"), leaf.option


def test_the_message_names_option_value_and_bounds(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["train", str(tmp_path), "--rates.means", "nan"]) == 2
    said = capsys.readouterr().err
    assert said == "luxel: --rates.means nan: this is out of bounds.\n  Give a number from 0 to 100.\n"
    assert main(["train", str(tmp_path), "--seed", "1" + "0" * 4000]) == 2
    assert "--seed (13,288 bits)" in capsys.readouterr().err
    assert main(["bench", "raster", "--sizes", "0x720"]) == 2
    said = capsys.readouterr().err
    assert "--sizes 0x720: width 0: this is out of bounds" in said and "from 1 to 16384" in said
    assert main(["view", str(tmp_path), "--port", "70000"]) == 2
    said = capsys.readouterr().err
    assert "--port 70000" in said and "from 0 to 65535" in said and "in use" not in said


def test_help_states_the_bounds(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["train", "--help"]) == 0
    said = " ".join(capsys.readouterr().out.replace("│", " ").split())
    assert "their losses are averaged. Range: 1 to 1024." in said
    assert "spherical harmonics, 0 to 3. (default: 3)" in said, "the docstring states them itself"
    assert "2^63" not in said, "bounds that no one reaches are left out"


def test_a_lack_of_memory_names_options_of_the_command(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def exhausted(*_: object) -> None:
        raise MemoryError

    monkeypatch.setattr("luxel.viewer.cli.parse", exhausted)
    for words in (
        ["train", "x"],
        ["train", "x", "--field", "image"],
        ["eval"],
        ["render"],
        ["export"],
        ["view"],
    ):
        assert main(words) == 2
        remedy = capsys.readouterr().err.split("\n", 1)[1]
        monkeypatch.undo()
        for option in re.findall(r"--[a-z0-9-]+", remedy):
            with pytest.raises(SystemExit):
                main_help(words)
            assert option in capsys.readouterr().out, (words, option)
        monkeypatch.setattr("luxel.viewer.cli.parse", exhausted)


def main_help(words: list[str]) -> None:
    parse(words[0], [*words[1:], "--help"])


@pytest.mark.parametrize("primitive", sorted(PRIMITIVES))
def test_config_json_is_checked(primitive: str) -> None:
    def numbers(values: dict[str, Any], path: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
        for name, value in values.items():
            if isinstance(value, dict):
                yield from numbers(value, (*path, name))
            elif isinstance(value, int | float) and not isinstance(value, bool):
                yield (*path, name)

    whole = preset("default", primitive).to_dict()
    paths = list(numbers(whole, ()))
    assert len(paths) > 30
    for path in paths:
        values = json.loads(json.dumps(whole))
        inner = values
        for name in path[:-1]:
            inner = inner[name]
        inner[path[-1]] = 10**30 if isinstance(inner[path[-1]], int) else math.nan
        with pytest.raises(OutOfBounds) as refusal:
            TrainConfig.from_dict(values)
        assert refusal.value.name == ".".join(path)


def test_a_field_config_json_is_checked() -> None:
    values = defaults("radiance").to_dict()
    for name, value in {"seed": 2**63, "rate": math.nan, "batch": 10**9, "huber": math.inf}.items():
        with pytest.raises(OutOfBounds, match=f"{name} "):
            FieldConfig.from_dict(values | {name: value})


def test_values_set_later_are_checked_with_the_whole() -> None:
    config = TrainConfig()
    config.rates.final_factor = math.nan
    with pytest.raises(OutOfBounds, match=r"rates\.final_factor nan"):
        config.check()


def test_whole_numbers_are_whole() -> None:
    for value in (2.0, True, "3"):
        with pytest.raises(OutOfBounds, match="steps"):
            TrainConfig(steps=typing.cast(int, value))


def test_options_of_others_without_bounds_are_finite() -> None:
    @dataclasses.dataclass
    class Foreign(Options):
        weight: float = 1.0
        pair: Annotated[tuple[float, float] | None, Bounds(0, 1)] = None

    Foreign(weight=-1e300)
    with pytest.raises(OutOfBounds, match="weight inf"):
        Foreign(weight=math.inf)
    with pytest.raises(OutOfBounds, match=r"pair 1\.5"):
        Foreign(pair=(0.5, 1.5))
    made = Foreign()
    made.pair = (0.0, math.nan)
    with pytest.raises(OutOfBounds, match=r"inner\.pair nan"):
        check_all(made, "inner.")


@pytest.mark.parametrize(
    ("words", "names"),
    [
        (["train", "x", "--run", ""], "--run is empty"),
        (["train", "x", "--run="], "--run is empty"),
        (["view", ""], "An argument is empty"),
        (["train", "x", "--run", "a\0b"], "--run has a NUL character"),
        (["train", "x", "--run", f"folder/{LONGEST}"], "--run folder/nnn"),
        (["view", LONGEST], "SCENE nnn"),
        (["export", "x", "--out", "a/" * 2100], "--out a/a/"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_texts_that_name_nothing(words: list[str], names: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words) == 2
    assert names in capsys.readouterr().err


def test_a_file_where_a_folder_is_wanted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "file"
    file.write_text("kept")
    for words in (
        ["train", "x", "--run"],
        ["train", "x", "--field", "image", "--run"],
        ["demo", "--run"],
        ["eval", "x", "--out"],
        ["bench", "raster", "--data"],
        ["bench", "record", "--cache"],
    ):
        for path in (file, file / "inside"):
            assert main([*words, str(path)]) == 2
            assert f"{words[-1]} {path}: {file} is a file." in capsys.readouterr().err
    assert file.read_text() == "kept"
    parse("train", ["x", "--run", str(tmp_path / "new" / "run")])


def test_a_config_of_another_file_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "checkpoints").mkdir()
    values = preset().to_dict()
    values["rates"]["means"] = 1e300
    (tmp_path / "config.json").write_text(json.dumps({"versions": {}, "config": values}))
    assert main(["train", "--resume", str(tmp_path)]) == 2
    said = capsys.readouterr().err
    assert "config.json" in said and "means 1e+300" in said
    with pytest.raises(LuxelError):
        parse("train", ["--resume", str(tmp_path)])


def test_scenes_that_are_not_finite(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    scene = torus_knot(50)
    scene.means[:5] = math.nan
    scene.quats[4:6, 0] = math.inf
    save_scene(tmp_path / "scene.ply", scene)
    words = ["export", str(tmp_path / "scene.ply"), "--out"]
    assert main([*words, str(tmp_path / "a.ply")]) == 0
    out, said = capsys.readouterr().out, caplog.text
    assert "6 of 50 Gaussians have parameters that are not finite (means 5, quats 2)" in said
    assert out.startswith("44 Gaussians") and "--keep-non-finite keeps them" in said
    caplog.clear()
    assert main([*words, str(tmp_path / "b.ply"), "--keep-non-finite"]) == 0
    out, said = capsys.readouterr().out, caplog.text
    assert out.startswith("50 Gaussians") and "they are retained" in said
    caplog.clear()
    options = ["--frames", "1", "--width", "16", "--height", "16", "--device", "cpu"]
    assert main(["render", str(tmp_path / "scene.ply"), *options, "--out", str(tmp_path / "frames")]) == 0
    assert "they are left out" in caplog.text
