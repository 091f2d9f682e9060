"""luxel.scenes: captures, structure from motion, scene files, camera paths and made-up scenes."""

from luxel.scenes.capture import Capture, open
from luxel.scenes.convex_ply import load_convexes, save_convexes
from luxel.scenes.demo import demo_path
from luxel.scenes.dnerf import save_dnerf
from luxel.scenes.errors import CaptureError
from luxel.scenes.moments import save_moments
from luxel.scenes.playground import dynamic_scene, static_scene
from luxel.scenes.ply import load_gaussians, load_points, save_gaussians, save_points
from luxel.scenes.safetensors_scene import load_safetensors, save_safetensors
from luxel.scenes.scene_files import load_primitives, load_scene

__all__ = [
    "Capture",
    "CaptureError",
    "demo_path",
    "dynamic_scene",
    "load_convexes",
    "load_gaussians",
    "load_points",
    "load_primitives",
    "load_safetensors",
    "load_scene",
    "open",
    "save_convexes",
    "save_dnerf",
    "save_gaussians",
    "save_moments",
    "save_points",
    "save_safetensors",
    "static_scene",
]
