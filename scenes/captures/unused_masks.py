"""Files of masks that are not used, by the reason."""

from __future__ import annotations

import os
from collections import defaultdict

from luxel.scenes.captures.file_roles import LIKE_MASK, MASK_FILE, mask_folder_of
from luxel.scenes.captures.folder_listing import Parts
from luxel.scenes.captures.images.companions import MASK
from luxel.scenes.captures.images.mask_files import is_mask_image, match_masks
from luxel.scenes.captures.sorted_files import SortedFiles
from luxel.scenes.unused import LOST, OTHER, WRONG, Unused


def unused_masks(files: SortedFiles) -> list[Unused]:
    """One entry for each reason why masks are not used.

    Masks of images that are not used themselves are not mentioned. While all images have masks, those that fit none are
    harmless.
    """
    missing = any(source.mask is None for source in files.contents.images)
    masks = files.by_role.pop(MASK_FILE, [])
    by_folder: dict[Parts, list[Parts]] = defaultdict(list)
    for mask in masks:
        if is_mask_image(mask[-1]):
            by_folder[mask[: (mask_folder_of(mask[:-1]) or 0) + 1]].append(mask)
    with_mask = {os.path.abspath(s.path) for s in files.contents.images if s.mask is not None}
    unmatched: list[Parts] = []
    ambiguous: list[Parts] = []
    spare: list[Parts] = []
    distant: list[Parts] = []
    two = ""
    for folder, inside in by_folder.items():
        images = files.images_below(folder[:-1])
        matches = match_masks([image for image, _ in images], [mask[len(folder) :] for mask in inside])
        unmatched += [inside[row] for row in matches.unmatched]
        ambiguous += [inside[row] for row in matches.ambiguous]
        spare += [inside[row] for row in matches.spare]
        for rows in list(matches.ambiguous.values())[:1]:
            two = two or " and ".join("/".join(images[row][0]) for row in rows[:2])
        for image, row in matches.of_image.items():
            path = images[image][1]
            if path in with_mask:
                spare.append(inside[row])
            elif path in files.listing.used:
                distant.append(inside[row])
    harm = WRONG if missing else OTHER
    image, _ = files.images_below(())[0]
    named = "/".join(("masks", *image[1:-1], os.path.splitext(image[-1])[0])) + ".png"
    types = [mask for mask in masks if not is_mask_image(mask[-1])]
    like = [*files.by_role.pop(MASK, []), *files.by_role.pop(LIKE_MASK, [])]
    return [
        *files.entry(
            ambiguous,
            "masks of several images",
            "mask",
            f"not used, as the name fits several images, such as {two}",
            "Put the masks into the same folders as the images.",
            WRONG,
        ),
        *files.entry(
            unmatched,
            "masks",
            "mask",
            "not used, as no image has that name",
            f"Name a mask after its image: {named} for {'/'.join(image)}.",
            harm,
        ),
        *files.entry(
            distant,
            "masks elsewhere",
            "mask",
            "not used, as the folder is not next to that of the images",
            "Put the folder of masks into the folder of the capture.",
            harm,
        ),
        *files.entry(
            types,
            "masks of another type",
            "file",
            "in a folder of masks and not used, as luxel does not read the type",
            "Save masks as PNG, white where pixels are retained.",
            harm,
        ),
        *files.entry(spare, "further masks", "mask", "not used, as the image has another one"),
        *files.entry(
            like,
            "images like masks",
            "image",
            "not used, and may be a mask" if len(like) == 1 else "not used, and may be masks",
            "If so, put them into masks/ under the names of the images; white is retained.",
            LOST if missing else OTHER,
        ),
    ]
