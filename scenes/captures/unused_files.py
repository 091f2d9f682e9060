"""Files of a capture's folder that are not used, by kind."""

from __future__ import annotations

from pathlib import Path

from luxel.scenes.captures.contents import CaptureContents
from luxel.scenes.captures.file_roles import (
    CLOUD,
    FILM,
    IMAGE,
    NOTHING_MORE,
    OTHER_FILE,
    POSES,
    UNREAD_IMAGE,
    role_of,
    suffix_of,
)
from luxel.scenes.captures.folder_listing import MAX_ENTRIES, list_files
from luxel.scenes.captures.images.companions import DEPTH, MAP, MASKED, THUMBNAIL, is_deep_grey
from luxel.scenes.captures.sorted_files import VERSION, SortedFiles, stem_of, suffixes_of
from luxel.scenes.captures.unused_masks import unused_masks
from luxel.scenes.unused import LOST, OTHER, Unused

READ_TYPES = "JPEG, PNG, WebP, TIFF, BMP, HEIC or EXR"
FLOATS = (".npy", ".npz", ".exr", ".pfm")  # depth maps of floats


def unused_files(path: Path, contents: CaptureContents) -> list[Unused]:
    """The kinds of files in a capture that are not used.

    Args:
        path: the capture, as it was opened. Of a film, the files next to it are not its capture's.
        contents: what its format has read; images with their masks and depth maps.
    """
    if path.is_file() and role_of((), path.name) == FILM:
        return []
    used = {source.path for source in contents.images} | contents.used_files
    used |= {file for source in contents.images for file in (source.mask, source.depth) if file is not None}
    if path.is_file():
        used.add(path)
    files = SortedFiles(list_files(path if path.is_dir() else path.parent, used), contents)
    files.by_role.pop(NOTHING_MORE, None)
    out = [*_models(files), *unused_masks(files), *_images(files), *_others(files)]
    out += files.entry(
        files.listing.broken,
        "broken links",
        "link",
        "not followed: there is nothing where it leads"
        if len(files.listing.broken) == 1
        else "not followed: there is nothing where they lead",
        "Copy the files or folders themselves into the capture.",
        LOST,
    )
    if not files.listing.complete:
        problem = f"The folder has more than {MAX_ENTRIES:,} entries; whether the others are used was not looked at."
        out.append(Unused("more files", 1, path.name, problem))
    return out


def _models(files: SortedFiles) -> list[Unused]:
    """Other COLMAP models with images that the used one has not."""
    more = {folders: names for folders, names in files.models.items() if names}
    if not more:
        return []
    only = {name for names in more.values() for name in names}
    folders, names = next(iter(more.items()))
    which = "/".join(folders) or "."
    what = "Another COLMAP model is" if len(more) == 1 else f"{len(more)} other COLMAP models are"
    images = "1 image is" if len(only) == 1 else f"{len(only)} images are"
    return [
        Unused(
            "models",
            len(more),
            which,
            f"{what} not used, and {images} only there ({which}: {names[0]}).",
            "Merge the models (colmap model_merger), or move all out of the capture, and luxel estimates the poses.",
            LOST,
        )
    ]


def _images(files: SortedFiles) -> list[Unused]:
    in_models = {name.lower() for names in files.models.values() for name in names}
    images = [
        file
        for file in files.by_role.pop(IMAGE, [])
        if not in_models & {"/".join(file[-count:]).lower() for count in range(1, len(file) + 1)}
    ]
    if files.estimated:
        out = files.entry(
            images,
            "images in other folders",
            "image",
            "in other folders and not used",
            "Put all photographs into one folder, or open the other one as a capture of its own.",
            LOST,
        )
    else:
        out = files.entry(
            images,
            "images without a pose",
            "image",
            f"not used, without a pose in the capture's {files.contents.format}",
            "Add the poses; or put all images into a folder without poses, and luxel estimates them.",
            LOST,
        )
    unread = files.by_role.pop(UNREAD_IMAGE, [])
    out += files.entry(
        unread,
        "images of other types",
        "image",
        f"not used, as luxel does not read {suffixes_of(unread)}",
        f"Convert to {READ_TYPES}.",
        LOST,
    )
    out += files.entry(
        files.by_role.pop(MASKED, []),
        "masked copies",
        "image",
        "not used: masked copies of images alongside, by the name",
        "To train on such copies, open a folder with nothing else.",
    )
    without = {stem_of(file[-1]) for file in images} - files.image_stems
    depth = [file for file in files.by_role.pop(DEPTH, []) if stem_of(file[-1]) not in without]
    measured = bool(depth) and (
        suffix_of(depth[0][-1]) in FLOATS or is_deep_grey(files.listing.path(depth[0]))
    )
    out += files.entry(
        depth,
        "depth maps",
        "depth map",
        "not used",
        "Name them in transforms.json (depth_file_path), or put them into depths/ under the names of the images."
        if measured
        else "",
        LOST if measured else OTHER,
    )
    for role, kind, what in (
        (MAP, "maps", "normals, labels or other maps"),
        (THUMBNAIL, "thumbnails", "thumbnails"),
        (VERSION, "other versions", "other versions of used images"),
    ):
        out += files.entry(files.by_role.pop(role, []), kind, "file", f"not used: {what}, by the name")
    return out


def _others(files: SortedFiles) -> list[Unused]:
    out = files.entry(
        files.by_role.pop(FILM, []),
        "films",
        "film",
        "not used",
        "To use a film, open it by itself.",
        LOST if files.estimated else OTHER,
    )
    out += files.entry(
        files.by_role.pop(CLOUD, []),
        "point clouds and meshes",
        "file",
        "not used: points or a mesh",
        "Points in PLY, in the coordinates of the poses, can guide depth (luxel train --depth-points).",
    )
    poses = files.by_role.pop(POSES, [])
    if files.estimated:
        out += files.entry(
            poses,
            "files of poses",
            "file",
            "not read that may hold poses, by the name; luxel estimated them from the images",
            "To use given poses, export them as COLMAP model or transforms.json.",
            LOST,
        )
        poses = []
    rest = [*poses, *files.by_role.pop(OTHER_FILE, [])]
    return out + files.entry(rest, "other files", "file", f"not read: {suffixes_of(rest)}")
