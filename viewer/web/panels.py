"""The controls of a page: numbers, time, training, what to show, where to look from."""

from __future__ import annotations

import html
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

import cv2
import numpy as np
import torch

from luxel.render.camera import View
from luxel.viewer.web.navigate import Pose, Surroundings, first_pose, jump
from luxel.viewer.web.session import Session
from luxel.viewer.web.shading import modes_of
from luxel.viewer.web.stream import ClientStream, StreamReport
from luxel.viewer.web.time_controls import TimeControls

MAX_FRUSTUMS = 64
THUMBNAIL = 96  # pixels along the longer side
AXES = {sign + "xyz"[i]: float(sign + "1") * np.eye(3)[i] for i in range(3) for sign in "+-"}

# Order of the groups in the panel; within a group viser keeps the order of creation.
ORDER_FRAME, ORDER_TIME, ORDER_TRAINING, ORDER_SHOW, ORDER_CAMERA = 0.0, 1.0, 2.0, 3.0, 4.0


class TrainingPanel:
    """Numbers of the training and its controls; one for all pages, as they change the same training.

    Args:
        gui: viser's GuiApi of the server.
        session: what is trained (or a scene at rest: then only its numbers are shown).
    """

    def __init__(self, gui: Any, session: Session) -> None:
        self._session = session
        self._shown = ""
        self._title = "Training" if session.trains else "Scene"
        with gui.add_folder(self._title, order=ORDER_TRAINING):
            self._numbers = gui.add_html("")
            if session.trains:
                self._bar = gui.add_progress_bar(0.0)
                self._button = gui.add_button("Pause training", hint="Training waits; the page stays live")
                self._button.on_click(lambda _: self._toggle())
                share = gui.add_slider(
                    "Share of time",
                    min=0.05,
                    max=0.95,
                    step=0.05,
                    initial_value=round(round(min(0.95, max(0.05, session.share_of_time)) * 20) / 20, 2),
                    hint="At most this fraction of the time goes into images of this page; the rest trains",
                )
                share.on_update(lambda _: setattr(session, "share_of_time", float(share.value)))
        self.refresh()

    def _toggle(self) -> None:
        if self._session.paused:
            self._session.resume()
        else:
            self._session.pause()
        self.refresh()

    def refresh(self) -> None:
        """Shows the numbers of now; sends only what changed."""
        status = self._session.status()
        text = table(status_rows(status, self._session.kind.noun))
        if text != self._shown:
            self._shown = self._numbers.content = text
        if not self._session.trains:
            return
        done = bool(status.get("done"))
        progress = 100.0 if done else round(100 * min(1.0, max(0.0, status.get("progress") or 0.0)), 1)
        label = "Continue training" if self._session.paused else "Pause training"
        label = "Training is done" if done else label
        if self._bar.value != progress:
            self._bar.value = progress
        if self._button.label != label:
            self._button.label = label
        if self._button.disabled != done:
            self._button.disabled = done


