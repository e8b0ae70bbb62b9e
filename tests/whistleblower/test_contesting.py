"""Contests of posted roots: which root a node contests and when, what it names, answers and brings."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import pytest

from tests.kit.nodes import TASK, get_account, get_sent
from tests.node.kit.test_bonds import Wallet
from tests.node.merging.stage import Stage, deal_anew, open_stage
from tests.node.specs import get_spec
from tests.protocol.spec.game.simulation import make_word
from touchstone.node.kit.bonds import SPARE_BONDS
from touchstone.node.kit.duty import Wait
from touchstone.node.merging.turns import SPREAD_BLOCKS, compute_rank
from touchstone.node.models.expected_merge import get_root, make_key
from touchstone.node.records.claim_records import MergeMade
from touchstone.node.records.round_seats import sort_by_shard
from touchstone.protocol.adapters.store.blobs import BlobRef, refer_delta, refer_tensor
from touchstone.protocol.compute.digest import build_byte_tree
from touchstone.protocol.spec.data_trees import count_tensor_leaves
from touchstone.protocol.spec.errors import EnvironmentFault
from touchstone.protocol.spec.game import calls
from touchstone.protocol.spec.game.enums import SeatRole
from touchstone.protocol.spec.game.inner_contest import ContestFolds, InnerContest, InnerTurn
from touchstone.protocol.spec.game.state import compute_seat_id
from touchstone.scripts.roles.role_nodes import Member, Verifier
from touchstone.whistleblower import contesting
from touchstone.whistleblower.contesting import (
    ATTEMPTS_MAX,
    LATEST_RESPONDS,
    BeginContest,
    CheckRoot,
    MoveContest,
)

ALL = (0, 1, 2)
COUNT = get_spec().terms.parameter_count
WRONG = make_word("wrong root")
NAME = make_word("contest")
SIGNERS = tuple(compute_seat_id(SeatRole.SOLVER, number) for number in range(2))
"""The third solver has not signed."""


@asynccontextmanager
async def open_posted(folder: Path, root: bytes | None = None) -> AsyncIterator[tuple[Stage, MergeMade]]:
    """Three solvers after a root was posted over all claims; what the first one merged. root: None for the
    right one."""
    async with open_stage(folder, 1, 2, 3) as stage:
        stage.world.state = deal_anew(stage.world.state)
        stage.sync()
        await stage.commit(1, 2, 3)
        game_round = stage.draw()
        assert sort_by_shard(game_round, ALL) != ALL, "as this beacon deals them"
        await stage.fetch_all(1, 2, 3)
        stage.accept(*ALL)
        made = await stage.nodes[1].rooms.outer_steps.merge_claims(make_key(game_round, ALL))
        stage.world.send(calls.PostRoot(0, ALL, root or get_root(made), SIGNERS), get_account(1))
        stage.sync()
        for node in stage.nodes.values():
            chain: Any = node.chain
            chain.vault = chain.token = Wallet(100_000, 0)
        yield stage, made


def list_due(node: Member, block: int) -> list[Any]:
    return list(contesting.list_duties(node.get_view(), block))


def list_moves(node: Member, block: int) -> list[MoveContest]:
    return [one for one in list_due(node, block) if isinstance(one, MoveContest)]


def get_until(stage: Stage) -> int:
    """The last block in which the root can be contested."""
    return stage.world.state.rounds[0].root_until


def set_contest(node: Member, **changes: Any) -> InnerContest:
    """The one contest of the posted root that the node has read of."""
    root = node.game.rounds[0].root or b""
    contest = replace(InnerContest(NAME, 0, root, "another", 1 << 30), **changes)
    depth = node.state.contests[TASK].depth
    node.state.contests[TASK] = ContestFolds(depth, {contest.name: contest})
    return contest


def get_last_sent(node: Member) -> Any:
    return get_sent(node)[-1]


# Which root
@pytest.mark.parametrize("is_right", [True, False])
async def test_a_root_is_merged_first_and_contested_where_that_comes_to_another(
    tmp_path: Path, is_right: bool
) -> None:
    async with open_posted(tmp_path, None if is_right else WRONG) as (stage, _):
        node, block, until = stage.nodes[2], stage.world.block, get_until(stage)
        (check,) = list_due(node, block)
        assert check == CheckRoot(0, node.game.rounds[0].root or b"", until)
        await check.perform(node.list_challenges().contesting)
        late = [one for one in list_due(node, until) if not isinstance(one, Wait)]
        assert late == ([] if is_right else [BeginContest(0, WRONG, until, 0)])
        assert list_due(node, until + 1) == [], "its window is over"


async def test_beside_another_contest_a_node_waits_and_it_contests_a_root_no_third_time(
    tmp_path: Path,
) -> None:
    """Each further open contest of a root costs one bond more, but the first one may be lost on purpose."""
    async with open_posted(tmp_path, WRONG) as (stage, _):
        node, until, before = stage.nodes[1], get_until(stage), stage.world.state
        latest = until - LATEST_RESPONDS * before.terms.windows.respond
        stage.world.send(calls.OpenContest(0, 9_999), "another")
        stage.sync()
        assert list_due(node, latest - 1) == [Wait(latest)]
        assert list_due(node, latest) == [BeginContest(0, WRONG, until, 0)]
        stage.world.send(calls.OpenContest(0, 9_999), node.account)
        stage.sync()
        assert list_due(node, latest) == [], "once at a time"
        stage.world.state = before
        stage.sync()
        lost = InnerContest(NAME, 0, WRONG, node.account, 0, InnerTurn.HOLDS)
        others = {b"other": replace(lost, contester="another"), b"root": replace(lost, root=NAME)}
        others[b"moot"] = replace(lost, turn=InnerTurn.MOOT)
        for count in range(ATTEMPTS_MAX + 1):
            own = {bytes([number]): lost for number in range(count)}
            node.state.contests[TASK] = ContestFolds(9, {**own, **others})
            due = [BeginContest(0, WRONG, until, count)] if count < ATTEMPTS_MAX else []
            assert list_due(node, until) == due


async def test_a_contest_that_is_sent_again_is_the_same_one(tmp_path: Path) -> None:
    """Its salt is in the journal before: who was killed in between opens no second one."""
    async with open_posted(tmp_path, WRONG) as (stage, _):
        node, bond_wei = stage.nodes[1], stage.world.state.terms.amounts.contest_bond
        for _ in range(2):
            await BeginContest(0, WRONG, get_until(stage), 0).perform(node.list_challenges().contesting)
        first, second = get_sent(node)
        (salt,) = [one.salt for one in node.rooms.tools.claims.contests.values()]
        limit_wei = min((1 + SPARE_BONDS) * bond_wei, stage.world.state.terms.amounts.solver_stake)
        assert first == second == ("game.contest", (TASK, 0, limit_wei, salt))


# Moves
@pytest.mark.parametrize("child", [0, 1, None])
async def test_the_contester_names_the_first_node_that_its_own_tree_lacks(
    tmp_path: Path, child: int | None
) -> None:
    """Where it lacks none of them it is wrong, and says so instead of naming any."""
    async with open_posted(tmp_path, WRONG) as (stage, made):
        node, nodes = stage.nodes[1], [made.weights_root, made.momentum_root]
        for place in range(child if child is not None else 2, 2):
            nodes[place] = make_word("node", place)
        set_contest(node, contester=node.account, turn=InnerTurn.CONTESTER, nodes=tuple(nodes))
        (move,) = list_moves(node, stage.world.block)
        assert move == MoveContest(NAME, InnerTurn.CONTESTER, 0)
        if child is None:
            with pytest.raises(EnvironmentFault, match="right at every entry that was shown"):
                await move.perform(node.list_challenges().contesting)
        else:
            await move.perform(node.list_challenges().contesting)
            assert get_last_sent(node) == ("game.name_child", (TASK, NAME, child, nodes))


async def test_a_verifier_plays_a_contest_on_that_its_account_opened_with_another_seat(
    tmp_path: Path,
) -> None:
    """`touchstone verify` said that it goes on for the bond, and named no child: the bond was lost. It
    contests nothing itself, and answers for nobody."""
    async with open_posted(tmp_path, WRONG) as (stage, made):
        node, nodes = stage.nodes[1], (make_word("node"), made.momentum_root)
        nothing: Any = MagicMock()
        verifier = Verifier(node.config, nothing, node.store, node.journal, node.client, joined=nothing)
        listing = [room.list_duties for room in verifier.list_rooms()]
        assert contesting.list_own_moves in listing and contesting.list_duties not in listing
        assert not list(contesting.list_own_moves(node.get_view(), get_until(stage)))
        set_contest(node, turn=InnerTurn.CONTESTER, nodes=nodes)
        assert not list(contesting.list_own_moves(node.get_view(), stage.world.block))
        set_contest(node, contester=node.account, turn=InnerTurn.CONTESTER, nodes=nodes)
        due = list(contesting.list_own_moves(node.get_view(), stage.world.block))
        assert due == [MoveContest(NAME, InnerTurn.CONTESTER, 0)]
        set_contest(node, contester=node.account, turn=InnerTurn.CONTESTER, nodes=nodes, clock=0)
        assert not list(contesting.list_own_moves(node.get_view(), stage.world.block)), (
            "its clock has run out"
        )


async def test_only_who_merged_the_posted_root_answers_for_it_and_its_signers_go_first(
    tmp_path: Path,
) -> None:
    """The others wait a quarter of the time, but no node longer than half of it. An answer opens what was
    named: the posted root into two, a node into the sixteen below it."""
    async with open_posted(tmp_path) as (stage, made):
        for seed in (2, 3):
            await stage.nodes[seed].rooms.outer_steps.merge_claims(make_key(stage.world.state.rounds[0], ALL))
        respond, block = stage.world.state.terms.windows.respond, stage.world.block
        solvers = stage.world.state.rounds[0].pool.solvers
        for seed, node in stage.nodes.items():
            set_contest(node, clock=block + respond)
            is_signer = solvers[stage.get_slot(seed)] in SIGNERS
            rank = compute_rank(node.get_view(), stage.world.state.rounds[0])
            first = (0 if is_signer else respond // 4) + SPREAD_BLOCKS * rank
            turn, move = block + min(first, respond // 2), MoveContest(NAME, InnerTurn.ANSWER, 0)
            assert list_due(node, turn) == [move]
            assert turn == block or list_due(node, turn - 1) == [Wait(turn)]
        await move.perform(node.list_challenges().contesting)
        nodes = [made.weights_root, made.momentum_root]
        assert get_last_sent(node) == ("game.answer_contest", (TASK, NAME, nodes))
        set_contest(node, tensor=1, level=1, index=0)
        await MoveContest(NAME, InnerTurn.ANSWER, 1).perform(node.list_challenges().contesting)
        _, (_, _, below) = get_last_sent(node)
        levels = build_byte_tree(node.store.get(refer_tensor(made.momentum_root, COUNT))).levels
        row = next(one for one in reversed(levels) if len(one) >= 9)
        assert len(below) == 16 and below[: len(row)] == row
    async with open_posted(tmp_path / "wrong", WRONG) as (stage, _):
        node = stage.nodes[1]
        set_contest(node, clock=stage.world.block)
        assert list_moves(node, stage.world.block) == []


async def test_the_leaf_is_brought_with_all_that_it_is_computed_from(tmp_path: Path) -> None:
    """W, M, then each claim in the order of the shards: the contract adds in this order."""
    async with open_posted(tmp_path) as (stage, _):
        node, game_round, leaf = stage.nodes[1], stage.world.state.rounds[0], 1
        contest = set_contest(node, turn=InnerTurn.LEAF, level=7, index=leaf)
        await MoveContest(NAME, contest.turn, contest.level).perform(node.list_challenges().contesting)

        def open_leaf(ref: BlobRef) -> bytes:
            (proof,) = node.store.open_leaves(ref, [leaf])
            return proof.data + b"".join(proof.path)

        terms, expected = get_spec().terms, b""
        for root in (terms.initial_weights_root, terms.zero_root):
            expected += open_leaf(refer_tensor(root, COUNT))
        proofs = {name.claim_root: proof for name, proof in node.rooms.tools.claims.proofs.items()}
        for slot in sort_by_shard(game_round, ALL):
            work = proofs[game_round.claims[slot].claim_root]
            expected += open_leaf(refer_delta(work.delta_root, COUNT))
            expected += work.carried_root + b"".join(work.path)
        assert get_last_sent(node) == ("game.bring_leaf", (TASK, NAME, expected))
        assert (
            await node.list_challenges().contesting.gather_inputs(game_round, count_tensor_leaves(COUNT))
            == b""
        )
