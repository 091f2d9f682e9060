"""The made-up scene of the tests of segmentation."""

from __future__ import annotations

import pytest
from made_up import MadeUpScene, made_up


@pytest.fixture(scope="session")
def solids_scene() -> MadeUpScene:
    """Three solids on a platform, ten views around them."""
    return made_up()