class ClientPanel:
    """The controls that belong to one page: its image, time, outputs and camera. They act after ``attach``.

    Args:
        client: viser ClientHandle.
        session: what is shown.
        around: middle, size and up direction of the scene.
        thumbnails: gives the thumbnail of a view, [h, w, 3] uint8; may be slow.
    """

    def __init__(
        self,
        client: Any,
        session: Session,
        around: Surroundings,
        thumbnails: Callable[[View], np.ndarray | None],
    ) -> None:
        self._client, self._session, self._around, self._thumbnails = client, session, around, thumbnails
        self._stream: ClientStream | None = None
        self._flight = 0
        self._frustums: list[Any] = []
        self._frustums_lock = threading.Lock()
        self._shown = ("", "")
        gui = client.gui
        self._error = gui.add_markdown("", visible=False, order=ORDER_FRAME - 1)
        self._frame = gui.add_html(table([("FPS", "…")]), order=ORDER_FRAME)
        # On a phone the panel lies on the scene: keep it short.
        roomy = client.camera.image_width > min(450, client.camera.image_height)
        self._time: TimeControls | None = None
        if session.times is not None:
            with gui.add_folder("Time", order=ORDER_TIME):
                self._time = TimeControls(gui, session.times)
        with gui.add_folder("Show", order=ORDER_SHOW, expand_by_default=roomy):
            self._add_look(gui)
        with gui.add_folder("Camera", order=ORDER_CAMERA, expand_by_default=roomy):
            self._add_camera(gui)

    def attach(self, stream: ClientStream) -> None:
        """Connects the controls with the loop that obeys them."""
        self._stream = stream
        if self._time is not None:
            self._time.attach(stream)

    def _add_look(self, gui: Any) -> None:
        colour = tuple(round(255 * c) for c in self._session.background)
        kind = self._session.kind
        mode = gui.add_dropdown("Output", modes_of(kind), initial_value=modes_of(kind)[0])
        background = gui.add_rgb("Background", initial_value=colour)
        resolution = gui.add_slider(
            "Resolution", 10, 200, 10, 100, hint="Percent of the window's pixels while the camera rests"
        )
        quality = gui.add_slider("Quality", 30, 100, 5, 90, hint="JPEG quality; 100 sends lossless PNG")
        antialiased = gui.add_checkbox(
            "Antialiased",
            self._session.antialiased,
            hint="For scenes that were trained so (Mip-Splatting)",
            visible=kind.antialiases,
        )
        with gui.add_folder("More", expand_by_default=False):
            size = gui.add_slider(
                "Splat size",
                0.05,
                2.0,
                0.05,
                1.0,
                hint=f"Times the size of all {kind.noun}",
                visible=kind.resizable,
            )
            near = gui.add_number("Near", 0.01, min=1e-4, hint="Nothing closer is drawn (capture units)")
            far = gui.add_number("Far", 1e6, min=1e-3, hint="Nothing farther is drawn (capture units)")
        for control, change in (
            (mode, lambda: {"mode": mode.value}),
            (background, lambda: {"background": tuple(c / 255 for c in background.value)}),
            (resolution, lambda: {"resolution": resolution.value / 100}),
            (quality, lambda: {"quality": int(quality.value)}),
            (antialiased, lambda: {"antialiased": antialiased.value}),
            (size, lambda: {"splat_scale": size.value}),
            (near, lambda: {"near": near.value}),
            (far, lambda: {"far": max(far.value, near.value)}),
        ):
            control.on_update(lambda _, change=change: self._change(**change()))

    def _add_camera(self, gui: Any) -> None:
        names = [view.name for view in self._session.views]
        if names:
            show = gui.add_checkbox("Show cameras", False, hint="Click one to look from there")
            show.on_update(lambda _: self._show_frustums(show.value))
            chosen = gui.add_dropdown("View", names, initial_value=names[0])
            chosen.on_update(lambda _: self.go_to(self._session.views[names.index(chosen.value)]))
            step = gui.add_button_group("", ["◀ Previous", "Next ▶"])

            def move(_: Any) -> None:
                by = 1 if step.value.startswith("Next") else -1
                chosen.value = names[(names.index(chosen.value) + by) % len(names)]

            step.on_click(move)
        reset = gui.add_button("Reset view")
        reset.on_click(lambda _: self.reset())
        up = gui.add_dropdown("Up", ["of the scene", "of this image", *AXES], hint="What a drag turns about")
        up.on_update(lambda _: self._set_up(up.value))

    def _change(self, **choices: Any) -> None:
        if self._stream is not None:
            self._stream.change(**choices)

    def _set_up(self, choice: str) -> None:
        camera = self._client.camera
        if choice in AXES:
            direction = AXES[choice]
        elif choice == "of this image":
            direction = -Pose.of_client(camera).rotation[:, 1]
        else:
            direction = self._around.up
        camera.up_direction = direction

    def go_to(self, view: View) -> None:
        """Flies to a photograph's pose and field of view, and shows its time."""
        if self._time is not None:
            self._time.go_to(view.time)
        self._fly_to(view)

    def _fly_to(self, view: View) -> None:
        camera = self._client.camera
        self._fly(Pose.of_camera(view.camera, camera.image_width / max(1, camera.image_height)))

    def reset(self) -> None:
        """Flies to where the page began, the scene's up direction upright."""
        if self._session.views:
            self._fly_to(self._session.views[0])
        else:
            self._fly(first_pose((), self._around))
        self._client.camera.up_direction = self._around.up

    def _fly(self, target: Pose) -> None:
        self._flight += 1
        mine = self._flight
        jump(self._client, target, self._around, cancelled=lambda: self._flight != mine)

    def _show_frustums(self, visible: bool) -> None:
        with self._frustums_lock:
            if visible and not self._frustums:
                self._add_frustums()
            for frustum in self._frustums:
                frustum.visible = visible

    def _add_frustums(self) -> None:
        shown = evenly(self._session.views, MAX_FRUSTUMS)
        scale = frustum_scale([view for _, view in shown], self._around.radius)
        for index, view in shown:
            pose = Pose.of_camera(view.camera)
            frustum = self._client.scene.add_camera_frustum(
                f"/cameras/{index:05d}",
                fov=pose.fov_y,
                aspect=view.camera.width / view.camera.height,
                scale=scale,
                thickness=1.5,
                thickness_units="screen",
                color=(250, 150, 40),
                image=self._thumbnails(view),
                wxyz=pose.wxyz,
                position=pose.position,
                cast_shadow=False,
                receive_shadow=False,
            )
            frustum.on_click(lambda _, view=view: self.go_to(view))
            self._frustums.append(frustum)

    def report(self, report: StreamReport) -> None:
        """Shows the numbers of the images and their time, and what went wrong with them."""
        if self._time is not None:
            self._time.follow(report)
        rows = [
            ("FPS", f"{report.fps:.0f}" if report.fps else "at rest"),
            ("Render", f"{report.render_ms:.1f} ms"),
            ("Image", f"{report.width} × {report.height}"),
        ]
        if report.caption:
            rows.append(("Range", report.caption))
        error = f"**Rendering failed:** {as_text(report.error)}" if report.error else ""
        shown = (table(rows), error)
        if shown[0] != self._shown[0]:
            self._frame.content = shown[0]
        if shown[1] != self._shown[1]:
            self._error.content = error
            self._error.visible = bool(error)
        self._shown = shown


