"""pytest's option --error-sites: every error message of the source (error_sites.py) is reached by a test of the run.

Test processes of pytest-xdist and child processes of tests write to a folder that an environment variable names.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import error_sites
import pytest
import recorder
from error_sites import Site

HERE = Path(__file__).resolve().parent


@dataclass(frozen=True)
class Need:
    """Messages whose tests need something that a machine may lack: where it is missing they need not be reached.

    Args:
        name: what the tests need.
        missing: whether it is missing here.
        keys: those of the places (`Site.key`).
    """

    name: str
    missing: Callable[[], bool]
    keys: tuple[str, ...]


def _no_gpu() -> bool:
    from luxel.render.native import cuda_problem

    return cuda_problem() is not None


NEEDS: tuple[Need, ...] = (
    Need(
        "a GPU",
        _no_gpu,
        (
            "render/ops/field/field.py::_check::ValueError: field: no kernel on {x.device} for x of {x.shape} "
            "dimensions, table of {table.shape} features, {network}",
            "render/ops/raster/label_votes.py::_run::ValueError: label_votes: votes must be [N, columns] on "
            "{device}: fine tables are for the CPU only",
        ),
    ),
)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--error-sites",
        metavar="PATH",
        help="fail where an error message of the source file or folder is reached by no test of this run; "
        "all: of every source file",
    )


def pytest_configure(config: pytest.Config) -> None:
    path = config.getoption("error_sites")
    if path and not hasattr(config, "workerinput"):
        if not chosen_sites(path):
            raise pytest.UsageError(
                f"--error-sites: {path} has no error messages; give all, or such as render/bounds.py"
            )
        os.environ[recorder.FOLDER] = tempfile.mkdtemp(prefix="luxel-errors-")
        os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(HERE), os.environ.get("PYTHONPATH")]))
    if os.environ.get(recorder.FOLDER):
        from luxel.render import errors

        recorder.install(errors)


@pytest.hookimpl(wrapper=True)
def pytest_sessionfinish(session: pytest.Session) -> Iterator[None]:
    yield
    config = session.config
    path = config.getoption("error_sites")
    if not path or hasattr(config, "workerinput"):
        return
    folder = Path(os.environ[recorder.FOLDER])
    notes = notes_in(folder)
    shutil.rmtree(folder, ignore_errors=True)
    if config.option.collectonly:
        return
    lines, failed = summary(chosen_sites(path), reached_sites(notes))
    wrong = wrong_remedies(notes)
    lines += [f"error message with a wrong remedy: {line}" for line in wrong]
    if (failed or wrong) and session.exitstatus == 0:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
    for line in lines:
        config.pluginmanager.get_plugin("terminalreporter").write_line(line)


def chosen_sites(path: str) -> tuple[Site, ...]:
    """The places in a source file or folder, relative to the root; all: every place."""
    below = path.rstrip("/") + "/"
    return tuple(s for s in error_sites.all_sites() if path == "all" or f"{s.path}/".startswith(below))


def notes_in(folder: Path) -> list[dict[str, Any]]:
    """What the processes of a run wrote (recorder.py)."""
    lines = [line for file in sorted(folder.glob("*.jsonl")) for line in file.read_text().splitlines()]
    return [json.loads(line) for line in lines if line.endswith("}")]  # others: killed while they wrote


def reached_sites(notes: list[dict[str, Any]]) -> set[Site]:
    """The places that the tests reached."""
    by_file: dict[str, list[Site]] = {}
    for site in error_sites.all_sites():
        by_file.setdefault(str(error_sites.ROOT / site.path), []).append(site)
    result = set()
    for note in notes:
        here = [site for site in by_file.get(note["file"], []) if site.line <= note["line"] <= site.last]
        result |= {
            site for site in here if len(here) == 1 or site.made(note["problem"])
        }  # a table has one call
    return result


def wrong_remedies(notes: list[dict[str, Any]]) -> list[str]:
    """Remedies that name what the command that printed them does not have."""
    import error_advice

    said = {(note["command"], note["remedy"], plain(note["test"])) for note in notes if note["command"]}
    return sorted(
        f"luxel {command}: {remedy} ({', '.join(wrong)}; {test})"
        for command, remedy, test in said
        if (wrong := error_advice.wrong_advice(remedy, {command}))
    )


def plain(test: str) -> str:
    """The id of a test without its parameters."""
    return test.partition("[")[0]


def summary(sites: tuple[Site, ...], reached: set[Site]) -> tuple[list[str], bool]:
    """What to print at the end of a run about some places, and whether one was not reached without a reason."""
    needs = {key: need.name for need in NEEDS if need.missing() for key in need.keys}
    left = [site.key for site in sites if site not in reached]
    missing = [key for key in left if key not in needs]
    lines = [f"error messages: {len(sites) - len(left)} of {len(sites)} reached"]
    lines += [
        f"error message not reached here, for want of {needs[key]}: {key}" for key in left if key in needs
    ]
    lines += [f"error message that no test reaches: {key}" for key in missing]
    return lines, bool(missing)
