"""Opens any capture: finds out what it is, checks it, and gives posed views, points and a split."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch

from luxel.render.camera import Camera, Points, View
from luxel.scenes.captures.colmap import find_model, read_colmap
from luxel.scenes.captures.geometry import estimate_centre, estimate_up, invert_rigid
from luxel.scenes.captures.images import (
    PhotoReader,
    check_decodes,
    fits_in_memory,
    for_each,
    target_lens,
    target_size,
)
from luxel.scenes.captures.masks import are_cutouts, find_masks, have_transparency, mask_of
from luxel.scenes.captures.photo import Listing, Photo, image_files, natural_key, shorten_names
from luxel.scenes.captures.transforms import is_transforms, read_transforms
from luxel.scenes.errors import CaptureError

MASK_USES = ("auto", "cutout", "ignore", "none")
FEWEST_VIEWS = 3
FEWEST_TO_HOLD_OUT = 4
Progress = Callable[[str, float], None]


@dataclass
class Capture:
    """A capture that is ready to be trained on, in its own coordinates and units.

    Args:
        path: what was opened.
        name: for people and file names.
        kind: the format, in words.
        train, test: views to fit and views held out, each in natural order of their names.
        points: where the Gaussians start.
        holdout: the rule by which ``test`` was chosen, in words.
        cutout: whether the views carry coverage (alpha): an object without background.
        background: the background colour to compose on, white for cut-outs; None: no preference.
        warnings: what a person should know, each a sentence.
        up: estimate of the world's up direction, unit vector [3]; None: unknown.
        centre: where the cameras look, [3].
        extent: median distance of the cameras from the centre.
    """

    path: Path
    name: str
    kind: str
    train: list[View]
    test: list[View]
    points: Points
    holdout: str
    cutout: bool = False
    background: tuple[float, float, float] | None = None
    warnings: list[str] = field(default_factory=list)
    up: np.ndarray | None = None
    centre: np.ndarray = field(default_factory=lambda: np.zeros(3))
    extent: float = 1.0

    @property
    def views(self) -> list[View]:
        """All views, train and test, in natural order of their names."""
        return sorted([*self.train, *self.test], key=lambda view: natural_key(view.name))


def open(
    path: str | Path,
    *,
    holdout_every: int = 8,
    max_size: int | None = None,
    masks: str = "auto",
    cache_dir: str | Path | None = None,
    on_progress: Progress | None = None,
) -> Capture:
    """Opens a capture: a folder of photographs, a COLMAP model, or a transforms.json of any of its kinds.

    Views are sorted by name ("9" before "10"). Held out are the data set's own test views; where it names
    none, every ``holdout_every``-th view beginning with the first, if there are at least four views.

    Args:
        path: the capture's folder, its transforms.json, or the folder of its COLMAP model.
        holdout_every: hold out every so manieth view; 0 holds out none. Ignored where the data set splits.
        max_size: longer side of the pixels at most; larger photographs are averaged down.
        masks: "cutout" trains the object in the masks (or alpha channels) and nothing else; "ignore" lets
            masked pixels neither reward nor punish; "none" reads no masks; "auto" decides by
            ``masks.are_cutouts``.
        cache_dir: where structure from motion and triangulated points are kept. Default: ``.luxel`` in the
            capture, or a folder in ~/.cache/luxel where that cannot be written.
        on_progress: told (what, share done in 0..1).

    Raises:
        CaptureError: the capture cannot be used; the message names the file and what to do.
    """
    if masks not in MASK_USES:
        raise CaptureError(f"masks={masks!r} is unknown.", f"Choose one of {', '.join(MASK_USES)}.")
    if max_size is not None and max_size < 1:
        raise CaptureError(f"max_size={max_size} leaves no pixels.", "Give a positive number.")
    progress = on_progress or (lambda what, share: None)
    path = Path(path).expanduser()
    listing = read_listing(path, cache_dir=cache_dir, masks=masks, on_progress=progress)
    listing.photos.sort(key=lambda photo: natural_key(photo.name))
    if len(listing.photos) < FEWEST_VIEWS:
        raise CaptureError(
            f"{path}: {len(listing.photos)} posed views are too few, at least {FEWEST_VIEWS} are needed.",
            "Take more photographs.",
        )
    root = path if path.is_dir() else path.parent
    use = _mask_use(root, listing, masks)
    readers = _readers(listing, use, max_size, progress)
    poses = np.stack([invert_rigid(photo.world_to_cam) for photo in listing.photos])
    if listing.points is None:
        from luxel.scenes.captures.triangulate import starting_points

        known = [p for p in listing.photos if p.name not in (listing.test_names or ())]
        posed = [(view_of(p, readers[p.name], p.name, max_size).camera, readers[p.name]) for p in known]
        listing.points = starting_points(root, listing, posed, cache_dir=cache_dir, on_progress=progress)
    train, test, rule = _split(listing, holdout_every, readers, max_size)
    centre = estimate_centre(poses, listing.points.xyz)
    return Capture(
        path=path,
        name=root.resolve().name or "capture",
        kind=listing.kind,
        train=train,
        test=test,
        points=listing.points,
        holdout=rule,
        cutout=use == "cutout",
        background=(1.0, 1.0, 1.0) if use == "cutout" else None,
        warnings=listing.warnings,
        up=listing.up if listing.up is not None else estimate_up(poses),
        centre=centre,
        extent=float(np.median(np.linalg.norm(poses[:, :3, 3] - centre, axis=1))) or 1.0,
    )


def read_listing(
    path: Path, *, cache_dir: str | Path | None = None, masks: str = "auto", on_progress: Progress
) -> Listing:
    """What the capture's files say; runs structure from motion where there are only photographs.

    Raises:
        CaptureError: there is nothing that can be read.
    """
    if not path.exists():
        raise CaptureError(f"{path}: there is no such file or folder.", "Check the path.")
    if path.is_file() and path.suffix.lower() != ".json":
        raise CaptureError(
            f"{path}: this file is no capture.",
            "Give a folder of photographs, a COLMAP model, or a transforms.json. Frames of a video are "
            "extracted with: ffmpeg -i VIDEO -vf fps=2 FOLDER/%04d.png",
        )
    try:
        if is_transforms(path):
            return read_transforms(path)
        if find_model(path) is not None:
            return read_colmap(path)
        folder = next(
            (f for f in (path, path / "images", path / "input") if f.is_dir() and image_files(f)), None
        )
    except PermissionError as error:
        raise CaptureError(f"{error.filename}: no permission to read.", "Change the permissions.") from None
    if folder is None:
        raise CaptureError(
            f"{path}: there are neither photographs nor poses in this folder.",
            "Expected .jpg or .png files, images/ with sparse/0 of COLMAP, or transforms.json.",
        )
    from luxel.scenes.captures.sfm import read_photographs

    use_masks = masks != "none"
    return read_photographs(path, folder, cache_dir=cache_dir, use_masks=use_masks, on_progress=on_progress)


def _mask_use(root: Path, listing: Listing, masks: str) -> str:
    """What alpha and masks mean for this capture: "cutout", "ignore" or "none"."""
    photos = listing.photos
    if masks == "none":
        for photo in photos:
            photo.mask = None
        return "none"
    find_masks(root, photos)
    missing = [photo.name for photo in photos if photo.mask is None]
    if len(missing) < len(photos):
        use = masks if masks != "auto" else "cutout" if are_cutouts(photos) else "ignore"
        if missing and use == "cutout":
            raise CaptureError(
                f"{photos[0].path.parent}: {len(missing)} of {len(photos)} photographs have no mask "
                f"(the first is {missing[0]}).",
                "Add the masks, or open the capture with masks='ignore' or masks='none'.",
            )
        if missing:
            listing.warnings.append(
                f"{len(missing)} of {len(photos)} photographs have no mask and count whole."
            )
        return use
    if have_transparency(photos):
        return "cutout" if masks == "auto" else masks
    if masks != "auto":
        listing.warnings.append(f"There are no masks, so masks={masks!r} has no effect.")
    return "none"


def _readers(listing: Listing, use: str, max_size: int | None, progress: Progress) -> dict[str, PhotoReader]:
    """A reader for each photo by name; all photographs are decoded once, to keep them or to check them."""
    readers = {}
    for photo in listing.photos:
        width, height = target_size(photo.lens, max_size)
        mask = mask_of(photo)
        readers[photo.name] = PhotoReader(photo.path, photo.lens, width, height, photo.oriented, mask, use)
    ordered = list(readers.values())
    keep = fits_in_memory(ordered)
    for reader in ordered:
        reader.keep = keep
        target_lens(reader.lens, max_size, str(reader.path))  # refuses impossible lenses before any pixel

    def work(index: int) -> object:
        return ordered[index]() if keep else check_decodes(ordered[index].path)

    what = "reading photographs" if keep else "checking photographs (they do not fit into memory)"
    for_each(work, len(ordered), lambda share: progress(what, share))
    return readers


def view_of(photo: Photo, reader: PhotoReader, name: str, max_size: int | None = None) -> View:
    """The view of a photo with its undistorted camera."""
    lens = target_lens(photo.lens, max_size, str(photo.path))
    camera = Camera(
        torch.tensor(photo.world_to_cam, dtype=torch.float32),
        torch.tensor([lens.fx, lens.fy, lens.cx, lens.cy], dtype=torch.float32),
        lens.width,
        lens.height,
    )
    return View(name, camera, reader, photo.time, photo.path)


def _split(
    listing: Listing, every: int, readers: dict[str, PhotoReader], max_size: int | None
) -> tuple[list[View], list[View], str]:
    names = shorten_names(listing.photos)
    photos = [photo for photo in listing.photos if photo.name not in listing.unused_names]
    if listing.test_names is not None:
        held, rule = listing.test_names, listing.rule
    elif every < 1:
        held, rule = set(), "no views are held out, as asked"
    elif len(photos) < FEWEST_TO_HOLD_OUT:
        held, rule = set(), f"no views are held out: there are only {len(photos)}"
    else:
        held = {photo.name for photo in photos[::every]}
        rule = f"every {every}th view by name, beginning with the first"
    views = [
        (photo.name in held, view_of(photo, readers[photo.name], names[photo.name], max_size))
        for photo in photos
    ]
    train = [view for test, view in views if not test]
    test = [view for test, view in views if test]
    if len(train) < FEWEST_VIEWS - 1:
        raise CaptureError(
            f"Only {len(train)} views are left to train on, {len(test)} are held out.",
            "Hold out fewer (holdout_every), or correct the data set's split.",
        )
    return train, test, rule