def status_rows(status: dict[str, Any], noun: str = "Gaussians") -> list[tuple[str, str]]:
    """Label and text of each number that the status has; ``noun`` is what is counted where it does not say so."""
    rows: list[tuple[str, str]] = []
    step, steps = status.get("step"), status.get("steps")
    if step is not None:
        rows.append(("Step", f"{step:,} of {steps:,}" if steps else f"{step:,}"))
    if (speed := status.get("steps_per_s")) is not None:
        rows.append(("Steps/s", f"{speed:.1f}"))
    if (psnr := status.get("psnr")) is not None:
        rows.append(("PSNR, training", f"{psnr:.2f} dB"))
    if (psnr := status.get("test_psnr")) is not None:
        rows.append(("PSNR, held out", f"{psnr:.2f} dB"))
    if (loss := status.get("loss")) is not None:
        rows.append(("Loss", f"{loss:.3g}"))
    rows += [(name.replace("_", " "), f"{score:.4g}") for name, score in (status.get("scores") or {}).items()]
    if (count := status.get("count")) is not None:
        counted = str(status.get("noun", noun))
        rows.append((counted[:1].upper() + counted[1:], f"{count:,}"))
    if (degree := status.get("sh_degree")) is not None:
        rows.append(("SH degree", str(degree)))
    if memory := status.get("memory"):
        rows.append(("Memory", f"{memory / 2**30:.2f} GiB"))
    if (elapsed := status.get("elapsed")) is not None:
        rows.append(("Elapsed", clock(elapsed)))
    if (eta := status.get("eta")) is not None and not status.get("done"):
        rows.append(("Left", clock(eta)))
    return rows


