"""`luxel train --field`."""

from __future__ import annotations

import typing
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import tyro

from luxel.render.backends import require_field_backend
from luxel.render.errors import LuxelError
from luxel.render.fields.config import FieldConfig, FieldName, defaults
from luxel.render.native import best_device
from luxel.render.runs.run_folder import RunFolder
from luxel.viewer.commands.options import DeviceName, MaskUse, Serve, given, pick_device
from luxel.viewer.field_data import FieldData, FieldOrigin, require_kind
from luxel.viewer.progress import opening
from luxel.viewer.runs import Origin, discard_unstarted, is_field_run, new_run_folder, run_folder
from luxel.viewer.training import ENDS, run_watched
from luxel.viewer.web.drawable import field_orientation, render_field

BATCH_ON_CPU = 1 << 13  # samples of a step where nothing else is asked for

if typing.TYPE_CHECKING:
    from luxel.viewer.web.session import Session


@dataclass
class TrainField:
    """Trains a neural field and says how good it became.

    DATA is, by the kind of field: image: an image file, or the word landscape for a made-up photograph; sdf: a triangle
    mesh, .ply, .obj or .stl, or the word knot for a made-up one; volume: a grid [Z, Y, X] or [Z, Y, X, 4] (density,
    red, green, blue) as .npy or .npz, or the word cloud for a made-up one; radiance: a capture, as for `luxel train`
    without --field.

    The run folder then holds config.json, metrics.jsonl, checkpoints/ and field.safetensors. Ctrl-C saves a checkpoint;
    the run goes on from it with --resume, and a finished run is extended by --resume with more --steps.

    Examples:
        luxel train photo.jpg --field image --view
        luxel train landscape --field image --seconds 10
        luxel train bunny.ply --field sdf --steps 5000
        luxel train knot --field sdf
        luxel train cloud --field volume --encoding dense
        luxel train capture/ --field radiance --run runs/nerf
        luxel train landscape --field image --backend tiny-cuda-nn
        luxel train --resume runs/nerf --steps 50000
    """

    data: Annotated[str | None, tyro.conf.Positional, tyro.conf.arg(metavar="DATA")] = None
    """What to train on. Left out with --resume, unless the data have moved."""
    run: Annotated[Path | None, tyro.conf.arg(metavar="DIR")] = None
    """Folder of the new run; default: runs/NAME of the data, numbered."""
    resume: Annotated[Path | None, tyro.conf.arg(metavar="RUN")] = None
    """Go on with the run in this folder; its options are kept unless given anew."""
    view: bool = False
    """Serve the field in the browser while it trains, and afterwards until Ctrl-C."""
    device: DeviceName = "auto"
    """Where to train; auto: the GPU where luxel can use it."""
    max_size: Annotated[int | None, tyro.conf.arg(metavar="PIXELS")] = None
    """Images and photographs: shrink them to at most this many pixels on their longer side."""
    holdout_every: int = 8
    """Radiance: hold out every so many-th view where the data set names no test views; 0: none."""
    masks: MaskUse = "auto"
    """Radiance: masks and alpha, as for `luxel train` without --field."""
    config: Annotated[FieldConfig, tyro.conf.arg(name="")] = field(default_factory=FieldConfig)
    serve: Annotated[Serve, tyro.conf.arg(name="")] = field(default_factory=Serve)

    @staticmethod
    def is_meant(arguments: Sequence[str]) -> bool:
        """Whether the arguments of `luxel train` are for this: with --field, or to go on with such a run."""
        if given(arguments, "--field") is not None:
            return True
        folder = given(arguments, "--resume")
        return folder is not None and is_field_run(Path(folder))

    @staticmethod
    def defaults(arguments: Sequence[str]) -> TrainField:
        """The values that options have where they are not given: those of a run that is resumed, or of the kind."""
        command = TrainField()
        if (folder := given(arguments, "--resume")) is not None:
            command.config = FieldConfig.from_dict(RunFolder.read_body(run_folder(Path(folder)))["config"])
        elif (name := given(arguments, "--field")) in typing.get_args(FieldName):
            command.config = defaults(typing.cast(FieldName, name))
            device = given(arguments, "--device") or "auto"
            if device == "cpu" or (device == "auto" and best_device().type == "cpu"):
                command.config.batch = BATCH_ON_CPU
        return command

    def execute(self) -> int:
        """Opens the data, trains, measures; returns the exit status."""
        from luxel.render.fields.training import FieldTrainer

        self.config.check()
        if self.view:
            from luxel.viewer.web.serving import check_serving

            check_serving(self.serve)
        device = pick_device(self.device)
        require_field_backend(self.config.backend, device)  # refused before the data are opened
        folder, origin = self._folder_and_origin()
        try:
            with opening("opening the data") as on_progress:
                found = origin.open(on_progress)
            if self.resume is None:
                trainer = FieldTrainer.new(self.config, found.data, folder, device, about=found.about)
            else:
                overrides = self._overrides(folder)
                trainer = FieldTrainer.resume(
                    folder, found.data, device, overrides=overrides, about=found.about
                )
        except BaseException as error:
            discard_unstarted(folder)
            if isinstance(error, LuxelError) and not any(
                p in error.problem for p in (origin.path, str(folder))
            ):
                raise LuxelError(f"{origin.path}: {error.problem}", error.remedy) from error
            raise
        print(f"{found.name}: {trainer.application.count:,} parameters of a field of {origin.kind}")
        return run_watched(
            trainer,
            lambda: _session(trainer, found),
            self.serve if self.view else None,
            render_field,
            lambda result: _conclude(trainer, result),
        )

    def _folder_and_origin(self) -> tuple[Path, FieldOrigin]:
        capture = Origin("", self.holdout_every, self.max_size, self.masks)
        if self.resume is None:
            if self.data is None:
                raise LuxelError("There is nothing to train on.", "luxel train DATA --field KIND.")
            require_kind(self.config.field, self.data)
            origin = FieldOrigin.of(self.config.field, self.data, capture)
            return new_run_folder(origin.name, self.run), origin
        if self.run is not None:
            raise LuxelError("--run and --resume name two folders.", "Give one of them.")
        folder = run_folder(self.resume)
        kind = RunFolder.read_body(folder)["config"].get("field")
        if kind != self.config.field:
            raise LuxelError(
                f"{folder}: is a run of a field of {kind!r}, not of {self.config.field!r}.",
                "Leave --field out, or start a new run.",
            )
        if self.data is not None:
            return folder, FieldOrigin.of(self.config.field, self.data, capture)
        return folder, FieldOrigin.of_run(folder)

    def _overrides(self, folder: Path) -> dict[str, Any]:
        """What the options change in the configuration of a run that goes on, by name."""
        before = FieldConfig.from_dict(RunFolder.read_body(folder)["config"]).to_dict()
        after = self.config.to_dict()
        return {name: after[name] for name in after if after[name] != before[name]}


def _session(trainer: Any, found: FieldData) -> Session:
    from luxel.viewer.web.session import TrainingSession

    orientation = field_orientation(trainer.application, found.up, found.background)
    return TrainingSession(trainer, found.views, found.name, folder=trainer.folder.path, **orientation)


def _conclude(trainer: Any, result: Any) -> None:
    speed = f"{result.step / result.train_seconds:.1f} steps/s" if result.train_seconds > 0 else "-"
    print(
        f"{result.step} steps in {result.train_seconds:.1f} s ({speed}), ended because {ENDS[result.reason]}"
    )
    for name, value in result.scores.items():
        unit = " dB" if name.startswith("psnr") else ""
        print(f"{name.replace('_', ' ')}: {value:.4g}{unit}")
    if result.scene is not None:
        print(f"field: {result.scene}", flush=True)
