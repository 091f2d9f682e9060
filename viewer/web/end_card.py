"""The card on the image of one page about a training that has ended: what it reached, and what can be done next."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from luxel.render.errors import LuxelError
from luxel.viewer.web.run_end import RunEnd, time_in_words
from luxel.viewer.web.shell.report_files import REPORT_PATH
from luxel.viewer.web.toolbar import Toolbar

TOOLS = {"clean": "Lasso", "compare": "Compare", "measure": "Ruler"}  # that buttons choose on the image


class EndingSession(Protocol):
    """What the card needs of a session."""

    @property
    def run_end(self) -> RunEnd | None:
        """How the training ended."""
        ...


class EndCard:
    """What the card shows and does; its methods may be called from any thread.

    Args:
        session: of the page.
        toolbar: of the page, whose tools the buttons choose.
    """

    def __init__(self, session: EndingSession, toolbar: Toolbar) -> None:
        self._session, self._toolbar = session, toolbar
        self._problem = ""
        self._callbacks: list[Callable[[], object]] = []

    def on_change(self, callback: Callable[[], object]) -> None:
        """Calls ``callback`` whenever `state` has changed by a button."""
        self._callbacks.append(callback)

    def state(self) -> dict[str, Any]:
        """What the card shows, as JSON has it.

        Returns:
            ``shown``, and if so ``id`` of this end of this run; ``title``; ``rows``, labels and values; ``buttons``
            that do something; ``steps``, how many more are suggested; ``report``, its address; ``problem``, why a
            button failed.
        """
        end = self._session.run_end
        if end is None:
            return {"shown": False}
        return {
            "shown": True,
            "id": f"{end.step} {end.seconds:.3f}",
            "title": end.words,
            "rows": rows_of(end),
            "buttons": self._buttons(end),
            "steps": suggested_steps(end),
            "report": "" if end.report is None else f"{REPORT_PATH}{end.report.name}",
            "problem": self._problem or end.problem,
        }

    def _buttons(self, end: RunEnd) -> list[str]:
        can = {name: self._toolbar.has_tool(tool) for name, tool in TOOLS.items()}
        can |= {
            "share": True,
            "extend": getattr(self._session, "extend", None) is not None,
            "report": end.report is not None,
        }
        return [name for name, is_there in can.items() if is_there]

    def press(self, name: str, value: int = 0) -> None:
        """Does what a button says; nothing happens for one that the card has not.

        Args:
            name: "clean", "compare" or "measure", which choose a tool; "extend".
            value: of "extend": number of further steps.
        """
        end = self._session.run_end
        if end is None or name not in self._buttons(end):
            return
        if name in TOOLS and TOOLS[name] not in self._toolbar.active:
            self._toolbar.choose(TOOLS[name])
        elif name == "extend" and value > 0:
            self._extend(value)

    def _extend(self, steps: int) -> None:
        try:
            self._session.extend(steps)  # type: ignore[attr-defined]
            self._problem = ""
        except LuxelError as error:
            self._problem = str(error)
        for callback in self._callbacks:
            callback()


def rows_of(end: RunEnd) -> list[tuple[str, str]]:
    """Labels and values of a result."""
    rows: list[tuple[str, str]] = []
    of = f"of {end.views} held-out view{'s' if end.views != 1 else ''}"
    if end.psnr is not None:
        rows.append((f"PSNR {of}", f"{end.psnr:.2f} dB"))
    if end.ssim is not None:
        rows.append((f"SSIM {of}", f"{end.ssim:.3f}"))
    rows.append(("Training time", time_in_words(end.seconds)))
    rows.append((end.noun[:1].upper() + end.noun[1:], f"{end.count:,}"))
    return rows


def suggested_steps(end: RunEnd) -> int:
    """Half of the steps that were done, in two digits, and 100 at least."""
    half = max(100, end.step // 2)
    digits = 10 ** (len(str(half)) - 2)
    return half // digits * digits
