"""Keeps a run within the memory of its device."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

import numpy as np
import torch

from luxel.render.geometry.camera import View
from luxel.render.replay import release_memory
from luxel.render.runs.memory import is_out_of_memory
from luxel.render.train.config import TrainConfig
from luxel.render.train.densify.densifier import Densifier
from luxel.render.train.memory import plan as memory_plan
from luxel.render.train.start import scene_extent
from luxel.render.train.views.dataset import Dataset, ViewOrder

T = TypeVar("T")
ATTEMPTS = 20  # of a step when memory runs out


class MemoryBudget:
    """Limits a run before it starts, and reduces its memory use if memory runs out all the same.

    Args:
        config: of the run.
        views: training views.
        device: where to train.
        say: receives messages about what was limited.

    Attributes:
        cap: largest number of primitives; None: no limit.
        batch: views a step.
    """

    def __init__(
        self,
        config: TrainConfig,
        views: Sequence[View],
        device: torch.device,
        say: Callable[[str], None],
    ) -> None:
        self.config, self.views, self.device, self.say = config, views, device, say
        self.cap, self.batch = config.max_gaussians, config.batch

    def open_dataset(self, densifier: Densifier) -> Dataset:
        """Limits the primitives to what fits, and uploads the images or prepares to stream them."""
        stream = self._limit(densifier)
        order = ViewOrder(len(self.views), self.config.seed)
        unit = None if self.config.depth == "none" else scene_extent(self.views)
        try:
            return Dataset(self.views, order, self.device, stream=stream, depth_unit=unit)
        except Exception as error:
            if stream or not is_out_of_memory(error):
                raise
        self.say("The images do not fit into memory: they are streamed step by step.")
        release_memory()
        return Dataset(self.views, order, self.device, stream=True, depth_unit=unit)

    def reduce(self, step: int, dataset: Dataset, densifier: Densifier) -> None:
        """Memory ran out: first the images leave the device, then a step has fewer views, then growth ends, then the
        least opaque are removed."""
        release_memory()
        count, noun = densifier.store.count, densifier.store.scene.noun
        if not dataset.streaming:
            dataset.start_streaming()
            change = "images are streamed step by step from now on"
        elif self.batch > 1:
            self.batch //= 2
            change = f"a step has {self.batch} {'view' if self.batch == 1 else 'views'} from now on"
        elif self.cap is None or self.cap > count:
            self.cap = count
            change = f"the count is limited to {count:,} {noun} from now on"
        else:
            self.cap = max(1, int(0.9 * count))
            densifier.retain_most_opaque(self.cap)
            change = f"the least opaque are removed, {self.cap:,} {noun} remain"
        self.say(f"Memory of {self.device} ran out at step {step}: {change}.")
        densifier.reset()
        release_memory()

    def retried(self, step: Callable[[], T], give_way: Callable[[], None]) -> T | None:
        """The result of a step, which is repeated with less memory where it runs out; None: it runs out all the same.

        Args:
            step: can be repeated after it failed.
            give_way: frees memory.
        """
        for _ in range(ATTEMPTS):
            try:
                return step()
            except Exception as error:
                if not is_out_of_memory(error):
                    raise
            give_way()  # after the handler, which retains the frames of the failed step alive
        return None

    def measured(
        self, measure: Callable[[bool], T], stream: Callable[[], None] | None, lpips: bool, again: str
    ) -> T | None:
        """Held-out views measured with what memory there is.

        If memory runs out, the training images leave the device, then LPIPS is left out; if it still does, a message
        says that nothing was measured.

        Args:
            measure: called with whether to compute LPIPS.
            stream: frees the training images on the device; None: there are none.
            lpips: whether LPIPS is meant to be computed.
            again: a command that measures them later.
        """
        attempts = [(lpips, "the training images are streamed step by step from now on")] * (
            stream is not None
        )
        attempts += [(True, "LPIPS is left out")] * lpips
        attempts += [(False, f"they are not measured; {again} measures them later")]
        for with_lpips, change in attempts:
            try:
                return measure(with_lpips)
            except Exception as error:
                if not is_out_of_memory(error):
                    raise
            self.say(f"Memory of {self.device} ran out while the held-out views were measured: {change}.")
            if stream is not None:
                stream()
            release_memory()
        return None

    def _limit(self, densifier: Densifier) -> bool:
        """Limits the primitives; returns whether images are streamed."""
        store, config = densifier.store, self.config
        plan = memory_plan.plan(
            self.views,
            store.count,
            each=memory_plan.bytes_of_one(store.scene),
            noun=store.scene.noun,
            pyramid=config.resolution.halvings > 0,
            depth=config.depth != "none",
            images=config.images,
            max_gaussians=self.cap,
            device=self.device,
        )
        for note in plan.notes:
            self.say(note)
        self.cap = plan.cap
        if self.cap is not None and store.count > self.cap:
            random = np.random.default_rng(config.seed)
            chosen = np.sort(random.choice(store.count, self.cap, replace=False))
            densifier.select(torch.from_numpy(chosen).to(self.device))
            self.say(f"Starting from {self.cap:,} of the points.")
        return plan.images == "stream"
