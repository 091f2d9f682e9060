"""Neural fields: short trainings of each kind, a complete radiance field, and the stages alone."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from luxel.render.fields.applications import FieldName
from luxel.render.fields.build import field_of
from luxel.render.fields.config import defaults
from luxel.render.fields.nets.field import Field
from luxel.render.fields.training.trainer import FieldTrainer, in_words
from luxel.render.storage.journal import scratch_folder
from luxel.viewer.bench.fields import measure
from luxel.viewer.bench.fields.datasets import FieldDataset, capture_dataset, frames, make_dataset
from luxel.viewer.bench.fields.peers import TINY, rates
from luxel.viewer.bench.fields.stages import stages_alone
from luxel.viewer.bench.raster.scenes import Size
from luxel.viewer.bench.record.part import Headline, Part, Row, Setup
from luxel.viewer.bench.timing import times_ms

SIZES: tuple[Size, Size] = ((1920, 1080), (3840, 2160))
TINY_SIZES: tuple[Size, Size] = ((48, 27), (64, 36))
SECONDS = 2.0
LOG2_ROWS = 20  # positions at which the stages are timed alone


def settings_of(setup: Setup) -> measure.Settings:
    """How much of a field is measured."""
    if setup.quick:
        return measure.Settings(0.02, 1, 2, 0.05, 1, rows=256, batch=256, log2_entries=8)
    return measure.Settings(SECONDS, frame_seconds=0.5)


def short_rows(setup: Setup, *, field: FieldName) -> list[Row]:
    """A field of a kind, trained for two seconds."""
    make: Callable[[], FieldDataset] = functools.partial(make_dataset, field, small=setup.quick)
    if field == "radiance" and setup.has("chair") and not setup.quick:
        make = functools.partial(capture_dataset, setup.path("chair"))
    sizes = TINY_SIZES if setup.quick else SIZES
    (measured,) = measure.run([make], ["hash"], sizes, setup.device, settings_of(setup))["rows"]
    if measured["failures"]:
        name, text = next(iter(measured["failures"].items()))
        raise RuntimeError(f"{field}, {name}: {text.strip().splitlines()[-1]}")
    row = short_row(measured)
    setup.note(f"{field}: {row['score']}, frames {row['frame_full']:.2f} and {row['frame_4k']:.2f} ms")
    return [row]


def short_row(measured: dict[str, Any]) -> Row:
    """The figures of the record from a row of the benchmark."""
    full, large = (frame["times"]["median"] for frame in measured["frames"])
    return {
        "field": measured["field"],
        "scene": measured["scene"],
        "steps": measured["training"]["steps"],
        "seconds": measured["training"]["seconds"],
        "score": in_words(measured["training"]["scores"]),
        "samples_per_s": measured["steps"]["samples_per_s"] / 1e6,
        "frame_full": full,
        "frame_4k": large,
    }


def whole_rows(setup: Setup) -> list[Row]:
    """The chair as a radiance field, trained for all its steps."""
    config = replace(defaults("radiance"), checkpoint_every=0, checkpoint_minutes=0.0)
    dataset = make_dataset("radiance", small=True) if setup.quick else capture_dataset(setup.path("chair"))
    if setup.quick:
        config = replace(config, steps=2, batch=256, log2_entries=8)
    with scratch_folder() as folder:
        trainer = FieldTrainer.new(config, dataset.data, f"{folder}/run", setup.device, say=setup.note)
        if trainer.run(progress=False).reason == "interrupted":
            raise KeyboardInterrupt
        scores = trainer.scores or trainer.evaluate()
        times = [frame_ms(trainer, dataset, size) for size in (TINY_SIZES if setup.quick else SIZES)]
        row: Row = {
            "field": "radiance",
            "scene": dataset.name,
            "steps": trainer.steps_done,
            "seconds": trainer.train_seconds,
            "score": in_words(scores),
            "frame_full": times[0],
            "frame_4k": times[1],
        }
    setup.note(f"{row['score']} in {row['seconds']:.1f} s")
    return [row]


def frame_ms(trainer: FieldTrainer, dataset: FieldDataset, size: Size) -> float:
    """Median milliseconds of a frame."""
    with torch.no_grad():
        draws = frames(trainer.application, dataset, *size, 4)
        times = times_ms(
            lambda i: draws[i % len(draws)](), trainer.device, warmup=1, iterations=4 * len(draws)
        )
    return float(np.median(times))


def stage_field(setup: Setup) -> Field:
    """The field whose stages are timed alone: that of tiny-cuda-nn's own examples."""
    config = replace(defaults("sdf"), hashing="spatial", log2_entries=8 if setup.quick else 19)
    return field_of(config, 3, 16).to(setup.device)


def stage_rows(setup: Setup) -> list[Row]:
    """Encoding, network and both, alongside tiny-cuda-nn where it can be used."""
    whole, count = stage_field(setup), 256 if setup.quick else 1 << LOG2_ROWS
    generator = torch.Generator().manual_seed(9)
    positions = torch.rand(count, 3, generator=generator).to(setup.device)
    turns = {"warmup": 1, "iterations": 2} if setup.quick else {"warmup": 3, "iterations": 20}
    alone = stages_alone(whole, positions, setup.device, **turns)["times"]
    both = rates(whole, count, setup.device, **turns)
    peer = both[TINY]
    if "absent" in peer:
        setup.note(f"without tiny-cuda-nn: {peer['absent']}")
    rows: list[Row] = [
        {"stage": stage, "luxel_inference": alone[stage]["median"]} for stage in ("encoding", "network")
    ]
    last: Row = {"stage": "encoding + network"}
    for work in ("inference", "training"):
        last[f"luxel_{work}"] = both["luxel"][work]["median"]
        last[f"tiny_{work}"] = peer[work]["median"] if work in peer else None
        setup.note(f"encoding + network, {work}: {last[f'luxel_{work}']:.3f} ms")
    return [*rows, last]


def _short(field: FieldName, seconds: float) -> Part:
    return Part(
        f"field-{field}",
        f"{field} field, {SECONDS:g} s of training",
        "fields",
        seconds,
        functools.partial(short_rows, field=field),
        (),
        (
            Headline(
                f"{field} field after {SECONDS:g} s of training", "{score}; {frame_4k:.1f} ms a frame at 4K"
            ),
        )
        if field == "image"
        else (),
    )


PARTS = (
    _short("image", 12),
    _short("sdf", 15),
    _short("volume", 12),
    _short("radiance", 20),
    Part(
        "field-radiance-whole",
        "radiance field of the chair, all steps",
        "fields",
        75,
        whole_rows,
        ("chair",),
        (Headline("chair as a radiance field, 35,000 steps", "{score} in {seconds:.1f} s"),),
    ),
    Part("field-stages", "encoding and network alone", "field_stages", 15, stage_rows),
)
