"""What a page paints while it loads: when its image and its panel are there, and frames that should not be.

What it measures
    Loads of a scene in `luxel view`, each in a new window without a cache: seconds to the first image and to the panel,
    bytes and requests, frames in which a control that viser begins with is visible, and frames whose image is another
    than that at the end. Once over the loopback, once over a link of 0.8 Mbit/s with 300 ms latency, as Chromium
    emulates it.

How to run
    python tests/bench/viewer/viewer_first_paint.py SCENE [--repeat 10] [--phone] [--frames FOLDER] [--device cpu]
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from viewer_endurance import Server  # puts the tests of the page on the path

from page_driver import CHROMIUM, FLAGS  # isort: skip
from page_frames import SLOW, record_load, unlike_the_end  # isort: skip
from PIL import Image

DESKTOP = {"viewport": {"width": 1280, "height": 800}}
PHONE = {"viewport": {"width": 390, "height": 844}, "has_touch": True, "is_mobile": True}


def main() -> int:
    """Measures and prints."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("scene", type=Path)
    parser.add_argument("--repeat", type=int, default=10)
    parser.add_argument("--phone", action="store_true")
    parser.add_argument("--frames", type=Path, help="folder for the frames, as JPEG files")
    parser.add_argument("--device", default="cpu")
    args = parser.parse_args()
    from playwright.sync_api import sync_playwright

    command = ["view", str(args.scene), "--port", "0", "--device", args.device]
    window = PHONE if args.phone else DESKTOP
    image = (20, 60, 370, 740) if args.phone else (20, 60, 940, 720)
    with (
        tempfile.TemporaryDirectory() as name,
        Server(command, Path(name)) as server,
        sync_playwright() as api,
    ):
        chromium = api.chromium.launch(executable_path=CHROMIUM, headless=True, args=FLAGS)
        for label, network in (("loopback", None), ("0.8 Mbit/s, 300 ms", SLOW)):
            for number in range(args.repeat):
                load = record_load(chromium, server.url, network, **window)
                odd = unlike_the_end(load, image)
                print(
                    f"{label} {number}: image {load.image:.2f} s, panel {load.panel:.2f} s, {load.kilobytes:.0f} kB in "
                    f"{load.requests} requests, {len(load.frames)} frames, with controls of viser {load.foreign}, "
                    f"with another image {len(odd)}",
                    flush=True,
                )
                for i, (at, frame) in enumerate(load.frames if args.frames else []):
                    args.frames.mkdir(parents=True, exist_ok=True)
                    Image.fromarray(frame).save(args.frames / f"{label[:4]}-{number}-{i:03d}-{at:.2f}.jpg")
        chromium.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
