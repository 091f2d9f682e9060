"""luxel.scenes: captures, structure from motion, scene files, camera paths and synthetic scenes."""

from typing import TYPE_CHECKING

from luxel.render.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from luxel.scenes.captures.capture_format import CaptureFormat, ReadOptions
    from luxel.scenes.captures.contents import CaptureContents, SourceImage
    from luxel.scenes.captures.demo import demo_path
    from luxel.scenes.captures.depth_supervision import supervise
    from luxel.scenes.captures.lenses.lens import Lens
    from luxel.scenes.captures.open_capture import Capture, open
    from luxel.scenes.captures.registry import register_capture_format
    from luxel.scenes.errors import CaptureError
    from luxel.scenes.files.meshes.hull_mesh import convex_hulls
    from luxel.scenes.files.meshes.mesh_files import read_mesh, save_mesh
    from luxel.scenes.files.ply import load_points, save_points
    from luxel.scenes.files.quantised.splat import save_splat
    from luxel.scenes.files.registry import formats_for, register_scene_format
    from luxel.scenes.files.scene_files import load_primitives, load_scene, save_scene
    from luxel.scenes.files.scene_format import SceneFormat
    from luxel.scenes.files.scenes.primitive_ply import load_gaussians, load_primitive_ply, save_primitive_ply
    from luxel.scenes.files.scenes.safetensors_scene import load_safetensors, save_safetensors
    from luxel.scenes.files.scenes.time_slices import save_time_slices
    from luxel.scenes.synthetic.captures.dnerf import save_dnerf
    from luxel.scenes.synthetic.example_scenes import dynamic_scene, static_scene

__getattr__ = lazy_exports(
    __name__,
    {
        "Capture": "captures.open_capture",
        "CaptureContents": "captures.contents",
        "CaptureError": "errors",
        "CaptureFormat": "captures.capture_format",
        "Lens": "captures.lenses.lens",
        "ReadOptions": "captures.capture_format",
        "SceneFormat": "files.scene_format",
        "SourceImage": "captures.contents",
        "convex_hulls": "files.meshes.hull_mesh",
        "demo_path": "captures.demo",
        "dynamic_scene": "synthetic.example_scenes",
        "formats_for": "files.registry",
        "load_gaussians": "files.scenes.primitive_ply",
        "load_points": "files.ply",
        "load_primitive_ply": "files.scenes.primitive_ply",
        "load_primitives": "files.scene_files",
        "load_safetensors": "files.scenes.safetensors_scene",
        "load_scene": "files.scene_files",
        "open": "captures.open_capture",
        "read_mesh": "files.meshes.mesh_files",
        "register_capture_format": "captures.registry",
        "register_scene_format": "files.registry",
        "save_dnerf": "synthetic.captures.dnerf",
        "save_mesh": "files.meshes.mesh_files",
        "save_points": "files.ply",
        "save_primitive_ply": "files.scenes.primitive_ply",
        "save_safetensors": "files.scenes.safetensors_scene",
        "save_scene": "files.scene_files",
        "save_splat": "files.quantised.splat",
        "save_time_slices": "files.scenes.time_slices",
        "static_scene": "synthetic.example_scenes",
        "supervise": "captures.depth_supervision",
    },
)
__all__ = [
    "Capture",
    "CaptureContents",
    "CaptureError",
    "CaptureFormat",
    "Lens",
    "ReadOptions",
    "SceneFormat",
    "SourceImage",
    "convex_hulls",
    "demo_path",
    "dynamic_scene",
    "formats_for",
    "load_gaussians",
    "load_points",
    "load_primitive_ply",
    "load_primitives",
    "load_safetensors",
    "load_scene",
    "open",
    "read_mesh",
    "register_capture_format",
    "register_scene_format",
    "save_dnerf",
    "save_mesh",
    "save_points",
    "save_primitive_ply",
    "save_safetensors",
    "save_scene",
    "save_splat",
    "save_time_slices",
    "static_scene",
    "supervise",
]
