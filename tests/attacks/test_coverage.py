"""Every number of the list of attacks has somebody who plays it, and what is named exists."""

import ast
import re

import pytest

from tests.architecture.sources import ROOT
from tests.attacks.attack_suite import ATTACKS
from tests.attacks.coverage import ENTRIES, LISTED, Entry, list_places
from tests.attacks.outer import FORGERIES


def list_tests(file: str) -> set[str]:
    """Names of the tests in a file, Python or Solidity, that are run."""
    text = (ROOT / file).read_text()
    if file.endswith(".sol"):
        return set(re.findall(r"function (test\w+)\([^)]*\)\s+(?:public|external)", text))
    tree = ast.parse(text)
    functions = [node for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    return {node.name for node in functions if not any(map(_skips, node.decorator_list))}


def _skips(decorator: ast.expr) -> bool:
    return "skip" in ast.unparse(decorator) or "xfail" in ast.unparse(decorator)


def test_every_number_is_played_once() -> None:
    assert tuple(entry.number for entry in ENTRIES) == LISTED


@pytest.mark.parametrize("entry", ENTRIES, ids=[entry.number for entry in ENTRIES])
def test_every_number_has_an_adversary(entry: Entry) -> None:
    assert entry.seam or entry.tests


def test_every_attack_has_a_number_of_the_list() -> None:
    numbers = {attack.number for attack in ATTACKS} | {forgery.number for forgery in FORGERIES}
    assert numbers <= set(LISTED)


@pytest.mark.parametrize(("number", "file", "name"), list(list_places()))
def test_what_is_named_exists_and_is_run(number: str, file: str, name: str) -> None:
    assert (ROOT / file).exists()
    assert not name or name in list_tests(file), f"{number}: {file} has no {name}"


def test_tests_that_are_skipped_do_not_count() -> None:
    assert "test_tests_that_are_skipped_do_not_count" in list_tests("tests/attacks/test_coverage.py")
    tree = ast.parse("@pytest.mark.skip\ndef test_a(): pass")
    assert isinstance(tree.body[0], ast.FunctionDef) and _skips(tree.body[0].decorator_list[0])
