"""Mutants of the contracts: every place is found, the copy of all of them is the original until one is on."""

import json
from pathlib import Path

import pytest

from tools import mutate, prove
from tools.mutation.campaign import Campaign
from tools.mutation.edits import Edit, apply_edits
from tools.mutation.operators import Mutant
from tools.mutation.project import Plan, build_project, make_plan, write_project
from tools.mutation.reach import read_reached
from tools.mutation.results import OUT_OF_TIME, Basis, Result, append_result, read_results, write_results
from tools.mutation.suite_runs import Runner, Verdict, time_suites
from touchstone.scripts.toolchain import ROOT

PRAGMA = "// SPDX-License-Identifier: Apache-2.0\npragma solidity ^0.8.30;\n"
VAULT = (
    PRAGMA
    + """
contract Vault {
    error Refused(uint256 most);
    struct Entry { uint128 amount; uint128 block_; }
    uint256 public constant MOST = 2 > 1 ? 10 : 20;
    uint256 public total;
    bool public closed;
    address private immutable _owner;
    mapping(address => Entry) private _entries;
    uint256[] private _log;

    modifier onlyOwner() {
        if (msg.sender != _owner) revert Refused(0);
        _;
    }

    constructor() {
        _owner = msg.sender;
    }

    function add(uint256 amount) external returns (uint256) {
        if (amount > MOST) revert Refused(MOST);
        Entry storage entry = _entries[msg.sender];
        (entry.amount, entry.block_) = (uint128(amount), uint128(block.number));
        if (closed) total = 0; else total += amount;
        if (total > 99) total = 0;
        _log.push(amount);
        _check(amount);
        return _least(amount, total);
    }

    function close(bool yes) external onlyOwner returns (bool) {
        closed = yes;
        return closed;
    }

    function _check(uint256 amount) private pure {
        require(amount != 7 && amount != 8, "unlucky");
        assembly { pop(amount) }
    }

    function _least(uint256 a, uint256 b) private pure returns (uint256 least) {
        least = a < b ? a : b; // pure
    }
}
"""
)
VAULT_TEST = (
    PRAGMA
    + """
import {Vault} from "../../contracts/Vault.sol";
contract VaultTest {
    bool public constant IS_TEST = true;
    function _six() private pure returns (uint256) { return 6; }
    function test_add_everything() external {
        Vault vault = new Vault();
        require(vault.add(_six()) == 6 && vault.total() == 6, "first");
        require(vault.add(4) == 4 && vault.total() == 10, "second");
        try vault.add(11) { revert("too much"); } catch (bytes memory) {}
    }
    function test_close_asOwner_closes() external {
        Vault vault = new Vault();
        require(vault.close(true) && vault.closed(), "closed");
    }
    function test_gas_isMeasured() external view {
        require(gasleft() > 0, "gas");
    }
}
"""
)


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkout with one contract and its tests."""
    root = tmp_path_factory.mktemp("vault")
    for folder in ("contracts", "tests/contracts", "tests/vectors"):
        (root / folder).mkdir(parents=True)
    (root / "contracts" / "Vault.sol").write_text(VAULT)
    (root / "tests" / "contracts" / "Vault.t.sol").write_text(VAULT_TEST)
    (root / "foundry.toml").write_text((ROOT / "foundry.toml").read_text())
    (root / "node_modules").symlink_to((ROOT / "node_modules").resolve())
    return root


@pytest.fixture(scope="module")
def plan(project: Path) -> Plan:
    return make_plan(project)


def find(plan: Plan, function: str) -> set[tuple[str, str, str]]:
    """Return (kind, original, mutated) of a function's mutants."""
    found = [mutant for mutant in plan.mutants if mutant.function == f"Vault.{function}"]
    return {(mutant.kind, mutant.original, mutant.mutated) for mutant in found}


def test_edits_nest_and_the_later_of_two_is_outside() -> None:
    edits = [
        Edit(2, 3, lambda inner: f"<{inner}>"),
        Edit(0, 5, lambda inner: f"({inner})"),
        Edit(2, 3, lambda inner: f"[{inner}]"),
    ]
    assert apply_edits(b"a b c d", edits) == "(a [<b>] c) d"


