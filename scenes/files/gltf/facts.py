"""What a .glb file says of its scene, in the axes of glTF."""

from __future__ import annotations

from luxel.scenes.files.gltf.document import Document
from luxel.scenes.files.gltf.writing import OWN_EXTRAS
from luxel.scenes.files.scene_facts import facts_from
from luxel.scenes.files.scene_format import SceneFacts


def facts_of(document: Document) -> SceneFacts:
    """What the extras of the asset say; where luxel did not write them: y is up, the unit is a metre."""
    extras = document.asset.extras
    own = extras.get(OWN_EXTRAS) if isinstance(extras, dict) else None
    return facts_from(own) if isinstance(own, dict) else SceneFacts(up=(0.0, 1.0, 0.0), metres=1.0)
