"""`luxel render`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import torch
import tyro
from PIL import Image

from luxel.render.backends import Backend, rasterizer
from luxel.render.camera import Camera
from luxel.render.errors import LuxelError
from luxel.render.fields.application import Application
from luxel.render.primitives import Parameters
from luxel.render.runs.run_folder import RunFolder
from luxel.render.train.resume import read_config
from luxel.scenes import Capture
from luxel.scenes.paths import interpolate, interpolate_times, load_path, orbit, orbit_like
from luxel.viewer.commands.options import DeviceName, pick_device, require_drawable
from luxel.viewer.film import write_film
from luxel.viewer.progress import counting, opening
from luxel.viewer.runs import has_capture, load_drawable, load_origin, times_of
from luxel.viewer.scoring import COLOURS, to_bytes
from luxel.viewer.web.drawable import Drawable, render_field
from luxel.viewer.web.navigate import survey
from luxel.viewer.web.shading import drawing_options


@dataclass
class Render:
    """Renders a camera path through a scene to an MP4 film or a folder of PNG files.

    SCENE is the folder of a run, or a .ply, .splat or .safetensors file. Without --path the camera goes once around
    the scene: for a run at the height and distance of its photographs. A camera path is a JSON file as the viewer or
    nerfstudio saves it; with --frames it is resampled smoothly to that many pictures.

    A scene that moves plays once meanwhile, from the first time of its capture to the last; along photographs, or a
    path that has times, each picture shows the time of its place.

    Examples:
        luxel render runs/first
        luxel render runs/first --out tour.mp4 --frames 240 --width 1920 --height 1080
        luxel render scene.ply --path path.json --out pictures/
        luxel render runs/first --at photographs --out renders/
        luxel render runs/moving --times 0.2 0.6 --out part.mp4
        luxel render runs/moving --freeze 0.5 --out around-one-moment.mp4
        luxel render runs/an-image-field --width 4096 --out large.png
    """

    scene: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="SCENE")]
    """Folder of a run, or a .ply, .splat or .safetensors file."""
    out: Annotated[Path | None, tyro.conf.arg(metavar="PATH")] = None
    """Film (a name that ends in .mp4) or folder for 00000.png, 00001.png, ...; default: NAME.mp4 in the run or
    beside the scene file."""
    path: Annotated[Path | None, tyro.conf.arg(metavar="JSON")] = None
    """Camera path to follow instead of going around."""
    at: Literal["orbit", "photographs"] = "orbit"
    """Without --path: go around, or smoothly from photograph to photograph of the run's capture."""
    frames: int | None = None
    """Pictures; default: 120 around, all of a path."""
    fps: float | None = None
    """Pictures per second of a film; default: that of the path, else 30."""
    width: int | None = None
    """Pixels; default: that of the path or of the photographs, else 1280."""
    height: int | None = None
    """Pixels; default: that of the path or of the photographs, else 720."""
    elevation: float | None = None
    """Angle of the orbit above the horizontal plane in degrees; default: that of the photographs, else 20."""
    times: Annotated[tuple[float, float] | None, tyro.conf.arg(metavar="START END")] = None
    """Of a scene that moves: play from START to END over the pictures (backwards where END is less)."""
    freeze: Annotated[float | None, tyro.conf.arg(metavar="TIME")] = None
    """Of a scene that moves: show this one moment."""
    background: Literal["auto", "white", "black"] = "auto"
    """Colour behind the scene; auto: as the run was trained, else black."""
    transparent: bool = False
    """PNG files with alpha instead of a background."""
    device: DeviceName = "auto"
    """Where to render; auto: the GPU where luxel can use it."""
    backend: Backend = "luxel"
    """Who draws: luxel's own kernels, or gsplat's (an NVIDIA GPU and `pip install 'luxel[gsplat]'`)."""

    def execute(self) -> int:
        """Renders and writes; returns the exit status."""
        self._check()
        device = pick_device(self.device)
        render = rasterizer(self.backend, device)
        scene = load_drawable(self.scene).to(device)
        if isinstance(scene, Application):
            if (size := scene.image_size()) is not None:
                return self._write_image(scene, *size)
            render = render_field
            if self.transparent:
                raise LuxelError("--transparent: a neural field has no alpha.", "Leave it out.")
        else:
            require_drawable(self.backend, scene)
        self._check_times(scene)
        cameras, fps, along = self._cameras(scene)
        moments = self._moments(scene, len(cameras), along)
        out = self.out or self._default_out()
        frames = self._pictures(render, scene, cameras, moments, device, self._colour())
        with counting("pictures", len(cameras)) as advance:
            count = write_film(out, frames, self.fps or fps, on_frame=advance)
        first = cameras[0]
        print(f"{count} pictures of {first.width}x{first.height}: {out}")
        return 0

    def _write_image(self, scene: Application, own_width: int, own_height: int) -> int:
        """The whole image of a field that is one, at its own resolution or at the requested one."""
        height = self.height or (round(self.width * own_height / own_width) if self.width else own_height)
        width = self.width or round(height * own_width / own_height)
        out = self.out or self._default_out().with_name("image.png")
        if out.suffix.lower() not in (".png", ".jpg", ".jpeg", ".webp"):
            raise LuxelError(
                f"{out}: the field of an image is drawn as an image.", "Give a name like image.png."
            )
        Image.fromarray(to_bytes(scene.render_size(max(1, width), max(1, height)))).save(out)
        print(f"an image of {width}x{height}: {out}")
        return 0

    def _check(self) -> None:
        wrong = [
            (self.frames is not None and self.frames < 1, "--frames must be at least 1."),
            (self.fps is not None and not 0 < self.fps <= 240, "--fps must be above 0 and at most 240."),
            (
                any(v is not None and not 1 <= v <= 16384 for v in (self.width, self.height)),
                "sizes go to 16384.",
            ),
            (
                self.elevation is not None and not -85 <= self.elevation <= 85,
                "--elevation goes from -85 to 85.",
            ),
            (
                self.transparent and (self.out is None or self.out.suffix.lower() == ".mp4"),
                "--transparent needs a folder: a film has no alpha.",
            ),
        ]
        for is_wrong, message in wrong:
            if is_wrong:
                raise LuxelError(f"luxel render: {message}", "Correct that option.")

    def _check_times(self, scene: Drawable) -> None:
        given = [*(self.times or ()), *([] if self.freeze is None else [self.freeze])]
        if given and not scene.moves:
            raise LuxelError(
                f"{self.scene}: --times and --freeze are for scenes that move; this one, of {scene.noun}, does not.",
                "Leave them out.",
            )
        if not np.isfinite(given).all():
            raise LuxelError("luxel render: times must be finite numbers.", "Correct that option.")
        if self.times is not None and self.freeze is not None:
            raise LuxelError("--times plays and --freeze stands still.", "Give one of them.")

    def _moments(self, scene: Drawable, count: int, along: list[float]) -> list[float]:
        """The time of each picture; ``along``: what the camera's way says of it, if anything."""
        if self.freeze is not None:
            return [self.freeze] * count
        span = self.times
        if span is None and scene.moves and not along:
            span = times_of(scene, (lambda: self._capture) if self._is_run() else None)
        return along or [0.0] * count if span is None else np.linspace(*span, count).tolist()

    @cached_property
    def _capture(self) -> Capture:
        with opening("opening the capture") as on_progress:
            return load_origin(self.scene).open(on_progress)

    def _cameras(self, scene: Drawable) -> tuple[list[Camera], float, list[float]]:
        """Cameras, pictures per second, and the time at each camera where the way has times."""
        if self.path is not None:
            found = load_path(self.path)
            cameras, times = found.cameras, found.times
            if self.frames is not None:
                cameras = interpolate(cameras, self.frames)
                times = interpolate_times(times, self.frames) if times else []
            return self._sized(cameras), found.fps, times
        frames = self.frames or 120
        if not has_capture(self.scene):
            if self.at == "photographs":
                raise LuxelError(
                    f"{self.scene}: there are no photographs.", "Give the folder of a run on a capture."
                )
            return self._around(scene, frames), 30.0, []
        capture = self._capture
        shot = [view.camera for view in capture.views]
        if self.at == "photographs":
            times = interpolate_times([view.time for view in capture.views], frames)
            return self._sized(interpolate(shot, frames)), 30.0, times
        around = orbit_like(shot, centre=capture.centre, up=capture.up, frames=frames)
        if self.elevation is not None:
            away = (around[0].position.numpy() - capture.centre).astype(float)
            fov = 2 * float(torch.atan(0.5 * around[0].height / around[0].intrinsics[1]))
            around = orbit(
                capture.centre,
                float(np.linalg.norm(away)),
                up=capture.up if capture.up is not None else (0.0, 0.0, 1.0),
                elevation=float(np.radians(self.elevation)),
                frames=frames,
                fov_y=fov,
                width=around[0].width,
                height=around[0].height,
            )
        return self._sized(around), 30.0, []

    def _around(self, scene: Drawable, frames: int) -> list[Camera]:
        """An orbit about the middle of a scene of which no photographs are known."""
        seen = survey([], scene, np.array(scene.up) if isinstance(scene, Application) else None)
        return orbit(
            seen.centre,
            seen.radius,
            up=seen.up,
            elevation=float(np.radians(20 if self.elevation is None else self.elevation)),
            frames=frames,
            width=self.width or 1280,
            height=self.height or 720,
        )

    def _sized(self, cameras: list[Camera]) -> list[Camera]:
        """The cameras with the size asked for; the vertical field of view stays where only the shape changes."""
        if self.width is None and self.height is None:
            return cameras
        first = cameras[0]
        height = self.height or round(self.width * first.height / first.width) if self.width else self.height
        assert height is not None
        width = self.width or round(height * first.width / first.height)
        out = []
        for camera in cameras:
            zoom = height / camera.height
            fx, fy, cx, cy = (float(value) * zoom for value in camera.intrinsics)
            lens = torch.tensor([fx, fy, cx + 0.5 * (width - camera.width * zoom), cy], dtype=torch.float32)
            out.append(replace(camera, intrinsics=lens, width=width, height=height))
        return out

    def _colour(self) -> tuple[float, float, float]:
        if self.background != "auto":
            return COLOURS[self.background]
        if self._is_run():
            body = RunFolder.read_body(self.scene)
            if "field" in body["config"]:
                return COLOURS["white" if body.get("capture", {}).get("cutout") else "black"]
            return COLOURS["black" if body.get("background") == "black" else "white"]
        return COLOURS["black"]

    def _pictures(
        self,
        render: Callable[..., Any],
        scene: Drawable,
        cameras: list[Camera],
        moments: list[float],
        device: torch.device,
        colour: tuple[float, float, float],
    ) -> Iterator[np.ndarray]:
        """uint8 [H, W, 3], or [H, W, 4] with straight alpha."""
        of_primitives = isinstance(scene, Parameters)
        antialiased = of_primitives and self._is_run() and read_config(self.scene)[0].antialiased
        behind = torch.tensor((0.0, 0.0, 0.0) if self.transparent else colour, device=device)
        for camera, moment in zip(cameras, moments, strict=True):
            options = drawing_options(scene, antialiased=antialiased, time=moment)
            with torch.no_grad():
                frame = render(scene, camera.to(device), background=behind, **options)
            if not self.transparent:
                yield to_bytes(frame.rgb)
                continue
            straight = frame.rgb / frame.alpha.clamp_min(1e-4)[..., None]
            yield to_bytes(torch.cat([straight, frame.alpha[..., None]], -1))

    def _default_out(self) -> Path:
        name = "orbit" if self.path is None else self.path.stem
        if self.scene.is_dir():
            return self.scene / f"{name}.mp4"
        return self.scene.with_name(f"{self.scene.stem}-{name}.mp4")

    def _is_run(self) -> bool:
        return (self.scene / "config.json").is_file()
