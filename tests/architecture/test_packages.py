"""The wheel installs one import name, `touchstone`: every package of the product, and no tool of ours."""

import re
import tomllib
from pathlib import Path

from tests.architecture.sources import ROOT, list_sources

ROOMS = ("protocol", "node", "verifier", "whistleblower", "explorer", "scripts", "demo")
"""Folders at the top of the repository that are packages inside of `touchstone`, by links."""


def test_the_wheel_has_every_package_of_the_product_and_nothing_else() -> None:
    settings = tomllib.loads(Path(ROOT, "pyproject.toml").read_text())
    listed = settings["tool"]["setuptools"]["packages"]
    rooms = [path.parent.relative_to(ROOT) for top in ROOMS for path in Path(ROOT, top).rglob("__init__.py")]
    own = [path.parent.relative_to(ROOT) for path in Path(ROOT, "touchstone").rglob("__init__.py")]
    here = [*(Path("touchstone") / room for room in rooms), *own]
    assert sorted(listed) == sorted(".".join(path.parts) for path in here)


def test_each_room_is_imported_under_one_name() -> None:
    """A module that is loaded under two names is two modules: types differ, and caches are kept twice."""
    for room in ROOMS:
        assert (ROOT / "touchstone" / room).readlink() == Path("..", room)
    names = "|".join(ROOMS)
    statement = re.compile(rf"^\s*(?:from (?:{names})[\w.]* import|import (?:{names})\b)", re.MULTILINE)
    paths = (*list_sources(), *list_sources("tests", "lab", "tools"))
    assert not [str(path) for path in paths if statement.search((ROOT / path).read_text())]


def test_the_version_has_a_heading_in_the_list_of_changes() -> None:
    """pyproject.toml alone has the number: `touchstone --version` reads it from the installed package."""
    version = tomllib.loads(Path(ROOT, "pyproject.toml").read_text())["project"]["version"]
    changes = Path(ROOT, "CHANGELOG.md").read_text()
    assert re.search(rf"^## {re.escape(version)}\b", changes, re.MULTILINE)
    elsewhere = [str(path) for path in list_sources() if f'"{version}"' in (ROOT / path).read_text()]
    assert not elsewhere
