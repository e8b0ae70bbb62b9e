"""What every test process needs before it imports anything else."""

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from tests.daily import is_daily

# Tests run in more processes than there are cores; a test that studies threads sets their number itself.
os.environ.setdefault("OMP_NUM_THREADS", "1")

# A shared machine is slow at times: a deadline would fail tests at random.
settings.register_profile("touchstone", deadline=None, print_blob=True)
settings.load_profile("touchstone")


@pytest.fixture(autouse=True)
def large_tensors_lie_in_memory() -> Iterator[None]:
    """A home with memory_mb moves those of its process into files, and other tests share the process."""
    yield
    if allocator := sys.modules.get("touchstone.protocol.compute.program.tensor_allocator"):
        allocator.use_room(None)


LONGEST_FIRST = (
    "tests/e2e/",
    "tests/demo/",
    "tests/rounds/",
    "tests/lab/benchmarks/",
    "tests/faults/",
    "tests/scripts/",
)
"""Processes share the files: a long one that comes last leaves all others without work."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """`--daily`: what `./dev test` runs without --all."""
    parser.addoption("--daily", action="store_true", help="leave out what tests/daily.py names")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """With --daily a file that is left out is not even imported: some record programs for that."""
    if not config.getoption("--daily") or collection_path.suffix != ".py":
        return None
    return None if is_daily(collection_path.relative_to(config.rootpath).as_posix()) else True


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Files in the folders of LONGEST_FIRST come first, each with another one behind it: the first wait for
    blocks and peers, and meanwhile the others compute."""
    files: dict[str, list[pytest.Item]] = {}
    for item in items:
        files.setdefault(item.nodeid.partition("::")[0], []).append(item)
    waiting = sorted((one for one in files if _rank(one) < len(LONGEST_FIRST)), key=_rank)
    others = [one for one in files if one not in waiting]
    paired = [one for pair in zip(waiting, others, strict=False) for one in pair]
    order = dict.fromkeys([*paired, *waiting, *others])
    items[:] = [item for name in order for item in files[name]]


def _rank(name: str) -> int:
    return next((n for n, folder in enumerate(LONGEST_FIRST) if name.startswith(folder)), len(LONGEST_FIRST))
