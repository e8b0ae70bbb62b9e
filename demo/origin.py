"""Says with which code and on which machine a run was made."""

import os
import platform
import subprocess
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import torch

from touchstone.protocol.adapters.machine.determinism_fingerprint import read_processor_model
from touchstone.protocol.adapters.machine.process_limits import measure_memory_bytes
from touchstone.scripts.toolchain import ROOT


def describe_origin(root: Path = ROOT) -> dict[str, str]:
    """Returns version, commit (of a checkout), processor, memory, system and PyTorch, by name."""
    found = {"version": read_version(), "commit": read_commit(root)}
    found |= {
        "processor": f"{read_processor_model()}, {os.cpu_count()} cores",
        "memory": f"{measure_memory_bytes() / 1e9:.1f} GB",
        "system": platform.platform(),
        "Python": platform.python_version(),
        "PyTorch": torch.__version__,
    }
    return {name: value for name, value in found.items() if value}


def read_version() -> str:
    """Returns the installed version of the product; "not installed" if nothing is."""
    try:
        return version("touchstone")
    except PackageNotFoundError:
        return "not installed"


def read_commit(root: Path) -> str:
    """Returns the commit of a checkout, and whether files differ from it; empty if there is no checkout."""
    if not (root / ".git").exists():
        return ""
    try:
        commit = _run_git(root, "rev-parse", "HEAD")
        return f"{commit} with changes" if _run_git(root, "status", "--porcelain") else commit
    except (OSError, subprocess.CalledProcessError):
        return ""


def _run_git(root: Path, *words: str) -> str:
    done = subprocess.run(["git", "-C", str(root), *words], capture_output=True, text=True, check=True)
    return done.stdout.strip()
