"""`luxel train --field`."""

from __future__ import annotations

import dataclasses
import glob
import typing
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import tyro

from luxel.render.backends import require_field_backend
from luxel.render.bounds import Every, Folder, Megapixels, Options, Pixels
from luxel.render.errors import LuxelError
from luxel.render.fields.applications import APPLICATIONS
from luxel.render.fields.config import FieldConfig, config_of_run, defaults, option_owners
from luxel.render.runs.folder.owner import own
from luxel.viewer.options import (
    DeviceName,
    MaskUse,
    PathText,
    Serve,
    given,
    given_path,
    optional,
    pick_device,
)

BATCH_ON_CPU = 1 << 13  # default of --batch on a CPU, samples per step
GPU_DEVICES = ("/dev/nvidia*", "/dev/nvhost*", "/dev/dxg")  # of a GPU, an embedded one, and one within WSL

if typing.TYPE_CHECKING:
    from luxel.viewer.scene_loading.field_data import FieldData, FieldOrigin
    from luxel.viewer.web.session import Session


@dataclass
class TrainField(Options):
    """Trains a neural field and prints its scores.

    DATA depends on --field. image: an image file or .npy, or `landscape`, a synthetic one. sdf: a triangle mesh
    (.ply, .obj, .glb, .stl), or `knot`, a synthetic one. volume: a grid [Z, Y, X] or [Z, Y, X, 4] (density, red, green,
    blue) as .npy or .npz, or `cloud`, a synthetic one. radiance: a capture, as for `luxel train` without --field.

    The run folder holds config.json, metrics.jsonl, checkpoints/ and field.safetensors. Ctrl-C saves a checkpoint.
    --resume continues a run from its newest checkpoint; with more --steps it extends a finished run.

    Examples:
        luxel train photo.jpg --field image --view
        luxel train landscape --field image --seconds 10
        luxel train bunny.ply --field sdf --steps 5000
        luxel train knot --field sdf
        luxel train cloud --field volume --encoding dense
        luxel train capture/ --field radiance --run runs/nerf
        luxel train landscape --field image --backend tiny-cuda-nn
        luxel train map.tif --field image --stream --log2-entries 22
        luxel train --resume runs/nerf --steps 50000
    """

    data: Annotated[str | None, tyro.conf.Positional, PathText(), optional("DATA")] = None
    """Data to train on; with --resume only needed if they have moved."""
    run: Annotated[Path | None, Folder(), optional("DIR")] = None
    """Folder of the new run; default: runs/NAME after the data, with a number if that exists."""
    resume: Annotated[Path | None, optional("RUN")] = None
    """Continue the run in this folder; options that are not given keep the run's values."""
    force: bool = False
    """Train into a folder with other files, or resume a run whose result was changed since: files of the names that a
    training writes are replaced, and no others."""
    view: bool = False
    """Show the field in the browser while it trains, and afterwards until Ctrl-C."""
    device: DeviceName = "auto"
    """Device to train on; auto: the GPU if luxel can use it, else the CPU."""
    max_size: Annotated[Pixels | None, optional("PIXELS")] = None
    """Fields of images and captures: shrink images to at most this many pixels on their longer side; default: full
    size."""
    max_megapixels: Annotated[Megapixels | None, optional("N")] = None
    """Fields of images and captures: refuse images of more megapixels, which need 3 MB of memory each; default: 400."""
    stream: bool = False
    """Fields of images: leave the image on disk and read it by tiles, for images larger than memory: uncompressed TIFF,
    .npy, or PNG, which is decoded into a file in the run folder first (3 bytes a pixel)."""
    holdout_every: Every = 8
    """Fields of captures: hold out every Nth view if the data set names no test views; 0: none."""
    masks: MaskUse = "auto"
    """Fields of captures: use of masks and alpha, as for `luxel train` without --field."""
    config: Annotated[FieldConfig, tyro.conf.arg(name="")] = field(default_factory=FieldConfig)
    serve: Annotated[Serve, tyro.conf.arg(name="")] = field(default_factory=Serve)

    @staticmethod
    def is_meant(arguments: Sequence[str]) -> bool:
        """Whether the arguments of `luxel train` are for a field: --field, or --resume of such a run."""
        if given(arguments, "--field") is not None:
            return True
        if (folder := given_path(arguments, "--resume")) is None:
            return False
        from luxel.scenes.loading.run_results import is_field_run

        return is_field_run(folder)

    @staticmethod
    def defaults(arguments: Sequence[str]) -> TrainField:
        """Default values of the options: those of the run that is resumed, or of the application.

        Raises:
            LuxelError: an argument is an option of another application.
        """
        command = TrainField()
        if (resumed := given_path(arguments, "--resume")) is not None:
            from luxel.render.runs.folder.run_folder import RunFolder
            from luxel.scenes.loading.run_results import run_folder

            folder = run_folder(resumed)
            _require_run_of(folder, given(arguments, "--field"))
            command.config = config_of_run(resumed, RunFolder.read_body(folder))
        elif (name := given(arguments, "--field")) in APPLICATIONS:
            command.config = defaults(str(name))
            device = given(arguments, "--device") or "auto"
            if device == "cpu" or (device == "auto" and not _works_on_gpu()):
                command.config.batch = BATCH_ON_CPU
        _refuse_foreign_options(command.config, arguments)
        return command

    def execute(self) -> int:
        """Opens the data, trains, evaluates; returns the exit status."""
        from luxel.render.fields.training.trainer import FieldTrainer
        from luxel.viewer.progress import opening
        from luxel.viewer.scene_loading.runs import discard_unstarted
        from luxel.viewer.training.watched_run import run_watched

        self.config.check()
        self._check_data_options()
        if self.view:
            from luxel.viewer.web.serving import check_serving

            check_serving(self.serve)
        device = pick_device(self.device)
        require_field_backend(self.config.backend, device)  # refused before the data are opened
        folder, origin = self._folder_and_origin()
        with own(folder):
            try:
                with opening("opening the data") as on_progress:
                    data = origin.open(on_progress, device)
                if self.resume is None:
                    trainer = FieldTrainer.new(self.config, data.data, folder, device, about=data.about)
                else:
                    overrides = self._overrides(folder)
                    trainer = FieldTrainer.resume(
                        folder, data.data, device, overrides=overrides, about=data.about
                    )
            except BaseException as error:
                discard_unstarted(folder)
                if isinstance(error, LuxelError) and not any(
                    p in error.problem for p in (origin.path, str(folder))
                ):
                    raise LuxelError(f"{origin.path}: {error.problem}", error.remedy) from error
                raise
            print(f"{data.name}: {trainer.application.count:,} parameters of a field of {origin.kind}")
            return run_watched(
                trainer,
                lambda: _session(trainer, data),
                self.serve if self.view else None,
                lambda result: _conclude(trainer, result),
            )

    def _check_data_options(self) -> None:
        """Refuses options that say how data of another type are opened."""
        from luxel.viewer.scene_loading.field_data import applications_with_option, data_type_of

        taken = data_type_of(self.config.field).options
        for option in ("max_size", "max_megapixels", "stream", "holdout_every", "masks"):
            changed = getattr(self, option) != getattr(TrainField, option)
            if changed and option not in taken and self.resume is None:
                raise _foreign_option(option, self.config.field, applications_with_option(option))

    def _folder_and_origin(self) -> tuple[Path, FieldOrigin]:
        from luxel.render.runs.folder.run_folder import RunFolder
        from luxel.scenes.loading.run_results import run_folder
        from luxel.viewer.scene_loading.capture_options import Origin
        from luxel.viewer.scene_loading.field_data import FieldOrigin, require_kind
        from luxel.viewer.scene_loading.runs import allow_replacing, new_run_folder

        capture = Origin("", self.holdout_every, self.max_size, self.masks, self.max_megapixels)
        if self.resume is None:
            if self.data is None:
                raise LuxelError("There is nothing to train on.", "luxel train DATA --field KIND.")
            require_kind(self.config.field, self.data)
            origin = FieldOrigin.of(self.config.field, self.data, capture)
            origin.stream, origin.folder = (
                self.stream,
                new_run_folder(origin.name, self.run, force=self.force),
            )
            return origin.folder, origin
        if self.run is not None:
            raise LuxelError("--run and --resume name two folders.", "Give one of them.")
        folder = run_folder(self.resume)
        _require_run_of(folder, self.config.field)
        if self.force:
            allow_replacing(folder)
        if self.data is not None:
            origin = FieldOrigin.of(self.config.field, self.data, capture)
            given_before = RunFolder.read_body(folder).get("data")
            origin.stream = isinstance(given_before, dict) and given_before.get("stream") is True
            origin.folder = folder
            return folder, origin
        origin = FieldOrigin.of_run(
            folder, remedy=f"Give the data yourself: luxel train DATA --resume {folder}"
        )
        if self.max_megapixels is not None:
            origin.capture.max_megapixels = self.max_megapixels
        return folder, origin

    def _overrides(self, folder: Path) -> dict[str, Any]:
        """Values of the configuration that the options change in a resumed run, by name."""
        from luxel.render.runs.folder.run_folder import RunFolder

        before = config_of_run(folder, RunFolder.read_body(folder)).to_dict()
        after = self.config.to_dict()
        return {name: after[name] for name in after if after[name] != before[name]}


