"""Mutation testing of the Python rules: does a test near a mutant fail?

    python -m tools.mutate_python [--sample N] [--seed N] [--root FOLDER] [--jobs N]

Cosmic Ray changes one operator, condition or number of a file. Tests run in a copy of the checkout: those
with the fewest imports between them and the mutant. A mutant that passes them is a survivor. `--root` names
another checkout, so that one tool measures two states of the project. A campaign goes on where it was
stopped.
"""

import argparse
import ast
import json
import os
import random
import shutil
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from queue import Queue

from cosmic_ray.ast import ast_nodes, get_ast
from cosmic_ray.mutating import mutate_code
from cosmic_ray.plugins import get_operator

from tools.forked_tests import find_failure
from touchstone.scripts.toolchain import ROOT

FOLDERS = (
    "protocol/spec",
    "protocol/compute/bounds",
    "node",
    "verifier",
    "whistleblower",
    "protocol/actions",
)
"""The folders whose files are mutated. The last one exists only in older checkouts (`--root`)."""
SLOW = tuple(f"tests/{one}" for one in ("attacks", "contracts", "e2e", "faults", "lab", "rounds", "scripts"))
PAIRS = ("Lt_LtE", "LtE_Lt", "Gt_GtE", "GtE_Gt", "Eq_NotEq", "NotEq_Eq", "Is_IsNot", "IsNot_Is")
SWAPS = (
    "Add_Sub",
    "Sub_Add",
    "Mul_FloorDiv",
    "FloorDiv_Mul",
    "LShift_RShift",
    "RShift_LShift",
    "BitAnd_BitOr",
)
OPERATORS = (
    *(f"core/ReplaceComparisonOperator_{name}" for name in PAIRS),
    *(f"core/ReplaceBinaryOperator_{name}" for name in SWAPS),
    "core/ReplaceUnaryOperator_Delete_Not", "core/AddNot", "core/ReplaceAndWithOr", "core/ReplaceOrWithAnd",
    "core/ReplaceTrueWithFalse", "core/ReplaceFalseWithTrue", "core/NumberReplacer",
    "core/ReplaceBreakWithContinue", "core/ReplaceContinueWithBreak", "core/ExceptionReplacer",
    "core/ZeroIterationForLoop",
)  # fmt: skip
"""Changes that a programmer could make by mistake, without those whose mutants cannot be imported."""
MOST_FILES = 8
"""The most test files that run for a mutant."""
FIRST_FILES = 4
"""The test files that run before the others are collected: they kill most mutants."""
LONGEST_S = 300
"""The seconds that tests may run. A mutant that needs more counts as killed: it has made a loop endless."""


@dataclass(frozen=True)
class Mutant:
    """The `occurrence`-th place in a file that an operator changes."""

    path: str
    operator: str
    occurrence: int


@dataclass(frozen=True)
class Outcome:
    """The result of one mutant. `by` is the failed test, empty for a survivor. `tests` counts test files."""

    mutant: Mutant
    by: str
    tests: int


def list_mutants(root: Path) -> list[Mutant]:
    """Lists every mutant of the sources below `root`."""
    operators = {name: get_operator(name)() for name in OPERATORS}
    found = []
    for path in (one for folder in FOLDERS for one in sorted((root / folder).rglob("*.py"))):
        nodes = list(ast_nodes(get_ast(path.read_text())))
        for name, operator in operators.items():
            count = sum(len(list(operator.mutation_positions(node))) for node in nodes)
            found += [Mutant(str(path.relative_to(root)), name, number) for number in range(count)]
    return found


def write_mutant(root: Path, mutant: Mutant) -> None:
    """Changes the file of a mutant."""
    path = root / mutant.path
    text = mutate_code(path.read_text(), get_operator(mutant.operator)(), mutant.occurrence)
    assert text is not None, f"no such place: {mutant}"
    path.write_text(text)


class Imports:
    """Knows which files import which others, tests among them."""

    def __init__(self, root: Path) -> None:
        names = _run_git(root, "ls-files", "*.py").decode().split()
        self._files = {_name_module(name): name for name in names}
        self._importers: dict[str, set[str]] = {}
        for name in names:
            for module in _list_imported(ast.parse((root / name).read_text())):
                if module in self._files:
                    self._importers.setdefault(self._files[module], set()).add(name)

    def list_tests(self, path: str) -> list[str]:
        """Lists test files that import a file, directly or through others, the nearest first."""
        seen, here, tests = {path}, [path], list[str]()
        while here and len(tests) < MOST_FILES:
            here = sorted({one for name in here for one in self._importers.get(name, ())} - seen)
            seen |= set(here)
            is_near = [one for one in here if Path(one).name.startswith("test_") and not one.startswith(SLOW)]
            tests += sorted(is_near, key=lambda one: (-_count_shared(one, path), one))
        return tests[:MOST_FILES]


