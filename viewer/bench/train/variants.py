"""The variants that the training benchmark compares: backends, and gsplat's own trainings."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import Any, get_args

import torch

from luxel.render.errors import LuxelError
from luxel.render.raster import Backend, rasterizer
from luxel.render.train.config import PARTS, TrainConfig
from luxel.render.train.densify import STRATEGIES
from luxel.render.train.presets import preset
from luxel.scenes import Capture
from luxel.viewer.bench.train.gsplat_settings import GSPLAT_TRAININGS, GsplatSettings, parse_settings
from luxel.viewer.bench.train.gsplat_trainer import require as require_gsplat
from luxel.viewer.bench.train.gsplat_trainer import train_gsplat
from luxel.viewer.bench.train.measure import Keep, Variant, train_once

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

    @property
    def backend(self) -> Backend:
        """That of the configuration."""
        return self.config.backend

    def with_seed(self, seed: int) -> TrainVariant:
        """The same with another seed."""
        return replace(self, config=replace(self.config, seed=seed))

    def require(self, device: torch.device) -> None:
        """Raises LuxelError where the backend cannot draw on the device."""
        rasterizer(self.backend, device)

    def settings(self) -> dict[str, Any]:
        """The configuration as plain values."""
        return self.config.to_dict()

    def train(
        self, capture: Capture, device: torch.device, first: dict[str, Any] | None, keep: Keep | None
    ) -> dict[str, Any]:
        """See `train_once`; ``first`` is not used."""
        return train_once(self.config, capture, device, keep)

    def differences(self, first: TrainConfig) -> dict[str, tuple[Any, Any]]:
        """By dotted name, the first's value and its own where they are not the same.

        Of another strategy only the options that are not its defaults are listed, with None for the first's; of the
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


@dataclass(frozen=True)
class GsplatVariant:
    """gsplat's own training: its strategy, schedules and optimizer.

    Args:
        name: in tables and plots, including its options.
        own: settings of the training.
        config: of the run that it is compared with; gives seed, background and metrics.
        evaluations: number of measurements at equal intervals of its steps.
    """

    name: str
    own: GsplatSettings
    config: TrainConfig
    evaluations: int

    @property
    def backend(self) -> Backend:
        """gsplat."""
        return "gsplat"

    def with_seed(self, seed: int) -> GsplatVariant:
        """The same with another seed."""
        return replace(self, config=replace(self.config, seed=seed))

    def require(self, device: torch.device) -> None:
        """Raises LuxelError where gsplat cannot train on the device."""
        require_gsplat(device)

    def settings(self) -> dict[str, Any]:
        """All settings of the training, as plain values."""
        return self.own.listed()

    def differences(self, first: TrainConfig) -> dict[str, tuple[Any, Any]]:
        """All settings of the training; of the first's values only the number of steps, the one that means the same."""
        listed: dict[str, tuple[Any, Any]] = {name: (None, value) for name, value in self.settings().items()}
        return listed | {"steps": (first.steps, self.own.steps)}

    def train(
        self, capture: Capture, device: torch.device, first: dict[str, Any] | None, keep: Keep | None
    ) -> dict[str, Any]:
        """See `train_gsplat`; there is no run folder to keep.

        Raises:
            LuxelError: its count is that of the first run, which failed.
        """
        bound = self.own.bound(None if first is None else first["count"])
        return train_gsplat(self.own, capture, self.config, device, evaluations=self.evaluations, bound=bound)


def parse_variant(words: str, first: TrainConfig, evaluations: int) -> Variant:
    """A variant from the command line.

    Args:
        words: a backend, which then trains exactly as ``first``; or "BACKEND:NAME=VALUE,...": from the settings of
            ``first``, or with ``preset=NAME`` or another ``primitive=NAME`` from that one's, and the background of
            ``first``; or one of gsplat's own trainings, see `parse_settings`.
        first: configuration of the run that it is compared with.
        evaluations: number of measurements at equal intervals of its own steps.

    Raises:
        LuxelError: no such backend, preset or field, an invalid value, or settings that do not go together.
    """
    name, colon, rest = words.partition(":")
    try:
        if name in GSPLAT_TRAININGS:
            return GsplatVariant(words, parse_settings(words), first, evaluations)
        backend: Backend | None = next((known for known in get_args(Backend) if known == name), None)
        if backend is None:
            raise LuxelError(
                f"there is no backend {name!r}.",
                f"Give luxel or gsplat, or gsplat:NAME=VALUE,NAME=VALUE, or {' or '.join(GSPLAT_TRAININGS)}.",
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
        LuxelError: a setting that names no field, or an invalid value.
    """
    if any(setting.startswith("steps=") for setting in settings):
        values["steps_by_size"] = 0
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
        LuxelError: text that is not NAME=VALUE, or a dotted name whose first part has no fields.
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
    """The first's configuration, or a preset, with the settings applied."""
    if any(setting.startswith("backend=") for setting in settings):
        raise LuxelError("the backend stands before the colon.", "Leave backend= out.")
    chosen = {}
    for name in ("preset", "primitive"):
        given = [setting.removeprefix(f"{name}=") for setting in settings if setting.startswith(f"{name}=")]
        if len(given) > 1:
            raise LuxelError(f"{name}={' and '.join(given)}: only one can be the {name}.", "Give one.")
        chosen[name] = given[0] if given else None
    values = first.to_dict()
    primitive = chosen["primitive"] or first.primitive
    if chosen["preset"] or primitive != first.primitive:
        # Views are evaluated on the background, so it stays, like the values that the benchmark sets.
        values = preset(chosen["preset"] or "default", primitive).to_dict()
        values |= {name: first.to_dict()[name] for name in ("background", "lpips", "save_renders")}
    rest = tuple(s for s in settings if not s.startswith(("preset=", "primitive=")))
    return configured(values, rest, evaluations)


def _flat(values: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    out = {}
    for name, value in values.items():
        out |= _flat(value, f"{prefix}{name}.") if isinstance(value, dict) else {f"{prefix}{name}": value}
    return out
