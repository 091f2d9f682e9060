"""Every error message is reached by a test, has a remedy, and advises nothing that does not exist."""

from __future__ import annotations

import builtins
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import error_advice
import error_plugin
import error_sites
import pytest
import raises
import recorder

HOW = "run `python -m pytest FILE --error-sites write` with the file of the test that reaches it"


def test_every_message_is_reached_by_a_test() -> None:
    missing = error_sites.not_reached()
    assert not missing, f"write a test for each, then {HOW}: {missing}"


def test_the_list_of_messages_is_up_to_date() -> None:
    gone = error_sites.reached().keys() - {site.key for site in error_sites.all_sites()}
    assert not gone, f"these messages are no more; {HOW}: {sorted(gone)}"
    assert error_sites.PAGE.read_text() == error_sites.page(), (
        "run `python tests/error_sites.py --write`: docs/errors.md is not up to date"
    )


def test_every_message_has_a_remedy() -> None:
    bare = [site.key for site in error_sites.sites() if not site.remedy and not site.forwards]
    assert not bare, f"say what to do: {bare}"


def test_every_exception_of_the_interface_has_a_message() -> None:
    bare = [site.key for site in error_sites.interface_sites() if len(site.problem.split()) < 3]
    assert not bare, f"name the argument and what is expected: {bare}"


def test_messages_advise_what_exists() -> None:
    wrong = {site.key: names for site in error_sites.sites() if (names := error_advice.wrong_at(site))}
    assert not wrong


@pytest.mark.parametrize(
    ("text", "commands", "wrong"),
    [
        ("Choose another folder (--output).", {"train"}, ["--output of luxel train"]),
        ("Choose another folder (--run).", {"train", "view"}, []),
        ("Render it with `luxel render SCENE --path path.json`.", {"view"}, []),
        ("luxel train --resume RUN --path p.json", {"render"}, ["--path of luxel train"]),
        ("See `luxel repair`.", {"view"}, ["luxel repair"]),
        ("Use pip install 'luxel[gsplat]'.", {"view"}, []),
        (
            "Use pip install --force-reinstall luxel-kernels.",
            {"view"},
            ["pip install --force-reinstall luxel-kernels."],
        ),
        ("Run `make builds`.", {"view"}, ["make builds"]),
        ("Set LUXEL_SPEED or LUXEL_NATIVE_DIR.", {"view"}, ["LUXEL_SPEED"]),
        ("Give --split.cap-max, --rates.means or --log2-entries.", {"train"}, []),
    ],
)
def test_wrong_advice_is_noticed(text: str, commands: set[str], wrong: list[str]) -> None:
    assert error_advice.wrong_advice(text, commands) == wrong


SOURCE = """
from luxel.render.errors import LuxelError
AGAIN = "Export it again."
class OddError(LuxelError):
    pass
def read(path, many):
    remedy = "Lower it."
    if many:
        raise LuxelError(f"{path}: {', '.join(sorted(many))} {path.stem!r}.", AGAIN)
    if path is None:
        raise ValueError(
            f"path must be a file, got {path}"
        )
    raise OddError(f"{len(many)} is " + "too many.", remedy)
class Command:
    def check(self):
        wrong = [(self.n < 1, "--n is small."), (self.n > 2, f"--n {self.n} is large.")]
        for is_wrong, message in wrong:
            if is_wrong:
                raise LuxelError(f"luxel odd: {message}", "Correct it.")
"""


