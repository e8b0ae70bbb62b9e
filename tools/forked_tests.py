"""Runs test files of a checkout in a process that begins with the libraries imported.

Importing PyTorch, web3 and pytest takes longer than most tests. A server imports them once, and a fork of
the server runs the tests. Modules of the project are imported by the fork, from the checkout.
"""

import multiprocessing
import os
import sys
import tempfile
from pathlib import Path

import pytest

LIBRARIES = (
    "_pytest.config", "pytest", "pytest_asyncio", "xdist", "hypothesis", "numpy", "torch", "numba", "web3",
    "aiohttp", "eth_account", "cryptography", "msgspec", "click",
)  # fmt: skip
OWN = (
    "touchstone", "tools", "tests", "lab", "protocol", "node", "verifier", "whistleblower", "explorer",
    "scripts", "demo",
)  # fmt: skip
"""The first parts of names of modules that a fork must import from the checkout."""


def find_failure(checkout: Path, tests: list[str], longest_s: float) -> str:
    """Run test files until one test fails; returns its name, or nothing if all pass.

    "time" says that `longest_s` seconds went by.
    """
    if not tests:
        return ""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(list(LIBRARIES))
    with tempfile.NamedTemporaryFile("r") as shown:
        process = context.Process(target=_run, args=(str(checkout), tests, shown.name))
        process.start()
        process.join(longest_s)
        if process.is_alive():
            process.kill()
            process.join()
            return "time"
        if process.exitcode == 0:
            return ""
        lines = [line for line in shown.read().splitlines() if line.startswith(("FAILED", "ERROR"))]
    return lines[0][:160] if lines else f"exit status {process.exitcode}"


def _run(checkout: str, tests: list[str], output: str) -> None:
    os.chdir(checkout)
    for name in [one for one in sys.modules if one.partition(".")[0] in OWN]:
        del sys.modules[name]
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    sys.dont_write_bytecode = False
    os.environ["PYTHONPATH"] = checkout
    here = str(Path(__file__).resolve().parents[1])
    sys.path[:] = [checkout, *(one for one in sys.path if one not in ("", here))]
    file = os.open(output, os.O_WRONLY)
    os.dup2(file, 1)
    os.dup2(file, 2)
    code = pytest.main(["-q", "-x", "-p", "no:cacheprovider", *tests])
    sys.stdout.flush()
    os._exit(int(code))
