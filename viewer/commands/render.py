"""`luxel render`."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import tyro

from luxel.render.bounds import Bounds, ImageSide, Options, Time
from luxel.render.errors import LuxelError
from luxel.render.raster import Backend
from luxel.viewer.options import DeviceName, optional, pick_device

if TYPE_CHECKING:
    import numpy as np

    from luxel.render.geometry.camera import Camera, View
    from luxel.render.scene import FlatImage, Scene
    from luxel.scenes import Capture
    from luxel.viewer.films.output_file import OutputFile

At = Annotated[int, Bounds(0, 2**20, stated=False)]
Direction = Annotated[float, Bounds(-1e6, 1e6, stated=False)]  # along an axis
Window = tuple[At, At, At, At]
STILLS = (".png", ".jpg", ".jpeg", ".tif", ".tiff")  # suffixes of --out for one image


@dataclass
class Render(Options):
    """Renders a camera path through a scene to a film or a folder of PNG files, or one image.

    SCENE is the folder of a run, or a scene file that `luxel view` shows. Without --path the camera orbits the scene
    once, for a run at the height and distance of the cameras of its capture. A camera path is a JSON file saved by
    the viewer (its panel "Camera path") or by nerfstudio; --frames resamples it smoothly.

    The name of --out says what is written: a film (.mp4, .mov, .mkv, .webm, .gif, .webp, .apng), numbered PNG files (a
    folder), or one image (.png, .jpg, .tif): that of the first camera of the path, or with --at NAME of a view.

    A dynamic scene plays once, from the first time of its capture to the last. Where the path, or the capture with
    --at photographs, has times, each frame shows the time of its position on the path.

    Examples:
        luxel render runs/first
        luxel render runs/first --out tour.mp4 --width 1920 --height 1080
        luxel render runs/first --path runs/first/path.json --out frames/
        luxel render runs/first --at photographs --out frames/
        luxel render runs/first --out tour.gif --width 480 --fps 15 --loop 3
        luxel render runs/first --out object.webp --transparent --quality 80
        luxel render runs/first --at IMG_0012 --out view.png --width 7680
        luxel render runs/first --view "$LINK" --out view.png --width 3840
        luxel render runs/moving --times 0.2 0.6 --out excerpt.mp4
        luxel render runs/moving --freeze 0.5 --out still-time.mp4
        luxel render runs/a-distance-field --sun 1 -1 2
        luxel render runs/an-image-field --width 4096 --out large.png
        luxel render runs/an-image-field --window 9000 4000 512 384 --out a.png
    """

    scene: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="SCENE")]
    """Folder of a run, a scene file (.ply, .compressed.ply, .splat, .ksplat, .spz, .sog, .glb or .safetensors), or a
    mesh (.glb, .obj, .ply or .stl)."""
    out: Annotated[Path | None, optional("PATH")] = None
    """Film (.mp4, .mov, .mkv, .webm, .gif, .webp, .apng), folder of PNG files, or image (.png, .jpg, .tif); default: an
    MP4 in the run folder or alongside the file."""
    capture: Annotated[Path | None, optional("CAPTURE")] = None
    """Take cameras and times from this capture; default: the one that the run was trained on."""
    path: Annotated[Path | None, optional("JSON")] = None
    """Camera path to follow; default: an orbit."""
    at: Annotated[str, tyro.conf.arg(metavar="{orbit,photographs,NAME}")] = "orbit"
    """Without --path: an orbit, a smooth path through all views of the run's capture, or the camera of the view NAME,
    which stands still."""
    view: Annotated[str | None, optional("LINK")] = None
    """Without --path: the camera of a link that the viewer has copied (key U), in quotation marks; its part after # is
    enough. It stands still; a link of a dynamic scene has a time."""
    frames: Annotated[Annotated[int, Bounds(1, 10**6, stated=False)] | None, optional("N")] = None
    """Number of frames; default: 120, or those of the path."""
    fps: Annotated[Annotated[float, Bounds(0, 240, above=True)] | None, optional("FPS")] = None
    """Frames per second of a film; default: that of the path, else 30. GIF has at most 50."""
    quality: Annotated[Annotated[int, Bounds(1, 100)] | None, optional("N")] = None
    """Of videos, .webp and .jpg: 1 (small) to 100 (best, in .webp lossless); default: 90, of .jpg 75."""
    loop: Annotated[Annotated[int, Bounds(0, 65535)] | None, optional("N")] = None
    """How often a .gif, .webp or .apng is played; 0: for ever, the default."""
    width: Annotated[ImageSide | None, optional("PIXELS")] = None
    """Width in pixels; default: that of the path or of the capture, else 1280."""
    height: Annotated[ImageSide | None, optional("PIXELS")] = None
    """Height in pixels; default: that of the path or of the capture, else 720."""
    elevation: Annotated[Annotated[float, Bounds(-85, 85)] | None, optional("DEGREES")] = None
    """Elevation of the orbit above the horizontal plane, degrees, -85 to 85; default: that of the capture, else 20."""
    times: Annotated[tuple[Time, Time] | None, optional("START END")] = None
    """Dynamic scenes: play from START to END (backwards if END is less), in the unit of the capture's times."""
    freeze: Annotated[Time | None, optional("TIME")] = None
    """Dynamic scenes: show this time in all frames."""
    background: Literal["auto", "white", "black"] = "auto"
    """Colour behind the scene; auto: the one that the run was trained with, else black."""
    exposure: Annotated[float, Bounds(-32, 32)] = 0.0
    """Fields of HDR images: multiply linear colours by 2 to this power before they are clamped and shown in sRGB."""
    sun: Annotated[tuple[Direction, Direction, Direction] | None, optional("X Y Z")] = None
    """Distance fields and volumes: light them by a sun in this direction, with shadows. Volumes are then rendered by
    delta tracking, with some noise."""
    window: Annotated[Window | None, optional("LEFT TOP WIDTH HEIGHT")] = None
    """Fields of images: render this part of the image, in pixels of the image that the field was trained on."""
    transparent: bool = False
    """Write alpha instead of a background: to .webp, .apng, .webm, .png, PNG files, and .gif (each pixel opaque or
    transparent)."""
    scene_axes: Annotated[str | None, optional("AXES")] = None
    """Axes of a scene file that ignores the specification of its format: what x, y and z point at, by the letters of
    right, left, up, down, front and back, such as RDF (3DGS) or RUB; default: those of the format."""
    keep_non_finite: bool = False
    """Keep primitives with parameters that are NaN or infinite; by default they are left out, with a message."""
    force: bool = False
    """Replace files of the names that are written, whatever they are."""
    device: DeviceName = "auto"
    """Device that renders; auto: the GPU if luxel can use it, else the CPU."""
    backend: Backend = "luxel"
    """Rasterizer backend; gsplat needs an NVIDIA GPU and `pip install 'luxel[gsplat]'`, and draws Gaussians only."""

    def execute(self) -> int:
        """Renders and writes; returns the exit status."""
        from luxel.render.scene import FlatImage
        from luxel.scenes.loading.loader import LoadOptions
        from luxel.scenes.loading.loaders import open_scene

        self._check()
        options = LoadOptions(self.keep_non_finite, self.scene_axes, self.backend, pick_device(self.device))
        scene = open_scene(self.scene, options)
        about = scene.about
        self._shift = about.shift or (0.0, 0.0, 0.0)  # with which the capture of a scene file is opened
        if self.transparent and "alpha" not in about.layers:
            raise LuxelError(f"--transparent: this scene of {about.noun} has no alpha.", "Leave it out.")
        if (image := scene.part(FlatImage)) is not None:
            return self._write_image(image, linear=about.linear)
        if self.window is not None:
            raise LuxelError(
                f"--window: this scene of {about.noun} is no field of an image.", "Leave it out."
            )
        if self.sun is not None and ("to_sun" not in about.options or not any(self.sun)):
            raise LuxelError(
                f"--sun: this scene of {about.noun} has no shadows, or the direction is 0 0 0.",
                "Give a direction, of a field of 'sdf' or 'volume'.",
            )
        self._check_times(scene)
        out = self._output(self.out or self._default_out())
        if out.path.suffix.lower() in STILLS:
            return self._write_still(scene, out)
        return self._write_film(scene, out)

    def _write_film(self, scene: Scene, out: OutputFile) -> int:
        from luxel.viewer.films.film import require_film, write_film
        from luxel.viewer.films.film_format import FilmOptions, check_options
        from luxel.viewer.progress import counting

        cameras, fps, path_times = self._cameras(scene)
        times = self._times(scene, len(cameras), path_times)
        first = cameras[0]
        options = FilmOptions(self.fps or fps, self.quality, self.loop, self.transparent)
        check_options(out.path, options, first.width, first.height)
        require_film(out, len(cameras), force=self.force)
        render = self._renderer(scene)
        frames = (render(camera, time) for camera, time in zip(cameras, times, strict=True))
        with counting("frames", len(cameras)) as advance:
            count = write_film(out, frames, options, on_frame=advance, force=self.force)
        print(f"{count} frames of {first.width}x{first.height}: {out.path}")
        return 0

    def _write_still(self, scene: Scene, out: OutputFile) -> int:
        """Writes the image of the first camera."""
        from luxel.viewer.films.still import require_still, tile_count, write_still
        from luxel.viewer.progress import counting

        for option, given in (("--frames", self.frames), ("--fps", self.fps), ("--loop", self.loop)):
            if given is not None:
                raise LuxelError(f"{option}: {out.path.name} is one image.", "Leave it out.")
        cameras, _, path_times = self._cameras(scene)
        camera = cameras[0]
        (time,) = self._times(scene, 1, path_times[:1])
        require_still(out, camera.width, camera.height, alpha=self.transparent, quality=self.quality)
        render = self._renderer(scene)
        with counting("tiles", tile_count(camera)) as advance:
            write_still(
                out,
                camera,
                lambda part: render(part, time),
                alpha=self.transparent,
                quality=self.quality,
                on_progress=lambda _: advance(),
            )
        print(f"image of {camera.width}x{camera.height}: {out.path}")
        return 0

    def _write_image(self, image: FlatImage, linear: bool) -> int:
        """Writes the image of a field that is one, or the part in --window, in its own size or that of --width and
        --height."""
        from luxel.scenes.files.images.image_files import write_image
        from luxel.viewer.films.still import require_still
        from luxel.viewer.reports.scoring import to_bytes

        own_width, own_height = image.width, image.height
        left, top, across, down = window = self.window or (0, 0, own_width, own_height)
        if not (0 <= left < left + across <= own_width and 0 <= top < top + down <= own_height):
            raise LuxelError(
                f"--window {' '.join(map(str, window))}: the image has {own_width}x{own_height} pixels.",
                "Give LEFT TOP WIDTH HEIGHT of a part that lies within it.",
            )
        height = self.height or (round(self.width * down / across) if self.width else down)
        width = self.width or round(height * across / down)
        width, height = max(1, width), max(1, height)
        out = self._output(self.out or self._default_out().with_name("image.png"))
        require_still(out, width, height, quality=self.quality)
        if self.exposure and not linear:
            raise LuxelError(f"--exposure: {self.scene} is not the field of an HDR image.", "Leave it out.")
        part = left / own_width, top / own_height, (left + across) / own_width, (top + down) / own_height
        bands = (to_bytes(band) for band in image.bands(width, height, part, self.exposure))
        write_image(out.path, width, height, bands, out.writing, self.quality)
        print(f"image of {width}x{height}: {out.path}")
        return 0

    def _check(self) -> None:
        """Refuses options that the format of a film does not have, before the scene is opened."""
        from luxel.viewer.films.film_format import FORMATS, FilmOptions, check_options

        if self.view is not None and (self.path is not None or self.at != "orbit"):
            raise LuxelError("--view, --path and --at exclude each other.", "Give one of them.")
        path = self.out or self._default_out()
        if path.suffix.lower() in FORMATS:
            options = FilmOptions(self.fps or 1.0, self.quality, self.loop, self.transparent)
            check_options(path, options, self.width or 1, self.height or 1)

    def _check_times(self, scene: Scene) -> None:
        given = [*(self.times or ()), *([] if self.freeze is None else [self.freeze])]
        about = scene.about
        if given and not about.moves:
            raise LuxelError(
                f"{self.scene}: --times and --freeze are for dynamic scenes, and this scene of {about.noun} is static.",
                "Leave them out.",
            )
        if self.times is not None and self.freeze is not None:
            raise LuxelError("--times and --freeze exclude each other.", "Give one of them.")

    def _times(self, scene: Scene, count: int, path_times: list[float]) -> list[float]:
        """The time of each frame.

        Args:
            count: number of frames.
            path_times: of the camera path, one a frame; empty: it has none.
        """
        import numpy as np

        from luxel.viewer.scene_loading.runs import times_of

        if self.freeze is not None:
            return [self.freeze] * count
        span = self.times
        if span is None and scene.about.moves and not path_times:
            span = times_of(scene, (lambda: self._capture) if self._is_run() or self.capture else None)
        return path_times or [0.0] * count if span is None else np.linspace(*span, count).tolist()

    @cached_property
    def _capture(self) -> Capture:
        from luxel.viewer.progress import opening
        from luxel.viewer.scene_loading.capture_options import Origin, load_origin

        with opening("opening the capture") as on_progress:
            origin = load_origin(self.scene, self.capture) if self._is_run() else Origin(str(self.capture))
            if origin.shift is None:
                origin.shift = self._shift
            origin.lens = "undistort"  # films are those of pinhole cameras
            return origin.open(on_progress)

    def _cameras(self, scene: Scene) -> tuple[list[Camera], float, list[float]]:
        """Cameras, frames per second, and the time at each camera if the path has times (else none)."""
        import numpy as np
        import torch

        from luxel.render.runs.folder.provenance import UntrustedRunError
        from luxel.scenes.loading.run_results import has_capture
        from luxel.scenes.paths import interpolate, interpolate_times, load_path, orbit, orbit_like
        from luxel.scenes.unused import unused_lines

        if self.path is not None:
            path = load_path(self.path, scene.about.shift)
            for line in unused_lines(path.unused, "the file"):
                print(line, file=sys.stderr)
            cameras, times = path.cameras, path.times
            if self.frames is not None:
                cameras = interpolate(cameras, self.frames)
                times = interpolate_times(times, self.frames) if times else []
            return self._resized(cameras), path.fps, times
        frames = self.frames or 120
        if self.view is not None:
            return self._linked(self.view, scene, frames)
        orbits = self.at == "orbit"
        if self.capture is None and not has_capture(self.scene):
            if not orbits:
                raise LuxelError(
                    f"{self.scene}: --at {self.at} needs the views of a capture, and there is none.",
                    "Give the folder of a run that was trained on a capture.",
                )
            return self._around(scene, frames), 30.0, []
        try:
            capture = self._capture
        except UntrustedRunError as error:
            if not orbits:
                raise
            print(f"The camera goes around the scene: {error}", file=sys.stderr)
            return self._around(scene, frames), 30.0, []
        cameras = [view.camera for view in capture.views]
        if self.at not in ("orbit", "photographs"):
            return self._at_view(capture.views, scene, frames)
        if self.at == "photographs":
            times = interpolate_times([view.time for view in capture.views], frames)
            return self._resized(interpolate(cameras, frames)), 30.0, times
        up = self._measured_up(scene)
        up = capture.up if up is None else up
        around = orbit_like(cameras, centre=capture.centre, up=up, frames=frames)
        if self.elevation is not None:
            away = (around[0].position.numpy() - capture.centre).astype(float)
            fov = 2 * float(torch.atan(0.5 * around[0].height / around[0].intrinsics[1]))
            around = orbit(
                capture.centre,
                float(np.linalg.norm(away)),
                up=up if up is not None else (0.0, 0.0, 1.0),
                elevation=float(np.radians(self.elevation)),
                frames=frames,
                fov_y=fov,
                width=around[0].width,
                height=around[0].height,
            )
        return self._resized(around), 30.0, []

    def _measured_up(self, scene: Scene) -> np.ndarray | None:
        """The up direction that was measured in the viewer, [3]; None: there is none."""
        import numpy as np

        from luxel.scenes.measuring.measured_facts import measured_in_file, measured_in_run

        up = (measured_in_run(self.scene) if self._is_run() else measured_in_file(self.scene, scene)).up
        return None if up is None else np.array(up)

    def _at_view(
        self, views: Sequence[View], scene: Scene, frames: int
    ) -> tuple[list[Camera], float, list[float]]:
        """The camera of a view in all frames: a film of a dynamic scene plays, an image has the time of the view."""
        from luxel.viewer.segmenting import find_view

        view = find_view(views, self.at)
        plays = self.out is None or self.out.suffix.lower() not in STILLS
        return self._resized([view.camera] * frames), 30.0, [] if plays else [view.time] * frames

    def _linked(self, link: str, scene: Scene, frames: int) -> tuple[list[Camera], float, list[float]]:
        """The camera of a link, in all frames."""
        from luxel.viewer.films.view_link import decode_view

        view = decode_view(link)
        width = self.width or (round(self.height * 16 / 9) if self.height else 1280)
        camera = view.camera(width, self.height or max(1, round(width * 9 / 16)))
        times = [] if view.time is None or not scene.about.moves else [view.time] * frames
        return [camera] * frames, 30.0, times

    def _around(self, scene: Scene, frames: int) -> list[Camera]:
        """An orbit around the centre of a scene without a capture."""
        import numpy as np

        from luxel.scenes.paths import orbit
        from luxel.viewer.web.navigate import find_extent

        up = scene.about.up
        extent = find_extent([], scene.centres, None if up is None else np.array(up))
        return orbit(
            extent.centre,
            extent.radius,
            up=extent.up,
            elevation=float(np.radians(20 if self.elevation is None else self.elevation)),
            frames=frames,
            width=self.width or 1280,
            height=self.height or 720,
        )

    def _resized(self, cameras: list[Camera]) -> list[Camera]:
        """The cameras with the size of --width and --height."""
        from luxel.scenes.paths import resized

        return resized(cameras, self.width, self.height)

    def _colour(self) -> tuple[float, float, float]:
        from luxel.render.runs.folder.run_folder import RunFolder
        from luxel.viewer.reports.scoring import COLOURS

        if self.background != "auto":
            return COLOURS[self.background]
        if self._is_run():
            body = RunFolder.read_body(self.scene)
            if "field" in body["config"]:
                return COLOURS["white" if body.get("capture", {}).get("cutout") else "black"]
            return COLOURS["black" if body.get("background") == "black" else "white"]
        return COLOURS["black"]

    def _renderer(self, scene: Scene) -> Callable[[Camera, float], np.ndarray]:
        """Renders a camera at a time: uint8 [H, W, 3], or [H, W, 4] with straight alpha."""
        import torch

        from luxel.render.scene import Draw
        from luxel.viewer.films.straight_alpha import with_straight_alpha
        from luxel.viewer.reports.scoring import to_bytes

        colour = (0.0, 0.0, 0.0) if self.transparent else self._colour()
        behind = torch.tensor(colour, device=scene.device)
        layers = ("colour", "alpha") if self.transparent else ("colour",)
        options = scene.about.chosen(antialiased=bool(scene.about.antialiased))
        options |= {} if self.sun is None else {"to_sun": self.sun}

        @torch.no_grad()
        def render(camera: Camera, time: float) -> np.ndarray:
            images = scene.draw(camera.to(scene.device), Draw(layers, time, behind, None, options)).images
            if self.transparent:
                return to_bytes(with_straight_alpha(images["colour"], images["alpha"]))
            return to_bytes(images["colour"])

        return render

    def _default_out(self) -> Path:
        from luxel.scenes.loading.run_results import is_run

        name = "orbit" if self.path is None else self.path.stem
        if is_run(self.scene):
            return self.scene / f"{name}.mp4"
        return self.scene.with_name(f"{self.scene.stem}-{name}.mp4")

    def _output(self, path: Path) -> OutputFile:
        from luxel.scenes.loading.run_results import is_run
        from luxel.viewer.films.output_file import OutputFile

        return OutputFile(path, run=self.scene if is_run(self.scene) else None, force=self.force)

    def _is_run(self) -> bool:
        from luxel.render.runs.folder.run_config import has_config

        return has_config(self.scene)
