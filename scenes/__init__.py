"""luxel.scenes: captures, structure from motion, scene files, camera paths and made-up scenes."""

from luxel.scenes.captures.demo import demo_path
from luxel.scenes.captures.open_capture import Capture, open
from luxel.scenes.errors import CaptureError
from luxel.scenes.files.hull_mesh import convex_hulls
from luxel.scenes.files.mesh_files import read_mesh, save_mesh
from luxel.scenes.files.moments import save_moments
from luxel.scenes.files.ply import load_points, save_points
from luxel.scenes.files.primitive_ply import load_gaussians, load_primitive_ply, save_primitive_ply
from luxel.scenes.files.safetensors_scene import load_safetensors, save_safetensors
from luxel.scenes.files.scene_files import load_primitives, load_scene, save_scene
from luxel.scenes.files.splat import save_splat
from luxel.scenes.synthetic.dnerf import save_dnerf
from luxel.scenes.synthetic.playground import dynamic_scene, static_scene

__all__ = [
    "Capture",
    "CaptureError",
    "convex_hulls",
    "demo_path",
    "dynamic_scene",
    "load_gaussians",
    "load_points",
    "load_primitive_ply",
    "load_primitives",
    "load_safetensors",
    "load_scene",
    "open",
    "read_mesh",
    "save_dnerf",
    "save_mesh",
    "save_moments",
    "save_points",
    "save_primitive_ply",
    "save_safetensors",
    "save_scene",
    "save_splat",
    "static_scene",
]
