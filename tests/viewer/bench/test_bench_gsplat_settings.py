"""gsplat's own trainings as competitors: their options, schedules and errors."""

from __future__ import annotations

import pytest
import torch

from luxel.render.errors import LuxelError
from luxel.render.train.presets import preset
from luxel.viewer.bench.train.gsplat_settings import GSPLAT_TRAININGS, parse_settings
from luxel.viewer.bench.train.measure import measured_steps
from luxel.viewer.bench.train.variants import GsplatVariant, parse_variant


def test_options() -> None:
    default, mcmc = parse_settings("gsplat-default"), parse_settings("gsplat-mcmc")
    assert (default.steps, default.bound(None)) == (30_000, None)
    assert (mcmc.steps, mcmc.bound(None), mcmc.opacity, mcmc.scale) == (30_000, 1_000_000, 0.5, 0.1)
    equal = parse_settings("gsplat-mcmc:steps=7000,count=luxel")
    assert equal.steps == 7000 and equal.bound(1234) == 1234 and equal.options["refine_stop_iter"] == 25_000
    assert parse_settings("gsplat-default:count=500,reset=true").bound(9) == 500
    with pytest.raises(LuxelError, match="count of the first run, which failed"):
        equal.bound(None)


def test_schedules_are_scaled() -> None:
    settings = parse_settings("gsplat-default:steps=3000,scaled=true").scheduled()
    names = ("refine_start_iter", "refine_stop_iter", "reset_every", "refine_every", "grow_grad2d")
    assert [settings.options[name] for name in names] == [50, 1500, 300, 10, 0.0002]
    assert settings.sh_every == 100 and settings.steps == 3000
    assert parse_settings("gsplat-default:steps=2,scaled=true").scheduled().options["refine_every"] == 1
    kept = parse_settings("gsplat-default:steps=3000").scheduled()
    assert kept.options == GSPLAT_TRAININGS["gsplat-default"].options and kept.sh_every == 1000


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        ("gsplat-default:", "'' is no option of gsplat-default"),
        ("gsplat-default:rates.means=1", "'rates.means=1' is no option"),
        ("gsplat-mcmc:reset=true", "'reset=true' is no option of gsplat-mcmc"),
        ("gsplat-mcmc:steps", "'steps' is no option"),
        ("gsplat-mcmc:steps=0", "steps cannot be '0'"),
        ("gsplat-mcmc:steps=luxel", "steps cannot be 'luxel'"),
        ("gsplat-mcmc:count=many", "count cannot be 'many'"),
        ("gsplat-mcmc:count=true", "count cannot be 'true'"),
        ("gsplat-default:scaled=1", "scaled cannot be '1'"),
        ("gsplat-default:count=5,count=6", "count is given twice"),
    ],
)
def test_bad_options_are_named(words: str, problem: str) -> None:
    with pytest.raises(LuxelError) as caught:
        parse_variant(words, preset("default"), 10)
    assert caught.value.problem.startswith(f"--against {words}: {problem}") and caught.value.remedy


def test_steps_that_are_measured() -> None:
    assert measured_steps(13, 40) == [1, 3, 6, 13, 26, 39, 40] and measured_steps(1, 1) == [1]
    assert measured_steps(700, 7000) == [43, 87, 175, 350, *range(700, 7001, 700)]


def test_a_first_run_that_failed_gives_no_count() -> None:
    variant = parse_variant("gsplat-mcmc:count=luxel", preset("default"), 10)
    assert isinstance(variant, GsplatVariant)
    with pytest.raises(LuxelError, match="first run, which failed"):
        variant.train(None, torch.device("cpu"), None, None)  # pyright: ignore[reportArgumentType]