def _works_on_gpu() -> bool:
    """Whether luxel uses a GPU here; torch, which knows, is only asked where there is a device of one."""
    if not any(glob.glob(pattern) for pattern in GPU_DEVICES):
        return False
    from luxel.render.native import best_device

    return best_device().type == "cuda"


def _refuse_foreign_options(config: FieldConfig, arguments: Sequence[str]) -> None:
    """Refuses options that only other applications have.

    Raises:
        LuxelError: an argument is such an option.
    """
    own = {f.name for f in dataclasses.fields(config)} | {f.name for f in dataclasses.fields(TrainField)}
    for argument in arguments:
        if not argument.startswith("--"):
            continue
        name = argument[2:].split("=")[0].replace("-", "_")
        if name not in own and (owners := option_owners(name)):
            raise _foreign_option(name, config.field, owners)


def refuse_options_of_primitives(arguments: Sequence[str], options: set[str]) -> None:
    """Refuses options of `luxel train` that no field has.

    Args:
        arguments: of the command line.
        options: names of those without --field.

    Raises:
        LuxelError: an argument is such an option.
    """
    own = {f.name for command in (TrainField, FieldConfig) for f in dataclasses.fields(command)}
    for argument in arguments:
        option = argument.split("=")[0]
        name = option.removeprefix("--").replace("-", "_")
        if option.startswith("--") and name in options - own and not option_owners(name):
            raise LuxelError(
                f"{option}: fields have no such option; it belongs to `luxel train` without --field.",
                "Leave it out.",
            )


