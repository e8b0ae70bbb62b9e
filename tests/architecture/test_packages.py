"""The wheel holds the product: every package of it, and none of our own tools."""

import tomllib
from pathlib import Path

from tests.architecture.sources import ROOT

PRODUCT = ("protocol", "touchstone", "node", "verifier", "whistleblower", "explorer", "scripts")


def test_the_wheel_has_every_package_of_the_product_and_nothing_else() -> None:
    settings = tomllib.loads(Path(ROOT, "pyproject.toml").read_text())
    listed = settings["tool"]["setuptools"]["packages"]
    here = [path.parent.relative_to(ROOT) for top in PRODUCT for path in Path(ROOT, top).rglob("__init__.py")]
    assert sorted(listed) == sorted(".".join(path.parts) for path in here)
