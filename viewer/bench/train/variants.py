"""The variants that the training benchmark compares: backends, with common settings or settings of their own."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import Any, get_args

from luxel.render.backends import Backend
from luxel.render.errors import LuxelError
from luxel.render.train.config import PARTS, TrainConfig
from luxel.render.train.densify import STRATEGIES
from luxel.render.train.presets import preset

_BY_THE_BENCHMARK = ("backend", "eval_every", "save_renders")  # set by the benchmark, not by the user


@dataclass(frozen=True)
class TrainVariant:
    """A backend with a training configuration.

    Args:
        name: in tables and plots, including its own settings.
        config: of the training, including the backend.
    """

    name: str
    config: TrainConfig

    def differences(self, first: TrainConfig) -> dict[str, tuple[Any, Any]]:
        """By dotted name, the first's value and its own where they are not the same.

        Of another strategy only what is not that strategy's default is listed, with nothing of the first's; of the
        options of another primitive likewise.
        """
        theirs, own = first.to_dict(), self.config.to_dict()
        differences = {}
        if theirs["strategy"]["kind"] != (kind := own["strategy"]["kind"]):
            differences["strategy.kind"] = (theirs["strategy"]["kind"], kind)
            usual = vars(STRATEGIES[kind]())
            strategy = own.pop("strategy")
            differences |= {
                f"strategy.{k}": (None, v) for k, v in strategy.items() if k != "kind" and v != usual[k]
            }
        for part in PARTS:
            options = getattr(self.config, part)
            if type(getattr(first, part)) is not type(options):
                usual = vars(type(options)())
                differences |= {f"{part}.{k}": (None, v) for k, v in own.pop(part).items() if v != usual[k]}
        flat_theirs, flat_own = _flat(theirs), _flat(own)
        differences |= {k: (flat_theirs[k], v) for k, v in flat_own.items() if flat_theirs[k] != v}
        return {name: pair for name, pair in differences.items() if name not in _BY_THE_BENCHMARK}


def parse_variant(words: str, first: TrainConfig, evaluations: int) -> TrainVariant:
    """A variant from the command line.

    Args:
        words: a backend, which then trains exactly as ``first``; or "BACKEND:NAME=VALUE,...": from the settings of
            ``first``, or with ``preset=NAME`` or another ``primitive=NAME`` from that one's, and the background of
            ``first``.
        first: what it is to be compared with.
        evaluations: how many measurements its own steps are divided by.

    Raises:
        LuxelError: no such backend, preset or field, a value that does not fit, or settings that make no run.
    """
    name, colon, rest = words.partition(":")
    backend: Backend | None = next((known for known in get_args(Backend) if known == name), None)
    try:
        if backend is None:
            raise LuxelError(
                f"there is no backend {name!r}.", "Give luxel or gsplat, or gsplat:NAME=VALUE,NAME=VALUE."
            )
        config = _own_config(rest.split(","), first, evaluations) if colon else first
        config = replace(config, backend=backend)
        config.check()
    except LuxelError as error:
        raise LuxelError(f"--against {words}: {error.problem}", error.remedy) from error
    return TrainVariant(words, config)


def configured(values: dict[str, Any], settings: tuple[str, ...], evaluations: int) -> TrainConfig:
    """The configuration of plain values and settings, with ``evaluations`` evaluations.

    Raises:
        LuxelError: a setting that names no field, or a value that does not fit.
    """
    changed = with_settings(values, settings)
    try:
        config = TrainConfig.from_dict(changed)
    except LuxelError as error:
        raise LuxelError(
            error.problem.removeprefix("config.json: "),
            "Names and values are those of a run's config.json, e.g. rates.means=1e-4.",
        ) from error
    if not any(setting.startswith("eval_every=") for setting in settings):
        config.eval_every = max(1, config.steps // evaluations)
    return config


def with_settings(values: dict[str, Any], settings: tuple[str, ...]) -> dict[str, Any]:
    """A configuration's plain values with some of them changed: "rates.means=1e-4".

    Raises:
        LuxelError: text that is no NAME=VALUE, or a name inside of what has no parts.
    """
    for setting in settings:
        name, equals, text = setting.partition("=")
        *path, last = name.split(".")
        inner = values
        for part in path:
            inner = inner.get(part)
            if not isinstance(inner, dict):
                break
        if not equals or not isinstance(inner, dict):
            raise LuxelError(f"{setting!r} names no field.", "Give NAME=VALUE, e.g. rates.means=1e-4.")
        if name == "strategy.kind":  # another strategy starts from its own defaults
            values["strategy"] = inner = {}
        try:
            inner[last] = json.loads(text)
        except json.JSONDecodeError:
            inner[last] = text
    return values


def _own_config(settings: list[str], first: TrainConfig, evaluations: int) -> TrainConfig:
    """What settings make of the first's configuration, or of a preset."""
    if any(setting.startswith("backend=") for setting in settings):
        raise LuxelError("the backend stands before the colon.", "Leave backend= out.")
    chosen = {}
    for name in ("preset", "primitive"):
        given = [setting.removeprefix(f"{name}=") for setting in settings if setting.startswith(f"{name}=")]
        if len(given) > 1:
            raise LuxelError(f"{name}={' and '.join(given)} is none.", "Give one.")
        chosen[name] = given[0] if given else None
    values = first.to_dict()
    primitive = chosen["primitive"] or first.primitive
    if chosen["preset"] or primitive != first.primitive:
        # Views are measured on the background: it stays, as what the benchmark itself chooses does.
        values = preset(chosen["preset"] or "default", primitive).to_dict()
        values |= {name: first.to_dict()[name] for name in ("background", "lpips", "save_renders")}
    rest = tuple(s for s in settings if not s.startswith(("preset=", "primitive=")))
    return configured(values, rest, evaluations)


def _flat(values: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    out = {}
    for name, value in values.items():
        out |= _flat(value, f"{prefix}{name}.") if isinstance(value, dict) else {f"{prefix}{name}": value}
    return out
