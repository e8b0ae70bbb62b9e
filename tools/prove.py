"""Proves properties of the vault and of seats with halmos for all arguments, not only those a fuzzer tries.

`./dev prove` installs halmos into build/prove/venv the first time, because nothing else needs it and its
solvers.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import time
import tomllib
import venv
from pathlib import Path
from typing import Any

from tools.mutation.project import hash_sources
from touchstone.scripts.toolchain import ROOT, ToolMissing, forge_path

BUILD = ROOT / "build" / "prove"
REPORT = BUILD / "report.json"
LAUNCHER = Path(__file__).with_name("halmos_launch.py")
CHECKS = "tests/contracts/prove"
PROOFS = "^(VaultProof|SeatProof)$"
SOURCE = CHECKS
"""The proofs are about what these files import."""
# Halmos' exit code of a check that can fail.
COUNTEREXAMPLE = 1


def main(arguments: list[str] | None = None) -> int:
    """Runs the checks (all, or those named) and writes the report; returns 1 if one is not proven."""
    parser = argparse.ArgumentParser(prog="./dev prove", description="Prove what the vault and seats keep.")
    parser.add_argument("checks", nargs="*", metavar="CHECK", help="e.g. check_solvency; default all")
    options = parser.parse_args(arguments)
    try:
        halmos = _install()
        started = time.monotonic()
        tests = _run_halmos(halmos, options.checks)
    except (ToolMissing, subprocess.CalledProcessError) as error:
        print(error, file=sys.stderr)
        return 1
    report = make_report(tests, time.monotonic() - started)
    REPORT.write_text(json.dumps(report, indent=1) + "\n")
    print(f"proved: {report['proved']}\nnot proved: {report['not_proved']}")
    return 0 if report["proved"] and not report["not_proved"] else 1


def make_report(tests: list[dict[str, Any]], seconds: float) -> dict[str, Any]:
    """Returns the names proven and those not, for the present sources.

    Proven means that halmos explored every path to its end (no loop cut short) and found no way to fail. A
    check named `refute_` must fail instead: it claims that no call succeeds, and if that were true nothing
    would be proven."""
    proved: set[str] = set()
    others: set[str] = set()
    for test in tests:
        name = test["name"].split("(")[0]
        if name.startswith("refute_"):
            holds = test["exitcode"] == COUNTEREXAMPLE
        else:
            holds = test["exitcode"] == 0 and not test.get("num_bounded_loops")
        (proved if holds else others).add(name)
    return {
        "source_hash": hash_sources(start=SOURCE),
        "proved": sorted(proved),
        "not_proved": sorted(others),
        "paths": {test["name"].split("(")[0]: test.get("num_paths") for test in tests},
        "seconds": round(seconds, 1),
    }


def _install() -> Path:
    """Installs halmos at the version that pyproject.toml pins, and returns its path."""
    place, wanted = BUILD / "venv", _requirements()
    program, stamp = place / "bin" / "halmos", place / "requirements"
    if not (program.exists() and stamp.is_file() and stamp.read_text() == "\n".join(wanted)):
        print("installing " + ", ".join(wanted), flush=True)
        venv.create(place, clear=True, with_pip=True)
        command = [str(place / "bin" / "pip"), "install", "--quiet", "--disable-pip-version-check", *wanted]
        subprocess.run(command, check=True)
        stamp.write_text("\n".join(wanted))
    return program


def _requirements() -> list[str]:
    document = tomllib.loads((ROOT / "pyproject.toml").read_text())
    wanted: list[str] = document["project"]["optional-dependencies"]["prove"]
    return wanted


def _run_halmos(halmos: Path, checks: list[str]) -> list[dict[str, Any]]:
    """Compiles the proofs and what they need, runs them, and returns halmos' results."""
    result = BUILD / "halmos.json"
    result.unlink(missing_ok=True)
    folders = [halmos.parent, forge_path().parent]
    environment = {
        **os.environ,
        "PATH": os.pathsep.join([*map(str, folders), os.environ.get("PATH", os.defpath)]),
        "FOUNDRY_SRC": CHECKS,
        "FOUNDRY_TEST": CHECKS,
        "FOUNDRY_OUT": str(BUILD / "out"),
        "FOUNDRY_CACHE_PATH": str(BUILD / "cache"),
        "FOUNDRY_LINT_LINT_ON_BUILD": "false",
    }
    command = [str(halmos.with_name("python")), str(LAUNCHER), "--root", str(ROOT)]
    command += ["--match-contract", PROOFS, "--loop", "16"]
    # If the time runs out, both branches are followed. The default, a millisecond, is nothing on a busy
    # machine.
    command += ["--solver-timeout-branching", "1s"]
    command += ["--forge-build-out", str((BUILD / "out").relative_to(ROOT)), "--json-output", str(result)]
    command += ["--function", f"^({'|'.join(checks) or 'check_|refute_'})"]
    subprocess.run(command, cwd=ROOT, env=environment)
    if not result.is_file():
        return [{"name": name, "exitcode": 1} for name in checks or ["halmos"]]
    document: dict[str, Any] = json.loads(result.read_text())
    return add_missing([test for tests in document["test_results"].values() for test in tests], checks)


def add_missing(tests: list[dict[str, Any]], checks: list[str]) -> list[dict[str, Any]]:
    """Returns the results with a failure for each check that has none, because halmos leaves out a contract
    that it cannot set up."""
    there = {test["name"].split("(")[0] for test in tests}
    missing = [name for name in checks or _list_checks() if name not in there]
    # For any check, this exit code means that nothing was shown.
    return tests + [{"name": name, "exitcode": None} for name in missing]


def _list_checks() -> list[str]:
    texts = [path.read_text() for path in sorted((ROOT / CHECKS).glob("*Proof.sol"))]
    return [name for text in texts for name in re.findall(r"function ((?:check|refute)_\w+)\(", text)]


if __name__ == "__main__":
    sys.exit(main())
