"""Policies of the tile rasterizer that are compiled at run time, as shared objects: luxel itself is not built again.

A policy is a class template of C++ (cuda/math/raster/policy.h). Once it is registered, stages take its name as they
take those of luxel's own primitives: `bin_splats`, `blend_splats`, `probe`, and the stages of labels.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from pathlib import Path

import torch

from luxel.render.jit.shared_object import cpu_object, gpu_object, load_object
from luxel.render.native import best_device, layouts, library_for
from luxel.render.ops.raster.policies import Policy, policies, policy

_SOURCE = """#define LUXEL_ABI_SHA256 "{abi}"
#line 1 "{name}"
{source}
#include "kernels/raster/policy_object.h"
LUXEL_POLICY_OBJECT({name}, {template})
"""
_registered: dict[tuple[str, str], str] = {}  # device type, name: SHA-256 of the object


def policy_object(name: str, source: str, template: str, device: torch.device | str = "cpu") -> bytes:
    """A shared object of a policy, from the user's cache or compiled, which takes some seconds.

    Args:
        name: of the policy, an identifier of C++.
        source: C++ that defines the class template; it finds luxel's headers.
        template: name of the class template of the number's type, with its namespace.
        device: "cpu", or a GPU: the object is for its compute capability.

    Raises:
        CompileError: it does not compile; with the compiler's text.
        NativeError: there is no compiler: g++, for GPUs nvcc.
        ValueError: the name is no identifier.
    """
    if not re.fullmatch(r"[A-Za-z_]\w*", name):
        raise ValueError(f"name must be an identifier, got {name!r}")
    complete_source = _SOURCE.format(abi=layouts()[2], name=name, source=source, template=template)
    target = torch.device(device)
    if target.type == "cuda":
        return gpu_object(complete_source, name, torch.cuda.get_device_capability(target))
    return cpu_object(complete_source, name)


def load_policy(content: bytes | Path, device: torch.device | str = "cpu") -> Policy:
    """Registers the policy of a shared object for a kind of device, for as long as this process lives.

    The code of the object runs in this process: load only what you would run.

    Args:
        content: the object, or its file.
        device: "cpu" or "cuda", for which it was compiled.

    Returns:
        The policy as the library of that device has it. The object is loaded once: another call returns it again.

    Raises:
        NativeError: it does not load, was compiled for another version of luxel, or its name is in use.
    """
    label = "a policy"
    if isinstance(content, Path):
        label, content = content.stem, content.read_bytes()
    library, digest = library_for(torch.device(device)), hashlib.sha256(content).hexdigest()
    for (backend, name), registered in _registered.items():
        if (backend, registered) == (library.backend, digest):
            return policies(library)[name]
    number = library.add_policy(load_object(content, label))
    policies.cache_clear()
    added = next(known for known in policies(library).values() if known.number == number)
    _registered[library.backend, added.name] = digest
    return added


def register_policy(
    name: str, source: str, template: str, devices: Sequence[torch.device | str] | None = None
) -> Policy:
    """Compiles a policy and registers it under its name.

    Args:
        name, source, template: as in `policy_object`.
        devices: for which; the CPU is always among them, because its library reports the widths of rows. None: the
            CPU, and the GPU where luxel can use one.

    Raises:
        CompileError: it does not compile; with the compiler's text.
        NativeError: there is no compiler, or the name is in use.
    """
    targets = [torch.device(device) for device in ([best_device()] if devices is None else devices)]
    for device in [torch.device("cpu"), *(target for target in targets if target.type != "cpu")]:
        load_policy(policy_object(name, source, template, device), device)
    return policy(name, "register_policy")


__all__ = ["load_policy", "policy_object", "register_policy"]
