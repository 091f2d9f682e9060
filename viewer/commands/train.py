"""`luxel train`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import tyro

from luxel.render.bounds import Bounds, Every, Folder, Megapixels, Options, Pixels
from luxel.render.errors import LuxelError
from luxel.render.raster import rasterizer
from luxel.render.runs.folder.owner import own
from luxel.render.train.config import TrainConfig
from luxel.scenes.captures.panorama_options import PanoramaOptions
from luxel.viewer.options import (
    DepthValues,
    DeviceName,
    LensUse,
    MaskUse,
    PointUse,
    PoseUse,
    Serve,
    optional,
    pick_device,
)

if TYPE_CHECKING:
    from luxel.viewer.scene_loading.capture_options import Origin


@dataclass
class TrainOptions(TrainConfig):
    """`TrainConfig` without the strategy, whose options stand under its name."""

    strategy: Annotated[Any, tyro.conf.Suppress] = None


@dataclass
class Train(Options):
    """Trains a scene from a capture and measures its quality.

    CAPTURE is a folder of images or panoramas or a video (whose poses are computed by structure from motion and
    retained), films of several calibrated cameras, a COLMAP model with images/ and sparse/0, or a transforms.json of
    nerfstudio, instant-ngp or Blender. Some views are held out of training and measured at the end: the data set's own
    test views, else every 8th.

    The run folder holds config.json, metrics.jsonl, checkpoints/, renders/ (held-out image and render side by side),
    scene.ply (readable by other viewers) and eval/index.html. Ctrl-C saves a checkpoint; --resume continues from it
    exactly as if the run had not stopped. --resume with more --steps extends a finished run.

    Options depend on --primitive, --strategy and --preset: add these to --help to see those of another choice.

    With --field image, sdf, volume or radiance a neural field is trained instead, on an image, a mesh, a volume or a
    capture: `luxel train --field image --help` explains its options.

    Examples:
        luxel train photos/ --view
        luxel train walk.mp4 --frames 200
        luxel train capture/ --run runs/first --steps 7000 --max-size 1200
        luxel train capture/ --preset fast
        luxel train capture/ --split.cap-max 300000
        luxel train capture/ --strategy adaptive --help
        luxel train moving/ --primitive gaussians4d
        luxel train capture/ --primitive convexes --preset light
        luxel train capture/ --start-from scene.spz --steps 5000
        luxel train --resume runs/first --steps 30000
        luxel train photo.jpg --field image
    """

    capture: Annotated[Path | None, tyro.conf.Positional, optional("CAPTURE")] = None
    """Folder or file of the capture; with --resume only needed if it has moved."""
    run: Annotated[Path | None, Folder(), optional("DIR")] = None
    """Folder of the new run; default: runs/NAME after the capture, with a number if that exists."""
    start_from: Annotated[Path | None, optional("SCENE")] = None
    """Begin with the primitives of this run or scene file instead of the capture's points; its units and axes must be
    those of the capture."""
    resume: Annotated[Path | None, optional("RUN")] = None
    """Continue the run in this folder; options that are not given keep the run's values."""
    force: bool = False
    """Train into a folder with other files, or resume a run whose result was changed since: files of the names that a
    training writes are replaced, and no others."""
    view: bool = False
    """Serve the scene in the browser while it trains, and afterwards until Ctrl-C."""
    device: DeviceName = "auto"
    """Device to train on; auto: the GPU if luxel can use it, else the CPU."""
    holdout_every: Every = 8
    """Hold out every Nth view by name, beginning with the first, if the data set names no test views; 0: none."""
    max_size: Annotated[Pixels | None, optional("PIXELS")] = None
    """Shrink images to at most this many pixels on their longer side; default: full size."""
    max_megapixels: Annotated[Megapixels | None, optional("N")] = None
    """Refuse images of more megapixels, which need 3 MB of memory each; default: 400."""
    frames: Annotated[Annotated[int, Bounds(3, 10**5)] | None, optional("N")] = None
    """Of a video: use at most N frames, the sharpest of N parts of equal length; default: 2 a second, 60 to 300. Of
    several cameras: N frames of each; default: all, at most 300."""
    masks: MaskUse = "auto"
    """Use of masks and alpha. cutout: train the object only; ignore: masked pixels do not count; none: masks are not
    used; auto: cutout if masks outline an object."""
    object: bool = False
    """Of images and videos: mask the object in the middle (MobileSAM) before poses are estimated, and train it
    alone; for turntables, where the object moves and all else stays."""
    poses: PoseUse = "keep"
    """Of captures that have poses. keep: as they are; refine: by bundle adjustment over matched features, in their
    coordinates."""
    depth_values: DepthValues = "z"
    """What depth maps hold. z: distances along the camera's axis; ray: from its centre; inverse: inverse z, as
    networks estimate it (with --depth-scale align)."""
    depth_channel: Annotated[str | None, optional("NAME")] = None
    """Channel of depth maps in OpenEXR files, such as ViewLayer.Depth.Z; default: Z, or the only one."""
    depth_points: Annotated[Path | None, optional("FILE")] = None
    """PLY file of points in the coordinates of the poses, such as a LiDAR scan, for --depth points or all; default: the
    points of the capture."""
    points: PointUse = "auto"
    """Initial points of captures with poses but without points. sweep: from a comparison of small images at planes, in
    a second on a GPU; random: in the cameras' views; triangulate: by structure from motion, in minutes; auto:
    random of cut-outs, sweep of other captures."""
    lens: LensUse = "undistort"
    """Of images with a fisheye or a distorted lens. undistort: they become pinhole images, cropped to 120 degrees;
    keep: they are trained as they are, with all that they show."""
    check_capture: bool = True
    """Look for what is wrong with some of the images while training starts, as `luxel inspect` does with all."""
    panorama: PanoramaOptions = field(default_factory=PanoramaOptions)
    preset: str = "default"
    """Values that all options below start from."""
    strategy: str = "split"
    """Densification strategy: how primitives are added, split, moved and removed."""
    config: Annotated[TrainOptions, tyro.conf.arg(name="")] = field(default_factory=TrainOptions)
    serve: Annotated[Serve, tyro.conf.arg(name="")] = field(default_factory=Serve)

    @staticmethod
    def variant(arguments: Sequence[str]) -> type:
        """The command that the arguments are for: options depend on the primitive, its strategy and the preset."""
        from luxel.viewer.commands.train_choices import command
        from luxel.viewer.commands.train_field import TrainField, refuse_options_of_primitives

        if not TrainField.is_meant(arguments):
            return command(Train, TrainOptions, arguments)
        known = {f.name for options in (Train, TrainOptions) for f in fields(options)}
        refuse_options_of_primitives(arguments, known)
        return TrainField

    def training(self) -> TrainConfig:
        """The configuration with the options applied."""
        values = {f.name: getattr(self.config, f.name) for f in fields(TrainConfig)}
        return TrainConfig(**{**values, "strategy": getattr(self, self.strategy)})

    def execute(self) -> int:
        """Opens the capture, trains, measures; returns the exit status."""
        from luxel.scenes.captures.unposed.video import video_file
        from luxel.scenes.loading.run_results import run_folder
        from luxel.scenes.loading.runs import load_parameters
        from luxel.viewer.progress import describe, opening
        from luxel.viewer.scene_loading.capture_options import Origin
        from luxel.viewer.scene_loading.runs import allow_replacing, discard_unstarted, new_run_folder
        from luxel.viewer.training.train_scene import fit

        config = self.training()
        config.check()
        if self.view:
            from luxel.viewer.web.serving import check_serving

            check_serving(self.serve)
        if self.depth_points is not None and config.depth not in ("points", "all"):
            raise LuxelError("--depth-points needs --depth points or all.", "Give it, or leave the file out.")
        device = pick_device(self.device)
        rasterizer(config.backend, device)  # refused before the capture is opened
        if self.resume is not None:
            if self.start_from is not None:
                raise LuxelError(
                    "--start-from is for new runs, and --resume continues one.", "Give one of them."
                )
            if self.run is not None:
                raise LuxelError("--run and --resume name two folders.", "Give one of them.")
            folder, origin = run_folder(self.resume), self._origin_of_resumed()
            if self.force:
                allow_replacing(folder)
        elif self.capture is None:
            raise LuxelError(
                "There is no capture to train on.", "luxel train CAPTURE, or luxel train --resume RUN."
            )
        else:
            origin = Origin.of(self, str(self.capture.resolve()), self.holdout_every)
            path = self.capture.resolve()
            folder = new_run_folder(
                path.stem if video_file(path) == path else path.name, self.run, force=self.force
            )
        with own(folder):
            try:
                with opening("opening the capture") as on_progress:
                    capture = origin.open(on_progress, device)
                origin.add_depth(capture, config)
                describe(capture)
                if capture.depths and config.depth == "none":
                    print(
                        f"depth maps: of {len(capture.depths)} images, not used; --depth maps trains with them."
                    )
                start = None if self.start_from is None else load_parameters(self.start_from, capture.shift)
                return fit(
                    config,
                    capture,
                    origin,
                    folder,
                    device,
                    serve=self.serve if self.view else None,
                    overrides=self._overrides(folder, config) if self.resume else None,
                    start=start,
                    check_capture=self.check_capture,
                )
            except BaseException:
                discard_unstarted(folder)
                raise

    def _origin_of_resumed(self) -> Origin:
        from luxel.render.runs.folder.provenance import UntrustedRunError
        from luxel.viewer.scene_loading.capture_options import Origin, load_origin

        assert self.resume is not None
        capture = None if self.capture is None else self.capture.resolve()
        try:
            origin = load_origin(
                self.resume,
                capture,
                points=self.depth_points,
                adds_depth=True,
                remedy=f"Give the capture yourself: luxel train CAPTURE --resume {self.resume}",
            )
        except UntrustedRunError:
            raise
        except LuxelError:
            if capture is None:
                raise
            origin = Origin.of(self, str(capture), self.holdout_every)
        if self.max_megapixels is not None:
            origin.max_megapixels = self.max_megapixels
        if self.depth_values != "z":
            origin.depth_values = self.depth_values
        if self.depth_channel is not None:
            origin.depth_channel = self.depth_channel
        return origin

    def _overrides(self, folder: Path, config: TrainConfig) -> dict[str, Any]:
        """Values in which the options differ from the configuration of a resumed run, by name."""
        from luxel.render.train.resume import read_config

        before = read_config(folder)[0].to_dict()
        after = config.to_dict()
        return {name: after[name] for name in after if after[name] != before.get(name)}
