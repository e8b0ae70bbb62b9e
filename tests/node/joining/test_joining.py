"""What a node refuses before it stakes, and a journal that is not the one of what it did."""

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.world import TINY_PLAN, make_dataset
from tests.kit.nodes import TASK, change_tools, get_account
from tests.node.merging.stage import open_stage
from touchstone.node.joining import machine_check, seat_taking
from touchstone.node.joining.dataset import DatasetSource, count_kept_blocks
from touchstone.node.joining.machine_check import MachineCheck, describe_check
from touchstone.node.joining.seat_taking import SeatRequest
from touchstone.node.joining.task_inputs import PartedCorpus
from touchstone.node.joining.task_reading import read_spec, refer_dataset, refuse_harmful, require_format
from touchstone.node.submit import build_task
from touchstone.protocol.compute.batches import prepare_steps
from touchstone.protocol.compute.bounds.exhibits import Exhibit
from touchstone.protocol.compute.bounds.rehearsal import Rehearsal
from touchstone.protocol.compute.program.step_facts import require_step_root
from touchstone.protocol.economics.assumptions import Figures
from touchstone.protocol.spec.errors import EnvironmentFault, InvalidInput, TouchstoneError
from touchstone.protocol.spec.game import calls
from touchstone.protocol.spec.game.enums import SeatRole
from touchstone.protocol.spec.game.logged_terms import read_terms
from touchstone.protocol.spec.game.posted_terms import PostedTerms, make_spec
from touchstone.protocol.spec.game.presets import BOUNDS_LOCAL
from touchstone.protocol.spec.game.rule_refusals import GameRefusal
from touchstone.protocol.spec.program_operations import Operation
from touchstone.protocol.spec.typed_data import SigningDomain
from touchstone.scripts.roles.role_nodes import Member

POSTED, TRAINING = build_task(TINY_PLAN, make_dataset(), get_account(1), bytes(32))


def judge(posted: PostedTerms, figures: Figures | None = None) -> None:
    """What a node does with the terms of a task, as far as it needs no chain."""
    terms = read_terms({"terms": posted, "task": bytes(32)}, SigningDomain(1, "0x" + "11" * 20))
    spec = make_spec(posted, TRAINING)
    refuse_harmful(terms, spec, figures, BOUNDS_LOCAL)
    require_format(posted.format, spec)
    require_step_root(spec)


def test_a_sound_task_passes() -> None:
    judge(POSTED)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"schedule_root": b"s" * 32}, "schedule_root"),
        ({"zero_root": b"z" * 32}, "zero_root"),
        ({"step_root": b"f" * 32}, "step root"),
        ({"parameter_count": 0}, "parameter_count"),
        ({"rounds": 4}, "total_steps"),
        ({"segment_steps": 3}, "inner_steps"),
        ({"outer_momentum": 0x3F800000}, "outer_momentum"),
        ({"outer_learning_rate": 0}, "outer_learning_rate"),
        ({"format": 1}, "another numeric format"),
        ({"format": 2}, "another numeric format"),
        ({"limits": replace(TINY_PLAN.limits, tau_w=1)}, "every tau at least"),
        ({"windows": replace(TINY_PLAN.windows, respond=1)}, "respond"),
        ({"windows": replace(TINY_PLAN.windows, train_min=20)}, "train_min"),
        ({"amounts": replace(TINY_PLAN.amounts, query_bond=0)}, "query_bond"),
    ],
)
def test_what_could_hurt_is_refused_by_name(change: dict[str, Any], reason: str) -> None:
    with pytest.raises(TouchstoneError, match=reason):
        judge(replace(POSTED, **change))


def test_amounts_are_judged_by_the_operators_figures() -> None:
    with pytest.raises(InvalidInput, match="solver_pay"):
        judge(POSTED, Figures(cost=10_000, gain=10, round_blocks=100))


async def test_a_journal_that_lacks_an_own_claim_is_refused(tmp_path: Path) -> None:
    """A node that went on with it could not open what it committed to, and would lose its stake."""
    async with open_stage(tmp_path) as stage:
        async with stage.open(1) as node:
            await stage.commit(1)
            node.rooms.seat_taking.require_records()
        (tmp_path / "home1").rename(tmp_path / "elsewhere")
        async with stage.open(1) as node:
            with pytest.raises(EnvironmentFault, match="the journal lacks a statement that this account"):
                node.rooms.seat_taking.require_records()


async def test_an_unknown_task_is_named(tmp_path: Path) -> None:
    async with open_stage(tmp_path, 1) as stage:
        with pytest.raises(InvalidInput, match="unknown task"):
            read_spec(stage.nodes[1].state, b"x" * 32)


@pytest.mark.parametrize(
    ("numeric_format", "held"),
    [("float32", "all inside the bounds"), ("exact15", "two kinds of kernels give the same bits")],
)
def test_the_check_says_what_it_compared(numeric_format: str, held: str) -> None:
    """An exact task has no bounds."""
    unread: Any = None
    shown = [Exhibit(Operation.ADD, b"", unread, is_fault) for is_fault in (False, True)]
    said = describe_check(Rehearsal(unread, tuple(shown)), numeric_format)
    assert said.startswith(f"checked one step: {held}, ") and "1 kinds" in said and "(2 verdicts)" in said


