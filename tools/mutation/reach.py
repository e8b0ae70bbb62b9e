"""Finds what a suite rests on: all that it imports, and the contracts whose artifacts it deploys by name."""

import re
from pathlib import Path

from tools.compile import read_sources

_ARTIFACT = re.compile(r'"(\w+\.sol):\w+"')


def read_reached(root: Path, start: str) -> dict[str, str]:
    """Returns a map from path to text of `start`, of all that it imports and of what it deploys by an
    artifact's name ("Vault.sol:Vault"), with its imports. Raises CompileError if an import leads nowhere."""
    sources, seen = read_sources(root, start), set[str]()
    while fresh := _find_artifacts(sources) - seen:
        seen |= fresh
        for name in sorted(fresh):
            for path in (root / "contracts").rglob(name):
                sources |= read_sources(root, path.relative_to(root).as_posix())
    return dict(sorted(sources.items()))


def _find_artifacts(sources: dict[str, str]) -> set[str]:
    return {name for text in sources.values() for name in _ARTIFACT.findall(text)}
