"""The interface of a viewer tool: a panel of one page, or one that all pages share."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from typing import Any, ClassVar

from luxel.viewer.web.images.stream import ClientStream, StreamReport
from luxel.viewer.web.page import Click, Page
from luxel.viewer.web.session import Session

log = logging.getLogger("luxel.viewer")


class Panel:
    """A tool of one page. A subclass overrides what it needs; every page gets an instance of its own.

    The viewer calls `build` and then `attach` when a page opens, `report` about four times a second, `on_click`
    for clicks on the image while the panel listens, and `detach` when the page is closed. The calls come from several
    threads; an exception in one of them is logged and does not affect the page and its other panels.

    Attributes:
        title: heading of the folder that holds the controls; empty: no folder.
        unfolded: whether the folder is open at first (where the window is wide enough).
        persisted: labels of controls whose values a browser keeps over reload and reconnect.
        page: the page that the panel belongs to.
        folder: viser's handle of the folder that holds the controls; None: there is none.
    """

    folder: Any = None
    title: ClassVar[str] = ""
    unfolded: ClassVar[bool] = True
    persisted: ClassVar[tuple[str, ...]] = ()

    def __init__(self, page: Page) -> None:
        self.page = page

    @classmethod
    def available(cls, session: Session) -> bool:
        """Whether the panel applies to the scene of a session."""
        return True

    def build(self, gui: Any, order: float) -> None:
        """Adds the controls.

        Args:
            gui: viser's GuiApi of the page; inside the panel's folder if it has a title.
            order: place among the panels; to be passed to controls of a panel without a folder.
        """

    def attach(self, stream: ClientStream) -> None:
        """Called once when all panels are built, before the first image.

        Args:
            stream: renders the page; takes `DisplaySettings` and the playback time.
        """

    def stored(self) -> Mapping[str, Any]:
        """Controls that a browser keeps beside those in ``persisted``, by names that are unique in the panel."""
        return {}

    def report(self, report: StreamReport) -> None:
        """Called with frame rate, image size, errors and time of the page's images."""

    def listen(self, on: bool) -> None:
        """Starts or stops calling `on_click` with clicks on the image."""
        self.page.listen(self.on_click, on)

    def on_click(self, click: Click) -> None:
        """Called with a click on the image, while the panel listens."""

    def fit(self) -> None:
        """Called when other panels of the page have come or are about to go."""

    def detach(self) -> None:
        """Called when the page is closed, and before the panel is removed from it."""


class SharedPanel:
    """A tool that is the same on all pages, because it controls what they share; there is one instance.

    Attributes:
        title, unfolded: as in `Panel`.
        session: the scene that all pages show.
    """

    title: ClassVar[str] = ""
    unfolded: ClassVar[bool] = True

    def __init__(self, session: Session) -> None:
        self.session = session

    @classmethod
    def available(cls, session: Session) -> bool:
        """Whether the panel applies to the scene of a session."""
        return True

    def build(self, gui: Any, order: float) -> None:
        """Adds the controls; as in `Panel`, with viser's GuiApi of the server."""

    def refresh(self) -> None:
        """Called twice a second."""

    def detach(self) -> None:
        """Called when the viewer stops."""


AnyPanel = type[Panel] | type[SharedPanel]


def open_page_panels(panels: Sequence[AnyPanel], page: Page) -> list[Panel]:
    """Builds the panels of a page in the order of the list, and connects them with its reports."""
    built: list[Panel] = []
    fit_page_panels(panels, page, built)
    return built


def fit_page_panels(panels: Sequence[AnyPanel], page: Page, built: list[Panel]) -> bool:
    """Removes the panels of a page that are no longer available, and builds those that have become so.

    Args:
        panels: in their order.
        page: whose panels they are.
        built: those that the page has; changed in place.

    Returns:
        Whether there was anything to do.
    """
    page_kinds = [kind for kind in panels if issubclass(kind, Panel) and kind.available(page.session)]
    gone = [panel for panel in built if type(panel) not in page_kinds]
    built[:] = [panel for panel in built if panel not in gone]
    for panel in built if gone else ():
        panel.fit()
    for panel in gone:
        page.forget_report(panel.report)
        panel.detach()
        if panel.folder is not None:
            panel.folder.remove()
    come: list[Panel] = []
    for order, kind in enumerate(panels):
        if kind in page_kinds and not any(type(panel) is kind for panel in built):
            panel = kind(page)
            if _build(panel, page.client.gui, float(order), page.roomy):
                come.append(panel)
    for panel in come:
        panel.attach(page.stream)
        page.on_report(panel.report)
    known = list(built)
    built.extend(come)
    for panel in known if come else ():
        panel.fit()
    return bool(gone or come)


def open_shared_panels(panels: Sequence[AnyPanel], session: Session, gui: Any) -> list[SharedPanel]:
    """Builds the shared panels of a server."""
    built: list[SharedPanel] = []
    for order, kind in enumerate(panels):
        if issubclass(kind, SharedPanel) and kind.available(session):
            panel = kind(session)
            if _build(panel, gui, float(order)):
                built.append(panel)
    return built


def _build(panel: Panel | SharedPanel, gui: Any, order: float, roomy: bool = True) -> bool:
    """Adds the controls of one panel; false, and logged, if that fails."""
    unfolded = panel.unfolded and roomy
    folder = gui.add_folder(panel.title, order=order, expand_by_default=unfolded) if panel.title else None
    try:
        with folder or nullcontext():
            panel.build(gui, order)
        if isinstance(panel, Panel):
            panel.folder = folder
    except Exception:  # a tool that fails must not end the page
        log.exception("The panel %s could not be built and is left out.", type(panel).__name__)
        if folder is not None:
            folder.remove()
        return False
    return True
