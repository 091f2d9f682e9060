"""A case for each option of a command that names an output, and the list of these options, from their types."""

from __future__ import annotations

import dataclasses
import importlib
import typing
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from luxel.viewer.cli import COMMANDS
from luxel.viewer.commands.bench import SUBCOMMANDS
from luxel.viewer.commands.train_field import TrainField

CPU = "--device cpu"
FRAMES = f"--frames 2 --width 32 --height 24 {CPU}"
RUN = r"config\.json|scene\.(ply|json)|metrics\.jsonl|eval/(index\.html|report\.json)"
REPORT = r"index\.html|report\.json|images/\d{3}-.*-(photograph|render|error)\.jpg"


@dataclass(frozen=True)
class Case:
    """A command with an output.

    Args:
        option: the option that names the output, as `output_options` gives it.
        words: of the command line; {place} is the output, {run}, {capture}, ... are inputs.
        writes: pattern of names in the place that the command writes, and may replace with --force.
        place: folder of the decoys.
        inside: status where decoys have names that it writes; 0: it writes other files.
        around: status where they have other names.
        slow: scenarios that are left to `make test-all`.
        forced: whether it has --force.
    """

    option: str
    words: str
    writes: str
    place: str = "place"
    inside: int = 2
    around: int = 0
    slow: tuple[str, ...] = ()
    forced: bool = True

    def scenarios(self) -> tuple[str, ...]:
        """What the case is tried in."""
        return ("inside", "around", "forced") if self.forced else ("inside", "around")


def _export(out: str, writes: str, options: str = "", *, slow: tuple[str, ...] = (), **more: Any) -> Case:
    words = f"export {{run}} --out {{place}}{out} {options}"
    return Case("export.out", words, writes, slow=slow, **more)


def _bench(name: str, options: str, **more: Any) -> Case:
    words, writes = f"bench {name} --out {{place}} {CPU} {options}", rf"{name}\.(json|md|html)"
    return Case(f"bench {name}.out", words, writes, forced=False, slow=("around",), **more)


SHORT = f"--steps 2 --no-lpips {CPU}"
SLOW = ("inside", "around", "forced")
CASES = [
    Case("train.run", f"train {{capture}} --run {{place}} {SHORT}", RUN, around=2),
    Case(
        "train.resume", f"train --resume {{run}} --steps 7 {CPU}", "", place="run", inside=0, slow=("around",)
    ),
    Case(
        "train --field.run",
        f"train {{image}} --field image --run {{place}} --steps 2 {CPU}",
        RUN,
        around=2,
        slow=("around", "forced"),
    ),
    Case(
        "train --field.resume",
        f"train --resume {{field}} --steps 4 {CPU}",
        RUN,
        place="field",
        slow=SLOW,
    ),
    Case("demo.run", f"demo --run {{place}} --minutes 0.01 {CPU}", RUN, around=2, forced=False, slow=SLOW),
    Case("eval.out", f"eval {{run}} --out {{place}} --no-lpips {CPU}", REPORT),
    Case("eval.out", f"eval {{run}} --no-lpips {CPU}", "", place="run", inside=0, slow=("around", "forced")),
    Case(
        "eval.out",
        f"eval {{field}} --out {{place}} {CPU}",
        r"report\.json",
        slow=SLOW,
    ),
    Case("inspect.out", f"inspect {{capture}} --no-estimate --out {{place}} {CPU}", r"inspect\.(html|json)"),
    Case("render.out", f"render {{run}} --out {{place}} {FRAMES}", r"0000[01]\.png"),
    Case("render.out", f"render {{run}} --out {{place}}/tour.mp4 {FRAMES}", r"tour\.mp4", slow=("forced",)),
    _export("/out.ply", r"out\.ply"),
    _export("/out.splat", r"out\.splat", slow=SLOW),
    _export("/out.spz", r"out\.spz", slow=SLOW),
    _export("/out.safetensors", r"out\.safetensors", slow=SLOW),
    _export("/out.html", r"out\.html", slow=SLOW),
    _export("/meta.json", r"meta\.json", slow=SLOW),
    _export("/model.obj", r"model\.(obj|mtl|png)", f"--mesh --resolution 16 {CPU}", slow=SLOW),
    _export("", r"(cameras|images|points3D)\.bin", "--cameras", around=2, slow=("forced",)),
    Case(
        "export.out",
        "export {moving} --frames 2 --out {place}",
        r"frame-0000[01]\.ply",
        around=2,
        slow=("forced",),
    ),
    Case(
        "segment.run", f"segment {{run}} --masks {{maps}} {CPU}", r"objects\.json", place="run", forced=False
    ),
    _bench("raster", "--counts 300 --sizes 48x32 --quick --no-quality"),
    _bench("train", "{capture} --steps 4 --evaluations 1 --no-lpips"),
    _bench("fields", "--sizes 64x36 --seconds 0.05 --quick --batch 256 --log2-entries 10 --only image"),
    _bench("segment", "--quick --iterations 2 --only times --sizes 64x48 --labels 3"),
    _bench("strangers", "--quick --only exact gaussians-fast"),
]
READ = {  # options that name what is read, whatever the command
    *(
        "capture",
        "captures",
        "scene",
        "second",
        "start_from",
        "depth_points",
        "path",
        "masks",
        "data",
        "merge",
    ),
    *("before", "after", "token_file", "tls_cert", "tls_key"),
}
ELSEWHERE = {  # options with outputs that other tests look at
    "bench view.out": "tests/viewer/bench/test_bench_report.py",  # written as the other reports of `luxel bench` are
    "bench record.out": "tests/viewer/bench/test_bench_record.py",
    "bench record.readme": "tests/viewer/bench/test_bench_record.py",
    "bench record.cache": "tests/viewer/bench/test_bench_record.py",
    "bench segment.cache": "tests/viewer/bench/test_bench_segment.py",
    "bench strangers.keep": "tests/viewer/bench/test_bench_strangers.py",  # refuses a folder that holds anything
}
WITHOUT_OUTPUT = {"view", "doctor"}  # commands; what the page of `view` saves has its own tests


def commands() -> Iterator[tuple[str, type]]:
    """Names of all commands and subcommands with the classes of their options."""
    for name, (class_name, _) in COMMANDS.items():
        yield name, getattr(importlib.import_module(f"luxel.viewer.commands.{name}"), class_name)
    yield "train --field", TrainField
    for name, kind in SUBCOMMANDS.items():
        yield f"bench {name}", kind


def path_options() -> list[tuple[str, str]]:
    """Command and name of each option whose value is a path."""
    return [(name, option) for name, kind in commands() for option in _path_options(kind)]


def output_options() -> list[str]:
    """COMMAND.OPTION of each option whose value is a path, and that does not name what is read."""
    return [f"{name}.{option}" for name, option in path_options() if option not in READ]


def _path_options(kind: type) -> Iterator[str]:
    types = typing.get_type_hints(kind, include_extras=True)
    for field in dataclasses.fields(kind):
        parts = list(_parts(types[field.name]))
        if Path in parts:
            yield field.name
        for part in parts:
            if dataclasses.is_dataclass(part) and isinstance(part, type):
                yield from _path_options(part)


def _parts(hint: Any) -> Iterator[Any]:
    """A type and the types that it is made of."""
    yield hint
    for argument in typing.get_args(hint):
        if isinstance(argument, type) or typing.get_origin(argument) is not None:
            yield from _parts(argument)
