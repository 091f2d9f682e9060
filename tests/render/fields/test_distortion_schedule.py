"""The weight of the distortion loss over a run: its values, where it is read, and what stays as it was."""

from __future__ import annotations

import itertools
import json
from dataclasses import replace

import pytest
import torch
from test_extent import CONFIG, SmallField, points_of_place, walk

from luxel.render.errors import LuxelError
from luxel.render.fields.capture.posed_images import PosedImages
from luxel.render.fields.config import FieldConfig
from luxel.render.fields.radiance import RadianceConfig, RadianceField
from luxel.render.fields.radiance_config import FALL, LEVELS
from luxel.render.fields.training.optimizer import SCALARS, FieldOptimizer

START, END, STEPS = 0.02, 5e-4, 960
FALLING = RadianceConfig(
    field="radiance", extent="cascades", distortion=START, distortion_final=END, steps=STEPS
)


def run(config: RadianceConfig, steps: int, device: torch.device) -> tuple[list[float], SmallField]:
    """Losses of the first steps in a small room, and the field after them."""
    data = PosedImages(walk(4, 8), points=points_of_place())
    adapted = RadianceField.adapt_config(replace(config, extent="cascades"), data)
    assert isinstance(adapted, RadianceConfig)
    field = SmallField(adapted).to(device)
    field.begin(data, device)
    optimizer = FieldOptimizer(field)
    return [float(optimizer.step(step)) for step in range(steps)], field


def test_it_falls_by_equal_ratios() -> None:
    weights = [FALLING.distortion_at(step) for step in range(STEPS + 1)]
    assert weights[0] == START and weights[int(FALL * STEPS) :] == pytest.approx([END] * (STEPS // 4 + 1))
    assert all(b <= a for a, b in itertools.pairwise(weights))
    ratio = (END / START) ** (1 / LEVELS)
    for step, weight in enumerate(weights[: int(FALL * STEPS)]):
        exact = START * (END / START) ** (step / (FALL * STEPS))
        assert exact * (1 - 1e-9) <= weight <= exact / ratio * (1 + 1e-9)
    assert len(set(weights)) == LEVELS + 1


def test_time_counts_where_it_is_ahead() -> None:
    endless = replace(FALLING, steps=10**6)
    assert [endless.distortion_at(s, s / STEPS) for s in range(STEPS)] == [
        FALLING.distortion_at(s) for s in range(STEPS)
    ]
    assert endless.distortion_at(3, 7.0) == pytest.approx(END)


def test_one_weight_is_constant() -> None:
    for constant in (replace(FALLING, distortion_final=None), replace(FALLING, distortion_final=START)):
        assert {constant.distortion_at(s, t) for s in (0, 500, STEPS) for t in (0.0, 0.4, 1.0)} == {START}
    assert replace(FALLING, distortion=None, distortion_final=None).loss_scalars_at(0) == ()
    assert FieldConfig().loss_scalars_at(5) == ()
    again = FieldConfig.from_dict(json.loads(json.dumps(FALLING.to_dict())))
    assert isinstance(again, RadianceConfig) and again.distortion_final == END


def test_equal_weights_train_as_one_weight(device: torch.device) -> None:
    """Bit for bit on a CPU; and weights that differ do not."""
    first, *others = (
        run(replace(CONFIG, steps=20, distortion=0.01, distortion_final=final), 12, device)
        for final in (None, 0.01, 1e-4)
    )
    if device.type == "cpu":
        assert others[0][0] == first[0]
        for a, b in zip(first[1].parameters(), others[0][1].parameters(), strict=True):
            assert torch.equal(a, b)
        assert others[1][0][-1] < first[0][-1]
    else:
        assert others[0][0][:4] == pytest.approx(first[0][:4], rel=0.01)  # later on, orders of sums tell


def test_the_loss_reads_the_weight_of_the_step() -> None:
    """With a scalar in place of the weight of the configuration the loss is that of the other configuration."""
    data = PosedImages(walk(3, 8), points=points_of_place())
    losses = {}
    for weight in (0.01, 0.3):
        config = RadianceField.adapt_config(
            replace(CONFIG, extent="cascades", distortion=weight, distortion_final=0.02, steps=8), data
        )
        field = SmallField(config)
        field.begin(data, torch.device("cpu"))
        batch = field.draw_batch(torch.Generator().manual_seed(0))
        live = field.march.live.clone()
        for scalar in (None, 0.01, 0.3):
            field.march.live.copy_(live)
            field.loss_scalars = None if scalar is None else torch.tensor([3 * scalar])
            losses[weight, scalar] = float(field.loss(batch).detach())
        field.loss_scalars = None
        optimizer = FieldOptimizer(field)
        for step in range(8):
            optimizer.step(step)
            used = optimizer._rows[int(optimizer._cursor) - 1][SCALARS].tolist()
            assert used == pytest.approx([3 * field.config.distortion_at(step)])
        assert field.loss_scalars is None
    for weight in (0.01, 0.3):
        assert losses[weight, None] == losses[0.01, weight] == losses[0.3, weight]
    assert losses[0.01, 0.3] > losses[0.01, 0.01]


def test_few_schedules_are_uploaded_however_time_passes() -> None:
    data = PosedImages(walk(3, 8), points=points_of_place())
    config = RadianceField.adapt_config(
        replace(CONFIG, extent="cascades", distortion=START, distortion_final=END, steps=10**6), data
    )
    field = SmallField(config)
    field.begin(data, torch.device("cpu"))
    optimizer = FieldOptimizer(field)
    uploads = set()
    for step in range(1500):
        optimizer._reach(step, step / 1500)
        uploads.add(optimizer._sent_from)
    assert LEVELS < len(uploads) < LEVELS + 1500 // 256 + 8


def test_a_box_without_the_loss_has_no_scalars() -> None:
    field = SmallField(replace(CONFIG, extent="box", growth=None))
    assert FieldOptimizer(field)._rows.shape[1] == 5


@pytest.mark.parametrize(
    "changes",
    [
        {"distortion": 0.0, "distortion_final": 0.01},
        {"distortion": 0.01, "distortion_final": 0.0},
        {"extent": "box", "distortion_final": 0.01},
    ],
)
def test_a_weight_of_zero_is_refused(changes) -> None:
    with pytest.raises(LuxelError, match="distortion_final needs distortion above 0"):
        replace(CONFIG, growth=None, **changes).check()
    replace(CONFIG, growth=None, extent="cascades", distortion_final=0.01).check()
