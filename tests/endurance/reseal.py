"""Part reseal: JSON and tensors of a run are changed and sealed anew, as anyone can; a command uses them or refuses."""

from __future__ import annotations

import hashlib
import json
import shutil
import struct
from pathlib import Path
from random import Random
from typing import Any

from luxel.render.runs.strict_json import sealed

from .processes import trial_folder
from .small_runs import COMMANDS, copied, judge, prepare_runs, use

prepare = prepare_runs
HOSTILE: list[Any] = [
    *(None, [], {}, "", True, "x", "NaN", "../../../etc/passwd", "/dev/zero", "a" * 100_000, [1] * 5000),
    *(
        -1,
        0,
        1,
        2**31,
        2**53,
        2**63 - 1,
        -(2**63),
        1e308,
        -1e308,
        1e-320,
        0.5,
        [None],
        [[]],
        {"a": {"b": {}}},
    ),
]
FILLS = {"nan": "0000c07f", "inf": "0000807f", "big": "ffff7f7f", "zeros": "00000000", "ones": "ffffffff"}
OTHER_TYPE = {"F32": "I32", "I64": "F64", "I32": "F32", "U8": "BOOL", "BOOL": "U8", "F64": "I64"}
TENSOR_CHANGES = (*FILLS, "drop", "rename", "flat", "type", "fewer rows", "no rows")


def trial(work: Path, random: Random) -> dict[str, Any]:
    """Changes a copy of a run, corrects all checksums, and uses it."""
    kind = random.choice(["splats", "splats", "image"])
    command = random.choice(COMMANDS[kind])
    folder = trial_folder(work)
    try:
        run = copied(work / "shared", kind, folder)
        what = random.choice(["config", "state", "state", "record", "tensors", "tensors"])
        change = CHANGES[what](run, random)
        if random.random() < 0.5:  # without the result, the checkpoints stand for it
            for name in ("scene.ply", "scene.json", "field.safetensors", "field.json"):
                (run / name).unlink(missing_ok=True)
        child = use(command, kind, run, folder)
        outcome, ok = judge(child)
        detail = "" if ok else child.text()[-800:]
        return {
            "kind": kind,
            "command": command,
            "what": what,
            "change": change,
            "outcome": outcome,
            "ok": ok,
            "detail": detail,
        }
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _config(run: Path, random: Random) -> str:
    """A value of config.json; its copies follow."""
    body = json.loads((run / "config.json").read_text())
    change = _put(body, random, ("sha256", "format"))
    body = sealed(body)
    _write(run / "config.json", body)
    for path in [*(run / "checkpoints").glob("*.json"), *_records(run)]:
        _write(path, sealed({**json.loads(path.read_text()), "run": body}))
    return change


def _state(run: Path, random: Random) -> str:
    """A value of the state of the newest checkpoint."""
    path = max((run / "checkpoints").glob("*.json"))
    body = json.loads(path.read_text())
    change = _put(body["state"], random)
    _write(path, sealed(body))
    return change


def _record(run: Path, random: Random) -> str:
    """A value of the record of the result."""
    path = random.choice(_records(run))
    body = json.loads(path.read_text())
    change = _put(body, random, ("sha256", "run"))
    _write(path, sealed(body))
    return change


def _tensors(run: Path, random: Random) -> str:
    """A tensor of the newest checkpoint."""
    path = max((run / "checkpoints").glob("*.json"))
    file = path.with_suffix(".safetensors")
    tensors = _read(file.read_bytes())
    name, how = random.choice(sorted(tensors)), random.choice(TENSOR_CHANGES)
    kind, shape, data = tensors[name]
    rows = shape[0] // 2 if how == "fewer rows" else 0
    if how in FILLS:
        tensors[name] = kind, shape, (bytes.fromhex(FILLS[how]) * (len(data) // 4 + 1))[: len(data)]
    elif how in ("drop", "rename"):
        del tensors[name]
        if how == "rename":
            tensors[name + "x"] = kind, shape, data
    elif how == "type":
        tensors[name] = OTHER_TYPE[kind], shape, data
    elif how == "flat":
        count = 1
        for size in shape:
            count *= size
        tensors[name] = kind, [count], data
    elif shape and shape[0]:
        tensors[name] = kind, [rows, *shape[1:]], data[: len(data) // shape[0] * rows]
    raw = _written(tensors)
    file.write_bytes(raw)
    body = json.loads(path.read_text())
    body["tensors"] |= {"bytes": len(raw), "sha256": hashlib.sha256(raw).hexdigest()}
    _write(path, sealed(body))
    return f"{name} {how}"


CHANGES = {"config": _config, "state": _state, "record": _record, "tensors": _tensors}
Tensors = dict[str, tuple[str, list[int], bytes]]  # type, shape, bytes


def _read(raw: bytes) -> Tensors:
    (length,) = struct.unpack("<Q", raw[:8])
    header, data = json.loads(raw[8 : 8 + length]), raw[8 + length :]
    return {
        name: (entry["dtype"], entry["shape"], data[slice(*entry["data_offsets"])])
        for name, entry in header.items()
        if name != "__metadata__"
    }


def _written(tensors: Tensors) -> bytes:
    header, offset = {}, 0
    for name, (kind, shape, data) in tensors.items():
        header[name] = {"dtype": kind, "shape": shape, "data_offsets": [offset, offset + len(data)]}
        offset += len(data)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text + b"".join(data for _, _, data in tensors.values())


def _records(run: Path) -> list[Path]:
    return [path for path in (run / "scene.json", run / "field.json") if path.exists()]


def _write(path: Path, body: dict[str, Any]) -> None:
    path.write_text(json.dumps(body))


def _put(body: dict[str, Any], random: Random, untouched: tuple[str, ...] = ()) -> str:
    """Replaces or removes a value anywhere in a JSON object."""
    places = [place for place in _places(body) if place[0] not in untouched]
    *above, last = random.choice(places)
    holder: Any = body
    for key in above:
        holder = holder[key]
    if isinstance(holder, dict) and random.random() < 0.15:
        del holder[last]
        return f"{[*above, last]} removed"
    holder[last] = value = random.choice(HOSTILE)
    return f"{[*above, last]} = {str(value)[:40]}"


def _places(value: Any, above: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    inner = (
        value.items() if isinstance(value, dict) else enumerate(value[:6]) if isinstance(value, list) else ()
    )
    places = [] if not above else [above]
    for key, content in inner:
        places += _places(content, (*above, key))
    return places