def table(rows: Sequence[tuple[str, str]]) -> str:
    """Rows of label and value as HTML that keeps to a narrow panel."""
    cells = "".join(
        f'<span style="opacity:0.65">{html.escape(label)}</span>'
        f'<span style="text-align:right;overflow-wrap:anywhere;font-variant-numeric:tabular-nums">'
        f"{html.escape(value)}</span>"
        for label, value in rows
    )
    return (
        '<div style="display:grid;grid-template-columns:auto 1fr;gap:0.15em 0.8em;'
        f'font-size:0.85em;line-height:1.35;padding:0.3em 0.9em">{cells}</div>'
    )


def clock(seconds: float) -> str:
    """Seconds as h:mm:ss or m:ss; a dash for what is unknown."""
    if not 0 <= seconds < 1e7:
        return "–"
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"


def as_text(message: str, limit: int = 400) -> str:
    """A message as Markdown that shows it literally."""
    short = message if len(message) <= limit else message[:limit] + " …"
    return "".join("\\" + c if c in "\\`*_{}[]()<>#+-!|~$&" else c for c in short).replace("\n", " ")


def evenly(views: Sequence[View], limit: int) -> list[tuple[int, View]]:
    """At most ``limit`` of the views, evenly over their order, with their positions."""
    if len(views) <= limit:
        return list(enumerate(views))
    return [(int(i), views[int(i)]) for i in np.linspace(0, len(views) - 1, limit).round()]


def frustum_scale(views: Sequence[View], radius: float) -> float:
    """Size of frustums that leaves room between neighbours, a 30th to an 8th of the scene's radius."""
    if len(views) < 2:
        return radius / 8
    centres = torch.stack([view.camera.position for view in views]).double()
    apart = torch.cdist(centres, centres) + torch.diag(centres.new_full((len(views),), torch.inf))
    gap = float(apart.min(dim=1).values.median())
    return min(max(0.3 * gap, radius / 30), radius / 8)


class Thumbnails:
    """Small versions of the photographs, made once for all pages."""

    def __init__(self) -> None:
        self._images: dict[str, np.ndarray | None] = {}
        self._lock = threading.Lock()

    def __call__(self, view: View) -> np.ndarray | None:
        """The photograph on white at THUMBNAIL pixels, uint8 [h, w, 3]; None if it cannot be read."""
        with self._lock:
            if view.name not in self._images:
                self._images[view.name] = self._make(view)
            return self._images[view.name]

    def _make(self, view: View) -> np.ndarray | None:
        try:
            pixels = view.read()
        except Exception:  # a photograph that is gone spoils a thumbnail, not the page
            return None
        rgb = pixels.rgb
        if pixels.alpha is not None:
            alpha = pixels.alpha[..., None].astype(np.float32) / 255
            rgb = (rgb * alpha + 255 * (1 - alpha)).astype(np.uint8)
        factor = THUMBNAIL / max(rgb.shape[:2])
        size = (max(1, round(rgb.shape[1] * factor)), max(1, round(rgb.shape[0] * factor)))
        return cv2.resize(rgb, size, interpolation=cv2.INTER_AREA)


def tick(refresh: Callable[[], None], stopped: threading.Event, seconds: float = 0.5) -> None:
    """Calls ``refresh`` until stopped; an error in it costs one call, not the page."""
    while not stopped.wait(seconds):
        began = time.monotonic()
        try:
            refresh()
        except Exception:
            stopped.wait(max(2.0, time.monotonic() - began))
