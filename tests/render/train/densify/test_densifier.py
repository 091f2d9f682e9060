"""Training ends where density control leaves nothing to train."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from luxel.render.errors import LuxelError
from luxel.render.primitives.gaussians import Gaussians
from luxel.render.train.densify.densifier import Densifier


def test_a_scene_without_primitives_ends_training() -> None:
    densifier: Any = SimpleNamespace(
        config=SimpleNamespace(
            steps=9, seed=0, batch=1, strategy=SimpleNamespace(after_step=lambda *_: object())
        ),
        store=SimpleNamespace(count=0, scene=Gaussians.empty()),
        reset=lambda: None,
        **dict.fromkeys(("generator", "_pixels", "_detail", "_coverage", "statistics", "_duration")),
    )
    with pytest.raises(LuxelError, match=r"No Gaussians are left at step 5\. Check poses.*`luxel view`"):
        Densifier._refine(densifier, 5, 0.5, 1.0, None)
