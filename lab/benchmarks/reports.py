"""Writes the results of benchmarks, and reads those of others."""

import json
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

from touchstone.protocol.compute.determinism import describe_kernels

BUILD = Path(__file__).resolve().parents[2] / "build"


def write_report(name: str, content: dict[str, Any]) -> Path:
    """Writes build/<name>/report.json with the machine and the command; returns its path."""
    path = BUILD / name / "report.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    report = {**content, "machine": asdict(describe_kernels()), "command": sys.argv}
    path.write_text(json.dumps(report, indent=2) + "\n")
    return path


def read_report(name: str, *short: str) -> dict[str, Any]:
    """Returns the last report of another benchmark. If there is none, runs its short form first."""
    paths = [BUILD / folder / "report.json" for folder in (name, f"{name}-short")]
    if not any(path.exists() for path in paths):
        subprocess.run([sys.executable, "-m", f"lab.benchmarks.{name}", *short], check=True)
    content: dict[str, Any] = json.loads(next(path for path in paths if path.exists()).read_text())
    return content


def draw_text(x: float, y: float, text: str, anchor: str, size: int = 11) -> str:
    """Returns a line of text in a picture; `anchor` is start, middle or end."""
    safe = text.replace("&", "&amp;").replace("<", "&lt;")
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="{size}">{safe}</text>'
