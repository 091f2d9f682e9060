"""`luxel segment`."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import tyro

from luxel.render.bounds import Bounds, Folder, Options
from luxel.render.errors import LuxelError
from luxel.render.runs.folder.owner import own
from luxel.render.segment.options import VOTING_VIEWS, SolveOptions
from luxel.viewer.options import DeviceName, SegmenterName, optional, pick_device

if TYPE_CHECKING:
    import torch

    from luxel.render.geometry.camera import View
    from luxel.render.primitives import Parameters
    from luxel.render.segment import Prompt
    from luxel.render.segment.objects import Objects, SceneObject
    from luxel.scenes import Capture

Coordinate = Annotated[float, Bounds(0, 10**6, stated=False)]
Click = tuple[str, Coordinate, Coordinate]
BoxOption = tuple[str, Coordinate, Coordinate, Coordinate, Coordinate]


@dataclass
class Segment(Options):
    """Labels the objects of a run: click an object in one view, and its primitives are found.

    A segmenter turns the clicks into masks, the scene carries them from view to view around the object, and each
    primitive takes the label with most votes. Without --name each click and each box is an object of its own; with one
    --name all of them are one object; with as many names as clicks and boxes each gets its own, in the order clicks,
    then boxes. A name that the run has already adds to that object; other objects stay.

    With --masks the labels come from label maps: PNG files named after the views, at their size, with grey values 0 for
    the background, 1 to 254 for objects and 255 for no vote. Where train/a.jpg and test/a.jpg are views, a.png is of
    the training view, and test/a.png of the other one.

    Writes RUN/objects.json and RUN/objects/. `luxel export RUN --object NAME --out FILE` writes an object by itself,
    `luxel export RUN --labels --out FILE` all primitives with their labels.

    Examples:
        luxel segment runs/first --click IMG_0007 320 210 --name toy
        luxel segment runs/first --click IMG_0007 320 210 --click IMG_0007 380 260 --name toy
        luxel segment runs/first --click IMG_0007 320 210 --exclude IMG_0007 300 290 --name toy
        luxel segment runs/first --box IMG_0007 250 140 420 330 --name toy
        luxel segment runs/first --masks masks/
        luxel segment runs/first --auto
        luxel export runs/first --object toy --out toy.ply
    """

    run: Annotated[Path, tyro.conf.Positional, Folder(), tyro.conf.arg(metavar="RUN")]
    """Folder of a run of primitives."""
    click: Annotated[tuple[Click, ...], tyro.conf.UseAppendAction, optional("VIEW X Y")] = ()
    """A point inside an object: name of the view, pixels from its upper left corner; may be given several times."""
    box: Annotated[tuple[BoxOption, ...], tyro.conf.UseAppendAction, optional("VIEW X0 Y0 X1 Y1")] = ()
    """A box around an object, pixels; may be given several times."""
    exclude: Annotated[tuple[Click, ...], tyro.conf.UseAppendAction, optional("VIEW X Y")] = ()
    """A point next to the object, in a view with a click or a box on it; may be given several times."""
    name: Annotated[tuple[str, ...], tyro.conf.UseAppendAction, optional("NAME")] = ()
    """Name of an object; may be given several times. Default: object-1, object-2, ..."""
    masks: Annotated[Path | None, optional("DIR")] = None
    """Folder of label maps to take the labels from."""
    auto: bool = False
    """Find objects by a grid of points, merged over views."""
    kept: bool = False
    """Vote again from the masks that are retained, for example after the run was trained further."""
    views: Annotated[int, Bounds(1, 1000)] = VOTING_VIEWS
    """Views whose masks vote, at most; up to as many again replace views whose masks disagree."""
    segmenter: SegmenterName = "mobile-sam"
    """What finds masks in an image: MobileSAM, or the true ids of a made-up scene."""
    solve: SolveOptions = field(default_factory=SolveOptions)
    capture: Annotated[Path | None, optional("CAPTURE")] = None
    """Take the views from this capture; default: the one that the run was trained on."""
    replace: bool = False
    """Begin anew: objects that the run has are dropped; with --kept only labels that were set by hand in the viewer."""
    json: bool = False
    """Print JSON."""
    device: DeviceName = "auto"
    """Device to vote and render on; auto: the GPU if luxel can use it, else the CPU."""

    def execute(self) -> int:
        """Segments and writes; returns the exit status."""
        import torch

        from luxel.render.segment.objects import (
            Objects,
            has_objects,
            load_objects,
            save_objects,
            scene_digest,
        )
        from luxel.scenes.loading.run_results import run_folder
        from luxel.scenes.loading.scene_files import load_any_scene

        self._check()
        folder, device = run_folder(self.run), pick_device(self.device)
        with own(folder):
            scene = load_any_scene(folder).to(device)
            capture = self._open()
            before = Objects(scene_digest(scene), torch.zeros(scene.count, dtype=torch.uint8))
            if has_objects(folder) and not self.replace:
                before = load_objects(folder)
                if not self.kept:
                    before.require_scene(folder, scene)
                self._check_hand_made(folder, scene, before)
            elif self.kept:
                before = load_objects(folder)
                before.by_hand = None
            self._render = {"antialiased": self._antialiased(folder, scene)}
            if self.masks is not None:
                objects, notes = self._from_masks(scene, capture, before)
            elif self.kept:
                objects, notes = self._from_stored(scene, capture, before)
            else:
                objects, notes = self._from_prompts(scene, capture, before, device)
            path = save_objects(folder, objects)
        self._print(objects, notes, path)
        return 0

    def _check(self) -> None:
        modes = [bool(self.click or self.box), self.masks is not None, self.auto, self.kept]
        if sum(modes) != 1:
            raise LuxelError(
                "luxel segment: "
                + ("there is nothing to segment." if not any(modes) else "these options exclude each other."),
                "Give one of --click VIEW X Y (or --box VIEW X0 Y0 X1 Y1), --masks DIR, --auto, or --kept.",
            )
        prompts = len(self.click) + len(self.box)
        if prompts and len(self.name) not in (0, 1, prompts):
            raise LuxelError(
                f"luxel segment: {len(self.name)} names for {prompts} clicks and boxes.",
                "Give one --name for all of them, or one for each.",
            )
        if self.exclude and prompts != 1 and len(set(self.name)) != 1:
            raise LuxelError(
                "luxel segment: --exclude belongs to one object, and these clicks and boxes are of several or none.",
                "Give the clicks of one object, with one --name.",
            )

    def _check_hand_made(self, folder: Path, scene: Parameters, before: Objects) -> None:
        """Refuses to vote for another state of the scene where labels were set by hand: nothing says which
        primitives they would be of."""
        if before.by_hand is not None and not before.fits(scene):
            raise LuxelError(
                f"{folder}: {int(before.by_hand.sum()):,} primitives have labels that were set by hand, and the scene "
                "has changed since.",
                "Add --replace to vote for these primitives too.",
            )

    def _open(self) -> Capture:
        from luxel.viewer.progress import opening
        from luxel.viewer.scene_loading.capture_options import load_origin

        origin = load_origin(self.run, self.capture)
        with opening("opening the capture") as on_progress:
            return origin.open(on_progress)

    def _antialiased(self, folder: Path, scene: Parameters) -> bool:
        from luxel.render.runs.folder.run_config import has_config
        from luxel.render.train.resume import read_config

        return scene.antialiases and has_config(folder) and read_config(folder)[0].antialiased

    def _from_masks(self, scene: Parameters, capture: Capture, before: Objects) -> tuple[Objects, list[str]]:
        import torch

        from luxel.render.segment import NO_LABEL
        from luxel.scenes.captures.images.label_files import read_label_maps

        if before.objects:
            raise LuxelError(
                f"{self.run}: this run has {len(before.objects)} objects already.",
                "Replace them by those of the masks with --replace.",
            )
        assert self.masks is not None
        maps = read_label_maps(self.masks, [*capture.train, *capture.test])
        kept = {name: torch.from_numpy(labels) for name, labels in maps.items()}
        present = set(torch.cat([labels.unique() for labels in kept.values()]).tolist()) - {0, NO_LABEL}
        for index, label in enumerate(sorted(present)):
            entry = before.add(self.name[index] if index < len(self.name) else f"object-{label}")
            entry.label = label
        return self._voted(scene, capture, before, kept)

    def _from_stored(self, scene: Parameters, capture: Capture, before: Objects) -> tuple[Objects, list[str]]:
        if not before.maps:
            raise LuxelError(
                f"{self.run}: no masks are retained: all objects of this run were made by hand.",
                "Give --click VIEW X Y, --masks DIR or --auto.",
            )
        return self._voted(scene, capture, before, before.maps)

    def _voted(
        self, scene: Parameters, capture: Capture, before: Objects, maps: dict[str, torch.Tensor]
    ) -> tuple[Objects, list[str]]:
        """Objects with labels from label maps."""
        from luxel.render.segment import solve_maps
        from luxel.render.segment.objects import Objects, scene_digest
        from luxel.viewer.segmenting import find_view

        views = [find_view(capture.views, name) for name in maps]
        for view, labels in zip(views, maps.values(), strict=True):
            if tuple(labels.shape) != (view.camera.height, view.camera.width):
                raise LuxelError(
                    f"{view.name}: the retained mask is {labels.shape[1]}x{labels.shape[0]} pixels, the view "
                    f"{view.camera.width}x{view.camera.height}.",
                    "Open the capture as before, or segment it again with --replace.",
                )
        count = 1 + max(entry.label for entry in before.objects)
        solution, _, missing = solve_maps(
            scene, views, list(maps.values()), count, self.solve, **self._render
        )
        names = {entry.label: entry.name for entry in before.objects}
        notes = [
            f"{entry.view}: the mask of {names[entry.label]} is missing (IoU {entry.iou:.2f}); it has no vote there."
            for entry in missing
        ]
        digest, labels = scene_digest(scene), solution.labels.cpu()
        if before.by_hand is not None:
            labels = before.voted(labels)
        return Objects(digest, labels, before.objects, before.prompts, dict(maps), before.by_hand), notes

    def _from_prompts(
        self, scene: Parameters, capture: Capture, before: Objects, device: torch.device
    ) -> tuple[Objects, list[str]]:
        from luxel.render.segment import PropagateOptions, Propagation, auto_prompts
        from luxel.render.segment.objects import Objects
        from luxel.viewer.progress import counting
        from luxel.viewer.segmenting import make_segmenter

        if before.maps and not before.prompts:
            raise LuxelError(
                f"{self.run}: the objects of this run come from masks, to which clicks cannot be added.",
                "Begin anew with --replace.",
            )
        new = self._prompts(capture.views, before)
        prompted = {prompt.view for prompt in [*before.prompts, *new]}
        views = [view for view in capture.views if view in capture.train or view.name in prompted]
        segmenter = make_segmenter(self.segmenter, views, device)
        options = PropagateOptions(views=self.views)
        if self.auto:
            new = auto_prompts(scene, views, segmenter, before.prompts, options, self.solve, **self._render)
            for label in sorted({prompt.label for prompt in new}):
                before.add(f"object-{label}")
        prompts = [*before.prompts, *new]
        with counting("views", self.views) as advance:
            result = Propagation(
                scene,
                views,
                segmenter,
                prompts,
                options,
                self.solve,
                on_view=lambda name: advance(),
                render=self._render,
            ).run()
        names = {entry.label: entry.name for entry in before.objects}
        notes = [f"{view}: {names[label]} has no vote there: {why}." for view, label, why in result.skipped]
        labels = before.voted(result.solution.labels.cpu())
        return Objects(before.scene, labels, before.objects, prompts, result.maps, before.by_hand), notes

    def _prompts(self, views: Sequence[View], objects: Objects) -> list[Prompt]:
        """The prompts of the command line; adds their objects."""
        from luxel.render.segment import Prompt
        from luxel.viewer.segmenting import find_view

        given: list[tuple[str, dict[str, Any]]] = [
            (name, {"points": ((x, y, True),)}) for name, x, y in self.click
        ]
        given += [(name, {"box": (x0, y0, x1, y1)}) for name, x0, y0, x1, y1 in self.box]
        named = len(given)
        given += [(name, {"points": ((x, y, False),)}) for name, x, y in self.exclude]
        prompts: list[Prompt] = []
        entry: SceneObject | None = None
        for index, (view, prompt) in enumerate(given):
            target = find_view(views, view)
            if index < named:  # points next to the object follow it
                name = self.name[index if len(self.name) > 1 else 0] if self.name else _unused(objects)
                entry = objects.named(name) or objects.add(name)
            assert entry is not None
            prompts.append(Prompt(entry.label, target.name, **prompt))
        return prompts

    def _print(self, objects: Objects, notes: list[str], path: Path) -> None:
        from luxel.render.segment.objects import as_plain

        plain = as_plain(objects)
        if self.json:
            facts = {"objects": plain, "views": list(objects.maps), "notes": notes, "file": str(path)}
            print(json.dumps(facts, indent=2))
            return
        for note in notes:
            print(note)
        for entry in plain:
            print(f"{entry['name']}: {entry['primitives']:,} primitives (label {entry['label']})")
        print(f"{len(plain)} objects from masks of {len(objects.maps)} views: {path}")


def _unused(objects: Objects) -> str:
    number = len(objects.objects) + 1
    while objects.named(f"object-{number}") is not None:
        number += 1
    return f"object-{number}"
