"""Training: fits primitives to posed images, with densification, checkpoints and a run folder.

Importing it needs no torch; neither do its configuration and the options of strategies.
"""

from typing import TYPE_CHECKING

from luxel.render.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from luxel.render.train.config import TrainConfig
    from luxel.render.train.monitor.reports import StepReport, TrainResult
    from luxel.render.train.trainer import Trainer

__getattr__ = lazy_exports(
    __name__,
    {
        "StepReport": "monitor.reports",
        "TrainConfig": "config",
        "TrainResult": "monitor.reports",
        "Trainer": "trainer",
    },
)
__all__ = ["StepReport", "TrainConfig", "TrainResult", "Trainer"]
