"""Turns the choices of a person into the setting of a run."""

import os
from pathlib import Path

from touchstone.demo.choices import Choices
from touchstone.demo.plan import DEFAULT, QUICK, build_plan, read_dataset
from touchstone.demo.roster import make_roster
from touchstone.demo.show import Setting
from touchstone.demo.stage import Folders
from touchstone.protocol.spec.params import FORMAT_ALIASES
from touchstone.scripts.toolchain import ROOT

INSTALLED_FOLDER = Path("touchstone-demo")
"""Where a run lies if the code is no checkout of one's own, below the working folder."""


def make_setting(choices: Choices) -> Setting:
    """Returns what is played."""
    counts = (choices.get_count(name) for name in ("solvers", "verifiers", "whistleblowers"))
    solvers, verifiers, watchers = counts
    size, named = QUICK if choices.is_quick else DEFAULT, choices.numeric_format
    return Setting(
        plan=build_plan(
            size,
            choices.get_count("rounds"),
            solvers,
            verifiers,
            watchers,
            choices.seed,
            FORMAT_ALIASES.get(named, named),
        ),
        members=make_roster(solvers, verifiers, watchers, with_cheat=choices.has_cheat),
        dataset=read_dataset(),
        fault=choices.fault.upper(),
        folders=Folders(choices.out or find_folder()),
        with_explorer=choices.has_explorer,
    )


def find_folder(root: Path = ROOT) -> Path:
    """Returns `build/demo` of the checkout at `root`; `INSTALLED_FOLDER` if there is none, or if it cannot be
    written."""
    is_checkout = (root / "pyproject.toml").is_file() and os.access(root, os.W_OK)
    return root / "build" / "demo" if is_checkout else INSTALLED_FOLDER
