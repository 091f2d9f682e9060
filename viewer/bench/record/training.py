"""Trains a capture once for a row of the record, by the measuring function of `luxel bench train`."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from luxel.render.storage.descriptors import make_folders
from luxel.render.storage.journal import scratch_folder
from luxel.render.train import TrainConfig
from luxel.render.train.presets import preset
from luxel.scenes import Capture
from luxel.scenes import open as open_capture
from luxel.viewer.bench.record.part import Row, Setup
from luxel.viewer.bench.train.measure import train_once
from luxel.viewer.bench.train.variants import configured

EVALUATIONS = 4
QUICK_SETTINGS = ("steps=3", "init.max_points=200", "save_renders=0")


@dataclass(frozen=True)
class Training:
    """One training of the protocol.

    Args:
        primitive: what the scene is made of.
        preset: its configuration.
        settings: changes of it, "steps=12000".
    """

    primitive: str = "gaussians"
    preset: str = "default"
    settings: tuple[str, ...] = ()

    @property
    def options(self) -> str:
        """As `luxel train` takes them."""
        words = [] if self.primitive == "gaussians" else [f"--primitive {self.primitive}"]
        words += [] if self.preset == "default" else [f"--preset {self.preset}"]
        for setting in self.settings:
            name, _, value = setting.partition("=")
            words.append(f"--{name.replace('_', '-')} {value}")
        return " ".join(words) or "defaults"

    def configuration(self, quick: bool) -> TrainConfig:
        """The preset with the settings applied."""
        values = preset(self.preset, self.primitive).to_dict()
        return configured(values, self.settings + (QUICK_SETTINGS if quick else ()), EVALUATIONS)


def training_row(setup: Setup, training: Training, name: str, path: Path) -> Row:
    """Opens a capture, trains to the end and measures.

    Args:
        setup: device, cache, sizes.
        training: how.
        name: of the capture, in the table and in the cache.
        path: of the capture.
    """
    started = time.perf_counter()
    cache = None if setup.cache is None else setup.cache / name
    capture = open_capture(path, max_size=48 if setup.quick else None, cache_dir=cache)
    opened = time.perf_counter() - started
    if setup.quick:
        capture.train, capture.test = capture.train[:6], capture.test[:2]
    setup.note(f"{name}: {len(capture.train)} views, {len(capture.test)} held out, opened in {opened:.1f} s")
    for warning in capture.warnings:
        setup.note(f"{name}: {warning}")
    row = _trained(setup, training, capture, opened)
    setup.note(f"{row['psnr']:.2f} dB in {row['seconds']:.1f} s, {row['count']:,} primitives")
    return {"capture": name, "options": training.options, **row, "warnings": list(capture.warnings)}


def _trained(setup: Setup, training: Training, capture: Capture, opened: float) -> Row:
    result = train_once(training.configuration(setup.quick), capture, setup.device)
    names = ("psnr", "best_psnr", "ssim", "lpips", "seconds", "steps", "count", "reason")
    points = [[p["step"], round(p["seconds"], 3), p["psnr"]] for p in result["curve"]]
    if not math.isfinite(result["psnr"]):
        raise RuntimeError(f"the held-out PSNR is {result['psnr']}")
    return {
        **{name: result[name] for name in names},
        "open_seconds": opened,
        "wall_seconds": opened + result["whole_seconds"],
        "peak_gb": result["peak_bytes"] / 1e9 if result["peak_bytes"] else None,
        "curve": points,
    }


@contextmanager
def made_capture(setup: Setup, name: str, write: Callable[[Path], object]) -> Iterator[Path]:
    """The folder of a synthetic capture: that of the cache, where it is written once, else a temporary one.

    Args:
        setup: whose cache.
        name: of the folder; must contain everything that the capture depends on.
        write: makes the capture in a folder.
    """
    if setup.cache is not None:
        make_folders(setup.cache)
        if (retained := setup.cache / name).is_dir():
            yield retained
            return
    setup.note(f"rendering {name}")
    with scratch_folder(setup.cache) as scratch:
        folder = scratch / name
        write(folder)
        yield folder if setup.cache is None else folder.replace(setup.cache / name)
