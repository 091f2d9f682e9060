"""`luxel doctor`."""

from __future__ import annotations

import json
from dataclasses import dataclass

from luxel.render.bounds import Options
from luxel.viewer.doctor import diagnose, works


@dataclass
class Doctor(Options):
    """Checks the installation: what works, what is missing, and how to fix it.

    Checks luxel's native libraries, torch, the NVIDIA driver and GPU, structure from motion (pycolmap), the video
    encoder and the folders that luxel writes to, and renders a test image. The exit status is 0 if luxel can train
    and show scenes, with or without a GPU, and 1 if a required part is missing.

    Examples:
        luxel doctor
        luxel doctor --json > machine.json
    """

    json: bool = False
    """Print JSON: {"works": ..., "findings": [{"name", "state", "detail", "remedy"}, ...]}."""

    def execute(self) -> int:
        """Prints the findings; returns the exit status."""
        from rich.console import Console
        from rich.table import Table

        findings = diagnose()
        healthy = works(findings)
        if self.json:
            print(json.dumps({"works": healthy, "findings": [f.as_dict() for f in findings]}, indent=2))
            return 0 if healthy else 1
        table = Table(box=None, pad_edge=False, show_header=False)
        table.add_column(no_wrap=True)
        table.add_column(style="bold", no_wrap=True)
        table.add_column(overflow="fold")
        marks = {"ok": "[green]ok[/]", "note": "[yellow]--[/]", "missing": "[red]NO[/]"}
        for f in findings:
            table.add_row(marks[f.state], f.name, f.detail.replace("[", "\\["))
            if f.remedy and f.state != "ok":
                table.add_row("", "", "[cyan]" + f.remedy.replace("[", "\\[") + "[/]")
        console = Console()
        console.print(table)
        console.print(
            "luxel works here." if healthy else "[red]luxel does not work here: see the lines marked NO.[/]"
        )
        return 0 if healthy else 1
