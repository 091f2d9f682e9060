"""SOG scenes, version 2 (PlayCanvas, "Spatially Ordered Gaussians"): quantised Gaussians in lossless WebP images.

Specification: the page "The SOG Format" of PlayCanvas's user manual. It names the axes right, up, back; but its
authors' tools write the axes of the PLY file unchanged (right, down, front), and every viewer expects those.
A bundle (.sog) is a ZIP archive of meta.json and the images; a folder holds the same files. Version 1, which has ranges
instead of codebooks, is read.
"""

from luxel.render.primitives.gaussians import Gaussians
from luxel.scenes.files.scene_format import SceneFormat
from luxel.scenes.files.sog.containers import META, is_folder
from luxel.scenes.files.sog.decode import load_sog, read_sog_facts, read_sog_unused
from luxel.scenes.files.sog.encode import save_sog, save_sog_folder, sog_bundle
from luxel.scenes.files.sog.html_page import HTML
from luxel.scenes.files.sog.streamed import STREAMED_SOG

SOG = SceneFormat(
    ".sog",
    "Gaussians, about a fifteenth of the size of .ply",
    load_sog,
    save_sog,
    primitives=(Gaussians,),
    holds=("antialiased",),
    read_facts=read_sog_facts,
    read_unused=read_sog_unused,
    recognises=is_folder,
)
SOG_FOLDER = SceneFormat(  # read by SOG, which recognises it
    META,
    "the same as files in a folder",
    save=save_sog_folder,
    primitives=(Gaussians,),
    holds=("antialiased",),
)

__all__ = [
    "HTML",
    "SOG",
    "SOG_FOLDER",
    "STREAMED_SOG",
    "load_sog",
    "save_sog",
    "save_sog_folder",
    "sog_bundle",
]