async def test_a_task_that_takes_no_seat_costs_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not even tokens that are moved into credit: the refusal comes before anything is sent."""
    async with open_stage(tmp_path, 4) as stage:
        node = stage.nodes[4]
        monkeypatch.setattr(MachineCheck, "check_machine", _check_nothing)
        stage.world.send(calls.HaltTask(), stage.world.state.terms.submitter)
        stage.sync()
        with pytest.raises(GameRefusal, match="TaskHalted"):
            await node.rooms.seat_taking.take_seat(SeatRequest(SeatRole.VERIFIER))
        chain: Any = node.chain
        assert not chain.sent


async def test_a_chain_that_cannot_be_followed_any_more_ends_the_joining(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The machine is checked for minutes, and what follows would act on a fold that is wrong."""

    async def check_for_ever(check: MachineCheck) -> None:
        await asyncio.Event().wait()

    async def fail() -> None:
        raise EnvironmentFault(what="unreadable", expected="", actual="", remedy="")

    monkeypatch.setattr(MachineCheck, "check_machine", check_for_ever)
    monkeypatch.setattr(seat_taking, "require_joinable", lambda *_: None)
    async with open_stage(tmp_path, 4) as stage:
        node = stage.nodes[4]
        change_tools(node, keep_up=fail)
        with pytest.raises(EnvironmentFault, match="unreadable"):
            async with asyncio.timeout(10):
                await node.rooms.seat_taking.take_seat(SeatRequest(SeatRole.VERIFIER))


async def test_nothing_is_locked_once_the_operator_does_not_want_the_seat(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`touchstone leave` was typed while the machine was checked. It said that no seat is taken unasked."""
    asked = list[object]()

    def refuse(game: object) -> None:
        asked.append(game)
        raise InvalidInput(what="left", expected="", actual="", remedy="")

    async with open_stage(tmp_path, 4) as stage:
        node = stage.nodes[4]
        chain: Any = node.chain
        later: Any = replace(node.game, next_round=7)

        async def check_for_minutes(check: MachineCheck) -> None:
            node.state.games[node.task.task] = later

        monkeypatch.setattr(MachineCheck, "check_machine", check_for_minutes)
        monkeypatch.setattr(machine_check, "find_seat", lambda game, account: None)
        monkeypatch.setattr(seat_taking, "require_joinable", lambda *_: None)
        with pytest.raises(InvalidInput, match="left"):
            await node.rooms.seat_taking.take_seat(SeatRequest(SeatRole.VERIFIER, require_wanted=refuse))
        assert asked == [later] and not chain.sent, "asked by the task as it is after the check"


async def _check_nothing(check: MachineCheck) -> None:
    pass


async def open_dataset(node: Member, *, is_whole: bool = False) -> PartedCorpus:
    source = DatasetSource(node.store, node.parts, node.rooms.tools.peers, node.config.notify, is_whole)
    return await source.open(node.task.spec)


@pytest.mark.parametrize("is_whole", [True, False])
async def test_who_wants_so_has_the_whole_dataset_before_it_stakes(tmp_path: Path, is_whole: bool) -> None:
    """Then a submitter that stops serving costs it nothing; else not even one leaf is fetched beforehand."""
    async with open_stage(tmp_path, 1, 2) as stage:
        server, node = stage.nodes[1], stage.nodes[2]
        server.store.put_dataset(make_dataset())
        node.state.games[TASK] = replace(node.state.games[TASK], seats={})
        spec = node.task.spec
        corpus = await open_dataset(node, is_whole=is_whole)
        assert node.store.has(refer_dataset(spec.training)) == is_whole
        stage.nodes[2].state.network.peers.clear()
        if is_whole:
            await prepare_steps(corpus, spec.training, bytes(32), 0, range(3))
        else:
            with pytest.raises(EnvironmentFault, match="no peer serves a part"):
                await prepare_steps(corpus, spec.training, bytes(32), 0, range(3))


@pytest.mark.parametrize("is_seated", [True, False])
async def test_who_has_a_seat_starts_without_the_whole_dataset(tmp_path: Path, is_seated: bool) -> None:
    """An operator sets `whole_dataset` when the submitter stops serving: its node has disputes to answer."""
    async with open_stage(tmp_path, 1, 2) as stage:
        server, node = stage.nodes[1], stage.nodes[2]
        server.store.put_dataset(make_dataset())
        spec = node.task.spec
        await open_dataset(node)
        stage.nodes[2].state.network.peers.clear()
        if is_seated:
            corpus = await open_dataset(node, is_whole=True)
            assert corpus.parts.outline.ref == refer_dataset(spec.training)
        else:
            node.state.games[TASK] = replace(node.state.games[TASK], seats={})
            with pytest.raises(TouchstoneError, match="no peer"):
                await open_dataset(node, is_whole=True)


def test_leaves_stay_as_long_as_a_statement_about_them_can_be_disputed() -> None:
    """docs/spec.md, 12.1: the latest `dutyUntil` of a round, counted from its first block."""
    terms = read_terms({"terms": POSTED, "task": bytes(32)}, SigningDomain(1, "0x" + "11" * 20))
    w = terms.windows
    late = w.dispute + max(3 * w.audit_max, w.dispute, 2 * w.audit_max + w.query)
    assert (
        count_kept_blocks(terms)
        >= w.train_max + max(w.dispute, 2 * w.audit_max + w.query, late) + 6 * w.respond
    )
