"""The published scenes on the rasterizer, beside gsplat where it is installed: a short form of `luxel bench raster`.

How to run
    python tests/bench/raster_against_gsplat.py --data FOLDER [--out FOLDER] [--no-quality] [--no-gsplat]
    FOLDER holds bonsai-7k.splat and garden-points.npz. Writes raster.json, raster.md and raster.html into --out after
    each row and prints the table last. --quick takes about a minute on a large GPU. Without a GPU:
    --sizes 120x68 --rows garden-g1 --quick
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import sys

import torch

from luxel.viewer.cli import main as luxel


def main(arguments: list[str] | None = None) -> int:
    """Runs the rows that were asked for; 0 if each could be measured in full."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", required=True)
    parser.add_argument("--out", default=os.environ.get("OUT", "."))
    parser.add_argument("--rows", nargs="+", default=["bonsai", "garden"], help="names of scenes")
    parser.add_argument("--sizes", nargs="+", default=[], help="instead of those that the goals are for")
    parser.add_argument("--iterations", type=int)
    parser.add_argument("--quick", action="store_true", help="few iterations and tiles")
    parser.add_argument("--no-gsplat", action="store_true")
    parser.add_argument("--no-quality", action="store_true", help="times only")
    options = parser.parse_args(arguments)
    words = ["bench", "raster", "--data", options.data, "--out", options.out, "--only", *options.rows]
    words += ["--sizes", *options.sizes] if options.sizes else []
    words += ["--iterations", str(options.iterations)] if options.iterations else []
    words += ["--quick"] if options.quick else []
    words += ["--no-quality"] if options.no_quality else []
    if torch.cuda.is_available() and importlib.util.find_spec("gsplat") and not options.no_gsplat:
        words += ["--against", "gsplat"]
    return luxel(words)


if __name__ == "__main__":
    sys.exit(main())
