"""Every place of the code that makes an error for the user: its message and its remedy, read from the source.

`sites` are those of LuxelError, which ends a command with a problem and a remedy; `interface_sites` are the built-in
exceptions that functions raise for arguments that do not fit: their message is one text that has to name the argument
and what is expected. Not listed: luxel's exceptions that are always caught and turned into one of these (Refused,
JsonError, RunEnded, OutOfBounds), render/reference, which production does not import, viewer/bench, whose own
failures are those of a measurement and not of what a user gave, and the messages of the native libraries, which are
C++ and are tested beside their functions.

``python -m pytest --error-sites all`` (`make test-all`) notes which places the tests reach and fails where none does
(error_recording/); docs/site/error_page.py makes a page of all messages.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PRODUCTION = ("render", "scenes", "viewer")
BUILTINS = ("ValueError", "TypeError", "RuntimeError", "NotImplementedError", "AttributeError")
NOT_LISTED = ("render/reference/", "viewer/bench/")  # built-in exceptions of these are nobody's interface


@dataclass(frozen=True)
class Site:
    """A call that makes a LuxelError or, at a raise statement, a built-in exception.

    Args:
        path: source file, relative to the root.
        function: dotted name of the enclosing function; "" at the level of the module.
        line, last: lines of the call.
        problem, remedy: texts, with {names} for values; a built-in exception has its text as the problem.
        repeat: number of earlier calls in that function with the same problem.
        kind: class of a built-in exception; "" for LuxelError and what is derived from it.
    """

    path: str
    function: str
    line: int
    last: int
    problem: str
    remedy: str
    repeat: int = 0
    kind: str = ""

    @property
    def key(self) -> str:
        """What identifies the place while lines move."""
        again = f" ({self.repeat + 1})" if self.repeat else ""
        kind = f"{self.kind}: " if self.kind else ""
        return f"{self.path}::{self.function}::{kind}{self.problem}{again}"

    def made(self, problem: str) -> bool:
        """Whether a text may be that of this place."""
        parts = (".*" if value else re.escape(text) for text, value in pieces(self.problem))
        return re.fullmatch("".join(parts), " ".join(problem.split())) is not None

    @property
    def forwards(self) -> bool:
        """Whether it passes on the problem of another error."""
        return not "".join(text for text, is_value in pieces(self.problem) if not is_value).strip(" :;.-")


def pieces(text: str) -> Iterator[tuple[str, bool]]:
    """The parts of a template, each with whether it stands for a value."""
    start, depth = 0, 0
    for i, letter in enumerate(text):
        if letter == "{":
            if depth == 0:
                yield text[start:i], False
                start = i + 1
            depth += 1
        elif letter == "}" and depth:
            depth -= 1
            if depth == 0:
                yield text[start:i], True
                start = i + 1
    yield text[start:], False


@cache
def tree_of(path: str) -> ast.Module:
    return ast.parse(_text(path))


@cache
def source_files() -> tuple[str, ...]:
    paths = [
        p for folder in PRODUCTION for p in (ROOT / folder).rglob("*.py") if "__pycache__" not in p.parts
    ]
    return tuple(sorted(str(p.relative_to(ROOT)) for p in paths))


@cache
def error_classes() -> frozenset[str]:
    """Names of LuxelError and of all classes derived from it."""
    heads = re.compile(r"^class (\w+)\((\w+)\)", re.MULTILINE)
    bases = dict(pair for path in source_files() for pair in heads.findall(_text(path)))
    names = {"LuxelError"}
    while more := {name for name, base in bases.items() if base in names} - names:
        names |= more
    return frozenset(names)


@cache
def sites() -> tuple[Site, ...]:
    """All places that make a LuxelError, in the order of files and lines."""
    calls = re.compile(rf"\b(?:{'|'.join(error_classes())})\(")
    return tuple(site for path in source_files() if calls.search(_text(path)) for site in _sites_of(path))


@cache
def interface_sites() -> tuple[Site, ...]:
    """All raise statements of built-in exceptions, in the order of files and lines."""
    paths = [path for path in source_files() if not path.startswith(NOT_LISTED)]
    return tuple(site for path in paths for site in _sites_of(path, interface=True))


def all_sites() -> tuple[Site, ...]:
    """`sites`, then `interface_sites`."""
    return sites() + interface_sites()


def _sites_of(path: str, interface: bool = False) -> list[Site]:
    result: list[Site] = []

    def visit(node: ast.AST, scope: tuple[str, ...], functions: tuple[ast.AST, ...]) -> None:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            inner = functions if isinstance(node, ast.ClassDef) else (node, *functions)
            scope, functions = (*scope, node.name), inner
        call = raised_call(node) if interface else node
        names = BUILTINS if interface else error_classes()
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id in names:
            for clause in clauses(call, path, functions) or [None]:
                result.append(_site(path, ".".join(scope), functions, call, result, clause))
        for child in ast.iter_child_nodes(node):
            visit(child, scope, functions)

    visit(tree_of(path), (), ())
    return result


def raised_call(node: ast.AST) -> ast.Call | None:
    """The call of a statement such as ``raise ValueError(...)``."""
    return node.exc if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call) else None


def _site(
    path: str,
    function: str,
    functions: tuple[ast.AST, ...],
    call: ast.Call,
    earlier: list[Site],
    clause: tuple[str, str] | None,
) -> Site:
    named = {word.arg: word.value for word in call.keywords}
    given = dict(zip(("problem", "remedy"), call.args, strict=False)) | named
    problem, remedy = (
        " ".join(template(given[name], path, functions).split()) if name in given else ""
        for name in ("problem", "remedy")
    )
    if clause:
        problem = " ".join(problem.replace(f"{{{clause[0]}}}", clause[1]).split())
    name = ast.unparse(call.func)
    kind = name if name in BUILTINS else ""
    repeat = sum((site.function, site.kind, site.problem) == (function, kind, problem) for site in earlier)
    return Site(path, function, call.lineno, call.end_lineno or call.lineno, problem, remedy, repeat, kind)


def clauses(call: ast.Call, path: str, functions: tuple[ast.AST, ...]) -> list[tuple[str, str]]:
    """Where a call stands in ``for wrong, message in table``, the name of the message and each one of the table.

    The table is a list of pairs that the function itself or a method of the same file makes.
    """
    for loop in ast.walk(functions[0]) if functions else ():
        if not isinstance(loop, ast.For) or not any(node is call for node in ast.walk(loop)):
            continue
        if not (isinstance(loop.target, ast.Tuple) and isinstance(loop.target.elts[-1], ast.Name)):
            continue
        makers, name = functions[:1], loop.target.elts[-1].id
        if isinstance(loop.iter, ast.Call) and isinstance(loop.iter.func, ast.Attribute):
            method = loop.iter.func.attr
            makers = tuple(
                n for n in ast.walk(tree_of(path)) if isinstance(n, ast.FunctionDef) and n.name == method
            )
        pairs = (
            entry
            for maker in makers
            for table in ast.walk(maker)
            if isinstance(table, ast.List)
            for entry in table.elts
            if isinstance(entry, ast.Tuple) and len(entry.elts) == len(loop.target.elts)
        )
        return [(name, template(pair.elts[-1], path, functions)) for pair in pairs if _is_text(pair.elts[-1])]
    return []


def template(node: ast.AST, path: str, functions: tuple[ast.AST, ...] = ()) -> str:
    """The text that an expression makes, with {names} for values."""
    if isinstance(node, ast.Constant):
        return str(node.value)
    if isinstance(node, ast.JoinedStr):
        return "".join(template(part, path, functions) for part in node.values)
    if isinstance(node, ast.FormattedValue):
        return template(node.value, path, functions)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        return template(node.left, path, functions) + template(node.right, path, functions)
    if isinstance(node, ast.IfExp):
        return f"{template(node.body, path, functions)} / {template(node.orelse, path, functions)}"
    if isinstance(node, ast.Name):
        texts = assigned_texts(node.id, path, functions)
        return " / ".join(texts) if texts else f"{{{node.id}}}"
    return f"{{{placeholder(node)}}}"


def assigned_texts(name: str, path: str, functions: tuple[ast.AST, ...]) -> list[str]:
    """The texts assigned to a name, in the innermost function that does so or in its module; [] for other values."""
    for scope in functions:
        inner = [
            n
            for n in ast.walk(scope)
            if isinstance(n, ast.Assign) and any(isinstance(t, ast.Name) and t.id == name for t in n.targets)
        ]
        parameters = scope.args if isinstance(scope, (ast.FunctionDef, ast.AsyncFunctionDef)) else None
        if inner or (parameters and name in {a.arg for a in (*parameters.args, *parameters.kwonlyargs)}):
            return [template(n.value, path) for n in inner if _is_text(n.value)]
    for node in tree_of(path).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == name and _is_text(node.value):
            return [template(node.value, path)]
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("luxel."):
            module = Path(*(node.module or "").split(".")[1:])
            files = [p for p in (f"{module}.py", f"{module}/__init__.py") if (ROOT / p).is_file()]
            for alias in node.names:
                if (alias.asname or alias.name) == name and files:
                    return assigned_texts(alias.name, files[0], ())
    return []


def _is_text(node: ast.AST) -> bool:
    if isinstance(node, ast.IfExp):
        return _is_text(node.body) and _is_text(node.orelse)
    if isinstance(node, ast.BinOp):
        return _is_text(node.left) or _is_text(node.right)
    return isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and isinstance(node.value, str))


def placeholder(node: ast.AST) -> str:
    """A short name of a value."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        return ast.unparse(node).removeprefix("self.") if _plain(node) else node.attr
    if isinstance(node, ast.Call):
        return placeholder(node.args[0] if node.args else node.func)
    if isinstance(node, ast.Subscript):
        return placeholder(node.value)
    if isinstance(node, (ast.GeneratorExp, ast.ListComp)):
        return placeholder(node.generators[0].iter)
    names = [n.id for n in ast.walk(node) if isinstance(n, ast.Name)]
    return names[0] if names else "..."


def _plain(node: ast.AST) -> bool:
    return isinstance(node, ast.Name) or (isinstance(node, ast.Attribute) and _plain(node.value))


def test_exists(test: str) -> bool:
    """Whether a file holds a test of that id (file::[class::]function)."""
    path, _, function = test.partition("::")
    if not (ROOT / path).is_file():
        return False
    name = function.rsplit("::", 1)[-1]
    return re.search(rf"^ *(?:async )?def {name}\(", _text(path), re.MULTILINE) is not None


@cache
def _text(path: str) -> str:
    return (ROOT / path).read_text()
