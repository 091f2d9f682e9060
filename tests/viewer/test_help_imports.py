"""Help texts come without torch and the other large packages, so that they come at once."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from luxel.render.fields.applications import APPLICATIONS
from luxel.render.primitives import PRIMITIVES
from luxel.viewer.cli import COMMANDS
from luxel.viewer.commands.bench import SUBCOMMANDS

# What takes more than 20 ms to import and that a help text has no use for.
LARGE = (
    *(
        "torch",
        "numpy",
        "scipy",
        "cv2",
        "PIL",
        "av",
        "viser",
        "websockets",
        "pycolmap",
        "rich",
        "safetensors",
    ),
    *("msgspec", "zstandard", "simplejpeg", "imageio", "multiprocessing"),
)
OF_CHOICES = [
    *(["train", "--primitive", name] for name in PRIMITIVES),
    *(
        ["train", "--primitive", name, "--preset", choice]
        for name, s in PRIMITIVES.items()
        for choice in s.presets
    ),
    *(
        ["train", "--primitive", name, "--strategy", one]
        for name, s in PRIMITIVES.items()
        for one in s.strategies
    ),
]
OF_FIELDS = [["train", "--field", name, "--device", "cpu"] for name in APPLICATIONS]
HELPS = [
    [],
    *([name] for name in COMMANDS),
    *(["bench", name] for name in SUBCOMMANDS),
    *OF_CHOICES,
    *OF_FIELDS,
]
CODE = """
import contextlib, io, json, sys
from luxel.viewer.cli import main
large, helps = json.loads(sys.argv[1])
for words in [*helps, ["--version"]]:
    with contextlib.redirect_stdout(io.StringIO()) as text:
        status = main(words if words == ["--version"] else [*words, "--help"])
    loaded = [name for name in large if name in sys.modules]
    if status or not text.getvalue() or loaded:
        sys.exit(f"{' '.join(words)}: status {status}, {len(text.getvalue())} characters, loads {loaded}")
"""


def test_help_loads_nothing_large() -> None:
    """One process prints the help of each command and of each choice that options depend on, then the version."""
    run = subprocess.run(
        [sys.executable, "-c", CODE, json.dumps([LARGE, HELPS])], capture_output=True, text=True, timeout=300
    )
    assert run.returncode == 0, run.stderr


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["train", "--primitive", "nothing", "--help"], "There is no primitive 'nothing'"),
        (["train", "--field", "sdf", "--extent", "box", "--device", "cpu"], "belongs to --field radiance"),
        (["train", "--mcmc.growth", "1"], "belongs to --strategy mcmc"),
    ],
)
def test_wrong_options_are_refused_without_torch(words: list[str], message: str) -> None:
    code = "import sys; from luxel.viewer.cli import main; print(main(sys.argv[1:]), 'torch' in sys.modules)"
    run = subprocess.run([sys.executable, "-c", code, *words], capture_output=True, text=True, timeout=300)
    assert run.stdout.split() == ["2", "False"] and message in run.stderr, run.stderr
