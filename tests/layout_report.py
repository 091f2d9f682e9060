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
    """Pairs of folders of which each imports the other, neither inside the other, with the number of imports."""
    paths = modules()
    imports: dict[tuple[str, str], list[str]] = defaultdict(list)
    for name, others in import_graph().items():
        for other in others:
            pair = (str(paths[name].parent), str(paths[other].parent))
            imports[pair].append(f"{name} > {other}")
    return [
        f"{one} ({len(imports[one, other])}) <-> {other} ({len(imports[other, one])}): "
        + ", ".join(min(imports[one, other], imports[other, one], key=len)[:SHOWN]).replace("luxel.", "")
        for one, other in sorted(imports)
        if one < other and (other, one) in imports and not other.startswith(f"{one}/")
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