def test_guards_comparisons_and_writes_are_found(plan: Plan) -> None:
    assert find(plan, "add") == {
        ("guard", "amount > MOST", "false"),
        ("comparison", "amount > MOST", "amount >= MOST"),
        ("write", "uint128(amount)", "entry.amount"),
        ("write", "uint128(block.number)", "entry.block_"),
        ("guard", "closed", "!(closed)"),
        ("write", "total = 0", "(nothing)"),
        ("write", "total += amount", "(nothing)"),
        ("guard", "total > 99", "!(total > 99)"),
        ("comparison", "total > 99", "total >= 99"),
        ("write", "_log.push(amount)", "(nothing)"),
        ("guard", "_check(amount)", "(nothing)"),
    }
    assert find(plan, "_check") == {
        ("guard", "amount != 7 && amount != 8", "true"),
        ("comparison", "amount != 7 && amount != 8", "(amount != 7) || (amount != 8)"),
        ("comparison", "amount != 7", "amount == 7"),
        ("comparison", "amount != 8", "amount == 8"),
    }


def test_modifiers_and_immutables_are_found(plan: Plan) -> None:
    assert ("guard", "close() onlyOwner", "(no modifier)") in find(plan, "close")
    assert ("guard", "msg.sender != _owner", "false") in find(plan, "onlyOwner")
    assert ("write", "_owner = msg.sender", "(nothing)") in find(plan, "constructor")


def test_constants_and_local_variables_are_no_mutants(plan: Plan) -> None:
    texts = [mutant.original for mutant in plan.mutants]
    assert not [text for text in texts if "2 > 1" in text or text.startswith("least =")]


def test_assembly_is_said_to_be_left_alone(plan: Plan) -> None:
    line = VAULT[: VAULT.index("assembly")].count("\n") + 1
    assert plan.unmutated == [f"contracts/Vault.sol:{line}: assembly"]


def test_tests_that_measure_gas_are_known(plan: Plan) -> None:
    assert plan.gas_tests == ["test_gas_isMeasured"]


def test_campaign_kills_what_is_tested_and_nothing_else(plan: Plan, tmp_path: Path, project: Path) -> None:
    write_project(plan, tmp_path, project)
    build_project(tmp_path)
    campaign = Campaign(Runner(tmp_path), plan.gas_tests)
    assert campaign.measure_baseline()[0] == []
    results = list(mutate.judge_all(campaign, plan.mutants, Basis(project), 2))
    assert {result.key for result in results} == {mutant.key for mutant in plan.mutants}
    survivors = {result.key.split(": ", 1)[1] for result in results if not result.by}
    assert survivors == {
        "amount > MOST => amount >= MOST",
        "uint128(amount) => entry.amount",
        "uint128(block.number) => entry.block_",
        "total = 0 => (nothing)",
        "total = 0 => (nothing) (2)",
        "total > 99 => total >= 99",
        "_log.push(amount) => (nothing)",
        "_check(amount) => (nothing)",
        "amount != 7 && amount != 8 => true",
        "amount != 7 && amount != 8 => (amount != 7) || (amount != 8)",
        "a < b => a <= b",
        "msg.sender != _owner => false",
        "close() onlyOwner => (no modifier)",
    }
    # Contracts, and suites with what they import, are compiled once, each in its profile: not at each start.
    assert len(list((tmp_path / "answers").iterdir())) == 2


def test_results_survive_a_kill_in_the_middle_of_a_line(tmp_path: Path) -> None:
    log = tmp_path / "results.jsonl"
    result = Result("key", "suite:test", 1.5, "ab")
    append_result(log, result)
    log.write_text(log.read_text() + '{"key": "other')
    assert read_results(log) == {"key": result}
    write_results(log, [Result("z", "", 0.5, "cd"), result])
    assert list(read_results(log)) == ["key", "z"]


def test_a_record_that_would_weigh_too_much_keeps_the_survivors(tmp_path: Path) -> None:
    log = tmp_path / "results.jsonl"
    kills = [Result(f"a{n}", "suite:test", 0.5, "cd") for n in range(100)]
    write_results(log, [*kills, Result("z", "", 0.5, "cd")], most_bytes=1_000)
    kept = read_results(log)
    assert log.stat().st_size <= 1_000 and "z" in kept and 1 < len(kept) < 101


def make_mutant(number: int, path: str = "contracts/A.sol") -> Mutant:
    return Mutant(number, path, number, "A.f", "guard", f"a{number}", "false")


@pytest.fixture
def sources(tmp_path: Path) -> Path:
    """Two contracts with a suite each, and one suite that plays both."""
    (tmp_path / "foundry.toml").write_text((ROOT / "foundry.toml").read_text())
    for folder in ("contracts", "tests/contracts", "tests/vectors"):
        (tmp_path / folder).mkdir(parents=True)
    for name in "AB":
        (tmp_path / "contracts" / f"{name}.sol").write_text(f"contract {name} {{}}")
        text = f'import "contracts/{name}.sol"; open("vectors_of_{name}");'
        (tmp_path / "tests/contracts" / f"{name}.t.sol").write_text(text)
    (tmp_path / "tests/contracts/Both.t.sol").write_text(
        'import "contracts/A.sol"; import "contracts/B.sol";'
    )
    return tmp_path


