"""Steering a training: single steps, checkpoints, its end, and changed options."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

from luxel.render.errors import LuxelError
from luxel.viewer.web.panels.panel import SharedPanel
from luxel.viewer.web.panels.text import as_text
from luxel.viewer.web.session import Session

PATIENCE = 60.0  # seconds; the change waits for the end of a step, and of a checkpoint
# The common options in plain words; all others have their names of the configuration.
COMMON = {
    "Length, steps": "steps",
    "End at PSNR, dB": "target_psnr",
    "End after, minutes": "target_minutes",
    "End at render time, ms": "target_frame_ms",
    "End at memory, GB": "target_gigabytes",
    "Most primitives": "max_gaussians",
}
LEFT_OUT = {"steps_by_size", "seed", "batch"}  # numbers that make another run of it
GROUPS = ("rates", "loss", "strategy", "checkpoints")
NONE = "none"
QUESTION = "End the training now? It is evaluated and saved, and can be trained longer afterwards."


class SteeringPanel(SharedPanel):
    """Controls of a run while it trains; changes are recorded in its run folder."""

    title = "Steering"
    unfolded = False

    @classmethod
    def available(cls, session: Session) -> bool:
        """Where a run of primitives or a field is being trained."""
        return session.has_training and hasattr(getattr(session, "trainer", None), "between_steps")

    def build(self, gui: Any, order: float) -> None:
        """Adds the controls."""
        buttons = self._buttons = gui.add_button_group(
            "Run", ("One step", "Save", "End"), hint="One step and pause; write a checkpoint; end the run now"
        )
        buttons.on_click(lambda _: self._press(str(buttons.value)))
        self._question = gui.add_markdown(QUESTION, visible=False)
        self._answers = gui.add_button_group("Sure?", ("End training", "Go on"), visible=False)
        self._answers.on_click(lambda _: self._answer(str(self._answers.value)))
        self._option = self._value = None
        self._controls: list[Any] = [buttons]
        if hasattr(self._run, "reconfigure"):
            self._build_options(gui)
        self._note = gui.add_markdown("")
        self._ended = False

    @property
    def _run(self) -> Any:
        """The trainer, another one where the run is trained longer."""
        return cast(Any, self.session).trainer

    def refresh(self) -> None:
        """Hides what can no longer do anything when the training has ended, and shows it again when it goes on."""
        ended = bool(self.session.status().get("reason"))
        if ended == self._ended:
            return
        self._ended = ended
        for control in self._controls:
            control.visible = not ended
        self._ask(False)
        self._note.content = "The training has ended." if ended else ""

    def _ask(self, on: bool) -> None:
        self._question.visible = self._answers.visible = on

    def _answer(self, answer: str) -> None:
        self._ask(False)
        if answer == "End training":
            self._run.request_stop()
            self._note.content = "The run ends after the present step."

    def _build_options(self, gui: Any) -> None:
        values = options_of(self._run.config.to_dict())
        self._option = gui.add_dropdown("Option", tuple(COMMON), initial_value=next(iter(COMMON)))
        self._all = gui.add_checkbox(
            "All options", False, hint="Also the numbers of the optimizer, by their names in config.json"
        )
        self._value = gui.add_text("Value", shown(values["steps"]), hint="A number, or none for no limit")
        apply = gui.add_button("Apply", hint="Changes the option after the present step")
        self._all.on_update(lambda _: self._offer())
        self._option.on_update(lambda _: self._show_value())
        apply.on_click(lambda _: self._apply())
        self._controls += [self._option, self._all, self._value, apply]

    def _offer(self) -> None:
        """Offers the common options, or these and all others; one that is no longer offered is left."""
        assert self._option is not None
        others = [name for name in options_of(self._run.config.to_dict()) if name not in COMMON.values()]
        self._option.options = (*COMMON, *(others if self._all.value else ()))
        self._show_value()

    def _show_value(self) -> None:
        assert self._option is not None and self._value is not None
        label = str(self._option.value)
        name = COMMON.get(label, label)
        self._value.value = shown(options_of(self._run.config.to_dict()).get(name))

    def _press(self, button: str) -> None:
        """Does what a button says, and tells the result."""
        run = self._run
        self._ask(button == "End")
        actions: dict[str, Callable[[], str]] = {
            "One step": lambda: run.step_once() or "",
            "Save": lambda: saved(run.between_steps(run.save_checkpoint).result(PATIENCE)),
        }
        self._tell(actions.get(button, lambda: ""))

    def _apply(self) -> None:
        assert self._option is not None and self._value is not None
        label, text = str(self._option.value), str(self._value.value)
        name = COMMON.get(label, label)

        def change() -> str:
            value = parsed(text, options_of(self._run.config.to_dict()).get(name))
            self._run.between_steps(lambda: self._run.reconfigure({name: value})).result(PATIENCE)
            return f"{label}: {shown(value)} from step {self._run.steps_done:,} on"

        self._tell(change)
        self._show_value()

    def _tell(self, action: Callable[[], str]) -> None:
        """Shows what an action says, or why it failed."""
        try:
            message = action()
        except LuxelError as error:
            message = f"{error.problem} {error.remedy}"
        except TimeoutError:
            message = f"Not done within {PATIENCE:.0f} s; it happens when the present step ends"
        self._note.content = as_text(message)


def saved(path: Path | None) -> str:
    """What is said of a checkpoint; None: it could not be written."""
    return "The checkpoint could not be written." if path is None else f"Saved {path.name}."


def options_of(config: dict[str, Any]) -> dict[str, float | int | None]:
    """The options that a page may change, by dotted name: numbers of a configuration as plain values."""
    out: dict[str, float | int | None] = {name: config.get(name) for name in COMMON.values()}
    parts = [("", config), *((f"{group}.", config.get(group) or {}) for group in GROUPS)]
    for prefix, values in parts:
        for name, value in values.items():
            if isinstance(value, int | float) and not isinstance(value, bool) and name not in LEFT_OUT:
                out.setdefault(prefix + name, value)
    return out


def shown(value: Any) -> str:
    """A number as the page shows it."""
    return NONE if value is None else f"{value:g}" if isinstance(value, float) else str(value)


def parsed(text: str, present: float | int | None) -> float | int | None:
    """The number that a text means; ``present`` is the value that it replaces.

    Raises:
        LuxelError: it is no finite number.
    """
    words = text.strip().replace(",", "")  # 30,000
    if words.lower() in (NONE, "") and present is None:
        return None
    if words.lower() == NONE:
        return None
    try:
        value = json.loads(words)
        if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) < 1e300:
            raise ValueError
    except ValueError:
        raise LuxelError(f"{words[:40]!r} is no number.", "Give one such as 30000 or 1.6e-4.") from None
    if isinstance(present, int) and isinstance(value, float) and value == int(value):
        return int(value)  # 3e4 steps
    return value