def _name_module(name: str) -> str:
    parts = Path(name).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _list_imported(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import | ast.ImportFrom) else []
        if isinstance(node, ast.ImportFrom) and node.module:
            names = [node.module, *(f"{node.module}.{name}" for name in names)]
        for name in names:
            yield name
            yield name.removeprefix("touchstone.")


def _count_shared(test: str, path: str) -> int:
    """Returns how many folders and names a test has in common with a file."""
    return len(set(Path(test).with_suffix("").parts) & {*Path(path).parts, f"test_{Path(path).stem}"})


def run_mutant(copy: Path, mutant: Mutant, tests: list[str]) -> Outcome:
    """Runs the tests on a mutant in a copy of the checkout, the nearest first, and puts its file back."""
    path = copy / mutant.path
    original = path.read_text()
    try:
        write_mutant(copy, mutant)
        forget_bytecode(path)
        found = find_failure(copy, tests[:FIRST_FILES], LONGEST_S)
        found = found or find_failure(copy, tests[FIRST_FILES:], LONGEST_S)
    finally:
        path.write_text(original)
        forget_bytecode(path)
    return Outcome(mutant, found, len(tests))


def forget_bytecode(path: Path) -> None:
    """Deletes the bytecode of a file. Python judges bytecode by the source's size and its time of change in
    seconds, and a mutant may have both from the original."""
    for compiled in (path.parent / "__pycache__").glob(f"{path.stem}.*.pyc"):
        compiled.unlink()


def make_copy(root: Path, folder: Path) -> Path:
    """Copies the tracked files of a checkout."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    subprocess.run(["tar", "-x"], cwd=folder, input=_run_git(root, "archive", "HEAD"), check=True)
    for name in ("node_modules", "build"):
        if (root / name).exists():
            (folder / name).symlink_to(root / name)
    return folder


def _run_git(root: Path, *arguments: str) -> bytes:
    return subprocess.run(["git", *arguments], cwd=root, capture_output=True, check=True).stdout


def main(arguments: list[str] | None = None) -> int:
    """Runs what is left of a campaign and prints the score."""
    parser = argparse.ArgumentParser(prog="python -m tools.mutate_python", description=__doc__)
    parser.add_argument("--sample", type=int, default=200, metavar="N", help="mutants (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=47, help="draws them (default: %(default)s)")
    parser.add_argument("--root", type=Path, default=ROOT, help="the checkout (default: this one)")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="mutants at once")
    options = parser.parse_args(arguments)
    mutants = random.Random(options.seed).sample(list_mutants(options.root), options.sample)
    outcomes = run_all(options.root.resolve(), mutants, options.jobs)
    survivors = [one for one in outcomes if not one.by]
    for one in survivors:
        print(f"survived: {one.mutant.path} {one.mutant.operator} {one.mutant.occurrence}")
    killed = len(outcomes) - len(survivors)
    print(f"{killed} of {len(outcomes)} mutants killed: {killed / len(outcomes):.1%}")
    return 0


def run_all(root: Path, mutants: list[Mutant], jobs: int) -> list[Outcome]:
    """Runs the mutants whose outcome the log of this commit lacks; returns all outcomes."""
    folder = ROOT / "build" / "mutate_python" / _run_git(root, "rev-parse", "HEAD").decode()[:12]
    folder.mkdir(parents=True, exist_ok=True)
    log, imports, copies = folder / "outcomes.jsonl", Imports(root), Queue[Path]()
    known = {one.mutant: one for one in read_outcomes(log)}
    for number in range(jobs):
        copies.put(make_copy(root, folder / f"copy{number}"))

    def run(mutant: Mutant) -> Outcome:
        copy = copies.get()
        try:
            outcome = run_mutant(copy, mutant, imports.list_tests(mutant.path))
        finally:
            copies.put(copy)
        with log.open("a") as file:
            file.write(json.dumps(asdict(outcome)) + "\n")
        return outcome

    with ThreadPoolExecutor(jobs) as pool:
        known |= {one.mutant: one for one in pool.map(run, [one for one in mutants if one not in known])}
    return [known[one] for one in mutants]


def read_outcomes(log: Path) -> list[Outcome]:
    """Reads what an earlier run has written."""
    lines = log.read_text().splitlines() if log.exists() else []
    found = map(json.loads, lines)
    return [Outcome(Mutant(**one["mutant"]), one["by"], one["tests"]) for one in found]


if __name__ == "__main__":
    sys.exit(main())