OWN, BOTH = (f"tests/contracts/{name}.t.sol:T:test()" for name in ("A", "Both"))
PLAY = "tests/contracts/invariant/Protocol.t.sol:P:test_play()"


@pytest.mark.parametrize(
    ("changed", "lost"),
    [
        ("contracts/A.sol", {OWN, BOTH, OUT_OF_TIME, ""}),
        ("contracts/B.sol", {BOTH, OUT_OF_TIME}),
        ("tests/contracts/A.t.sol", {OWN, OUT_OF_TIME}),
        ("tests/contracts/B.t.sol", {OUT_OF_TIME}),
        ("tests/vectors/vectors_of_A.json", {OWN, OUT_OF_TIME}),
        ("tests/vectors/vectors_of_B.json", {OUT_OF_TIME}),
        ("tests/vectors/of_nobody.json", set()),
    ],
)
def test_a_result_counts_until_what_it_rests_on_changes(sources: Path, changed: str, lost: set[str]) -> None:
    mutants = {by: make_mutant(number) for number, by in enumerate([OWN, BOTH, OUT_OF_TIME, ""], 1)}
    earlier = [Result(mutant.key, by, 1.0, Basis(sources).of(mutant, by)) for by, mutant in mutants.items()]
    assert len(mutate.choose_valid(mutants.values(), earlier, Basis(sources))) == 4
    path = sources / changed
    path.write_text((path.read_text() if path.exists() else "") + "// other")
    valid = mutate.choose_valid(mutants.values(), earlier, Basis(sources))
    assert {result.by for result in earlier} - {result.by for result in valid.values()} == lost


def test_a_kill_outweighs_a_survival_and_falls_with_its_suite(sources: Path) -> None:
    mutant, basis = make_mutant(1), Basis(sources)
    kill, survival = (Result(mutant.key, by, 1.0, basis.of(mutant, by)) for by in (OWN, ""))
    assert mutate.choose_valid([mutant], [kill, survival], basis) == {mutant.key: kill}
    (sources / "tests/contracts/A.t.sol").unlink()
    assert mutate.choose_valid([mutant], [kill, survival], Basis(sources)) == {mutant.key: survival}


class Recorder(Runner):
    """Notes what forge is asked for instead of asking it: every suite passes."""

    asked: list[str]

    def run(
        self, number: int, filters: list[str], limit_s: float | None = None, fail_fast: bool = True
    ) -> Verdict:
        self.asked = [*getattr(self, "asked", []), " ".join(filters)]
        return Verdict([], [PLAY, OWN], False, 1.0)


@pytest.mark.parametrize(
    ("path", "is_played"), [("contracts/A.sol", True), ("contracts/libraries/A.sol", False)]
)
def test_the_whole_protocol_is_played_last_and_not_for_libraries(
    sources: Path, path: str, is_played: bool
) -> None:
    for folder in ("contracts/libraries", "tests/contracts/invariant"):
        (sources / folder).mkdir()
    (sources / path).write_text("contract A {}")
    for suite in (PLAY, OWN):
        (sources / suite.split(":")[0]).write_text(f'import "{path}";')
    campaign = Campaign(recorder := Recorder(sources), [])
    campaign.measure_baseline()
    for by in (PLAY, OWN):
        campaign.learn(make_mutant(1, path), by)
    campaign.judge(make_mutant(2, path))
    first, *others = recorder.asked[1:]
    assert first == r"--match-test ^(test)\b"
    assert ["Protocol" in filters for filters in others] == [False, *([True] if is_played else [])]


class SlowRecorder(Recorder):
    """As Recorder, of three suites that rest on everything: one is dear."""

    names = ("tests/contracts/Dear.t.sol", "tests/contracts/Other.t.sol", "tests/contracts/Quick.t.sol")

    def run(
        self, number: int, filters: list[str], limit_s: float | None = None, fail_fast: bool = True
    ) -> Verdict:
        super().run(number, filters, limit_s, fail_fast)
        took = dict(zip(self.names, (20.0, 0.2, 0.1), strict=True))
        return Verdict([], [f"{name}:T:test()" for name in self.names], False, 20.3, took)


