"""Structure from motion: camera poses, lens and points of photographs, estimated by pycolmap."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from luxel.scenes.captures import features
from luxel.scenes.captures.capture_format import Progress
from luxel.scenes.captures.colmap import read_colmap
from luxel.scenes.captures.contents import CaptureContents, SourceImage, image_files
from luxel.scenes.captures.features import import_pycolmap
from luxel.scenes.captures.images import ImageHeader, for_each, read_header
from luxel.scenes.captures.lens import Lens
from luxel.scenes.captures.masks import find_masks
from luxel.scenes.captures.poses.lens_refinement import refine_lens
from luxel.scenes.captures.poses.mapping import map_globally, map_incrementally, without_pairs
from luxel.scenes.captures.poses.object_masks import mask_object
from luxel.scenes.captures.poses.pairs import EXHAUSTIVE_UP_TO, pairs_to_match
from luxel.scenes.captures.poses.score import ModelScore, PoseReport, score_model
from luxel.scenes.captures.poses.two_view import VerifiedPairs, only_turned, read_pairs
from luxel.scenes.captures.poses.workspace import Workspace, working_folder
from luxel.scenes.errors import CaptureError

VERSION = 3  # increased when a change of this file or of poses/ invalidates cached results
MIN_PHOTOGRAPHS = 3
MIN_PLACED_FRACTION = 0.5
MIN_AGREEMENT = 0.35  # of the matches with the poses, see `ModelScore`
GOOD_AGREEMENT = 0.9  # from which mapping is not repeated
CONTRADICTS = 0.25  # share of a pair's matches that fits the poses, below which the pair is cut
FEW_FEATURES = 100  # of the median photograph
TURNED = "the camera turned on the spot, so that near and far move alike from one photograph to another"
REPORT = "report.json"
ADVICE = (
    "Photographs must be sharp, overlap by two thirds with their neighbours, and be taken from different places, not "
    "by turning on the spot. Add photographs between these and the others, or remove them."
)
Candidate = tuple[ModelScore, Any, np.ndarray]  # score, model, and how each pair fits it


def estimate_poses(
    path: Path,
    folder: Path,
    *,
    cache_dir: str | Path | None = None,
    use_masks: bool = True,
    cut_object: bool = False,
    on_progress: Progress,
) -> CaptureContents:
    """Poses, lens and points of a folder of photographs, computed once and cached.

    Models are made by incremental and by global mapping; the one of the highest `ModelScore.value` is used. An
    interrupted run goes on with the features and matches that it has. The cache key depends on the names and sizes of
    images and masks, and on the options.

    Args:
        path: the capture's folder, where ``masks`` may be.
        folder: the folder of the photographs.
        cache_dir: see ``features.cache_folder``.
        use_masks: whether features outside the masks are dropped.
        cut_object: gives photographs without a mask that of the object in their middle, see `object_masks`.
        on_progress: called with (stage, fraction done in [0, 1]).

    Raises:
        CaptureError: fewer than 3 photographs; no object in their middle; no model; fewer than half of the photographs
            (or 3) have a pose; the camera only turned on the spot; or the poses contradict the matches.
    """
    files = image_files(folder)
    if len(files) < MIN_PHOTOGRAPHS:
        raise CaptureError(
            f"{folder}: {len(files)} photographs are too few, at least {MIN_PHOTOGRAPHS} are needed.",
            "Take more photographs.",
        )
    headers: dict[int, ImageHeader] = {}
    for_each(lambda i: headers.__setitem__(i, read_header(files[i])), len(files))
    sources = []
    for index, file in enumerate(files):
        width, height = headers[index].size(True)
        lens = Lens(width, height, 1.0, 1.0, 0.5 * width, 0.5 * height)
        sources.append(SourceImage(file.name, file, lens, None, oriented=True))  # type: ignore[arg-type]
    if use_masks:
        find_masks(path, sources)
    cache = features.cache_folder(path, cache_dir)
    if cut_object:
        mask_object(sources, cache, on_progress)
    sizes = [(p.name, p.path.stat().st_size, p.mask.stat().st_size if p.mask else 0) for p in sources]
    key = features.content_key(
        ["sfm", VERSION, features.FEATURES, features.FEATURE_IMAGE_SIZE, EXHAUSTIVE_UP_TO, *sizes]
    )
    model = cache / f"sfm-{key}"
    if not (model / REPORT).is_file():
        with working_folder(cache, key) as work:
            space = Workspace(work, sources, [headers[i] for i in range(len(files))])
            _reconstruct(space, folder, model, on_progress)
    report = PoseReport.of_json(json.loads((model / REPORT).read_text()))
    contents = read_colmap(folder, images=folder, model=model, oriented=True)
    if cut_object:
        masks = {source.name: source.mask for source in sources}
        for image in contents.images:
            image.mask = masks[image.name]
    contents.format = "photographs (structure from motion)"
    contents.pose_report = report.headline
    _check_placed(folder, files, contents, report)
    return contents


def _check_placed(folder: Path, files: Sequence[Path], contents: CaptureContents, report: PoseReport) -> None:
    """Refuses a model that cannot be used; warns of photographs without a pose, and of doubtful poses."""
    placed = {source.name for source in contents.images}
    missing = [file.name for file in files if file.name not in placed]
    shown = ", ".join(missing[:12]) + (f" and {len(missing) - 12} more" if len(missing) > 12 else "")
    problem = f"{folder}: {len(placed)} of {len(files)} photographs could be placed; not these: {shown}."
    if missing and len(placed) < max(MIN_PHOTOGRAPHS, MIN_PLACED_FRACTION * len(files)):
        raise CaptureError(problem, ADVICE)
    if report.refusal:
        raise CaptureError(f"{folder}: no poses could be estimated: {report.refusal}.", ADVICE)
    if missing:
        contents.warnings.append(f"{problem} {ADVICE}")
    if report.sure == "doubtful":
        contents.warnings.append(f"{folder}: {report.headline}. {ADVICE}")


def _reconstruct(space: Workspace, folder: Path, target: Path, on_progress: Progress) -> None:
    """Runs feature extraction, matching and mapping, and writes a binary COLMAP model with a report to ``target``."""
    pycolmap = import_pycolmap()
    pycolmap.set_random_seed(features.SEED)
    with features.quiet(pycolmap):
        space.prepare()
        _extract(pycolmap, space, on_progress)
        pairs = pairs_to_match(pycolmap, space.database, space.names)
        features.match(
            pycolmap, space.database, pairs, lambda share: on_progress("matching photographs", share)
        )
        verified = read_pairs(pycolmap, space.database)
        if only_turned(verified):  # mapping places some of them even so, differently each time
            raise CaptureError(f"{folder}: no poses could be estimated: {TURNED}.", ADVICE)
        candidates = _candidates(pycolmap, space, verified, on_progress)
        if not candidates:
            reason = _reason(space, verified)
            raise CaptureError(f"{folder}: no poses could be estimated: {reason}.", ADVICE)
        best, cut = _without_contradictions(pycolmap, space, verified, candidates, on_progress)
        on_progress("refining the lens", 0.0)
        refined = refine_lens(pycolmap, best[1])
        score, _ = score_model(best[0].mapping, refined, len(space.names), verified)
        lenses = sorted({camera.model_name for camera in refined.cameras.values()})
        report = PoseReport(score, [made for made, *_ in candidates], cut, ", ".join(lenses))
        if score.agreement < MIN_AGREEMENT:
            report.refusal = (
                f"only {score.agreement:.0%} of the matches of {score.pairs} pairs agree with them"
            )
        for image in refined.images.values():
            image.name = space.sources[space.names.index(image.name)].name
        finished = space.folder / "finished"
        shutil.rmtree(finished, ignore_errors=True)
        finished.mkdir()
        refined.write_binary(str(finished))
        (finished / REPORT).write_text(json.dumps(report.as_json(), indent=1))
        shutil.rmtree(target, ignore_errors=True)
        finished.replace(target)


def _extract(pycolmap: Any, space: Workspace, on_progress: Progress) -> None:
    """Features of all images, with a simple lens for those that one lens took."""
    masks = space.masks if any(space.masks.iterdir()) else None
    done, total = 0, len(space.names)
    for group in space.lenses():
        size = len(group)
        features.extract(
            pycolmap,
            space.database,
            space.images,
            group,
            masks=masks,
            mode=pycolmap.CameraMode.SINGLE,
            model="SIMPLE_RADIAL",
            on_progress=lambda share, before=done, size=size: on_progress(
                "finding features", (before + share * size) / total
            ),
        )
        done += size


def _candidates(
    pycolmap: Any, space: Workspace, verified: VerifiedPairs, on_progress: Progress
) -> list[Candidate]:
    """Models of both mappings; incremental mapping is repeated with looser thresholds where too few are placed."""
    count, inputs = len(space.names), (pycolmap, space.database, space.images)
    models = {"incremental": map_incrementally(*inputs, space.folder / "incremental", count, on_progress)}
    models["global"] = map_globally(*inputs, space.folder / "global", on_progress)
    placed = max((model.num_reg_images() for model in models.values() if model is not None), default=0)
    if placed < MIN_PLACED_FRACTION * count:
        models["loose incremental"] = map_incrementally(
            *inputs, space.folder / "loose", count, on_progress, loose=True
        )
    return [(*_scored(name, model, count, verified),) for name, model in models.items() if model is not None]


def _scored(name: str, model: Any, count: int, verified: VerifiedPairs) -> Candidate:
    score, fit = score_model(name, model, count, verified)
    return score, model, fit


def _without_contradictions(
    pycolmap: Any,
    space: Workspace,
    verified: VerifiedPairs,
    candidates: list[Candidate],
    on_progress: Progress,
) -> tuple[Candidate, int]:
    """The best candidate, and the number of pairs that were cut.

    Sides that look alike are matched though they show different things. Such pairs contradict the poses that all others
    agree on: mapping is repeated once without them, and kept where all pairs fit it better. Adds to ``candidates``.
    """
    best = max(candidates, key=lambda candidate: candidate[0].value)
    contradicting = np.nonzero(best[2] < CONTRADICTS)[0]
    if best[0].agreement >= GOOD_AGREEMENT or not len(contradicting):
        return best, 0
    on_progress("mapping without contradicting pairs", 0.0)
    fewer = space.folder / "fewer-pairs.db"
    without_pairs(pycolmap, space.database, fewer, [tuple(verified.ids[row]) for row in contradicting])
    out, count = space.folder / "again", len(space.names)
    again = {
        "incremental, again": map_incrementally(pycolmap, fewer, space.images, out, count, on_progress),
        "global, again": map_globally(pycolmap, fewer, space.images, out, on_progress),
    }
    made = [_scored(name, model, count, verified) for name, model in again.items() if model is not None]
    candidates.extend(made)
    better = max(made, key=lambda candidate: candidate[0].value, default=best)
    if better[0].value > best[0].value:
        return better, len(contradicting)
    return best, 0


def _reason(space: Workspace, verified: VerifiedPairs) -> str:
    """Why there are no poses, a clause."""
    counts = [len(points) for points in verified.keypoints.values()] or [0]
    if np.median(counts) < FEW_FEATURES:
        return f"the photographs show too little detail ({np.median(counts):.0f} features in the median photograph)"
    count = len(space.names)
    if len(verified.ids) < count // 2:
        return f"only {len(verified.ids)} pairs of the {count} photographs show enough of the same thing"
    return f"none of the {len(verified.ids)} pairs of photographs that overlap is one to begin from"
