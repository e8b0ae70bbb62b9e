"""Disputes of an exact task on the real contracts: found by hashes, proven by one element."""

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.e2e import test_disputes
from tests.e2e.cheating import allow_cheating, make_cheating_solver, make_lying_verifier
from tests.e2e.faults import convict_all
from tests.e2e.harassing import HARASSER, list_harassment
from tests.e2e.roles import make_cast
from tests.e2e.world import TINY_PLAN, World, open_world, run_world
from tests.task_plans import respecify_plan
from touchstone.demo.planted import make_planting_compute
from touchstone.node.defending.dispute_answers import DisputeAnswers
from touchstone.node.kit.config import NodeConfig
from touchstone.node.loop.node import Node
from touchstone.node.records.audit_records import AuditBook, VoteMade
from touchstone.node.records.compute import TracedStep
from touchstone.node.training.worker_team import Team
from touchstone.protocol.spec.game.enums import SeatStatus
from touchstone.protocol.spec.game.inner_dispute import LEAVES_MAX, DisputeStage, InnerBook
from touchstone.protocol.spec.merkle import compute_levels, hash_leaf
from touchstone.protocol.spec.program import get_constant_roots
from touchstone.protocol.spec.program_operations import Operation
from touchstone.protocol.spec.statement_checks import do_roots_fit_word
from touchstone.protocol.spec.statements import VoteOpening

FAULTS = ("QUANTIZED_PRODUCT_SUM", "QUANTIZE", "SCALE_OF", "EXPONENTIAL", "SUM", "TOKENS")
FETCHED = re.compile(r"fetched (\d+) of (\d+) bytes of the trace")


async def test_each_kind_of_fault_of_an_exact_task_is_convicted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    allow_cheating(monkeypatch)
    plan = respecify_plan(TINY_PLAN, numeric_format="exact15")
    endings = await convict_all(tmp_path, FAULTS, base=plan)
    assert [one.fault for one in endings if not one.is_right] == []
    shares = [int(found) / int(size) for found, size in FETCHED.findall((tmp_path / "said.txt").read_text())]
    assert len(shares) >= len(FAULTS) and max(shares) < 0.1


async def test_who_accepts_against_its_own_replay_and_opens_nothing_is_convicted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """liar: each step of its replay is right, its word alone is false, and nobody can ask."""
    allow_cheating(monkeypatch)
    open_vote = AuditBook.open_vote

    def hide(book: AuditBook, made: VoteMade) -> VoteOpening | None:
        opening = open_vote(book, made)
        return opening if opening is None or do_roots_fit_word(opening) else None

    monkeypatch.setattr(AuditBook, "open_vote", hide)
    monkeypatch.setattr(test_disputes, "PLAN", respecify_plan(test_disputes.PLAN, numeric_format="exact15"))
    wrong = make_planting_compute(Operation.SUBTRACT)
    cast = make_cast(0, 1, 0) | {
        **{f"cheat {number}": make_cheating_solver(wrong) for number in range(3)},
        "liar": make_lying_verifier(),
        "accomplice": make_lying_verifier(wrong),
    }
    guilty = set(cast) - {"verifier 0"}
    async with open_world(tmp_path, tuple(cast)) as world:
        assert await test_disputes.play_until_closed(world, cast, guilty) == guilty


async def test_honest_statements_of_an_exact_task_outlive_whoever_harasses_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each claim and each vote is disputed, with demands for leaves, quantized values among them: all is
    answered, and nobody is convicted. Solver 0 trains with two workers, and answers with one."""
    allow_cheating(monkeypatch)
    configure, teams = World.configure, list[Team]()

    def add_workers(world: World, name: str) -> NodeConfig:
        """As it is configured; solver 0 with workers."""
        return replace(configure(world, name), workers=2 if name == "solver 0" else 1)

    def note(node: Node) -> None:
        """Its team, once it has joined."""
        assert node.rooms.tools.team is not None
        teams.append(node.rooms.tools.team)

    monkeypatch.setattr(World, "configure", add_workers)
    schedule = replace(TINY_PLAN.schedule, total_steps=TINY_PLAN.inner_steps)
    plan = respecify_plan(
        TINY_PLAN, numeric_format="exact15", rounds=1, schedule=schedule, late_chance=0,
        least_whistleblowers=0,
    )  # fmt: skip
    cast = make_cast(3, 3, 0) | {"harasser": HARASSER}
    cast["solver 0"] = replace(cast["solver 0"], spoil=note)
    books = list[InnerBook]()

    def is_enough(submitter: Node) -> bool:
        """Whether all that the harasser opened is over, and it has nothing left to open."""
        harasser = world.parties.get("harasser")
        book = None if harasser is None or harasser.joined is None else harasser.state.inner.get(world.task)
        if harasser is None or book is None or len(book.disputes) < 2 * 3:
            return False
        books[:] = [book]
        is_idle = not list(list_harassment(harasser.get_view(), harasser.state.head_block + 1))
        return is_idle and not any(one.is_open for one in book.disputes.values())

    async with open_world(tmp_path, tuple(cast)) as world:
        game, _ = await run_world(world, plan, cast, until=is_enough)
    (book,), (team,) = books, teams
    assert team.is_working and team._step_s is not None, "it has trained with its workers"
    team.close()
    assert not any(seat.status == SeatStatus.CONVICTED for seat in game.seats.values())
    assert {one.stage for one in book.disputes.values()} == {DisputeStage.CLEARED}
    assert all(len(one.shown) == len(one.demands) == LEAVES_MAX for one in book.disputes.values())
    assert {one.statement.draw is None for one in book.disputes.values()} == {True, False}


def lie_about_known_roots(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each claimant lists other roots for W and for a constant than those that everybody knows: no proof
    takes these from the list, but they stand beside what a proof takes from it."""
    trace = DisputeAnswers._trace

    def trace_and_lie(answers: DisputeAnswers, *arguments: Any) -> TracedStep:
        traced = trace(answers, *arguments)
        roots = list(traced.tree.roots)
        constant = max(get_constant_roots(traced.tree.program))
        roots[0] = roots[constant] = hash_leaf(b"a lie")
        answers.store.put_roots(roots)
        return traced._replace(tree=replace(traced.tree, levels=compute_levels(roots)))

    monkeypatch.setattr(DisputeAnswers, "_trace", trace_and_lie)


@pytest.mark.parametrize("numeric_format", ["exact15", "float32"])
async def test_a_false_list_of_roots_that_no_proof_takes_saves_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, numeric_format: str
) -> None:
    allow_cheating(monkeypatch)
    lie_about_known_roots(monkeypatch)
    plan = respecify_plan(TINY_PLAN, numeric_format=numeric_format)
    endings = await convict_all(tmp_path, ("SUM", "LABELS"), base=plan)
    assert [one.fault for one in endings if not one.is_right] == []
