"""Image features and matches by pycolmap, in chunks that report progress."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from luxel.scenes.errors import CaptureError

SEED = 0
FEATURES = 6144  # maximum per image
FEATURE_IMAGE_SIZE = 1600  # longer side of the images from which features are extracted, pixels
PAIRS_PER_CHUNK = 64
IMAGES_PER_CHUNK = 8


def import_pycolmap() -> Any:
    """The pycolmap module, in the process of `luxel.scenes.captures.colmap_process`.

    Raises:
        CaptureError: it is not installed.
    """
    try:
        return importlib.import_module("pycolmap")
    except ImportError as error:
        raise _missing(str(error)) from None


def require_pycolmap() -> None:
    """Checks that pycolmap is installed, without importing it.

    Raises:
        CaptureError: it is not.
    """
    if importlib.util.find_spec("pycolmap") is None:
        raise _missing("No module named 'pycolmap'")


def _missing(reason: str) -> CaptureError:
    return CaptureError(
        f"pycolmap, which estimates camera poses and points, cannot be imported ({reason}).",
        "Install it with: pip install pycolmap",
    )


@contextmanager
def quiet(pycolmap: Any) -> Iterator[None]:
    """A context in which COLMAP logs errors only."""
    before = pycolmap.logging.minloglevel
    pycolmap.logging.minloglevel = 3
    try:
        yield
    finally:
        pycolmap.logging.minloglevel = before


def extract(
    pycolmap: Any,
    database: Path,
    images: Path,
    names: Sequence[str],
    *,
    masks: Path | None,
    mode: Any,
    model: str,
    parameters: Sequence[float] = (),
    on_progress: Callable[[float], None],
) -> None:
    """Extracts SIFT features of images into COLMAP's database; images whose features are there are left out.

    Args:
        pycolmap: the module.
        database, images: COLMAP's database file and image folder.
        names: files in the image folder.
        masks: folder of masks named NAME.png; features in black pixels are dropped. None: no masks.
        mode: pycolmap.CameraMode; with SINGLE, all images of a call share a camera.
        model, parameters: camera model and, where known, its parameters.
        on_progress: called with the fraction done in [0, 1].
    """
    reader = pycolmap.ImageReaderOptions()
    reader.camera_model = model
    reader.camera_params = ",".join(f"{value:.17g}" for value in parameters)
    if masks is not None:
        reader.mask_path = str(masks)
    options = pycolmap.FeatureExtractionOptions()
    options.max_image_size = FEATURE_IMAGE_SIZE
    options.sift.max_num_features = FEATURES
    single = mode == pycolmap.CameraMode.SINGLE
    for start in range(0, len(names), IMAGES_PER_CHUNK):
        chunk = list(names[start : start + IMAGES_PER_CHUNK])
        with pycolmap.Database.open(str(database)) as opened:
            stored = {image.name: image for image in opened.read_all_images()}
            chunk = [name for name in chunk if not _has_features(opened, stored.get(name))]
            if single and names[0] in stored:
                # Later chunks use the camera of the first image; a new one would be created otherwise.
                reader.existing_camera_id = stored[names[0]].camera_id
        if chunk:
            pycolmap.extract_features(
                str(database), str(images), chunk, mode, reader_options=reader, extraction_options=options
            )
        on_progress(min(1.0, (start + IMAGES_PER_CHUNK) / len(names)))


def _has_features(opened: Any, image: Any) -> bool:
    """Whether an image of a database, or None, has its features there."""
    return image is not None and opened.exists_descriptors(image.image_id)


def match(
    pycolmap: Any,
    database: Path,
    pairs: Sequence[tuple[str, str]],
    on_progress: Callable[[float], None],
) -> None:
    """Matches features of pairs of images and verifies them geometrically, in chunks, but those that are done."""
    listing = database.with_name("pairs.txt")
    for start in range(0, len(pairs), PAIRS_PER_CHUNK):
        chunk = pairs[start : start + PAIRS_PER_CHUNK]
        listing.write_text("".join(f"{a} {b}\n" for a, b in chunk))
        options = pycolmap.ImportedPairingOptions()
        options.match_list_path = str(listing)
        verification = pycolmap.TwoViewGeometryOptions()
        verification.ransac.random_seed = SEED
        pycolmap.match_image_pairs(str(database), pairing_options=options, verification_options=verification)
        on_progress(min(1.0, (start + len(chunk)) / len(pairs)))
