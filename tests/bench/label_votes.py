"""Votes of label maps and label images against the colour forward pass, with 16 and with 255 labels.

A short form of `luxel bench segment --only times`, which says what is measured, and what the goals are.

How to run
    python tests/bench/label_votes.py FILE [--sizes 960x540] [--labels 16 255] [--device cuda] [--iterations 200]
    FILE: a scene file or a run folder; terrain: a synthetic scene of a million Gaussians, of 20,000 without a GPU.
"""

from __future__ import annotations

import sys

from luxel.viewer.cli import main

if __name__ == "__main__":
    if len(sys.argv) < 2 or sys.argv[1].startswith("-"):
        sys.exit(__doc__)
    file, *options = sys.argv[1:]
    scene = [] if file == "terrain" else ["--scene", file]
    sys.exit(main(["bench", "segment", "--only", "times", *scene, "--sizes", "960x540", *options]))
