"""What options of other programs are called here, for those who type them by habit.

The names are those of nerfstudio, gsplat, Brush, LichtFeld Studio, instant-ngp and the training script of Kerbl et al.
2023.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

CAPTURE = "the capture has no option, it follows the command: luxel {command} CAPTURE"
SCENE = "the run or scene file has no option, it follows the command: luxel {command} RUN"
HERE = {
    "train": {
        **dict.fromkeys(
            (
                "--iterations",
                "--iter",
                "--max-num-iterations",
                "--num-iterations",
                "--max-steps",
                "--total-steps",
            ),
            "--steps",
        ),
        **dict.fromkeys(
            (
                "--out",
                "--output",
                "--output-dir",
                "--output-path",
                "--result-dir",
                "--model-path",
                "-m",
                "-o",
            ),
            "--run",
        ),
        **dict.fromkeys(
            ("--data", "--data-dir", "--data-path", "--source-path", "--source", "-s", "-d"), CAPTURE
        ),
        **dict.fromkeys(("--cap-max", "--max-cap", "--max-splats", "--max-gs"), "--max-gaussians"),
        **dict.fromkeys(
            ("--resolution", "-r", "--data-factor", "--downscale-factor", "--resize-factor"), "--max-size"
        ),
        **dict.fromkeys(("--test-every", "--eval-split-every", "--eval-interval"), "--holdout-every"),
        **dict.fromkeys(
            ("--load-dir", "--load-checkpoint", "--start-checkpoint", "--load-snapshot", "--ckpt"), "--resume"
        ),
        **dict.fromkeys(("--gui", "--viewer", "--vis", "--with-viewer"), "--view"),
        "--disable-viewer": "there is no viewer without --view",
    },
    "view": dict.fromkeys(
        ("--ckpt", "--load-config", "--load-snapshot", "--scene", "-m", "--model-path"), SCENE
    ),
    "render": {
        **dict.fromkeys(("--ckpt", "--load-config", "--scene", "-m", "--model-path"), SCENE),
        **dict.fromkeys(("--output", "--output-path", "-o"), "--out"),
    },
    "export": {
        **dict.fromkeys(("--ckpt", "--load-config", "--scene", "-m", "--model-path"), SCENE),
        **dict.fromkeys(("--output", "--output-dir", "--output-path", "-o"), "--out"),
    },
    "eval": {
        **dict.fromkeys(("--ckpt", "--load-config", "-m", "--model-path"), SCENE),
        **dict.fromkeys(("--output", "--output-path", "-o"), "--out"),
    },
}


def names_here(command: str, arguments: Sequence[str]) -> Iterator[str]:
    """A sentence for each argument that is an option of another program."""
    table = HERE.get(command, {})
    for word in arguments:
        option = word.partition("=")[0]
        meant = table.get(option.replace("_", "-"), "")
        if meant.startswith("--"):
            yield f"{option} is called {meant} here."
        elif meant:
            yield f"{option}: {meant.format(command=command)}."
