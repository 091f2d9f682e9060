"""The colour behind a scene on pages whose colours are dark; films, images and scores keep that of the scene."""

from __future__ import annotations

from luxel.viewer.web.session import Session

Colour = tuple[float, float, float]
DARK: Colour = (27 / 255, 27 / 255, 31 / 255)  # of the panel, see --luxel-panel in start.css


def backdrop(session: Session, dark: bool) -> Colour | None:
    """What pages show instead of the background of a session; None: that background.

    A background that was chosen for the training, or that is as dark, stays.

    Args:
        session: of the pages.
        dark: whether the colours of the page are.
    """
    return DARK if dark and session.free_background and max(session.background) > max(DARK) else None