def test_a_dear_suite_is_run_alone_and_after_the_others(sources: Path) -> None:
    for name in SlowRecorder.names:
        (sources / name).write_text('import "contracts/A.sol"; import "contracts/B.sol";')
    campaign = Campaign(recorder := SlowRecorder(sources), [])
    campaign.measure_baseline()
    campaign.judge(make_mutant(1, "contracts/B.sol"))
    asked = [filters.split()[1] for filters in recorder.asked[1:]]
    assert asked == [
        "{none,tests/contracts/Other.t.sol,tests/contracts/Quick.t.sol}",
        "{none,tests/contracts/Dear.t.sol}",
    ]


def test_suites_are_timed_by_what_forge_writes() -> None:
    suites = {
        "a.t.sol:A": {"duration": "1m 2s 3ms 400µs 500ns"},
        "a.t.sol:B": {"duration": "7ms"},
        "b.t.sol:C": {"duration": "12µs 9ns"},
    }
    assert time_suites(suites) == pytest.approx({"a.t.sol": 62.010, "b.t.sol": 0.0})


def test_report_counts_survivors_with_a_reason_as_survivors() -> None:
    mutants = [make_mutant(number) for number in (1, 2, 3, 4)]
    ends = {mutants[0].key: "suite:test", mutants[1].key: "", mutants[2].key: ""}
    results = {key: Result(key, by, 1.0, "ab") for key, by in ends.items()}
    report = mutate.make_report(Plan(mutants, [], {}, []), results, {mutants[1].key: "no way to tell"}, [])
    assert (report["killed"], report["run"], report["complete"]) == (1, 3, False)
    assert report["score"] == 1 / 3 and report["without_reason"] == 1
    assert [entry["reason"] for entry in report["survivors"]] == ["no way to tell", ""]


def test_places_that_read_the_same_have_names_of_their_own(plan: Plan) -> None:
    names = [mutant.key for mutant in plan.mutants]
    assert len(set(names)) == len(names)
    assert [name for name in names if name.endswith("total = 0 => (nothing) (2)")]


def test_sample_is_spread_and_always_the_same() -> None:
    mutants = [make_mutant(n, "contracts/A.sol" if n <= 500 else "contracts/B.sol") for n in range(1, 1001)]
    first = mutate.choose(mutants, None, 100)
    assert first == mutate.choose(reversed(mutants), None, 100)
    assert 30 <= sum(mutant.path == "contracts/A.sol" for mutant in first) <= 70
    assert {mutant.path for mutant in mutate.choose(mutants, "B.sol", None)} == {"contracts/B.sol"}
    assert mutate.choose(mutants, None, 100, "other sources") != first


def test_a_suite_rests_on_what_it_deploys_by_name(tmp_path: Path) -> None:
    (tmp_path / "foundry.toml").write_text(Path("foundry.toml").read_text())
    texts = {
        "contracts/game/Vault.sol": 'import "./Pot.sol";',
        "contracts/game/Pot.sol": "",
        "contracts/game/Other.sol": "",
        "tests/World.sol": 'contract W { function f() public { create("Vault.sol:Vault"); } }',
        "tests/A.t.sol": 'import "./World.sol";',
    }
    for path, text in texts.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    assert set(read_reached(tmp_path, "tests/A.t.sol")) == set(texts) - {"contracts/game/Other.sol"}


def test_every_reason_names_code_that_is_there() -> None:
    """What is excused must exist: a reason for code that is gone hides the next survivor there."""
    reasons = mutate.read_reasons()
    for key in reasons:
        path, function, rest = key.split(":", 2)
        original = rest.split(" => ")[0].strip().removeprefix(function.split(".")[-1] + "() ")
        assert original in " ".join((ROOT / path).read_text().split()), f"survivors.toml: no such code: {key}"
    assert all(len(reason) > 20 for reason in reasons.values())


def test_a_proof_with_a_loop_cut_short_or_of_nothing_is_none() -> None:
    tests = [
        {"name": "check_a(uint8)", "exitcode": 0, "num_bounded_loops": 0, "num_paths": [3, 1, 0]},
        {"name": "check_b()", "exitcode": 0, "num_bounded_loops": 1},
        {"name": "check_c()", "exitcode": 1},
        {"name": "refute_d()", "exitcode": 1},
        {"name": "refute_e()", "exitcode": 0},
    ]
    report = prove.make_report(tests, 1.0)
    assert (report["proved"], report["not_proved"]) == (
        ["check_a", "refute_d"],
        ["check_b", "check_c", "refute_e"],
    )
    assert json.dumps(report)


def test_a_check_that_the_prover_never_reached_is_not_proved() -> None:
    report = prove.make_report(prove.add_missing([{"name": "check_bounded(uint8)", "exitcode": 0}], []), 1.0)
    assert report["proved"] == ["check_bounded"]
    assert {"check_bonds", "refute_noSeatIsSlashed"} <= set(report["not_proved"])
