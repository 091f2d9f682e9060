"""IoU of the objects of a session with the true solids of its views, measured now."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch

from luxel.render.geometry.camera import View
from luxel.render.primitives import Parameters
from luxel.scenes.captures.true_ids import have_ids, read_ids
from luxel.viewer.segmenting import solid_ious, solid_overlaps
from luxel.viewer.web.session import Session
from luxel.viewer.web.shading.object_colours import ObjectSource


def views_with_ids(session: Session) -> Sequence[View]:
    """The held-out views of a session, all where none are held out; none where they have no true ids."""
    views = session.views[len(session.training_views) :] or session.views
    return views if have_ids(views[:1]) else []


def measure_ious(
    session: Session,
    source: ObjectSource,
    views: Sequence[View],
    antialiased: bool,
    on_view: Callable[[int], None],
    cancelled: Callable[[], bool],
) -> dict[str, float] | None:
    """IoU of each object by name, and their mean, as `luxel eval` has them.

    The scene is borrowed for one view at a time, and not while a file is read.

    Args:
        session: a finished scene of primitives.
        source: of its objects.
        views: with true ids.
        antialiased: whether the page shows opacity compensation.
        on_view: called with the number of views that are done, after each.
        cancelled: called before each view; True ends the measurement.

    Returns:
        None where it was cancelled, the objects have changed meanwhile, or there are none.
    """
    objects, total = source.objects, torch.zeros(())
    for number, view in enumerate(views, start=1):
        ids = read_ids(view)
        if cancelled() or source.objects is not objects:
            return None
        with session.borrow() as shown:
            scene = shown.parts[Parameters]
            options = {"antialiased": antialiased and scene.antialiases}
            total = total + solid_overlaps(objects, scene, view, ids, **options)
        on_view(number)
    return solid_ious(objects, total.long())
