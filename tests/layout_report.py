"""``python tests/layout_report.py`` prints where the tree grows: it judges nothing and always succeeds.

The ten largest files and folders, the longest chain of imports, and pairs of folders that import each other.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from functools import cache

from source_tree import CODE, FOLDERS, ROOT, circles, files, import_graph, modules

SHOWN = 10


def largest_files() -> list[str]:
    """Source files by their number of lines."""
    sizes = {str(path): (ROOT / path).read_text().count("\n") for path in files(*FOLDERS, suffixes=CODE)}
    return [f"{size:5} {path}" for path, size in Counter(sizes).most_common(SHOWN)]


def fullest_folders() -> list[str]:
    """Folders by the number of source files directly in them."""
    members = Counter(str(path.parent) for path in files(*FOLDERS, suffixes=CODE))
    return [f"{count:5} {folder}" for folder, count in members.most_common(SHOWN)]


def longest_chain() -> list[str]:
    """The longest chain of imports, ended by a module that imports none of luxel; imports in a circle do not count."""
    graph = import_graph()
    circle_of = {name: number for number, circle in enumerate(circles(graph)) for name in circle}

    @cache
    def chain(name: str) -> tuple[str, ...]:
        others = [
            other for other in sorted(graph[name]) if circle_of.get(name, -1) != circle_of.get(other, -2)
        ]
        return (name, *max(map(chain, others), key=len, default=()))

    longest = max(map(chain, sorted(graph)), key=len, default=())
    return [f"{len(longest):5} {' > '.join(name.removeprefix('luxel.') for name in longest)}"]


def mutual_pairs() -> list[str]:
    """Pairs of sibling rooms of which each imports the other, with the number of imports and the fewer of them.

    A room is a folder with all that is below it, or a file beside it; of each import the two siblings count at which
    the paths of its modules part.
    """
    paths = {name: path.with_suffix("").parts for name, path in modules().items()}
    imports: dict[tuple[str, str], list[str]] = defaultdict(list)
    for name, others in import_graph().items():
        for other in others:
            one, two = paths[name], paths[other]
            depth = next((i for i, (a, b) in enumerate(zip(one, two, strict=False)) if a != b), None)
            if depth is not None:
                rooms = ("/".join(one[: depth + 1]), "/".join(two[: depth + 1]))
                imports[rooms].append(f"{name} > {other}".replace("luxel.", ""))
    return [
        f"{one} ({len(imports[one, two])}) <-> {two} ({len(imports[two, one])}): "
        + ", ".join(min(imports[one, two], imports[two, one], key=len)[:SHOWN])
        for one, two in sorted(imports)
        if one < two and (two, one) in imports
    ]


def main() -> None:
    for title, lines in {
        "largest files": largest_files(),
        "folders with most source files": fullest_folders(),
        "longest chain of imports": longest_chain(),
        "folders that import each other": mutual_pairs(),
    }.items():
        print(f"{title}:", *lines, sep="\n  ")


if __name__ == "__main__":
    main()
