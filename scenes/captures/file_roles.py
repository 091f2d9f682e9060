"""What a file in a capture's folder is, by the names that programs and devices give files and folders."""

from __future__ import annotations

import os
import re

from luxel.scenes.captures.contents import IMAGE_SUFFIXES
from luxel.scenes.captures.images.mask_files import MASK_FOLDERS

Parts = tuple[str, ...]
# Roles; those of `companions` are further ones.
IMAGE, UNREAD_IMAGE, MASK_FILE, LIKE_MASK, FILM, CLOUD, POSES, OTHER_FILE, NOTHING_MORE = (
    "image", "unread image", "mask file", "like a mask", "film", "point cloud", "poses", "other", "nothing more",
)  # fmt: skip

SMALLER = re.compile(
    r"(images|masks?|depths?|normals)_\d+(x\d+)?", re.IGNORECASE
)  # copies, as nerfstudio makes them
VERSIONS = re.compile(
    r"input|(un)?distorted|originals?|raw|corrected_images|resized|thumb(nail)?s?|previews?"
    r"|images[_-]?(orig(inal)?|raw|full|small|low|distorted|undistorted)",
    re.IGNORECASE,
)
COLMAP_FILES = re.compile(
    r"(cameras|images|points3d|rigs|frames)\.(bin|txt|ply)|.*\.db(-wal|-shm|-journal)?|project\.ini|pairs\.txt"
    r"|vocab_tree.*|run-colmap-.*\.sh|(patch-match|fusion)\.cfg|.*\.vis",
    re.IGNORECASE,
)
SPARSE_POINTS = re.compile(r"(points3d|sparse_pc|point_?cloud|fused)\.ply", re.IGNORECASE)
FILMS = (
    ".mp4", ".mov", ".m4v", ".mkv", ".webm", ".avi", ".mts", ".m2ts", ".insv", ".lrv", ".360", ".wmv", ".mpg", ".3gp",
)  # fmt: skip
CLOUDS = (
    ".ply", ".pcd", ".las", ".laz", ".e57", ".xyz", ".pts", ".obj", ".glb", ".gltf", ".fbx", ".stl", ".usdz",
)  # fmt: skip
UNREAD_IMAGES = (
    ".avif", ".dng", ".cr2", ".cr3", ".crw", ".nef", ".nrw", ".arw", ".sr2", ".raf", ".orf", ".rw2", ".pef", ".srw",
    ".3fr", ".iiq", ".x3f", ".gpr", ".jxl", ".jp2", ".j2k", ".jxr", ".psd", ".gif", ".ppm", ".pgm", ".pnm", ".tga",
    ".hdr", ".dds", ".insp",
)  # fmt: skip
POSE_NAMES = re.compile(
    r"cam|pose|traj|transform|calib|extrinsic|intrinsic|bundle|arkit|odometry|orientation|alignment|reconstruction"
    r"|\.(nvm|out|psx|rcproj|sfm)$",
    re.IGNORECASE,
)
POSE_SUFFIXES = (
    ".json", ".xml", ".csv", ".txt", ".nvm", ".out", ".npy", ".npz", ".yaml", ".yml", ".log", ".psx", ".rcproj", ".sfm",
)  # fmt: skip
DEPTH_FOLDERS = re.compile(r"(.*[_-])?(depths?|depth[_-]?(maps?|images?)|disparit(y|ies))", re.IGNORECASE)
DEPTH_SUFFIXES = (*IMAGE_SUFFIXES, ".npy", ".npz", ".bin", ".pfm", ".dpt")
MAP_FOLDERS = re.compile(
    r"(normal|semantic|instance|label|confidence|albedo|flow)s?([_-].*)?|conf|sky", re.IGNORECASE
)
LIKE_MASKS = re.compile(
    r".*mask.*|(silhouette|matte|alpha|segmentation|segment|foreground|cutout)s?([_-].*)?|seg", re.IGNORECASE
)


def suffix_of(name: str) -> str:
    """The suffix of a file, in lower case."""
    return os.path.splitext(name)[1].lower()


def mask_folder_of(folders: Parts) -> int | None:
    """The position of the folder of masks among the folders that a file is in; None: it is in none."""
    return next((at for at, folder in enumerate(folders) if folder.lower() in MASK_FOLDERS), None)


def role_of(folders: Parts, name: str) -> str:
    """What a file is by its name and the folders that it is in.

    Args:
        folders: relative to the capture.
        name: of the file.

    Returns:
        One of this module's roles, or "depth map" and "map" of `companions`.
    """
    suffix = suffix_of(name)
    if any(SMALLER.fullmatch(folder) for folder in folders) or COLMAP_FILES.fullmatch(name):
        return NOTHING_MORE
    if mask_folder_of(folders) is not None:
        return MASK_FILE
    is_image = suffix in IMAGE_SUFFIXES or suffix in UNREAD_IMAGES
    if suffix in DEPTH_SUFFIXES and any(DEPTH_FOLDERS.fullmatch(folder) for folder in folders):
        return "depth map"
    if is_image and any(MAP_FOLDERS.fullmatch(folder) for folder in folders):
        return "map"
    if is_image and any(LIKE_MASKS.fullmatch(folder) for folder in folders):
        return LIKE_MASK
    if is_image:
        return IMAGE if suffix in IMAGE_SUFFIXES else UNREAD_IMAGE
    if suffix in FILMS:
        return FILM
    if suffix in CLOUDS:
        return NOTHING_MORE if SPARSE_POINTS.fullmatch(name) else CLOUD
    if suffix in POSE_SUFFIXES and any(POSE_NAMES.search(part) for part in (*folders, name)):
        return POSES
    return OTHER_FILE
