"""The options of `luxel train` for one primitive, strategy and preset, from their registries."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import field, fields, make_dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal

import tyro

from luxel.render.errors import LuxelError
from luxel.render.primitives import PRIMITIVES
from luxel.render.train.config import PARTS
from luxel.render.train.densify import STRATEGIES
from luxel.render.train.presets import preset
from luxel.viewer.options import given, given_path

if TYPE_CHECKING:
    from luxel.render.train.config import TrainConfig


def command(base: type, options: type[TrainConfig], arguments: Sequence[str]) -> type:
    """The command with the options of the chosen primitive and strategy; their defaults are the preset's, or a run's.

    Args:
        base: the command, a dataclass with ``preset``, ``strategy`` and ``config``.
        options: the class of ``config``.
        arguments: of the command line.

    Raises:
        LuxelError: choices that do not exist or do not go together, or an option of another choice.
    """
    from luxel.render.train.config import TrainConfig

    config = starting_config(arguments)
    if not {"-h", "--help"} & set(arguments):
        refuse_others(arguments, config)
    spec, strategy = PRIMITIVES[config.primitive], config.strategy_name
    known = {part: getattr(spec, part) for part in PARTS}
    of_primitive = make_dataclass(
        options.__name__,
        [
            ("primitive", _choice(tuple(PRIMITIVES), _primitives_help())),
            *known.items(),
        ],
        bases=(options,),
        namespace={"__doc__": options.__doc__},
        kw_only=True,
    )
    values = {f.name: getattr(config, f.name) for f in fields(TrainConfig)}
    return make_dataclass(
        base.__name__,
        [
            (
                "preset",
                _choice(tuple(spec.presets), _presets_help(config.primitive)),
                field(default="default"),
            ),
            (
                "strategy",
                _choice(spec.strategies, _strategies_help(config.primitive)),
                field(default=strategy),
            ),
            (
                "config",
                Annotated[of_primitive, tyro.conf.arg(name="")],
                field(default_factory=lambda: of_primitive(**values)),
            ),
            (strategy, type(config.strategy), field(default_factory=lambda: copy.copy(config.strategy))),
        ],
        bases=(base,),
        namespace={"__doc__": base.__doc__},
    )


def starting_config(arguments: Sequence[str]) -> TrainConfig:
    """The values of options that are not given: those of the resumed run, or the preset's.

    Raises:
        LuxelError: choices that do not exist or do not go together.
    """
    primitive, name = given(arguments, "--primitive"), given(arguments, "--preset")
    strategy, folder = given(arguments, "--strategy"), given_path(arguments, "--resume")
    if folder is None:
        config = preset(name or "default", primitive or "gaussians")
    else:
        from luxel.render.train.resume import read_config, require_resumable
        from luxel.scenes.loading.run_results import run_folder

        config, body = read_config(run_folder(folder))
        require_resumable(run_folder(folder), body)
        try:
            config.check()
        except LuxelError as error:
            raise LuxelError(f"{folder}: {error.problem}", error.remedy) from error
        if primitive not in (None, config.primitive):
            noun = PRIMITIVES[config.primitive].noun
            raise LuxelError(
                f"--primitive {primitive}: the run in {folder} is of {noun}.",
                "Leave the option out, or start a new run.",
            )
        if name is not None:
            raise LuxelError(
                f"--preset {name}: the run in {folder} has a configuration already.",
                "Leave the option out, and give the options to change.",
            )
    if given(arguments, "--steps") is not None:
        config.steps_by_size = 0
    spec = PRIMITIVES[config.primitive]
    if strategy is not None and strategy not in spec.strategies:
        raise LuxelError(
            f"--strategy {strategy}: {spec.noun} have no such strategy.",
            f"Give one of {', '.join(spec.strategies)}.",
        )
    if strategy is not None and strategy != config.strategy_name:
        config.strategy = STRATEGIES[strategy]()
    return config


def refuse_others(arguments: Sequence[str], config: TrainConfig) -> None:
    """Refuses options of a strategy or a primitive that is not chosen.

    Raises:
        LuxelError: there is one; the message names the choice that it belongs to.
    """
    for word in arguments:
        option = word.split("=")[0].replace("_", "-")
        group, dot, name = option.removeprefix("--").partition(".")
        if not option.startswith("--") or not dot:
            continue
        if group in STRATEGIES and group != config.strategy_name:
            raise LuxelError(
                f"{option} belongs to --strategy {group}; this run uses {config.strategy_name}.",
                f"Leave it out, or give --strategy {group}{_where(group, config.primitive)}.",
            )
        if group in PARTS and name not in _names(config.primitive, group):
            owners = [other for other in PRIMITIVES if name in _names(other, group)]
            if owners:
                raise LuxelError(
                    f"{option} belongs to --primitive {' or '.join(owners)}; this run is of {config.primitive}.",
                    "Leave it out.",
                )


def _where(strategy: str, primitive: str) -> str:
    """The primitives that have a strategy, where the present one has not."""
    if strategy in PRIMITIVES[primitive].strategies:
        return ""
    owners = [spec.name for spec in PRIMITIVES.values() if strategy in spec.strategies]
    return f" with --primitive {' or '.join(owners)}"


def _names(primitive: str, part: str) -> set[str]:
    """The options of a part, as the command line writes them."""
    return {f.name.replace("_", "-") for f in fields(getattr(PRIMITIVES[primitive], part))}


def _choice(names: tuple[str, ...], about: str) -> Any:
    return Annotated[Literal[names], tyro.conf.arg(help=about)]


def _primitives_help() -> str:
    kinds = "; ".join(f"{name}: {spec.about or spec.noun}" for name, spec in PRIMITIVES.items())
    return f"What the scene is made of: {kinds}."


def _presets_help(primitive: str) -> str:
    kinds = "; ".join(f"{name}: {known.about}" for name, known in PRIMITIVES[primitive].presets.items())
    return f"Values that all options below start from. {kinds}."


def _strategies_help(primitive: str) -> str:
    kinds = "; ".join(f"{name}: {STRATEGIES[name].about}" for name in PRIMITIVES[primitive].strategies)
    return f"Densification strategy, which adds, splits, moves and removes primitives. {kinds}."