@pytest.fixture
def odd_tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A tree of one file with four messages and a built-in exception."""
    (tmp_path / "render").mkdir()
    (tmp_path / "render" / "odd.py").write_text(SOURCE)
    names = ("sites", "interface_sites", "source_files", "tree_of", "error_classes", "_text")
    cached = [getattr(error_sites, name) for name in names]
    for name in cached:
        name.cache_clear()
    monkeypatch.setattr(error_sites, "ROOT", tmp_path)
    monkeypatch.setattr(error_sites, "REACHED", tmp_path / "reached.json")
    yield tmp_path
    for name in cached:
        name.cache_clear()


def test_messages_are_read_from_the_code(odd_tree: Path) -> None:
    assert [(site.function, site.problem, site.remedy) for site in error_sites.sites()] == [
        ("read", "{path}: {many} {path.stem}.", "Export it again."),
        ("read", "{many} is too many.", "Lower it."),
        ("Command.check", "luxel odd: --n is small.", "Correct it."),
        ("Command.check", "luxel odd: --n {n} is large.", "Correct it."),
    ]
    (raised,) = error_sites.interface_sites()
    assert raised.key == "render/odd.py::read::ValueError: path must be a file, got {path}"
    assert len(error_sites.not_reached()) == 5
    messages, interface = error_sites.page().split(error_sites.INTERFACE_HEAD)
    assert "| {many} is too many. | Lower it. | none yet |" in messages
    assert "| ValueError | path must be a file, got {path} | none yet |" in interface


def test_notes_become_a_table_of_tests(odd_tree: Path) -> None:
    """Of two tests the one that reaches less is named; a table of messages is distinguished by its texts."""
    lines = {site.problem: site.line for site in error_sites.sites()}

    def note(template: str, problem: str, test: str) -> dict[str, object]:
        file = str(odd_tree / "render" / "odd.py")
        return {"file": file, "line": lines[template], "problem": problem, "test": test}

    reached = error_plugin.tests_by_site(
        [
            note("{many} is too many.", "3 is too many.", "tests/a.py::test_all"),
            note("{many} is too many.", "3 is too many.", "tests/b.py::test_one[3]"),
            note("luxel odd: --n {n} is large.", "luxel odd: --n 9 is large.", "tests/a.py::test_all"),
        ]
    )
    assert {site.problem: tests for site, tests in reached.items()} == {
        "{many} is too many.": {"tests/a.py::test_all", "tests/b.py::test_one[3]"},
        "luxel odd: --n {n} is large.": {"tests/a.py::test_all"},
    }
    assert error_plugin.merge(reached) == 2
    table = {key.rsplit("::")[-1]: entry for key, entry in error_sites.reached().items()}
    assert table["{many} is too many."] == {"test": "tests/b.py::test_one"}
    lines_printed, missing = error_plugin.summary(reached, {})
    assert len(missing) == 3 and lines_printed[0] == "error messages: 2 of 5 reached"


def test_a_remedy_is_compared_with_the_command_that_printed_it() -> None:
    notes = [
        {"command": "view", "remedy": "Give another folder with --run.", "test": "t.py::a[1]"},
        {"command": "train", "remedy": "Give another folder with --run.", "test": "t.py::a[1]"},
        {"command": "", "remedy": "Give --nothing.", "test": "t.py::a[1]"},
    ]
    wrong = error_plugin.wrong_remedies(notes)
    assert wrong == ["luxel view: Give another folder with --run. (--run of luxel view; t.py::a)"]


def test_a_skipped_test_excuses_its_message(odd_tree: Path) -> None:
    large = error_sites.sites()[-1]
    error_sites.write_reached({large.key: {"test": "tests/c.py::test_gpu"}})
    lines, missing = error_plugin.summary({}, {"tests/c.py::test_gpu[cuda]": "no GPU"})
    assert len(missing) == 4 and f"error message not reached here: {large.key}: no GPU" in lines


def test_raised_exceptions_are_noted_where_they_are_made(
    odd_tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The place that is noted is that of the list, and the exception is the one that was raised."""
    notes = tmp_path / "notes"
    notes.mkdir()
    monkeypatch.setenv(recorder.FOLDER, str(notes))
    monkeypatch.setattr(builtins, raises.NOTE, raises.noted, raising=False)
    file = odd_tree / "render" / "odd.py"
    names: dict[str, Any] = {}
    exec(compile(raises.with_notes(file.read_bytes(), str(file)), str(file), "exec"), names)
    with pytest.raises(ValueError, match=r"^path must be a file, got None$"):
        names["read"](None, [])
    reached = error_plugin.tests_by_site(error_plugin.notes_in(notes))
    (name,) = reached.pop(error_sites.interface_sites()[0])
    assert not reached and name.endswith("test_raised_exceptions_are_noted_where_they_are_made")


def test_errors_of_child_processes_are_noted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(recorder.FOLDER, str(tmp_path))
    monkeypatch.setenv("PYTHONPATH", str(Path(recorder.__file__).parent), prepend=":")
    code = "import sys; from luxel.viewer.cli import main; sys.exit(main(['view', 'nothing-here']))"
    assert subprocess.run([sys.executable, "-c", code], timeout=120).returncode == 2
    (note,) = error_plugin.notes_in(tmp_path)
    assert note["command"] == "view" and "nothing-here" in note["problem"] and note["remedy"]
    assert note["file"] == str(error_sites.ROOT / "scenes" / "runs.py")
    assert "test_errors_of_child_processes_are_noted" in note["test"]
