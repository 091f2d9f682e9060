"""Axes of scene files: what a mirrored scene looks like, and which axes are known."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from luxel.render.primitives import Gaussians
from luxel.render.primitives.gaussians.parameters import quat_to_matrix
from luxel.render.reference.raster.sh import sh_color
from luxel.scenes import load_primitives, save_scene
from luxel.scenes.errors import CaptureError
from luxel.scenes.files.axes import AXES, OWN, mirrored, signs_between
from luxel.scenes.files.scene_files import facts_between, load_facts, lost_by
from luxel.scenes.files.scene_format import SceneFacts


def some(degree: int = 3, count: int = 9) -> Gaussians:
    generator = torch.Generator().manual_seed(3)
    shapes = ((3,), (4,), (3,), (), (3,), ((degree + 1) ** 2 - 1, 3))
    return Gaussians(*(torch.randn(count, *s, generator=generator, dtype=torch.float64) for s in shapes))


def covariances(gaussians: Gaussians) -> torch.Tensor:
    rotated = quat_to_matrix(gaussians.quats) * gaussians.log_scales.exp()[:, None, :]
    return rotated @ rotated.transpose(1, 2)


def colours(gaussians: Gaussians, directions: torch.Tensor) -> torch.Tensor:
    degree = gaussians.sh_degree
    return sh_color(directions, gaussians.sh_dc, gaussians.sh_rest, degree)


@pytest.mark.parametrize("axes", AXES)
@pytest.mark.parametrize("degree", [0, 1, 3])
def test_mirrored_gaussians_are_the_mirror_image(axes: str, degree: int) -> None:
    source = some(degree)
    mirror = torch.diag(torch.tensor(signs_between(OWN, axes), dtype=torch.float64))
    out = mirrored(source, signs_between(OWN, axes))
    torch.testing.assert_close(out.means, source.means @ mirror, atol=0, rtol=0)
    torch.testing.assert_close(
        covariances(out), mirror @ covariances(source) @ mirror, atol=1e-10, rtol=1e-12
    )
    directions = torch.nn.functional.normalize(torch.randn(9, 3, dtype=torch.float64), dim=-1)
    expected = colours(source, directions)
    torch.testing.assert_close(colours(out, directions @ mirror), expected, atol=1e-12, rtol=0)
    if degree and axes != OWN:
        assert not torch.allclose(colours(source, directions @ mirror), expected)
    again = mirrored(out, signs_between(axes, OWN))
    for name, tensor in source.tensors().items():
        torch.testing.assert_close(getattr(again, name), tensor, atol=0, rtol=0)


def test_files_are_read_and_written_in_other_axes(tmp_path: Path) -> None:
    source = some().map(lambda t: t.float())
    save_scene(tmp_path / "a.ply", source, axes="rub")
    plain = load_primitives(tmp_path / "a.ply")
    np.testing.assert_array_equal(plain.tensors()["means"][:, 1].numpy(), -source.means[:, 1].numpy())
    turned = load_primitives(tmp_path / "a.ply", axes="RUB")
    for name, tensor in source.tensors().items():
        assert torch.equal(getattr(turned, name), tensor), name


def test_bad_axes_are_refused(tmp_path: Path) -> None:
    save_scene(tmp_path / "a.ply", some().map(lambda t: t.float()))
    with pytest.raises(CaptureError, match="there are no such axes") as refused:
        load_primitives(tmp_path / "a.ply", axes="RXB")
    assert "RDF" in str(refused.value.remedy)


def test_facts_turn_with_the_axes_and_what_is_lost_is_said(tmp_path: Path) -> None:
    facts = SceneFacts(antialiased=True, up=(0.0, -1.0, 0.0), metres=0.5)
    assert facts_between(facts, OWN, "RUB").up == (0.0, 1.0, 0.0)
    assert facts_between(facts, OWN, OWN) is facts
    lost = lost_by(tmp_path / "a.splat", some(), facts)
    assert lost == [
        "spherical harmonics above degree 0",
        "the antialiasing",
        "the up direction",
        "the length of a unit",
    ]
    assert lost_by(tmp_path / "a.splat", some(0), SceneFacts(antialiased=False)) == []
    save_scene(tmp_path / "a.splat", some())
    assert load_facts(tmp_path / "a.splat") == SceneFacts()
