"""Options of how radiance fields are drawn: which cells are marched, where rays end, how long steps are."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from test_extent import CONFIG
from test_wavefront import SmallRadianceField, radiance

from luxel.render.fields.capture.march import March
from luxel.render.fields.capture.occupancy import THRESHOLD, Occupancy
from luxel.render.fields.drawing.wavefront_polled import render_wavefront_polled
from luxel.render.fields.radiance_config import DRAWN_STEPS, DRAWN_TRANSMITTANCE, Drawing
from luxel.render.geometry.camera import Camera
from luxel.render.ops.field.march_limits import MIN_TRANSMITTANCE

CPU = torch.device("cpu")


def camera_of() -> Camera:
    return Camera.look_at((1.9, 1.2, 0.8), (0, 0, 0), width=24, height=20)


def test_what_is_chosen() -> None:
    box, place = replace(CONFIG, extent="box", growth=None), replace(CONFIG, extent="cascades")
    assert box.drawing == Drawing(MIN_TRANSMITTANCE, 1.0, 1.0)
    assert place.drawing == Drawing(DRAWN_TRANSMITTANCE, 1.0, DRAWN_STEPS)
    chosen = replace(place, drawn_transmittance=0.02, drawn_threshold=3.0, drawn_steps=1.5)
    assert chosen.drawing == (0.02, 3.0, 1.5)
    assert SmallRadianceField(replace(box, drawn_steps=2.0)).march.drawing.steps == 2.0


def test_denser_cells_alone() -> None:
    occupancy = Occupancy(16, 3)
    generator = torch.Generator().manual_seed(0)
    occupancy.densities.copy_(30 * torch.rand(occupancy.densities.shape, generator=generator))
    occupancy.restrict(torch.rand(3, 16, 16, 16, generator=generator) > 0.3)
    occupancy.refresh(alone=True)
    assert occupancy.bits_above(1.0) is occupancy.bits
    for factor in (1.5, 4.0):
        denser = Occupancy(16, 3)
        denser.bits = occupancy.bits_above(factor)
        assert occupancy.bits_above(factor) is denser.bits
        for k in range(3):
            dense = occupancy.densities.view(3, 16, 16, 16)[k] > factor * THRESHOLD / 2**k
            assert torch.equal(denser.occupied()[k], dense & occupancy.occupied()[k])
            assert 0 < denser.occupied()[k].sum() < occupancy.occupied()[k].sum()
    before = occupancy.bits_above(4.0)
    occupancy.densities.zero_()
    assert before.any() and not occupancy.bits_above(4.0).any()


@pytest.mark.parametrize("transmittance", [1e-3, 0.05])
def test_rays_end_where_they_are_asked_to(transmittance: float, monkeypatch) -> None:
    """Colours and alpha differ by what is left of the light at most, and do differ."""
    monkeypatch.setattr(March, "scale", 30.0)
    field = radiance(CPU)
    field.march.drawing = Drawing(1e-6)
    expected, alpha, _ = field.layers(camera_of())
    field.march.drawing = Drawing(transmittance)
    actual, ended, _ = field.layers(camera_of())
    assert (actual - expected).abs().max() <= transmittance * (1 + 1e-4)
    off = (alpha - ended).abs()
    assert 1e-6 < off.max() <= transmittance * (1 + 1e-4)


def test_steps_and_cells_are_those_of_the_region() -> None:
    """The image is that of longer steps through the cells that are left."""
    field = radiance(CPU)
    field.march.occupancy.densities.copy_(
        torch.rand(16**3, generator=torch.Generator().manual_seed(1)) * 4 * THRESHOLD
    )
    field.march.drawing = Drawing(0.01, 2.0, 1.5)
    camera = camera_of()
    actual = field.layers(camera)
    own = field.region._replace(near=camera.near, far=camera.far)

    def query(x: torch.Tensor, directions: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return field.evaluate_at(x, directions)

    bits = field.march.occupancy.bits_above(2.0)
    longer = own._replace(step=1.5 * own.step)
    expected = render_wavefront_polled(query, camera, longer, bits, torch.zeros(3), field.march.scale, 0.01)
    for a, b in zip(actual, expected, strict=True):
        torch.testing.assert_close(a, b, rtol=0, atol=1e-4)
    assert not torch.equal(bits, field.march.occupancy.bits)
    field.march.drawing = Drawing()
    assert (field.layers(camera)[0] - actual[0]).abs().max() > 0.01
