"""Shows that a change of the code changes no result: 50 steps on the CPU of every primitive, strategy and field.

    python tests/equivalence.py record FOLDER --luxel OLD/.venv/bin/luxel
    python tests/equivalence.py compare FOLDER --luxel .venv/bin/luxel

Only the command line is used, so that any two versions can be compared. FOLDER holds the tensors of the last
checkpoint of each case, the pixels of an image, and on what they were computed; versions are comparable only on the
same processor with the same number of threads.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from safetensors.torch import load_file

STEPS = 50
DENSE = ("refine-start", "10"), ("refine-every", "10"), ("refine-stop", "45")
SEEDED = ["--device", "cpu", "--seed", "3", "--steps", str(STEPS)]
QUICK = ["--no-lpips", "--no-check-capture", "--max-size", "96", "--init.max-points", "2000"]
SCENES = """
from luxel.scenes import dynamic_scene, save_dnerf
from luxel.scenes.synthetic.{module} import default_camera_samples
import sys, pathlib
samples = default_camera_samples(12, 0, 2, static=False, width=64, height=64, radius=2.8)
save_dnerf(dynamic_scene(1), pathlib.Path(sys.argv[1]), samples, points=2000)
"""
MESH = "v 0 0 0\nv 1 0 0\nv 0 1 0\nv 0 0 1\nf 1 3 2\nf 1 2 4\nf 1 4 3\nf 2 3 4\n"


def refined(strategy: str) -> list[str]:
    """Options with which a strategy adds and removes primitives several times within the steps."""
    if strategy in ("split", "mcmc"):  # their windows are shares of the run
        return ["--strategy", strategy, f"--{strategy}.cap-max", "6000"]
    if strategy == "shaping":
        return ["--strategy", strategy, "--shaping.refine-stop", "25000", "--shaping.grow-sigma", "0"]
    return [
        "--strategy",
        strategy,
        *(word for name, value in DENSE for word in (f"--{strategy}.{name}", value)),
    ]


def cases(still: str, moving: str, made: Path) -> dict[str, list[str]]:
    """The arguments of `luxel train` of each case."""
    result = {}
    for primitive in ("gaussians", "surfels"):
        for strategy in ("split", "mcmc", "adaptive"):
            result[f"{primitive}-{strategy}"] = [still, "--primitive", primitive, *refined(strategy)]
        result[f"{primitive}-fixed"] = [still, "--primitive", primitive, "--strategy", "fixed"]
    result["convexes-shaping"] = [still, "--primitive", "convexes", *refined("shaping")]
    result["convexes-fixed"] = [still, "--primitive", "convexes", "--strategy", "fixed"]
    result["gaussians4d-spacetime"] = [moving, "--primitive", "gaussians4d", *refined("spacetime")]
    result["gaussians4d-fixed"] = [moving, "--primitive", "gaussians4d", "--strategy", "fixed"]
    result["learned-views"] = [
        still,
        "--exposure",
        "affine",
        "--refine-poses",
        "--ignore-transients",
        "--batch",
        "2",
    ]
    result["dense-adam"] = [
        still,
        "--no-sparse-adam",
        "--antialiased",
        "--suppress-floaters",
        "--downweight-blur",
    ]
    for field, data in (("image", made / "image.png"), ("sdf", made / "mesh.obj"), ("radiance", still)):
        result[f"field-{field}"] = [
            str(data),
            "--field",
            field,
            *(["--batch", "4096"] if field == "radiance" else []),
        ]
    return result


def run(luxel: str, words: list[str]) -> None:
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}
    done = subprocess.run([luxel, *words], capture_output=True, text=True, env=environment)
    if done.returncode:
        raise SystemExit(f"luxel {' '.join(words)}\n{done.stdout[-2000:]}{done.stderr[-2000:]}")


def result_of(luxel: str, words: list[str], folder: Path) -> dict[str, np.ndarray]:
    """The tensors of the last checkpoint by name, and the pixels of an image of the scene."""
    quick = QUICK if "--field" not in words else QUICK[2:4] if "radiance" in words else []
    run(luxel, ["train", *words, "--run", str(folder), *SEEDED, *quick])
    checkpoint = sorted((folder / "checkpoints").glob("*.safetensors"))[-1]
    tensors = {name: tensor.numpy() for name, tensor in load_file(checkpoint).items()}
    if not {"image", "sdf"} & {*words}:
        shown = folder.with_name(f"{folder.name}-frames")
        run(
            luxel,
            ["render", str(folder), "--out", str(shown), "--frames", "1", "--width", "96", "--device", "cpu"],
        )
        tensors["image"] = np.asarray(Image.open(next(shown.glob("*.png"))))
    return tensors


def prepare(luxel: str, made: Path) -> str:
    """Writes the inputs of the cases; returns the packaged capture."""
    made.mkdir(exist_ok=True)
    python = Path(luxel).with_name("python")
    if not (made / "moving").exists():
        for module in ("captures.dnerf", "dnerf"):
            text = SCENES.format(module=module)
            if not subprocess.run([python, "-c", text, made / "moving"], capture_output=True).returncode:
                break
        else:
            raise SystemExit("The moving capture cannot be made.")
    values = np.random.default_rng(0).integers(0, 256, (8, 8, 3), dtype=np.uint8)
    Image.fromarray(values).resize((128, 96), Image.Resampling.BICUBIC).save(made / "image.png")
    (made / "mesh.obj").write_text(MESH)
    text = "from luxel.scenes import demo_path; print(demo_path())"
    return subprocess.run([python, "-c", text], capture_output=True, text=True, check=True).stdout.strip()


def difference(expected: np.ndarray, actual: np.ndarray) -> str:
    """What differs, as text; empty where all bits are equal."""
    if expected.shape != actual.shape or expected.dtype != actual.dtype:
        return f"{expected.dtype}{list(expected.shape)} became {actual.dtype}{list(actual.shape)}"
    if expected.tobytes() == actual.tobytes():
        return ""
    largest = np.abs(expected.astype(np.float64)).max(initial=0)
    off = np.abs(expected.astype(np.float64) - actual.astype(np.float64)).max(initial=0)
    return f"differs by {off / max(largest, 1e-300):.2e} of the largest value"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("action", choices=("record", "compare"))
    parser.add_argument("folder", type=Path)
    parser.add_argument("--luxel", default=str(Path(sys.executable).with_name("luxel")))
    parser.add_argument("--only", default="", help="cases whose name contains this")
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    here = {"torch": torch.__version__, "cpu": torch.backends.cpu.get_cpu_capability(), "threads": 1}
    measured = options.folder / "machine.json"
    if options.action == "record":
        measured.write_text(json.dumps(here))
    elif json.loads(measured.read_text()) != here:
        raise SystemExit(f"Recorded with {measured.read_text()}, here is {json.dumps(here)}.")
    made = options.folder / "inputs"
    still = prepare(options.luxel, made)
    chosen = {
        name: words
        for name, words in cases(still, str(made / "moving"), made).items()
        if options.only in name
    }
    broken = 0
    with tempfile.TemporaryDirectory() as scratch, ThreadPoolExecutor(2) as pool:
        jobs = {
            name: pool.submit(result_of, options.luxel, words, Path(scratch) / name)
            for name, words in chosen.items()
        }
        for name, job in jobs.items():
            tensors, file = job.result(), options.folder / f"{name}.npz"
            if options.action == "record":
                np.savez(file, **tensors)
                print(f"{name}: {len(tensors)} tensors", flush=True)
                continue
            before = dict(np.load(file))
            lines = [
                f"{name}: {key} is {'missing' if key in before else 'new'}"
                for key in before.keys() ^ tensors.keys()
            ]
            for key in sorted(before.keys() & tensors.keys()):
                if text := difference(before[key], tensors[key]):
                    lines.append(f"{name}: {key} {text}")
            broken += bool(lines)
            print(*(lines or [f"{name}: equal, {len(tensors)} tensors"]), sep="\n", flush=True)
    if broken:
        raise SystemExit(f"{broken} of {len(chosen)} cases differ.")


if __name__ == "__main__":
    main()
