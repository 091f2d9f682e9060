"""Whether what an error message advises exists: commands, options, packages, targets of make, variables."""

from __future__ import annotations

import ast
import contextlib
import io
import os
import re
import tomllib
from functools import cache
from unittest import mock

import error_sites
from error_sites import ROOT, Site

from luxel.render.fields.applications import FieldName
from luxel.render.primitives import PRIMITIVES
from luxel.viewer.cli import COMMANDS, main
from luxel.viewer.commands.bench import SUBCOMMANDS

OPTION = re.compile(r"(?<![\w-])--[a-z][\w.-]*[\w]")
COMMAND = re.compile(r"\bluxel ([a-z]+)\b")
# A command with what follows it: options, VALUES, {names}.
CALL = re.compile(
    rf"\bluxel (?:{'|'.join(COMMANDS)})(?: (?:{'|'.join(SUBCOMMANDS)})\b)?"
    r"(?: (?:--[a-z][\w-]*|[A-Z]+\b|{[^}]*}))+"
)
PACKAGE = re.compile(r"pip install ((?:--[\w-]+ )*)'?([^\s'`)]+)")
VARIABLE = re.compile(r"\bLUXEL_[A-Z_]+\b")


def options_of(command: str) -> frozenset[str]:
    """The options in the help text of a command, whatever it is used for."""
    owners = {strategy: spec.name for spec in PRIMITIVES.values() for strategy in spec.strategies}
    uses = {
        "train": [
            *(["--primitive", spec.name] for spec in PRIMITIVES.values()),
            *(["--primitive", owner, "--strategy", strategy] for strategy, owner in owners.items()),
            *(["--field", field] for field in FieldName.__args__),
        ],
        "bench": [[name] for name in SUBCOMMANDS],
    }
    return frozenset().union(*(_shown(command, *words) for words in uses.get(command, [[]])))


@cache
def _shown(*words: str) -> frozenset[str]:
    text = io.StringIO()
    narrow = mock.patch.dict(os.environ, {"COLUMNS": "80", "NO_COLOR": "1"})  # one column of boxes
    with narrow, contextlib.redirect_stdout(text):
        assert main([*words, "--help"]) == 0, words
    lines = [line.strip(" │|") for line in text.getvalue().splitlines()]
    return frozenset(
        option for line in lines if line.startswith("-") for option in OPTION.findall(line.split("  ")[0])
    )


@cache
def all_options() -> dict[str, frozenset[str]]:
    """Options by command."""
    return {command: options_of(command) for command in COMMANDS}


@cache
def known_packages() -> frozenset[str]:
    """What may be installed by name: luxel with its extras, and what it depends on."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    required = [*project["dependencies"], *(name for names in extras.values() for name in names)]
    names = {re.split(r"[<>=\[]", name)[0] for name in required}
    return frozenset({"luxel", *names, *(f"luxel[{extra}]" for extra in extras)})


@cache
def known_variables() -> frozenset[str]:
    """Environment variables that the code reads."""
    texts = (
        node.value
        for path in error_sites.source_files()
        for node in ast.walk(error_sites.tree_of(path))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    )
    return frozenset(text for text in texts if VARIABLE.fullmatch(text))


def wrong_advice(text: str, commands: frozenset[str] | set[str] = frozenset(COMMANDS)) -> list[str]:
    """What a text names that does not exist.

    Args:
        text: a message and its remedy.
        commands: those that can print it; an option must be one of theirs, or of the command named before it.
    """
    wrong = []
    for sentence in re.split(r"(?<=[.;:)`]) ", text):
        wrong += _wrong_options(sentence, commands)
    for flags, name in PACKAGE.findall(text):
        bare = re.split(r"[<>=]", name.rstrip(".,;"))[0]
        if bare not in known_packages() and not bare.startswith(("git+", "{")):
            wrong.append(f"pip install {flags}{name}")
    targets = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    wrong += [f"make {name}" for name in re.findall(r"`make ([\w-]+)`", text) if name not in targets]
    return wrong + [name for name in VARIABLE.findall(text) if name not in known_variables()]


def _wrong_options(sentence: str, commands: frozenset[str] | set[str]) -> list[str]:
    wrong: list[str] = []
    named = [match for match in COMMAND.finditer(sentence) if match[1] in COMMANDS]
    wrong += [f"luxel {name}" for name in re.findall(r"`luxel ([a-z]\w*)", sentence) if name not in COMMANDS]
    for option in OPTION.finditer(sentence):
        pip = re.search(r"pip install[^`;]*$", sentence[: option.start()])
        before = [match[1] for match in named if match.start() < option.start() and match[1] in COMMANDS]
        owners = set(before[-1:]) or commands
        if not pip and not any(option[0] in all_options()[owner] for owner in owners):
            wrong.append(f"{option[0]} of luxel {' or '.join(sorted(owners))}")
    return wrong


@cache
def commands_that_import() -> dict[str, frozenset[str]]:
    """By source file: the commands whose modules import it, at any depth."""
    import source_tree

    graph, paths = source_tree.import_graph(), source_tree.modules()
    result: dict[str, set[str]] = {}
    for command in COMMANDS:
        reached, left = set(), [f"luxel.viewer.commands.{command}"]
        while left:
            name = left.pop()
            if name not in reached:
                reached.add(name)
                left += graph.get(name, ())
        for name in reached & paths.keys():
            result.setdefault(str(paths[name]), set()).add(command)
    return {path: frozenset(commands) for path, commands in result.items()}


def wrong_at(site: Site) -> list[str]:
    """What the message of a place names that does not exist in any command that can raise it."""
    commands = commands_that_import().get(site.path) or frozenset(COMMANDS)
    return wrong_advice(f"{site.problem} {site.remedy}", commands)


def calls_advised() -> set[str]:
    """The commands with arguments that remedies name, such as "luxel train --resume RUN"; values of the code: RUN."""
    return {
        re.sub(r"{[^}]*}", "RUN", match[0])
        for site in error_sites.sites()
        for match in CALL.finditer(site.remedy)
    }


def options_advised() -> set[str]:
    """The options that remedies name outside of whole commands, but for those to be left out."""
    advised = set()
    for site in error_sites.sites():
        text = re.sub(r"pip install[^`;]*", "", CALL.sub("", site.remedy))
        text = re.sub(r"(?:[Ll]eave|Omit|without) --[\w-]+(?: out)?", "", text)
        advised |= set(OPTION.findall(text))
    return advised
