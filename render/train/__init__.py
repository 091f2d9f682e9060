"""Training: fits primitives to posed images, with densification, checkpoints and a run folder."""

from luxel.render.train.config import TrainConfig
from luxel.render.train.reports import StepReport, TrainResult
from luxel.render.train.trainer import Trainer

__all__ = ["StepReport", "TrainConfig", "TrainResult", "Trainer"]
