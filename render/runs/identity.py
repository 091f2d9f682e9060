"""Which run a file belongs to: a random number given when the run starts, carried by its config.json, by every
checkpoint and by the record of its result."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Sequence
from typing import Annotated, Any

import msgspec
import numpy as np
import torch

from luxel.render.geometry.camera import View
from luxel.render.runs.strict_json import JsonError, digest_of, require_seal, validated

FORMAT = 2  # of config.json and checkpoints: 1 has neither checksums of JSON nor identities
KEY = "identity"  # in config.json
CPU = "cpu"  # in its versions: see `luxel.render.native.cpu_instructions`

Digest = Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{64}$")]


class Identity(msgspec.Struct, frozen=True):
    """The identity of a run, which never changes.

    Args:
        id: random.
        config: digest of the configuration that the run was started with.
        capture: digest of what it is trained on, see `data_digest`; empty: not known.
        unchecked_until: the run was started by a version without checksums, and its files up to this step have none;
            -1: all have them.
    """

    id: Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{32}$")]
    config: Digest
    capture: Annotated[str, msgspec.Meta(pattern="^([0-9a-f]{64})?$")] = ""
    unchecked_until: Annotated[int, msgspec.Meta(ge=-1)] = -1

    @staticmethod
    def new(config: dict[str, Any], capture: str = "", unchecked_until: int = -1) -> Identity:
        """The identity of a run that starts."""
        return Identity(secrets.token_hex(16), digest_of(config), capture, unchecked_until)


class _Body(msgspec.Struct):
    """The entries of config.json that every run has, or may have."""

    config: dict[str, Any]
    format: Annotated[int, msgspec.Meta(ge=1)] = 1
    identity: Identity | None = None
    versions: dict[str, Any] = {}
    seed: int | None = None
    device: str = ""
    extent: float | None = None
    background: str = ""
    views: dict[str, list[str]] = {}
    changes: list[dict[str, Any]] = []


def identity_in(body: dict[str, Any]) -> Identity | None:
    """The identity in the content of a config.json, checked; None: of a version that wrote none.

    Raises:
        JsonError: an entry is missing or of a wrong type, the content does not match its digest, or it is of a newer
            version.
    """
    known = validated(body, _Body)
    if known.format > FORMAT:
        raise JsonError(f"format {known.format} is of a newer version of luxel")
    if known.identity is None and known.format == 1 and "sha256" not in body:
        return None
    require_seal(body)
    if known.identity is None:
        raise JsonError("it does not say which run it belongs to")
    return known.identity


def views_digest(views: Sequence[View]) -> str:
    """Digest of the names and sizes of views, in their order."""
    return digest_of([[view.name, view.camera.width, view.camera.height] for view in views])


def data_digest(data: Any) -> str:
    """Digest of what a field is trained on: of views as `views_digest`, of arrays and meshes their content, of
    images on disk parts of it (`luxel.render.fields.data.tiled_image.TiledImage`); of anything else empty."""
    if hasattr(data, "content_digest"):
        return data.content_digest()
    views = getattr(data, "views", data)
    if isinstance(views, Sequence) and views and all(isinstance(view, View) for view in views):
        return views_digest(views)
    arrays = [getattr(data, name) for name in ("xyz", "faces") if hasattr(data, name)] or [data]
    if not all(isinstance(array, np.ndarray | torch.Tensor) for array in arrays):
        return ""
    digest = hashlib.sha256()
    for array in arrays:
        plain = np.ascontiguousarray(
            array.detach().cpu().numpy() if isinstance(array, torch.Tensor) else array
        )
        digest.update(f"{plain.dtype.str} {plain.shape};".encode())
        digest.update(plain.reshape(-1).view(np.uint8).data)
    return digest.hexdigest()
