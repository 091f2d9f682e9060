"""Settings of gsplat's own trainings: its two strategies, as its examples configure them.

Settings: examples/simple_trainer.py and gsplat/strategy of gsplat 1.5.3 (Ye et al. 2025, "gsplat: An Open-Source
Library for Gaussian Splatting", Apache-2.0).
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal

from luxel.render.errors import LuxelError

DEFAULT_STRATEGY, MCMC_STRATEGY = "DefaultStrategy", "MCMCStrategy"
OWN_STEPS = 30_000  # that its schedules are made for


@dataclass(frozen=True)
class GsplatSettings:
    """One of gsplat's trainings; lengths are in its normalised scene (see `gsplat_scene`).

    Args:
        strategy: class in gsplat.strategy.
        options: fields of the strategy.
        steps: length of the run; the learning rate of the means decays to `means_final` over it.
        count: most Gaussians: a number, "luxel" (as many as the first run ended with), or None: the strategy's own
            bound, if it has one.
        scaled: scale all schedules by steps / 30,000, as its ``steps_scaler`` does; else they stay as they are, as with
            its ``max_steps``.
        reset: reset opacities every `reset_every` steps as DefaultStrategy documents it; the condition for this in
            release 1.5.3 never holds, so without this option nothing is reset there.
        rates: learning rates; that of the means is multiplied by the scene scale.
        means_final: learning rate of the means at the end, divided by the first.
        ssim_weight: share of 1 - SSIM in the loss.
        sh_degree: of the spherical harmonics at the end.
        sh_every: steps between increases of their degree.
        opacity: of each Gaussian at the start.
        scale: of each Gaussian at the start, times the root mean square distance of its three nearest neighbours.
        opacity_weight, scale_weight: of the mean opacity and of the mean scale in the loss.
    """

    strategy: Literal["DefaultStrategy", "MCMCStrategy"]
    options: dict[str, Any]
    steps: int = OWN_STEPS
    count: int | Literal["luxel"] | None = None
    scaled: bool = False
    reset: bool = False
    rates: dict[str, float] = field(
        default_factory=lambda: {
            "means": 1.6e-4,
            "scales": 5e-3,
            "quats": 1e-3,
            "opacities": 5e-2,
            "sh0": 2.5e-3,
            "shN": 2.5e-3 / 20,
        }
    )
    means_final: float = 0.01
    ssim_weight: float = 0.2
    sh_degree: int = 3
    sh_every: int = 1000
    opacity: float = 0.1
    scale: float = 1.0
    opacity_weight: float = 0.0
    scale_weight: float = 0.0

    def scheduled(self) -> GsplatSettings:
        """With all schedules for its length, where they are to be scaled."""
        if not self.scaled:
            return self
        options = {
            name: max(1, value * self.steps // OWN_STEPS) if name in _STEPS else value
            for name, value in self.options.items()
        }
        return replace(
            self, options=options, sh_every=max(1, self.sh_every * self.steps // OWN_STEPS), scaled=False
        )

    def bound(self, first_count: int | None) -> int | None:
        """The largest count: of this run, or of the strategy itself; None: there is no bound.

        Args:
            first_count: that the first run ended with; None: it did not end.

        Raises:
            LuxelError: ``count`` is "luxel" and the first run failed.
        """
        if self.count != "luxel":
            return self.options.get("cap_max") if self.count is None else self.count
        if first_count is None:
            raise LuxelError(
                "count=luxel needs the count of the first run, which failed.", "Give count=N instead."
            )
        return first_count

    def listed(self) -> dict[str, Any]:
        """All settings by dotted names, for reports."""
        values = asdict(self.scheduled())
        rates, options = values.pop("rates"), values.pop("options")
        bound = self.options.get("cap_max", "no bound") if self.count is None else self.count
        values |= {"count": bound, "scaled": self.scaled}
        if self.strategy == MCMC_STRATEGY:
            del values["reset"]
            options["cap_max"] = bound
        return (
            values
            | {f"rates.{name}": rate for name, rate in rates.items()}
            | {f"strategy.{name}": option for name, option in options.items()}
        )


_STEPS = ("refine_start_iter", "refine_stop_iter", "refine_every", "reset_every")

GSPLAT_TRAININGS = {
    "gsplat-default": GsplatSettings(
        DEFAULT_STRATEGY,
        {
            "prune_opa": 0.005,
            "grow_grad2d": 0.0002,
            "grow_scale3d": 0.01,
            "prune_scale3d": 0.1,
            "refine_start_iter": 500,
            "refine_stop_iter": 15_000,
            "reset_every": 3000,
            "refine_every": 100,
            "absgrad": False,
        },
    ),
    "gsplat-mcmc": GsplatSettings(
        MCMC_STRATEGY,
        {
            "cap_max": 1_000_000,
            "noise_lr": 5e5,
            "refine_start_iter": 500,
            "refine_stop_iter": 25_000,
            "refine_every": 100,
            "min_opacity": 0.005,
        },
        opacity=0.5,
        scale=0.1,
        opacity_weight=0.01,
        scale_weight=0.01,
    ),
}


def parse_settings(words: str) -> GsplatSettings:
    """One of gsplat's trainings from the command line: "gsplat-default", "gsplat-mcmc:steps=7000,count=luxel".

    Raises:
        LuxelError: no such training, an unknown or repeated option, or an invalid value.
    """
    name, colon, rest = words.partition(":")
    if name not in GSPLAT_TRAININGS:
        raise LuxelError(f"there is no training {name!r}.", f"Give {' or '.join(GSPLAT_TRAININGS)}.")
    settings = GSPLAT_TRAININGS[name]
    known = ("steps", "count", "scaled", *(["reset"] if settings.strategy == DEFAULT_STRATEGY else []))
    chosen: dict[str, Any] = {}
    for option in rest.split(",") if colon else []:
        key, equals, text = option.partition("=")
        if not equals or key not in known:
            raise LuxelError(
                f"{option!r} is no option of {name}.", f"Options are {', '.join(f'{k}=' for k in known)}."
            )
        if key in chosen:
            raise LuxelError(f"{key} is given twice.", "Give it once.")
        chosen[key] = _value(key, text)
    return replace(settings, **chosen)


def _value(key: str, text: str) -> Any:
    """The value of an option."""
    if key == "count" and text == "luxel":
        return text
    try:
        value = json.loads(text)
    except json.JSONDecodeError:
        value = text
    if key in ("scaled", "reset"):
        if not isinstance(value, bool):
            raise LuxelError(f"{key} cannot be {text!r}.", "Give true or false.")
    elif type(value) is not int or value < 1:
        also = ", or luxel for as many as the first run" if key == "count" else ""
        raise LuxelError(f"{key} cannot be {text!r}.", f"Give an integer from 1{also}.")
    return value
