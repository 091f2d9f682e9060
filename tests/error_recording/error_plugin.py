"""pytest's part of the record of errors: which places were reached by which test (see error_sites.py).

Test processes of pytest-xdist and child processes of tests write to a folder that an environment variable names.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import error_sites
import pytest
import recorder
from error_sites import Site

HERE = Path(__file__).resolve().parent


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--error-sites",
        choices=("write", "check"),
        help="note which test reaches which error message; write: into tests/error_sites.json; check: fail where a "
        "message was reached by none",
    )


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("error_sites") and not hasattr(config, "workerinput"):
        os.environ[recorder.FOLDER] = tempfile.mkdtemp(prefix="luxel-errors-")
        os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(HERE), os.environ.get("PYTHONPATH")]))
    if os.environ.get(recorder.FOLDER):
        from luxel.render import errors

        recorder.install(errors)


@pytest.hookimpl(wrapper=True)
def pytest_sessionfinish(session: pytest.Session) -> Iterator[None]:
    yield
    config = session.config
    task = config.getoption("error_sites")
    if not task or hasattr(config, "workerinput") or config.option.collectonly:
        return
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    skipped = {report.nodeid: _reason(report) for report in reporter.stats.get("skipped", [])}
    notes = notes_in(Path(os.environ[recorder.FOLDER]))
    tests = tests_by_site(notes)
    missing: list[str] = []
    if task == "write":
        added = merge(tests)
        lines = [f"error messages: {added} tests noted, {len(error_sites.not_reached())} reached by none"]
    elif config.option.keyword or config.option.markexpr or not session.testscollected:
        lines = ["error messages: not all checked, as tests were deselected"]
    else:
        lines, missing = summary(tests, skipped)
    wrong = wrong_remedies(notes)
    lines += [f"error message with a wrong remedy: {line}" for line in wrong]
    if (missing or wrong) and session.exitstatus == 0:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
    for line in lines:
        reporter.write_line(line)


def _reason(report: pytest.TestReport) -> str:
    where = report.longrepr
    return where[2].removeprefix("Skipped: ") if isinstance(where, tuple) else str(where)


def notes_in(folder: Path) -> list[dict[str, Any]]:
    """What the processes of a run wrote (recorder.py)."""
    lines = [line for file in sorted(folder.glob("*.jsonl")) for line in file.read_text().splitlines()]
    return [json.loads(line) for line in lines if line.endswith("}")]  # others: killed while they wrote


def tests_by_site(notes: list[dict[str, Any]]) -> dict[Site, set[str]]:
    """The tests that reached each place."""
    by_file: dict[str, list[Site]] = {}
    for site in error_sites.all_sites():
        by_file.setdefault(str(error_sites.ROOT / site.path), []).append(site)
    result: dict[Site, set[str]] = {}
    for note in notes:
        here = [site for site in by_file.get(note["file"], []) if site.line <= note["line"] <= site.last]
        for site in here:
            if len(here) == 1 or site.made(note["problem"]):  # a table of messages has one call
                result.setdefault(site, set()).add(note["test"])
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


def merge(tests: dict[Site, set[str]]) -> int:
    """Writes new tests into error_sites.json and takes out places that are no more; returns how many are new.

    A test that is there stays. Of several new ones that one is taken that reaches the fewest places.
    """
    table, added = error_sites.reached(), 0
    table = {site.key: table[site.key] for site in error_sites.all_sites() if site.key in table}
    reaches: dict[str, int] = {}
    for ids in tests.values():
        for name in {plain(test) for test in ids}:
            reaches[name] = reaches.get(name, 0) + 1
    for site, ids in tests.items():
        if not error_sites.test_exists(table.get(site.key, {}).get("test", "")):
            best = min({plain(test) for test in ids}, key=lambda name: (reaches[name], name))
            table[site.key] = {"test": best}
            added += 1
    error_sites.write_reached(table)
    return added


def plain(test: str) -> str:
    """The id of a test without its parameters."""
    return test.partition("[")[0]


def summary(tests: dict[Site, set[str]], skipped: dict[str, str]) -> tuple[list[str], list[str]]:
    """What to print at the end of a run, and the keys of places that no test reached without a reason."""
    table, missing, excused = error_sites.reached(), [], []
    reasons = {plain(test): reason for test, reason in skipped.items()}
    for site in error_sites.all_sites():
        if site in tests:
            continue
        entry = table.get(site.key, {})
        reason = entry.get("not here") or reasons.get(entry.get("test", ""))
        (excused if reason else missing).append(f"{site.key}: {reason}" if reason else site.key)
    lines = [f"error messages: {len(tests)} of {len(error_sites.all_sites())} reached"]
    lines += [f"error message not reached here: {line}" for line in excused]
    lines += [f"error message that no test reaches: {line}" for line in missing]
    return lines, missing
