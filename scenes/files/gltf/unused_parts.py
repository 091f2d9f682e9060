"""Parts of a glTF scene of Gaussians that luxel does not read, or does not draw as they say.

Sources: the Khronos specification of glTF 2.0, and the README of KHR_gaussian_splatting in the repository
KhronosGroup/glTF.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from luxel.scenes.unused import LOST, OTHER, WRONG, Unused, things_are

EXTENSION = "KHR_gaussian_splatting"
KERNEL = "ellipse"  # the only one of the extension
DRAWN = {  # how luxel draws Gaussians, in the words of the extension
    "colorSpace": "srgb_rec709_display",
    "sortingMethod": "cameraDistance",
    "projection": "perspective",
}
PROBLEMS = {
    "colorSpace": "Its colours are of the space {value!r}; luxel shows them as if they were sRGB.",
    "sortingMethod": "Its Gaussians are to be sorted by {value!r}; luxel sorts them by their distance from the camera.",
    "projection": "Its Gaussians are for the projection {value!r}; luxel draws them in perspective.",
}
REMEDY = "Export it with {key} {own!r}, if it was trained so."
ATTRIBUTE = re.compile(
    rf"POSITION|NORMAL|TANGENT|COLOR_0|{EXTENSION}:(ROTATION|SCALE|OPACITY|SH_DEGREE_[0-3]_COEF_\d)"
)
HIGHER = re.compile(rf"{EXTENSION}:SH_DEGREE_(\d+)_COEF_\d+")
# Of meshes, which are named as a whole, and lights and other data that are named apart.
WITH_MESHES = re.compile(r"KHR_(materials_|texture_|mesh_quantization|draco|lights)|EXT_(texture_|meshopt)")
INSTANCES = "EXT_mesh_gpu_instancing"
READ = {EXTENSION, "KHR_mesh_quantization"}


def unused_parts(document: dict[str, Any]) -> list[Unused]:
    """What a document holds besides its Gaussians; it is one that `luxel.scenes.files.gltf.glb.load_glb` reads."""
    nodes = _objects(document, "nodes")
    placed = _placed(document, nodes)
    meshes = _objects(document, "meshes")
    shown = [(nodes[n], meshes[nodes[n]["mesh"]]) for n in placed if isinstance(nodes[n].get("mesh"), int)]
    parts = [(node, part) for node, mesh in shown for part in _objects(mesh, "primitives")]
    splats = [(node, part) for node, part in parts if EXTENSION in _object(part, "extensions")]
    return [
        *_of_extension([_object(_object(part, "extensions"), EXTENSION) for _, part in splats]),
        *_attributes([name for _, part in splats for name in _object(part, "attributes")]),
        *_instances([node for node, _ in splats]),
        *_left_out(len(parts) - len(splats), meshes, nodes, set(placed)),
        *_other_parts(document),
        *_extensions(document),
    ]


def _objects(owner: dict[str, Any], key: str) -> list[dict[str, Any]]:
    """A list of objects; what is none is an empty one."""
    items = owner.get(key)
    return [item if isinstance(item, dict) else {} for item in items] if isinstance(items, list) else []


def _object(owner: dict[str, Any], key: str) -> dict[str, Any]:
    value = owner.get(key)
    return value if isinstance(value, dict) else {}


def _placed(document: dict[str, Any], nodes: list[dict[str, Any]]) -> list[int]:
    """The numbers of the nodes of the scene that is shown."""
    scenes, number = _objects(document, "scenes"), document.get("scene", 0)
    if scenes:
        waiting = list(scenes[number].get("nodes", []))
    else:
        children = {child for node in nodes for child in node.get("children", [])}
        waiting = [n for n in range(len(nodes)) if n not in children]
    out: dict[int, None] = {}
    while waiting:
        node = waiting.pop(0)
        if node not in out:
            out[node] = None
            waiting += nodes[node].get("children", [])
    return list(out)


def _of_extension(abouts: list[dict[str, Any]]) -> Iterator[Unused]:
    """Values and keys of the extension that luxel does not draw by."""
    for key, own in DRAWN.items():
        values = [str(about[key])[:40] for about in abouts if about.get(key, own) != own]
        if values:
            said = PROBLEMS[key].format(value=values[0])
            yield Unused(key, len(values), values[0], said, REMEDY.format(key=key, own=own), WRONG)
    keys = [key for about in abouts for key in about if key not in ("kernel", "extensions", "extras", *DRAWN)]
    if left := list(dict.fromkeys(keys)):
        said = f"{things_are(left, 'property', 'properties', f' of {EXTENSION}')} not read."
        yield Unused("properties of Gaussians", len(left), left[0], said, harm=LOST)


def _attributes(names: list[str]) -> Iterator[Unused]:
    left = [name for name in dict.fromkeys(names) if not ATTRIBUTE.fullmatch(name)]
    higher = [name for name in left if HIGHER.fullmatch(name)]
    if higher:
        said = "Spherical harmonics above degree 3 are left out, so colours change less with the direction."
        yield Unused("spherical harmonics", len(higher), higher[0], said, harm=LOST)
    if others := [name for name in left if name not in higher]:
        said = f"{things_are(others, 'attribute', of=' of the Gaussians')} not read."
        yield Unused("attributes", len(others), others[0], said, harm=LOST)


def _instances(nodes: list[dict[str, Any]]) -> Iterator[Unused]:
    count = sum(INSTANCES in _object(node, "extensions") for node in nodes)
    if count:
        said = f"{count} nodes repeat their Gaussians ({INSTANCES}); each is read once, at the position of the node."
        remedy = "Export the scene without instances."
        yield Unused("instances", count, INSTANCES, said, remedy, WRONG)


def _left_out(
    others: int,
    meshes: list[dict[str, Any]],
    nodes: list[dict[str, Any]],
    placed: set[int],
) -> Iterator[Unused]:
    """Meshes beside the Gaussians, and Gaussians of other scenes of the file."""
    if others:
        some = "a mesh" if others == 1 else f"{others} meshes"
        said = f"The scene has {some} beside its Gaussians: only the Gaussians are read."
        yield Unused("meshes", others, "mesh", said, "Export the meshes into a file of their own.", LOST)
    hidden = [
        n
        for n, node in enumerate(nodes)
        if n not in placed
        and isinstance(node.get("mesh"), int)
        and any(EXTENSION in _object(p, "extensions") for p in _objects(meshes[node["mesh"]], "primitives"))
    ]
    if hidden:
        names = [str(nodes[n].get("name", f"node {n}")) for n in hidden]
        said = f"{things_are(names, 'node', of=' with Gaussians')} not of the scene that the file shows, and left out."
        yield Unused("other scenes", len(hidden), names[0], said, harm=LOST)


def _other_parts(document: dict[str, Any]) -> Iterator[Unused]:
    """Animations, cameras and lights."""
    lights = _objects(_object(_object(document, "extensions"), "KHR_lights_punctual"), "lights")
    for key, parts, harm, about in (
        ("animation", _objects(document, "animations"), LOST, "the nodes stay where they are"),
        ("camera", _objects(document, "cameras"), OTHER, "the viewer has its own"),
        ("light", lights, OTHER, "Gaussians shine by themselves"),
    ):
        if parts:
            names = [str(part.get("name") or number) for number, part in enumerate(parts)]
            yield Unused(
                f"{key}s", len(parts), names[0], f"{things_are(names, key)} not read: {about}.", harm=harm
            )


def _extensions(document: dict[str, Any]) -> Iterator[Unused]:
    """Extensions that the file names and that are not read."""
    used = document.get("extensionsUsed")
    names = [str(name) for name in used] if isinstance(used, list) else []
    left = [name for name in names if name not in READ and name != INSTANCES and not WITH_MESHES.match(name)]
    if left:
        yield Unused(
            "extensions", len(left), left[0], f"{things_are(left, 'extension')} not read.", harm=LOST
        )
