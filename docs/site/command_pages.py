"""Pages of the commands, made from what `luxel COMMAND --help` prints."""

from __future__ import annotations

import contextlib
import io
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from unittest import mock

from luxel.viewer.cli import COMMANDS, main

# Further calls with --help on the page of a command. Each lists the options that the calls before it do not have.
VARIANTS: dict[str, tuple[tuple[str, ...], ...]] = {
    "train": (
        ("--strategy", "mcmc"),
        ("--strategy", "adaptive"),
        ("--primitive", "gaussians4d"),
        ("--primitive", "convexes"),
        ("--primitive", "surfels"),
        ("--field", "image"),
        ("--field", "sdf"),
        ("--field", "volume"),
        ("--field", "radiance"),
    ),
    "bench": (("raster",), ("train",), ("fields",), ("segment",), ("view",), ("compare",), ("record",)),
}
COLUMNS = "100"  # of the terminal that the help is made for; wider ones get panels side by side
PANEL = re.compile(r"╭─ (?P<title>.+?) ─*╮\n(?P<body>.*?)\n╰─*╯", re.DOTALL)
BROKEN_NUMBER = re.compile(r"(?<=\d),\s(?=\d{3}\b)")  # lines are broken after any comma
GAP = re.compile(r" {2,}")


@dataclass
class Entry:
    """An option or a positional argument: how it is written, and its help text in one line."""

    call: str
    text: str = ""


@dataclass
class Panel:
    """A titled list of options."""

    title: str
    about: list[str] = field(default_factory=list)
    entries: list[Entry] = field(default_factory=list)


@dataclass
class Help:
    """What `--help` says, in its parts; paragraphs of several lines are joined, examples keep theirs."""

    usage: str
    about: list[str]
    examples: list[str]
    panels: list[Panel]


def help_text(*arguments: str) -> str:
    """What `luxel ARGUMENTS --help` prints on a terminal of `COLUMNS`.

    Raises:
        ValueError: the command did not print a help text.
    """
    printed = io.TextIOWrapper(
        io.BytesIO(), encoding="utf-8"
    )  # the panels need an encoding that has their borders
    terminal = mock.patch.dict(os.environ, {"COLUMNS": COLUMNS, "NO_COLOR": "1"})
    with terminal, contextlib.redirect_stdout(printed):
        status = main([*arguments, "--help"])
    printed.seek(0)
    text = printed.read()
    if status != 0 or not text.startswith("usage:"):
        raise ValueError(f"`luxel {' '.join(arguments)} --help` ended with {status}: {text!r}")
    return text


def parse(text: str) -> Help:
    """Takes a help text apart."""
    head = text[: text.index("╭")] if "╭" in text else text
    usage, _, description = head.partition("\n\n")
    about, examples = [], []
    for block in re.split(r"\n\u200b?\n|\u200b", description):
        lines = [line[1:] if line.startswith(" ") else line for line in block.strip("\n").splitlines()]
        if lines and lines[0].strip() == "Examples:":
            examples = [line.strip() for line in lines[1:]]
        elif any(line.strip() for line in lines):
            about.append(" ".join(line.strip() for line in lines))
    panels = [_panel(match["title"], match["body"].splitlines()) for match in PANEL.finditer(text)]
    return Help(" ".join(usage.removeprefix("usage: ").split()), about, examples, panels)


def _panel(title: str, lines: list[str]) -> Panel:
    """A panel from its lines: a text above a rule, if there is one, then calls with texts in a column of their own."""
    panel = Panel(title)
    texts = [line.removeprefix("│ ").removesuffix("│").rstrip() for line in lines]
    rules = [index for index, line in enumerate(texts) if line.strip() and set(line.strip()) == {"─"}]
    if rules:
        paragraphs = "\n".join(texts[: rules[0]]).split("\n\n")
        panel.about = [BROKEN_NUMBER.sub(",", " ".join(paragraph.split())) for paragraph in paragraphs]
        texts = texts[rules[0] + 1 :]
    for line in texts:
        words = " ".join(line.split())
        if words.startswith("•"):  # a subcommand
            name, _, about = words.removeprefix("• ").partition(" ")
            panel.entries.append(Entry(name, about))
        elif line.startswith(" ") and panel.entries:
            text = f"{panel.entries[-1].text} {words}".strip()
            panel.entries[-1].text = BROKEN_NUMBER.sub(",", text)
        elif title == "subcommands":
            panel.about.append(words)
        elif words:
            call, *text = GAP.split(line.strip(), maxsplit=1)
            panel.entries.append(Entry(call, text[0] if text else ""))
    return panel


def page(command: str) -> str:
    """The Markdown page of a command."""
    full = parse(help_text(command))
    lines = [f"# luxel {command}", "", *_description(full), *_panels(full.panels, set(), level=2)]
    known = {entry.call for panel in full.panels for entry in panel.entries}
    for variant in VARIANTS.get(command, ()):
        parsed = parse(help_text(command, *variant))
        title = f"`luxel {command} {' '.join(variant)}`"
        further = list(_panels(parsed.panels, known, level=3))
        lines += [f"## {title}", ""]
        if parsed.about != full.about:
            lines += _description(parsed)
        elif further:
            lines += [f"Options that {title} has besides:", ""]
        lines += further
        known |= {entry.call for panel in parsed.panels for entry in panel.entries}
    return "\n".join(lines) + "\n"


def _description(parsed: Help) -> Iterator[str]:
    yield from ("```text", parsed.usage, "```", "")
    for paragraph in parsed.about:
        yield from (_escaped(paragraph), "")
    if parsed.examples:
        yield from ("```sh", *parsed.examples, "```", "")


def _panels(panels: list[Panel], known: set[str], level: int) -> Iterator[str]:
    """Lists of the options that are not known yet."""
    for panel in panels:
        entries = [entry for entry in panel.entries if entry.call not in known and "--help" not in entry.call]
        if not entries:
            continue
        yield from ("#" * level + f" {_panel_title(panel.title)}", "")
        for paragraph in panel.about:
            yield from (_escaped(paragraph), "")
        for entry in entries:
            yield from (f"`{entry.call}`", f": {_escaped(entry.text) or '(see above)'}", "")


def _panel_title(title: str) -> str:
    """`rates options` holds the options that begin with `--rates.`; other titles are words."""
    group = re.fullmatch(r"(\S+) options", title)
    return f"Options `--{group[1]}.*`" if group else title[0].upper() + title[1:]


def _escaped(text: str) -> str:
    """Help text as Markdown: options and quoted code stay code, nothing else is markup."""
    pieces = re.split(r"(`[^`]*`)", text)
    for index in range(0, len(pieces), 2):
        plain = re.sub(r"([\\*_<>\[\]|#])", r"\\\1", pieces[index])
        pieces[index] = re.sub(
            r"(?<![\w-])(--[a-z][\w.-]*\w)", lambda m: f"`{m[1]}`".replace("\\", ""), plain
        )
    return "".join(pieces)


def pages() -> dict[str, str]:
    """File names below `commands/` and the text of their pages, the list of commands first."""
    rows = [f"* [`luxel {name}`]({name}.md): {about}" for name, (_, about) in COMMANDS.items()]
    listed = "\n".join(COMMANDS)
    index = (
        "# Commands\n\nThese pages are made from the help of each command, which `luxel COMMAND --help` prints.\n\n"
        + "\n".join(rows)
        + f"\n\n```{{toctree}}\n:hidden:\n\n{listed}\n```\n"
    )
    return {"index.md": index, **{f"{name}.md": page(name) for name in COMMANDS}}
