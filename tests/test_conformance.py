"""Every primitive of the registry trains, resumes, is saved, loaded, rendered, exported and measured."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import conformance
import pytest
import torch

from luxel.render.primitives import PRIMITIVES, PrimitiveSpec


@pytest.fixture(params=list(PRIMITIVES))
def spec(request: pytest.FixtureRequest) -> PrimitiveSpec:
    return PRIMITIVES[request.param]


def test_the_declarations_fit_together(spec: PrimitiveSpec, capsys: pytest.CaptureFixture[str]) -> None:
    conformance.check_declarations(spec)
    conformance.check_command_line(spec, capsys)
    conformance.check_unknown_names(spec)


def test_it_goes_all_the_way(spec: PrimitiveSpec, tmp_path: Path, device: torch.device) -> None:
    scene = conformance.check_training(spec, tmp_path, device)
    conformance.check_rendering(scene, device)
    conformance.check_files(spec, scene, tmp_path)
    conformance.check_export(spec, tmp_path / "whole", tmp_path)


def test_it_trains_coarse_to_fine(spec: PrimitiveSpec, tmp_path: Path, device: torch.device) -> None:
    conformance.check_images_of_changing_size(spec, tmp_path, device)


def test_it_is_measured(spec: PrimitiveSpec) -> None:
    conformance.check_benchmark(spec)


@pytest.fixture
def balls(monkeypatch: pytest.MonkeyPatch) -> Iterator[PrimitiveSpec]:
    """The example, registered during a test."""
    examples = Path(__file__).resolve().parent.parent / "examples"
    monkeypatch.syspath_prepend(str(examples))
    from isotropic_balls import SPEC  # pyright: ignore[reportMissingImports]

    from luxel.render.primitives import register

    register(SPEC)
    try:
        yield SPEC
    finally:
        del PRIMITIVES[SPEC.name]


def test_a_primitive_is_one_file_and_one_line(
    balls: Any, tmp_path: Path, device: torch.device, capsys: pytest.CaptureFixture[str]
) -> None:
    """The example of a new primitive passes the same checks."""
    conformance.check_declarations(balls)
    conformance.check_command_line(balls, capsys)
    conformance.check_benchmark(balls)
    scene = conformance.check_training(balls, tmp_path, device)
    conformance.check_rendering(scene, device)
    conformance.check_files(balls, scene, tmp_path)
    conformance.check_export(balls, tmp_path / "whole", tmp_path)


def test_two_primitives_of_one_name_are_refused(balls: Any) -> None:
    from dataclasses import replace

    from luxel.render.primitives import register

    with pytest.raises(ValueError, match="isotropic_balls"):
        register(replace(balls, strategies=("mcmc",)))
    assert PRIMITIVES[balls.name] is balls
