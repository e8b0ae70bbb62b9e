"""Mutants of the Python rules: which there are, which tests are near, and what becomes of one."""

from pathlib import Path

from tools.mutate_python import Imports, Mutant, list_mutants, run_mutant, write_mutant
from touchstone.scripts.toolchain import ROOT

SOURCE = "def is_late(block: int, until: int) -> bool:\n    return not block <= until + 1\n"
TEST = "from protocol.spec.rule import is_late\n\n\ndef test_late() -> None:\n    assert is_late(3, 1)\n"


def make_project(folder: Path) -> Path:
    rules = folder / "protocol" / "spec"
    rules.mkdir(parents=True)
    (rules / "rule.py").write_text(SOURCE)
    (folder / "test_rule.py").write_text(TEST)
    return folder


def test_mutants_are_the_places_that_an_operator_changes(tmp_path: Path) -> None:
    found = list_mutants(make_project(tmp_path))
    assert {one.path for one in found} == {"protocol/spec/rule.py"}
    assert {"core/ReplaceComparisonOperator_LtE_Lt", "core/NumberReplacer"} <= {one.operator for one in found}
    write_mutant(tmp_path, Mutant("protocol/spec/rule.py", "core/ReplaceUnaryOperator_Delete_Not", 0))
    assert "not" not in (tmp_path / "protocol" / "spec" / "rule.py").read_text()


def test_a_mutant_is_killed_or_survives_and_its_file_is_put_back(tmp_path: Path) -> None:
    project, path = make_project(tmp_path), "protocol/spec/rule.py"
    killed = run_mutant(project, Mutant(path, "core/ReplaceUnaryOperator_Delete_Not", 0), ["test_rule.py"])
    assert "test_late" in killed.by
    assert (project / path).read_text() == SOURCE
    spared = run_mutant(project, Mutant(path, "core/ReplaceBinaryOperator_Add_Sub", 0), ["test_rule.py"])
    assert not spared.by


def test_tests_that_import_a_file_itself_come_first() -> None:
    tests = Imports(ROOT).list_tests("protocol/spec/game/silence.py")
    direct = [one for one in tests if "game.silence import" in (ROOT / one).read_text()]
    assert len(tests) == 8 and direct and tests[: len(direct)] == direct
