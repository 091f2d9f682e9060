"""What a benchmark ran on: device, driver, clocks, versions, commit."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import subprocess
import sys
from pathlib import Path
from typing import Any

import torch

from luxel.viewer.doctor import processor

PACKAGES = ("luxel", "torch", "numpy", "gsplat", "tinycudann")


def machine_facts(device: torch.device) -> dict[str, Any]:
    """Processor or GPU, driver, clocks, versions and the commit that runs.

    The commit is that of the checkout that holds this file, else LUXEL_COMMIT.
    """
    facts: dict[str, Any] = {
        "device": str(device),
        "processor": processor(),
        "commit": commit(),
        "python": platform.python_version(),
        "cuda": torch.version.cuda,
        "command": " ".join([Path(sys.argv[0]).name, *sys.argv[1:]]),
    }
    for name in PACKAGES:
        try:
            facts[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            facts[name] = None
    if device.type == "cuda":
        facts["gpu"] = torch.cuda.get_device_name(device)
        facts["gpu_memory_gb"] = torch.cuda.get_device_properties(device).total_memory / 1e9
        facts["gpu_state"] = gpu_state(device)
    return facts


def commit() -> str:
    """The commit of the checkout, with "+" where code has changed since; LUXEL_COMMIT where there is none."""
    here = str(Path(__file__).resolve().parent)
    # Only a checkout of luxel counts, not one that an installed luxel happens to lie in.
    inside = _output(["git", "-C", here, "ls-files", "--error-unmatch", Path(__file__).name])
    revision = _output(["git", "-C", here, "rev-parse", "HEAD"]) if inside else ""
    if revision:
        # Documents, those with the figures among them, change nothing that is measured.
        code = [":(top)", ":(top,exclude)docs", ":(top,exclude,glob)**/*.md"]
        changed = _output(["git", "-C", here, "status", "--porcelain", "-uno", "--", *code])
        return revision + ("+" if changed else "")
    return os.environ.get("LUXEL_COMMIT", "")


def gpu_state(device: torch.device) -> dict[str, str]:
    """Driver, clocks, power and temperature as nvidia-smi gives them now; empty where nvidia-smi fails."""
    fields = [
        "driver_version",
        "clocks.sm",
        "clocks.max.sm",
        "clocks.mem",
        "power.draw",
        "power.limit",
        "temperature.gpu",
        "pstate",
    ]
    query = ["nvidia-smi", f"--query-gpu={','.join(fields)}", "--format=csv,noheader"]
    # nvidia-smi numbers all devices, torch the visible ones: the UUID identifies the same one in both.
    uuid = getattr(torch.cuda.get_device_properties(device), "uuid", "")
    line = (_output([*query, f"--id=GPU-{uuid}"]) or _output(query)).splitlines()
    return dict(zip(fields, (part.strip() for part in line[0].split(",")), strict=False)) if line else {}


def _output(command: list[str]) -> str:
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=30, check=True).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return ""
