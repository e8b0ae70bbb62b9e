"""Nobody stakes under a referee that judges otherwise, or from a machine that errs."""

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from protocol.actions import rehearse
from protocol.actions.join import join_task
from protocol.actions.rehearse import is_exposed, rehearse_task
from protocol.adapters.chain import ContractRefused
from protocol.compute import rehearsal
from protocol.compute.interpreter import Interpreter
from protocol.compute.program import build_program, describe_program
from protocol.spec.containers import NodeProof, StepContext
from protocol.spec.errors import EnvironmentFault, InvalidInput
from protocol.spec.program import Operation
from tests.protocol.actions.lone import DISPUTE_GAME, REFEREE, Lone, get_spec
from tests.protocol.actions.test_join import give_dataset, post
from tests.protocol.spec.simulator import make_word

NEW = make_word("another")
KINDS = len(Operation)
Judge = Callable[..., Any]


@pytest.fixture
def newcomer(solver: Lone) -> Lone:
    """A node that is asked to join a task on which it has staked nothing."""
    give_dataset(solver)
    post(solver, NEW)
    return solver


def answer_by(lone: Lone, change: Callable[[Judge, tuple[Any, ...]], Any]) -> None:
    """Another referee, which may ask the right one."""
    right = lone.chain.answers["referee.judge"]
    lone.chain.answers["referee.judge"] = lambda *arguments: change(right, arguments)


async def refuse_to_join(lone: Lone, kind: type[Exception], words: str) -> None:
    """It does not, for this reason, and has sent nothing."""
    before = lone.party.task
    with pytest.raises(kind, match=words):
        await join_task(lone.party, NEW)
    assert lone.party.task == before
    assert {method for method, _ in lone.chain.sent} <= {"judge", "referee"}


def get_operation(node: NodeProof) -> Operation:
    return build_program(describe_program(get_spec().training)).program.nodes[node.number].operation


async def test_a_referee_that_judges_alike_is_asked_about_each_kind_right_and_wrong(newcomer: Lone) -> None:
    await rehearse_task(newcomer.party, NEW, get_spec(), newcomer.party.corpus)
    asked = [get_operation(node) for _, node, *_ in newcomer.chain.list_sent("judge")]
    assert sorted(asked) == sorted(2 * list(Operation))
    assert newcomer.lines == [
        f"checked one step: all inside the bounds, and the referee judges {KINDS} kinds of operations "
        f"as this node does ({2 * KINDS} verdicts)"
    ]


async def test_another_account_draws_other_elements(newcomer: Lone) -> None:
    await rehearse_task(newcomer.party, NEW, get_spec(), newcomer.party.corpus)
    newcomer.chain.address = "0x" + 40 * "9"
    await rehearse_task(newcomer.party, NEW, get_spec(), newcomer.party.corpus)
    asked = [(node.number, element) for _, node, element, *_ in newcomer.chain.list_sent("judge")]
    assert asked[: 2 * KINDS] != asked[2 * KINDS :]


@pytest.mark.parametrize("operation", [Operation.PRODUCT_SUM, Operation.SIGMOID, Operation.COPY])
@pytest.mark.parametrize("lie", [False, True])
async def test_a_referee_that_misjudges_one_kind_is_refused(
    newcomer: Lone, operation: Operation, lie: bool
) -> None:
    def judge(right: Judge, arguments: tuple[Any, ...]) -> bool:
        return lie if get_operation(arguments[1]) is operation else bool(right(*arguments))

    answer_by(newcomer, judge)
    words = ("no fault for an honest", "got a fault") if lie else ("a fault for a spoiled", "got no fault")
    pattern = (
        rf"{REFEREE}, node \d+ \({operation.name}\), element \d+: expected {words[0]} element, {words[1]}"
    )
    await refuse_to_join(newcomer, InvalidInput, pattern)


