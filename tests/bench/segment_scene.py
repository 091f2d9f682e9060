"""How well labels follow from masks: a made-up scene of ten solids on a platform.

What it measures
    `static_scene` is written with its true ids, trained on the CPU for 1,000 steps at 256x256, and labelled from the
    true masks of 24 or 6 of its training views, from masks with noise of 3 px at their borders of which a fifth is
    missing, and from odd and even views alone. Printed are the mean IoU over 20 unseen views and the fraction of
    visible primitives whose labels agree. With --clicks the masks come from one click on each solid in one view,
    carried through the scene (`luxel.render.segment.propagate`) with a segmenter made from the true ids, or MobileSAM.

How to run
    python tests/bench/segment_scene.py [--folder FOLDER] [--primitive convexes] [--clicks [--segmenter mobile-sam]]
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

import torch
from torch import Tensor

from luxel.render.camera import View
from luxel.render.primitives import Parameters
from luxel.render.segment import (
    NO_LABEL,
    LabelScores,
    Prompt,
    PropagateOptions,
    Propagation,
    SolveOptions,
    Votes,
    label_map,
    solve,
    solve_maps,
)
from luxel.render.segment.mask_prompt import innermost_point
from luxel.scenes import open as open_capture
from luxel.scenes import save_dnerf, static_scene
from luxel.scenes.captures.true_ids import read_ids
from luxel.scenes.files.scene_files import load_primitives
from luxel.scenes.synthetic.dnerf import default_camera_samples
from luxel.scenes.synthetic.id_segmenter import IdSegmenter, displaced
from luxel.viewer.cli import main as luxel
from luxel.viewer.segmenting import SegmenterName, make_segmenter

SOLIDS, SIDE, TRAIN, TEST = 10, 256, 48, 20
LABELS = SOLIDS + 2  # the background and the platform


def made_scene(folder: Path, primitive: str, steps: int) -> tuple[Parameters, list[View], list[View]]:
    """The trained scene, its training views and its unseen ones; what is there already is read."""
    data, run = folder / "data", folder / f"run-{primitive}-{steps}"
    if not (data / "transforms_test.json").exists():
        samples = default_camera_samples(TRAIN, 0, TEST, static=True, width=SIDE, height=SIDE)
        save_dnerf(static_scene(0, SOLIDS), data, samples)
    if not (run / "scene.ply").exists():
        words = ["train", str(data), "--run", str(run), "--primitive", primitive, "--steps", str(steps)]
        if luxel([*words, "--device", "cpu", "--no-lpips"]):
            sys.exit("the scene could not be trained")
    capture = open_capture(data)
    return load_primitives(run / "scene.ply"), list(capture.train), list(capture.test)


def ids(view: View) -> Tensor:
    """True labels, uint8 [H, W]."""
    return torch.from_numpy(read_ids(view).copy())


def with_noise(labels: Tensor, seed: int, reach: float = 3.0, missing: float = 0.2) -> Tensor:
    """A label map with borders moved by up to ``reach`` pixels, in which a fraction of the objects is missing."""
    generator = torch.Generator().manual_seed(seed)
    out = displaced(labels, reach, seed).clone()
    for label in range(1, LABELS):
        if float(torch.rand((), generator=generator)) < missing:
            out[out == label] = 0
    return out


def voted(scene: Parameters, views: list[View]) -> Votes:
    """Votes of the true label maps of views."""
    votes = Votes(scene.count, LABELS, scene.device)
    for view in views:
        votes.add(scene, view.camera, ids(view))
    return votes


def scored(scene: Parameters, labels: Tensor, views: list[View]) -> LabelScores:
    """Scores of labels on views."""
    scores = LabelScores(LABELS)
    for view in views:
        scores.add(label_map(scene, view.camera, labels, LABELS), ids(view))
    return scores


def spread(views: list[View], count: int) -> list[View]:
    """Some of the views, evenly."""
    return [views[i * len(views) // count] for i in range(count)]


def main() -> None:
    """Trains, labels, prints."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--folder", type=Path, default=Path("segment-scene"))
    parser.add_argument("--primitive", default="gaussians")
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--smoothing", type=float, default=0.0)
    parser.add_argument("--clicks", action="store_true")
    parser.add_argument("--segmenter", choices=("ids", "mobile-sam"), default="ids")
    options = parser.parse_args()
    scene, train, test = made_scene(options.folder, options.primitive, options.steps)
    chosen = SolveOptions(smoothing=options.smoothing)
    print(f"{scene.count:,} {scene.noun}, {len(test)} unseen views")
    if options.clicks:
        print_clicks(scene, train, test, chosen, options.segmenter)
        return
    for title, views, noise in (
        ("24 views", spread(train, 24), False),
        ("6 views", spread(train, 6), False),
        ("24 views, 3 px noise, 20 % missing", spread(train, 24), True),
    ):
        started = time.perf_counter()
        maps = [with_noise(ids(view), number) if noise else ids(view) for number, view in enumerate(views)]
        solution, _, missing = solve_maps(scene, views, maps, LABELS, chosen)
        seconds = time.perf_counter() - started
        scores = scored(scene, solution.labels, test)
        print(
            f"{title}: mIoU {100 * scores.mean_iou:.2f} % (least {100 * float(scores.iou[1:].min()):.2f}), "
            f"accuracy {100 * scores.accuracy:.2f} %, {int(solution.filled.sum()):,} filled, "
            f"{len(missing)} masks missing, {seconds:.1f} s"
        )
    print_stability(scene, train, chosen)


def print_clicks(
    scene: Parameters,
    train: list[View],
    test: list[View],
    options: SolveOptions,
    name_of_segmenter: SegmenterName,
) -> None:
    """Prints what one click on each solid in one view leads to; views are tried until one shows all of them."""
    truth = {view.name: ids(view) for view in train}
    least = {
        name: int(torch.bincount(t.flatten().int(), minlength=LABELS).min()) for name, t in truth.items()
    }
    name = max(least, key=least.__getitem__)
    prompts = [Prompt(label, name, (innermost_point(truth[name] == label),)) for label in range(1, LABELS)]
    for noise in (0.0, 2.0) if name_of_segmenter == "ids" else (0.0,):
        made = make_segmenter(name_of_segmenter, train, scene.device)
        segmenter = IdSegmenter.of_views(train, noise) if noise else made
        started = time.perf_counter()
        result = Propagation(scene, train, segmenter, prompts, PropagateOptions(), options).run()
        seconds = time.perf_counter() - started
        scores = scored(scene, result.solution.labels, test)
        print(
            f"one click each in {name}, masks of {name_of_segmenter} with {noise:g} px of noise: "
            f"mIoU {100 * scores.mean_iou:.2f} % (least "
            f"{100 * float(scores.iou[1:].min()):.2f}) after {len(result.maps)} views {list(result.maps)}, changes "
            f"{[round(change, 4) for change in result.changes]}, {seconds:.1f} s; skipped: {result.skipped}"
        )


def print_stability(scene: Parameters, views: list[View], options: SolveOptions) -> None:
    """Prints how many labels from odd and from even views agree."""
    odd, even = voted(scene, views[1::2]), voted(scene, views[::2])
    a, b = solve(scene, odd, options).labels, solve(scene, even, options).labels
    for least in (0.0, 0.1, 1.0, 5.0):
        visible = (odd.seen > least) & (even.seen > least) & (a != NO_LABEL)
        agree = float((a == b)[visible].float().mean())
        print(f"odd and even views, seen over {least:g} px: {100 * agree:.2f} % of {int(visible.sum()):,}")


if __name__ == "__main__":
    main()
