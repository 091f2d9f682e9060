"""Part databases: altered databases of COLMAP, mapped in a process of its own; luxel gets poses or a message."""

from __future__ import annotations

import os
import re
import shutil
import signal
import sqlite3
from contextlib import closing
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

from luxel.scenes.captures.colmap_process import features, launch
from luxel.scenes.captures.colmap_process.reconstruction import DATABASE
from luxel.scenes.captures.demo import demo_path
from luxel.scenes.captures.poses import sfm
from luxel.scenes.errors import CaptureError

from .mutators import mutate
from .processes import trial_folder

COUNT = 6  # photographs
LONGEST = 60  # seconds, after which the process is interrupted
RAW = 0.2  # share of databases whose bytes are altered; of the others it is values of cells
NUMBERS = (-(2**63), -(2**31), -5, -1, 0, 1, 2, 3, 4, 6, 128, 1000, 2**31 - 1, 2**31, 2**32, 2**62)
TABLES = ("cameras", "frame_data", "frames", "images", "keypoints", "descriptors", "matches", "rigs")


def ignore(stage: str, fraction: float) -> None:
    """Progress that is not shown."""


def prepare(work: Path) -> None:
    """Leaves the working folder of an interrupted estimation, whose photographs are matched."""
    photographs = work / "shared" / "photographs"
    photographs.mkdir(parents=True)
    for file in sorted((demo_path() / "images").glob("*.jpg"))[:COUNT]:
        shutil.copyfile(file, photographs / file.name)
    features.FEATURE_IMAGE_SIZE, features.FEATURES = 400, 1024
    os.environ["XDG_CACHE_HOME"] = str(work / "shared" / "cache")

    def interrupt(stage: str, fraction: float) -> None:
        if stage.startswith("placing"):
            raise KeyboardInterrupt

    try:
        sfm.estimate_poses(photographs, photographs, on_progress=interrupt)
    except KeyboardInterrupt:
        (folder,) = (work / "shared/cache/luxel/working").iterdir()
        folder.rename(work / "shared/matched")


def trial(work: Path, random: Random) -> dict[str, Any]:
    """Alters one database and maps the photographs by it."""
    folder = trial_folder(work) / "matched"
    shutil.copytree(work / "shared/matched", folder, symlinks=True)
    signal.signal(signal.SIGALRM, _interrupt)
    try:
        how = _alter(folder / DATABASE, random)
        names = [f"{row:06d}.jpg" for row in range(COUNT)]
        signal.alarm(LONGEST)
        launch.run_task(
            "reconstruct",
            folder,
            ignore,
            capture="photographs",
            names=names,
            stored_names=names,
            lenses=[names],
        )
        outcome, ok = "poses", True
    except CaptureError as error:
        ended = re.match(r"COLMAP (ended with \w+( \d+)?|failed)", error.problem)
        outcome, ok = ended.group() if ended else "refused", bool(error.remedy) and "\n" not in str(error)
    except TimeoutError:
        outcome, ok = f"interrupted after {LONGEST} seconds", True
    except Exception as error:
        outcome, ok = f"{type(error).__name__}: {error}"[:200], False
    finally:
        signal.alarm(0)
        shutil.rmtree(folder.parent, ignore_errors=True)
    return {"outcome": outcome, "ok": ok, "altered": how}


def _interrupt(number: int, frame: object) -> None:
    raise TimeoutError


def _alter(database: Path, random: Random) -> str:
    """Alters a database in place; returns what was altered."""
    if random.random() < RAW:
        data = database.read_bytes()
        database.write_bytes(mutate(data, np.random.default_rng(random.getrandbits(64))))
        for name in ("-wal", "-shm"):
            database.with_name(database.name + name).unlink(missing_ok=True)
        return "bytes"
    with closing(sqlite3.connect(database)) as opened:
        cells = []
        for _ in range(random.choice((1, 1, 2, 5))):
            table = random.choice((*TABLES, "two_view_geometries"))
            columns = [row[1] for row in opened.execute(f"pragma table_info({table})")]
            column = random.choice(columns)
            rows = [row[0] for row in opened.execute(f"select rowid from {table}")]
            chosen = rows if random.random() < 0.3 else random.sample(rows, min(len(rows), 1))
            for row in chosen:
                (value,) = opened.execute(f"select {column} from {table} where rowid=?", (row,)).fetchone()
                try:
                    opened.execute(
                        f"update {table} set {column}=? where rowid=?", (_other(value, random), row)
                    )
                except sqlite3.IntegrityError:  # of a key that another row has
                    continue
            cells.append(f"{table}.{column}")
        opened.commit()
    return " ".join(cells)


def _other(value: Any, random: Random) -> Any:
    """Another value for a cell."""
    if isinstance(value, bytes) and random.random() < 0.8:
        return mutate(value, np.random.default_rng(random.getrandbits(64)))
    if isinstance(value, float):
        return random.choice((float("inf"), -1.0, 0.0, 1e300, 5e-324))
    return random.choice((*NUMBERS, random.getrandbits(31), b"", "text", random.randbytes(64)))