async def test_a_referee_that_takes_the_program_otherwise_is_refused(newcomer: Lone) -> None:
    refusal = ContractRefused(
        name="NodeMalformed", values={}, what="the node has another length (NodeMalformed)",
        expected="96 bytes", actual="120 bytes", remedy="",
    )  # fmt: skip
    newcomer.chain.answers["referee.judge"] = refusal
    await refuse_to_join(newcomer, InvalidInput, r"does not judge as .* got a refusal: .*NodeMalformed.* 120")


async def test_an_address_without_a_referee_is_refused(newcomer: Lone) -> None:
    silence = EnvironmentFault(
        what="the chain answered something that the ABI does not describe", expected="bool", actual="0 bytes",
        remedy="", retryable=False,
    )  # fmt: skip
    newcomer.chain.answers["referee.judge"] = silence
    await refuse_to_join(newcomer, InvalidInput, "does not judge as .* got no verdict: .* 0 bytes")


async def test_a_chain_that_is_down_is_no_disagreement(newcomer: Lone) -> None:
    newcomer.chain.answers["referee.judge"] = EnvironmentFault(
        what="no answer", expected="", actual="", remedy=""
    )
    await refuse_to_join(newcomer, EnvironmentFault, "no answer")


async def test_a_dispute_game_that_asks_another_referee_is_refused(newcomer: Lone) -> None:
    newcomer.chain.answers["referee"] = DISPUTE_GAME
    await refuse_to_join(newcomer, InvalidInput, re.escape(f"expected {REFEREE}, got {DISPUTE_GAME}"))
    assert not newcomer.chain.list_sent("judge")


async def test_facts_and_start_are_the_task_s(newcomer: Lone) -> None:
    def judge(right: Judge, arguments: tuple[Any, ...]) -> Any:
        context: StepContext = arguments[0]
        assert context.start.weights_root == get_spec().terms.initial_weights_root
        assert context.facts.program_root == get_spec().training.program_root
        return right(*arguments)

    answer_by(newcomer, judge)
    await rehearse_task(newcomer.party, NEW, get_spec(), newcomer.party.corpus)


def make_kernels_err(patch: pytest.MonkeyPatch) -> None:
    class Erring(Interpreter):
        def iterate(self, *given: Any) -> Any:
            for number in super().iterate(*given):
                node = self.program.nodes[number]
                if node.operation is Operation.SIGMOID:
                    self.tensors[node.output.buffer].mul_(1.001)
                yield number

    patch.setattr(rehearsal, "Interpreter", Erring)


async def test_a_machine_that_leaves_the_bounds_is_told_before_it_stakes(
    newcomer: Lone, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_kernels_err(monkeypatch)
    words = r"outside of the bounds, .* \(SIGMOID\): .* times its bound\. Do not stake from this machine"
    await refuse_to_join(newcomer, EnvironmentFault, words)
    assert not newcomer.chain.list_sent("judge")


async def test_who_is_exposed_already_is_told_and_goes_on(
    solver: Lone, monkeypatch: pytest.MonkeyPatch
) -> None:
    task, party = solver.party.task, solver.party
    assert is_exposed(party, task)
    make_kernels_err(monkeypatch)
    await rehearse_task(party, task, party.spec, party.corpus)
    assert len(solver.lines) == 1 and solver.lines[0].startswith("WARNING: this machine computes outside")


def test_only_who_is_in_a_round_that_is_not_over_is_exposed(
    solver: Lone, monkeypatch: pytest.MonkeyPatch
) -> None:
    party, state = solver.party, solver.party.round(0)
    assert is_exposed(party, party.task)
    with monkeypatch.context() as patch:
        patch.setattr(rehearse, "is_finished", lambda state, block: True)
        assert not is_exposed(party, party.task)
    tasks = party.view.tasks
    tasks[party.task] = replace(tasks[party.task], rounds=(replace(state, solvers=(), verifiers=()),))
    assert not is_exposed(party, party.task)
