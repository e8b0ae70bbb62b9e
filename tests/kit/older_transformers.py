"""The oldest transformers that pyproject.toml allows, beside the installed one: exports are loaded by both.

It is installed into build/ once, without the packages that it shares with the installed one.
"""

import fcntl
import json
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from safetensors.torch import load_file
from torch import Tensor

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = Path(__file__).with_name("load_exports.py")
BESIDE = ("tokenizers>=0.21,<0.22", "huggingface-hub>=0.30,<1")
"""What transformers 4.53 needs in other versions than the installed ones."""
UNREACHED = re.compile("Retrying|Could not fetch|name resolution|Network is unreachable", re.IGNORECASE)


@dataclass(frozen=True)
class Loaded:
    """What a version of transformers made of a folder: logits of tokens, or why it refused the folder."""

    version: str
    logits: Tensor | None
    error: str
    eos: Any


def list_oldest() -> tuple[str, ...]:
    """The requirements of the oldest version: `transformers>=4.53,<6` is ==4.53.*."""
    document = tomllib.loads((ROOT / "pyproject.toml").read_text())
    (named,) = document["project"]["optional-dependencies"]["models"]
    least = re.fullmatch(r"transformers>=(\d+\.\d+),<\d+", named)
    assert least is not None, named
    return (f"transformers=={least[1]}.*", *BESIDE)


def install_oldest() -> Path:
    """Returns the folder with the oldest version; skips the test where no package index is reached."""
    wanted = "\n".join(list_oldest())
    place = ROOT / "build" / "transformers-oldest"
    place.mkdir(parents=True, exist_ok=True)
    site, stamp = place / "site", place / "requirements"
    with (place / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not stamp.is_file() or stamp.read_text() != wanted:
            stamp.unlink(missing_ok=True)
            pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
            options = ["--no-deps", "--upgrade", "--target", str(site), "--retries", "1", *list_oldest()]
            done = subprocess.run([*pip, *options], capture_output=True, text=True)
            if done.returncode and UNREACHED.search(done.stderr):
                pytest.skip(f"the oldest transformers is not installed, and no index is reached: {wanted}")
            assert done.returncode == 0, done.stderr
            stamp.write_text(wanted)
    return site


def load_with(
    site: Path | None, folders: list[Path], tokens: Tensor, out: Path, *, is_imported: bool = False
) -> list[Loaded]:
    """Loads folders of models in a process of its own: with the version at `site`, or the installed one.
    `out` is a file to write. `is_imported`: as Touchstone reads them through that version."""
    said = _run(site, folders=[str(one) for one in folders], tokens=tokens.tolist(), out=str(out),
                is_imported=is_imported, models=[])  # fmt: skip
    logits: dict[str, Tensor] = load_file(out) if any(not one["error"] for one in said) else {}
    return [
        Loaded(one["version"], logits.get(str(at)), one["error"], one["eos"]) for at, one in enumerate(said)
    ]


def save_with(site: Path, models: Mapping[str, Mapping[str, Any]], folder: Path) -> list[Path]:
    """Returns a folder of each model, by type, that `save_pretrained` of the version at `site` wrote."""
    folders = [folder / name for name in models]
    wanted = [[str(one), one.name, models[one.name]] for one in folders]
    _run(site, folders=[], tokens=[[0]], out="", is_imported=False, models=wanted)
    return folders


def _run(site: Path | None, **given: Any) -> list[dict[str, Any]]:
    said: list[dict[str, Any]] = json.loads(run_with(site, SCRIPT, json.dumps(given)).splitlines()[-1])
    return said


def run_with(site: Path | None, script: Path, given: str) -> str:
    """Runs a script in a process whose transformers is that at `site`, or the installed one. Returns what it
    prints; `given` is what it reads."""
    settings = {**os.environ, "HF_HUB_OFFLINE": "1", "TRANSFORMERS_VERBOSITY": "error"}
    settings["PYTHONPATH"] = os.pathsep.join([*([] if site is None else [str(site)]), str(ROOT)])
    done = subprocess.run(
        [sys.executable, str(script)], input=given, capture_output=True, text=True, env=settings
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout
