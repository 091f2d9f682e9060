"""`luxel bench record`."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro

from luxel.render.bounds import Folder, Options, Positive
from luxel.render.errors import LuxelError
from luxel.viewer.options import DeviceName, optional, pick_device

if TYPE_CHECKING:
    from luxel.viewer.bench.record import store
    from luxel.viewer.bench.record.part import Part, Setup

README = "README.md"


@dataclass
class Record(Options):
    """Runs the complete benchmark protocol on one commit and writes its results into the documents.

    The protocol consists of parts (--list). OUT is written after each part, so that an interrupt loses only the part
    that is running; the next call runs what is missing or failed. All results must come from one commit. At the end
    results.md is written next to OUT, and the table of the README between its comments results:begin and results:end
    is replaced.

    Examples:
        luxel bench record --data captures/
        luxel bench record --data captures/ --parts raster train-chair --budget 480
        luxel bench record --merge gpu/results.json
        luxel bench record --write-docs
    """

    parts: Annotated[tuple[str, ...], optional("PART...")] = ()
    """Parts to run, by name (train-chair) or by the beginning of their names (raster); default: all."""
    data: Annotated[Path | None, Folder(), optional("DIR")] = None
    """Folder with the captures chair, fox, plush and hand, and with garden-points.npz and bonsai-7k.splat; parts
    whose data are missing are skipped. Default: none."""
    cache: Annotated[Path | None, Folder(), optional("DIR")] = None
    """Folder in which camera poses from structure from motion and rendered captures are retained for later calls;
    default: nothing is stored."""
    out: Annotated[Path, tyro.conf.arg(metavar="FILE")] = Path("docs/results.json")
    """JSON file of the results; parts that it already holds are not run again."""
    readme: Annotated[Path | None, optional("FILE")] = None
    """README whose table is replaced; default: README.md alongside the folder docs if OUT is in it, else none."""
    budget: Annotated[Positive | None, optional("SECONDS")] = None
    """Time for the complete call: a part that is expected to take longer than what is left is skipped; default: no
    limit."""
    commit: Annotated[str | None, optional("COMMIT")] = None
    """Commit of the code; default: that of the git checkout, else the environment variable LUXEL_COMMIT."""
    allow_mixed: bool = False
    """Allow results of several commits in OUT; the documents then carry a warning."""
    restart: bool = False
    """Discard the results in OUT and run all parts."""
    merge: Annotated[tuple[Path, ...], optional("FILE...")] = ()
    """Merge these result files into OUT and write the documents; nothing is measured."""
    write_docs: bool = False
    """Write the documents from OUT; nothing is measured."""
    list: bool = False
    """List the parts, the data that they need and whether they are done; nothing is measured."""
    quick: bool = False
    """Tiny sizes, to check that the parts work; OUT must not hold results of full size."""
    device: DeviceName = "auto"
    """Device to measure on; auto: the GPU if luxel can use it, else the CPU."""

    def execute(self) -> int:
        """Measures, merges or lists; returns 1 where a part failed."""
        from luxel.viewer.bench.record import document, store
        from luxel.viewer.bench.record import parts as protocol
        from luxel.viewer.bench.record.part import Setup

        parts = protocol.chosen_parts(self.parts)
        if self.quick and self.out == Record.out:
            raise LuxelError("--quick figures are no results.", "Give another file with --out.")
        results = store.Results() if self.restart else store.load_results(self.out)
        if self.list:
            print(listing(parts, results, Setup(pick_device(self.device), self.data)))
            return 0
        document.require_page(self.out.with_suffix(".md"))
        if self.merge:
            for path in self.merge:
                if not path.is_file():
                    raise LuxelError(f"{path}: there is no such file.", "Give a results.json to --merge.")
            results = store.merge([results, *map(store.load_results, self.merge)])
            self._check(results, None)
            store.save_results(self.out, results)
        elif not self.write_docs:
            results = self._measured(parts, results)
        return self._documented(results, parts)

    def _measured(self, parts: list[Part], results: store.Results) -> store.Results:
        from luxel.viewer.bench import machine
        from luxel.viewer.bench.record import store
        from luxel.viewer.bench.record.part import Setup
        from luxel.viewer.bench.record.run import run_parts

        version = self.commit if self.commit is not None else machine.commit()
        if not version and not self.quick:
            raise LuxelError(
                "The commit of the code is unknown.", "Give it with --commit, or set LUXEL_COMMIT."
            )
        if version.endswith("+"):
            print("Files have changed since the commit; the documents will say so.", file=sys.stderr)
        self._check(results, version)
        setup = Setup(pick_device(self.device), self.data, self.cache, self.quick)
        store.save_results(self.out, results)  # fails now rather than after hours

        def save(updated: store.Results) -> None:
            store.save_results(self.out, updated)

        return run_parts(parts, setup, results, version, save, budget=self.budget)

    def _check(self, results: store.Results, version: str | None) -> None:
        from luxel.viewer.bench.record import store

        if not self.allow_mixed:
            store.check_unmixed(results, version, self.quick, self.out)

    def _documented(self, results: store.Results, parts: list[Part]) -> int:
        from luxel.viewer.bench.record import document
        from luxel.viewer.bench.record import parts as protocol

        readme = self.readme
        if readme is None and self.out.resolve().parent.name == "docs":
            neighbour = self.out.resolve().parent.parent / README
            readme = neighbour if neighbour.is_file() else None
        for path in document.write_documents(results, protocol.PARTS, self.out.with_suffix(".md"), readme):
            print(f"written: {path}")
        for warning in document.warnings(results):
            print(warning.strip("*"), file=sys.stderr)
        failed = [part.name for part in parts if (r := results.parts.get(part.name)) and r.state == "failed"]
        absent = [part.name for part in parts if part.name not in results.parts]
        if failed:
            print(f"failed: {', '.join(failed)}")
        if absent:
            print(f"not measured: {', '.join(absent)}")
        return int(bool(failed))


def listing(parts: list[Part], results: store.Results, setup: Setup) -> str:
    """The parts, one a line: name, state, expected seconds, what they are, and which data are missing."""
    lines = []
    for part in parts:
        record = results.parts.get(part.name)
        state = record.state if record else "to do"
        missing = part.missing(setup)
        ends = f" (needs {', '.join(missing)})" if missing else ""
        lines.append(f"{part.name:22} {state:7} {part.seconds:4.0f} s  {part.title}{ends}")
    total = sum(part.seconds for part in parts)
    return "\n".join([*lines, f"{len(parts)} parts, about {total:.0f} s on one NVIDIA H200"])
