"""Segmentation of runs: views by name, segmenters, and the labels that a run holds."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from luxel.render.errors import LuxelError
from luxel.render.geometry.camera import View
from luxel.render.primitives import Parameters
from luxel.render.segment import Segmenter
from luxel.render.segment.label_map import label_map
from luxel.render.segment.objects import Objects, SceneObject, has_objects, load_objects
from luxel.render.segment.providers.mobile_sam import MobileSamSegmenter
from luxel.scenes.captures.true_ids import have_ids, read_ids
from luxel.scenes.synthetic.id_segmenter import IdSegmenter
from luxel.viewer.options import SegmenterName


def find_view(views: Sequence[View], name: str) -> View:
    """A view by its name, or without its suffix or folder where only one view has it.

    Raises:
        LuxelError: there is none, or there are several; names that are near are suggested.
    """
    same = [view for view in views if view.name == name]
    if not same:
        same = [view for view in views if name in _short_names(view)]
    if len(same) == 1:
        return same[0]
    names = [view.name for view in (same or views)]
    near = names[:3] if same else difflib.get_close_matches(name, names, n=3, cutoff=0.3) or names[:3]
    problem = "several views have that name" if same else f"none of the {len(names)} views has that name"
    raise LuxelError(f"{name}: {problem}.", f"Give another name, such as {' or '.join(near)}.")


def _short_names(view: View) -> tuple[str, ...]:
    path = Path(view.name)
    return path.name, path.stem, path.with_suffix("").as_posix()


def make_segmenter(name: SegmenterName, views: Sequence[View], device: torch.device) -> Segmenter:
    """A segmenter by its name.

    Raises:
        LuxelError: the views have no true ids, or the weights of MobileSAM are missing or of another hash.
    """
    if name == "ids":
        if not have_ids(views):
            raise LuxelError(
                "--segmenter ids: the views of this capture have no true ids.",
                "Leave it out; true ids are those of made-up scenes.",
            )
        return IdSegmenter.of_views(views)
    from luxel.render.nets.mobile_sam import EmbeddingCache, load_mobile_sam

    return MobileSamSegmenter(load_mobile_sam(device=device), EmbeddingCache())


def run_objects(folder: Path, scene: Parameters) -> Objects:
    """The objects of a run, whose labels are of its scene.

    Raises:
        LuxelError: there are none, or they are of another scene.
    """
    objects = load_objects(folder)
    objects.require_scene(folder, scene)
    return objects


def find_object(objects: Objects, name: str) -> SceneObject:
    """An object by its name.

    Raises:
        LuxelError: there is none; the message lists the names.
    """
    entry = objects.named(name)
    if entry is None:
        names = ", ".join(known.name for known in objects.objects[:12])
        raise LuxelError(f"{name}: there is no object of that name.", f"Objects of this run: {names}.")
    return entry


def segmentation_scores(
    folder: Path, scene: Parameters, views: Sequence[View], **render: Any
) -> dict[str, float] | None:
    """IoU of each object of a run with the true solid that it overlaps most, by name, and their mean under "mean".

    Args:
        folder: of the run.
        scene: of the run.
        views: to compare on.
        render: options of `luxel.render.raster.rasterize.rasterize` that change alpha.

    Returns:
        None where the run has no objects, or the views have no true ids.

    Raises:
        LuxelError: the labels are of another scene, or the files are damaged.
    """
    if not folder.is_dir() or not has_objects(folder) or not have_ids(views):
        return None
    objects = run_objects(folder, scene)
    overlaps = [solid_overlaps(objects, scene, view, read_ids(view), **render) for view in views]
    return solid_ious(objects, torch.stack(overlaps).sum(0))


def solid_overlaps(
    objects: Objects, scene: Parameters, view: View, ids: np.ndarray, **render: Any
) -> torch.Tensor:
    """Pixels of a view by label and true solid, int64 [L, 256].

    Args:
        objects: of the scene.
        scene: N primitives.
        view: its camera and time.
        ids: true ids at its pixels, uint8 [H, W]; 0: no surface.
        render: options of `luxel.render.raster.rasterize.rasterize` that change alpha.
    """
    labels, count = objects.labels.to(scene.device), 1 + max((o.label for o in objects.objects), default=0)
    time = view.time if scene.moves else None
    visible = label_map(scene, view.camera.to(scene.device), labels, count, time, **render).cpu().long()
    truth = torch.from_numpy(ids.copy()).long()
    return torch.bincount((visible * 256 + truth).flatten(), minlength=count * 256).reshape(count, 256)


def solid_ious(
    objects: Objects, overlaps: torch.Tensor, visible_only: bool = False
) -> dict[str, float] | None:
    """IoU of each object with the true solid that it overlaps most, by name, and their mean under "mean".

    Args:
        objects: whose labels were rendered.
        overlaps: the sum of `solid_overlaps` over views.
        visible_only: leave out objects of which no pixel was rendered, which else count 0.

    Returns:
        None where there are no objects.
    """
    scores: dict[str, float] = {}
    for entry in objects.objects:
        row = overlaps[entry.label]
        if visible_only and not int(row.sum()):
            continue
        solid = int(row[1:].argmax()) + 1
        union = int(row.sum() + overlaps[:, solid].sum() - row[solid])
        scores[entry.name] = int(row[solid]) / union if union else 0.0
    return {**scores, "mean": sum(scores.values()) / len(scores)} if scores else None
