"""results.json: what was measured, part by part, each with its commit, date and machine."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from luxel.render.errors import LuxelError
from luxel.render.runs.strict_json import LARGEST
from luxel.render.storage.descriptors import open_regular
from luxel.render.storage.single import write_file
from luxel.viewer.bench.report import plain
from luxel.viewer.reports.evaluation_report import writing

FORMAT = 1


@dataclass(frozen=True)
class PartRecord:
    """The result of one part.

    Args:
        state: whether it ended without an error.
        commit: that ran; empty: unknown.
        dirty: whether files had changed since that commit.
        quick: whether sizes were tiny, so that its figures are meaningless.
        date: start, ISO 8601 in UTC.
        seconds: wall time.
        machine: of `luxel.viewer.bench.machine.machine_facts`; the command is in it.
        rows: of the part's table.
        error: of a part that failed: type of the exception and first line of its message.
    """

    state: Literal["done", "failed"]
    commit: str
    dirty: bool
    quick: bool
    date: str
    seconds: float
    machine: dict[str, Any]
    rows: list[dict[str, Any]] = field(default_factory=list)
    error: str = ""

    @property
    def version(self) -> str:
        """The commit, with "+" where files had changed since."""
        return self.commit + ("+" if self.dirty else "")


@dataclass(frozen=True)
class Results:
    """The parts that were run, by name."""

    parts: dict[str, PartRecord] = field(default_factory=dict)

    @property
    def done(self) -> dict[str, PartRecord]:
        """The parts that have figures."""
        return {name: part for name, part in self.parts.items() if part.state == "done"}

    @property
    def versions(self) -> list[str]:
        """The commits that the figures come from, in the order in which they appear."""
        return list(dict.fromkeys(part.version for part in self.done.values()))

    @property
    def quick(self) -> bool:
        """Whether any figure is of tiny sizes."""
        return any(part.quick for part in self.done.values())

    def with_part(self, name: str, record: PartRecord) -> Results:
        """A copy of these results with a part added or replaced."""
        return replace(self, parts={**self.parts, name: record})


def load_results(path: Path) -> Results:
    """Reads results.json; empty results where there is no such file.

    Raises:
        LuxelError: the file cannot be read, or is not of this version.
    """
    if not path.exists():
        return Results()
    try:
        with open_regular(path) as file:
            body = json.loads(file.read(LARGEST + 1))
        if body["kind"] != "record" or body["format"] != FORMAT:
            raise ValueError(f"kind {body['kind']!r}, format {body['format']!r}")
        return Results({name: PartRecord(**values) for name, values in body["parts"].items()})
    except OSError as error:
        raise LuxelError(
            f"{path}: {error.strerror}.", "Give a results.json of `luxel bench record`."
        ) from error
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise LuxelError(
            f"{path}: these are no results that this luxel can read ({error}).",
            "Give a results.json of `luxel bench record`, or measure anew with --restart.",
        ) from error


def save_results(path: Path, results: Results) -> None:
    """Writes results.json, whole or not at all.

    Raises:
        LuxelError: the file cannot be written.
    """
    parts = {name: asdict(record) for name, record in results.parts.items()}
    body = {"kind": "record", "format": FORMAT, "parts": parts}
    with writing(path.parent):
        write_file(path, (json.dumps(plain(body), indent=1, allow_nan=False) + "\n").encode())


def merge(all_results: Iterable[Results]) -> Results:
    """Joins results: a part with figures replaces one without, a later one an earlier one."""
    parts: dict[str, PartRecord] = {}
    for results in all_results:
        for name, record in results.parts.items():
            known = parts.get(name)
            if known is None or (record.state == "done", record.date) > (known.state == "done", known.date):
                parts[name] = record
    return Results(parts)


def check_unmixed(results: Results, version: str | None, quick: bool, path: Path) -> None:
    """Refuses figures of several commits, or of tiny and of real sizes, in one file.

    Args:
        results: what the file would hold.
        version: commit of the figures that are to be added; None: none are.
        quick: whether these are of tiny sizes.
        path: of the file, for the message.

    Raises:
        LuxelError: they are mixed.
    """
    versions = results.versions
    if version is not None and version not in versions:
        versions.append(version)
    if len(versions) > 1:
        raise LuxelError(
            f"{path}: the figures would come from {len(versions)} commits: "
            f"{', '.join(known[:12] or 'unknown' for known in versions)}.",
            "Measure all parts on one commit: --restart discards what is in the file. --allow-mixed keeps both, and "
            "the documents say so.",
        )
    kinds = {record.quick for record in results.done.values()} | ({quick} if version is not None else set())
    if len(kinds) > 1:
        raise LuxelError(
            f"{path}: figures of --quick and real ones would be mixed.", "Give another file with --out."
        )
