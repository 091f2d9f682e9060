"""Writes the table of tasks into docs/viewer.md: python tests/viewer/web/tasks/write_table.py"""

from __future__ import annotations

import re
import sys
from pathlib import Path

HERE = Path(__file__).resolve()
DOCS = HERE.parents[4] / "docs" / "viewer.md"
TABLE = re.compile(r"^\| task \| with \| actions \|\n(?:\|.*\n)*", re.MULTILINE)


def main() -> None:
    sys.path[:0] = [str(HERE.parent), *(str(folder) for folder in HERE.parents[1:3])]  # as pytest has them
    from page_tasks import table

    text, count = TABLE.subn(lambda _: table() + "\n", DOCS.read_text())
    assert count == 1, f"{DOCS}: there is no table of tasks"
    DOCS.write_text(text)


if __name__ == "__main__":
    main()
