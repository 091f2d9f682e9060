"""What the Share menu writes of a scene: its primitives as a page shows them, and what is known of them."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch

from luxel.render.primitives import Parameters
from luxel.viewer.edit import Document
from luxel.viewer.web.editing import SceneEditor
from luxel.viewer.web.page import Page
from luxel.viewer.web.session import StaticSession
from luxel.viewer.web.share.commands import is_single

SCENE, SHOWN, SELECTION = "scene", "shown", "selection"
LATER = "The command takes the scene as it was last saved, and the training goes on."
UNEDITED = "The command takes the scene as it was opened, without the edits made here."


def has_primitives(page: Page) -> bool:
    """Whether a page shows one scene of primitives."""
    return page.session.primitives is not None and is_single(page.session)


def editor_of(page: Page) -> SceneEditor | None:
    """The editor of the scene; None: it cannot be edited."""
    session = page.session
    return SceneEditor.of(session) if isinstance(session, StaticSession) and has_primitives(page) else None


def parts_to_write(page: Page) -> list[tuple[str, str]]:
    """What can be written of a scene, with labels; what is deleted never is."""
    editor = editor_of(page)
    if editor is None:
        return [(SCENE, "the scene")]
    numbers, edited = editor.run(lambda document: (document.numbers, document.changed))
    parts = [(SCENE, "the edited scene" if edited else "the scene")]
    if numbers["hidden"]:
        parts.append((SHOWN, "without what is hidden"))
    if numbers["selected"]:
        parts.append((SELECTION, f"the selection ({numbers['selected']:,})"))
    return parts


def difference_of_command(page: Page, part: str = SCENE) -> str:
    """What sets a command that opens the scene anew apart from what the page shows, a sentence; empty: nothing."""
    if page.session.trains:
        return LATER
    editor = editor_of(page)
    edited = editor is not None and editor.run(lambda document: document.changed)
    return UNEDITED if edited or part != SCENE else ""


def taken(page: Page, part: str = SCENE, time: float | None = None) -> Callable[[], Parameters]:
    """Takes the primitives as they are now.

    Args:
        page: of the scene, which has primitives.
        part: SCENE, SHOWN or SELECTION.
        time: of a dynamic scene; None: all of them.

    Returns:
        A function that gives them; edits and training steps in between do not change them.

    Raises:
        LuxelError: nothing is selected.
    """
    editor = editor_of(page)
    if editor is not None:
        scene = editor.run(lambda document: _part_of(document, part))
    else:
        with page.session.borrow() as shown, torch.no_grad():
            own = shown.parts[Parameters].detach()
            scene = type(own)(**{name: tensor.clone() for name, tensor in own.tensors().items()})
    return lambda: scene if time is None else scene.at(time)


def _part_of(document: Document, part: str) -> Parameters:
    if part == SELECTION:
        return document.selection()
    return document.state.scene.select(document.shown) if part == SHOWN else document.remaining()


def sample_of(page: Page) -> Parameters:
    """Primitives of the class and the degree of the scene, none at all."""
    kind: Any = page.session.primitives
    return kind.empty(sh_degree=int(page.session.status().get("sh_degree", 3)))


def numbers_in(page: Page) -> int:
    """How many numbers the parameters of the scene are."""
    each = sum(math.prod(tensor.shape[1:]) for tensor in sample_of(page).tensors().values())
    return each * int(page.session.status().get("count", 0))
