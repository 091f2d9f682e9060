"""Every error message has a remedy and advises nothing that does not exist; what no test reaches is reported."""

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


def note_of(tree: Path, template: str, problem: str) -> dict[str, Any]:
    """What the recorder writes of a message of the odd tree."""
    line = next(site.line for site in error_sites.sites() if site.problem == template)
    return {"file": str(tree / "render" / "odd.py"), "line": line, "problem": problem}


def test_what_no_test_reaches_is_named(odd_tree: Path) -> None:
    """A table of messages is distinguished by its texts."""
    reached = error_plugin.reached_sites(
        [
            note_of(odd_tree, "{many} is too many.", "3 is too many."),
            note_of(odd_tree, "luxel odd: --n {n} is large.", "luxel odd: --n 9 is large."),
        ]
    )
    assert {site.problem for site in reached} == {"{many} is too many.", "luxel odd: --n {n} is large."}
    lines, failed = error_plugin.summary(error_plugin.chosen_sites("all"), reached)
    assert failed and lines == [
        "error messages: 2 of 5 reached",
        "error message that no test reaches: render/odd.py::read::{path}: {many} {path.stem}.",
        "error message that no test reaches: render/odd.py::Command.check::luxel odd: --n is small.",
        "error message that no test reaches: render/odd.py::read::ValueError: path must be a file, got {path}",
    ]


def test_messages_are_chosen_by_file_or_folder(odd_tree: Path) -> None:
    assert [
        len(error_plugin.chosen_sites(path)) for path in ("render", "render/", "render/odd.py", "rend")
    ] == [*(5, 5, 5, 0)]


@pytest.mark.parametrize("missing", [True, False])
def test_what_the_machine_lacks_excuses_its_messages(
    missing: bool, odd_tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Aloud, and only where it is missing."""
    large = next(site for site in error_sites.sites() if "large" in site.problem)
    need = error_plugin.Need("a GPU", lambda: missing, (large.key,))
    monkeypatch.setattr(error_plugin, "NEEDS", (need,))
    lines, failed = error_plugin.summary((large,), set())
    line = "not reached here, for want of a GPU" if missing else "that no test reaches"
    assert failed is not missing and lines[1:] == [f"error message {line}: {large.key}"]


def test_needs_name_messages_that_exist() -> None:
    keys = {site.key for site in error_sites.all_sites()}
    assert not [key for need in error_plugin.NEEDS for key in need.keys if key not in keys]


def test_a_remedy_is_compared_with_the_command_that_printed_it() -> None:
    notes = [
        {"command": "view", "remedy": "Give another folder with --run.", "test": "t.py::a[1]"},
        {"command": "train", "remedy": "Give another folder with --run.", "test": "t.py::a[1]"},
        {"command": "", "remedy": "Give --nothing.", "test": "t.py::a[1]"},
    ]
    wrong = error_plugin.wrong_remedies(notes)
    assert wrong == ["luxel view: Give another folder with --run. (--run of luxel view; t.py::a)"]


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
    noted = error_plugin.notes_in(notes)
    assert error_plugin.reached_sites(noted) == {error_sites.interface_sites()[0]}
    assert noted[0]["test"].endswith("test_raised_exceptions_are_noted_where_they_are_made")


def test_errors_of_child_processes_are_noted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(recorder.FOLDER, str(tmp_path))
    monkeypatch.setenv("PYTHONPATH", str(Path(recorder.__file__).parent), prepend=":")
    code = "import sys; from luxel.viewer.cli import main; sys.exit(main(['view', 'nothing-here']))"
    assert subprocess.run([sys.executable, "-c", code], timeout=120).returncode == 2
    (note,) = error_plugin.notes_in(tmp_path)
    assert note["command"] == "view" and "nothing-here" in note["problem"] and note["remedy"]
    assert note["file"] == str(error_sites.ROOT / "scenes" / "loading" / "scene_files.py")
    assert "test_errors_of_child_processes_are_noted" in note["test"]
