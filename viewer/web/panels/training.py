"""Numbers and controls of the training that all pages share."""

from __future__ import annotations

from typing import Any

from luxel.viewer.web.editing.editable_training import EditableTraining
from luxel.viewer.web.panels.panel import SharedPanel
from luxel.viewer.web.panels.text import as_text, clock, table
from luxel.viewer.web.run_end import end_in_words
from luxel.viewer.web.session import Session, TrainingSession


class TrainingPanel(SharedPanel):
    """Numbers, progress, pause button and share of time of a training."""

    title = "Training"

    @classmethod
    def available(cls, session: Session) -> bool:
        """Only where a scene is being trained."""
        return session.has_training

    def build(self, gui: Any, order: float) -> None:
        """Adds the numbers and controls."""
        session = self.session
        self._shown = ""
        self._numbers = gui.add_html("")
        self._notices = gui.add_markdown("", visible=False)
        self._edits = gui.add_markdown("", visible=False)
        self._bar = gui.add_progress_bar(0.0)
        self._button = gui.add_button("Pause training", hint="The page stays live meanwhile")
        self._button.on_click(lambda _: self._toggle())
        share = gui.add_slider(
            "Share of time",
            min=0.05,
            max=0.95,
            step=0.05,
            initial_value=round(round(min(0.95, max(0.05, session.share_of_time)) * 20) / 20, 2),
            hint="Largest fraction of the time that rendering for pages may take from training",
        )
        share.on_update(lambda _: setattr(session, "share_of_time", float(share.value)))
        self.refresh()

    def _toggle(self) -> None:
        if self.session.paused:
            self.session.resume()
        else:
            self.session.pause()
        self.refresh()

    def refresh(self) -> None:
        """Shows the present numbers; sends only what changed."""
        if isinstance(self.session, TrainingSession):
            EditableTraining.of(self.session).follow()
        status = self.session.status()
        text = table(status_rows(status, self.session.about.noun))
        if text != self._shown:
            self._shown = self._numbers.content = text
        notices = "\n\n".join(f"**Capture:** {as_text(notice)}" for notice in status.get("notices") or ())
        if notices != self._notices.content:
            self._notices.content, self._notices.visible = notices, bool(notices)
        if isinstance(self.session, TrainingSession):
            edits = as_text(EditableTraining.of(self.session).message)
            if edits != self._edits.content:
                self._edits.content, self._edits.visible = edits, bool(edits)
        done = bool(status.get("done") or status.get("reason"))
        progress = round(100 * progress_of(status), 1)
        label = "Continue training" if self.session.paused else "Pause training"
        if done:
            working = not status.get("done") or getattr(self.session, "is_starting", False)
            label = "One moment …" if working else "Training has ended"
        if self._bar.value != progress:
            self._bar.value = progress
        if self._button.label != label:
            self._button.label = label
        if self._button.disabled != done:
            self._button.disabled = done


class ScenePanel(SharedPanel):
    """Numbers of a scene that is not being trained."""

    title = "Scene"

    @classmethod
    def available(cls, session: Session) -> bool:
        """Where nothing is being trained."""
        return not session.has_training

    def build(self, gui: Any, order: float) -> None:
        """Adds the numbers."""
        self._shown = ""
        self._numbers = gui.add_html("")
        self.refresh()

    def refresh(self) -> None:
        """Shows the present numbers, which change where the scene is replaced."""
        text = table(status_rows(self.session.status(), self.session.about.noun))
        if text != self._shown:
            self._shown = self._numbers.content = text


def progress_of(status: dict[str, Any]) -> float:
    """How much of a training is done, in [0, 1]: of its steps or, where that is more, of its time.

    Args:
        status: of Trainer.status.
    """
    if status.get("done") and status.get("reason") not in ("stopped", "interrupted"):
        return 1.0
    elapsed, limit = status.get("elapsed") or 0.0, status.get("time_limit")
    progress = max(status.get("progress") or 0.0, elapsed / limit if limit else 0.0)
    return min(1.0, max(0.0, progress))


def status_rows(status: dict[str, Any], noun: str = "Gaussians") -> list[tuple[str, str]]:
    """Label and text of each number in a status.

    Args:
        status: of Trainer.status; what is absent or None is left out.
        noun: what ``count`` counts where the status has no ``noun``.
    """
    rows: list[tuple[str, str]] = []
    step, steps, limit = status.get("step"), status.get("steps"), status.get("time_limit")
    if step is not None and (status.get("done") and status.get("reason")):
        words = end_in_words(status["reason"], step, steps or step, status.get("elapsed") or 0.0)
        rows.append(("Training", words))
    elif step is not None:
        most = "of at most" if limit else "of"
        rows.append(("Step", f"{step:,} {most} {steps:,}" if steps else f"{step:,}"))
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
        rows.append(("Elapsed", f"{clock(elapsed)} of {clock(limit)}" if limit else clock(elapsed)))
    if (eta := status.get("eta")) is not None and not status.get("done"):
        rows.append(("Remaining", clock(eta)))
    return rows