def _foreign_option(name: str, kind: str, owners: Sequence[str]) -> LuxelError:
    return LuxelError(
        f"--{name.replace('_', '-')}: a field of {kind!r} has no such option; it belongs to --field "
        f"{' or '.join(owners)}.",
        "Leave it out.",
    )


def _require_run_of(folder: Path, expected: str | None) -> None:
    """Raises LuxelError where a run is of primitives, or of another field than ``expected``; None: of any field."""
    from luxel.render.runs.folder.run_folder import RunFolder

    kind = RunFolder.read_body(folder)["config"].get("field")
    if kind is None or expected not in (None, kind):
        actual = "primitives" if kind is None else f"a field of {kind!r}"
        raise LuxelError(
            f"{folder}: this is a run of {actual}, not of a field of {expected!r}.",
            "Leave --field out, or start a new run.",
        )


def _session(trainer: Any, data: FieldData) -> Session:
    import numpy as np

    from luxel.render.fields.drawing.field_scene import field_scene
    from luxel.viewer.web.session import TrainingSession

    about = field_scene(trainer.application).about
    up = about.up if data.up is None else data.up
    return TrainingSession(
        trainer,
        data.views,
        trainer.folder.path.resolve().name,
        up=None if up is None else np.array(up),
        front=None if about.front is None else np.array(about.front),
        background=data.background,
        folder=trainer.folder.path,
        make=field_scene,
    )


def _conclude(trainer: Any, result: Any) -> None:
    from luxel.viewer.training.train_scene import ENDS

    speed = f"{result.step / result.train_seconds:.1f} steps/s" if result.train_seconds > 0 else "-"
    print(
        f"{result.step} steps in {result.train_seconds:.1f} s ({speed}), ended because {ENDS[result.reason]}"
    )
    for name, value in result.scores.items():
        unit = " dB" if name.startswith("psnr") else ""
        print(f"{name.replace('_', ' ')}: {value:.4g}{unit}")
    if result.scene is not None:
        print(f"field: {result.scene}", flush=True)
