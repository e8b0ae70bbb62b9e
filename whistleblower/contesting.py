"""Contests a posted root that differs from this node's own merge, and plays contests to the end.

All nodes compute the same bits, so a root that differs is wrong. Any account that has the tree of the posted
root may answer for it. The contester names a node that its own tree lacks, down to one leaf. Then any account
may bring the inputs of this leaf. So a node that merged the round can make all of these moves: as contester,
or as defender of its own root.

The inputs of a contested leaf are the leaves of the base root's tensors, and for each merged claim the leaf
of its pseudo-gradient, with what ties that leaf to the claim. Twin: `IContests.bringLeaf`.
"""

import asyncio
import secrets
from collections.abc import Iterator
from dataclasses import dataclass

from touchstone.node.kit.bonds import fund_bonds
from touchstone.node.kit.config import Notify
from touchstone.node.kit.duty import Duty, Wait
from touchstone.node.kit.locks import Locks
from touchstone.node.kit.view import GetView, View
from touchstone.node.merging.turns import SPREAD_BLOCKS, compute_rank, take_turn
from touchstone.node.models.claim_openings import ClaimData
from touchstone.node.models.expected_merge import find_own_merge, get_root, make_key
from touchstone.node.models.global_model import GlobalModel
from touchstone.node.models.outer_step import OuterSteps
from touchstone.node.records.claim_records import ClaimBook, ContestMade, MergeMade
from touchstone.node.records.round_seats import find_own_slot, sort_by_shard
from touchstone.protocol.adapters.chain.chain_client import GameChain
from touchstone.protocol.adapters.store.blob_store import BlobStore
from touchstone.protocol.adapters.store.blobs import BlobRef, refer_delta, refer_tensor
from touchstone.protocol.compute.digest import ByteTree, build_byte_tree
from touchstone.protocol.spec.contest_tree import compute_nodes_below, find_differing
from touchstone.protocol.spec.data_trees import count_tensor_leaves
from touchstone.protocol.spec.errors import EnvironmentFault
from touchstone.protocol.spec.game.enums import RoundPhase
from touchstone.protocol.spec.game.inner_contest import ENDED, InnerContest, InnerTurn
from touchstone.protocol.spec.game.round_machine import get_state_at
from touchstone.protocol.spec.game.state import GameRound, GameState, RootContest


@dataclass(frozen=True)
class Contesting:
    """Checks posted roots, and plays contests of wrong ones."""

    get_view: GetView
    store: BlobStore
    chain: GameChain
    claims: ClaimBook
    locks: Locks
    notify: Notify
    claim_data: ClaimData
    model: GlobalModel
    outer_steps: OuterSteps

    async def gather_inputs(self, game_round: GameRound, leaf: int) -> bytes:
        """Returns the inputs of a leaf as bytes. They are empty beyond the last leaf, which needs none."""
        count = self.get_view().spec.terms.parameter_count
        if leaf >= count_tensor_leaves(count):
            return b""
        outer = await self.model.load_outer(game_round.base_root)
        await self.model.load_outer_state(outer)
        parts = [
            await asyncio.to_thread(self._open, refer_tensor(root, count), leaf)
            for root in (outer.weights_root, outer.momentum_root)
        ]
        for slot in sort_by_shard(game_round, game_round.merged):
            parts.append(await self._open_claim(game_round, slot, leaf))
        return b"".join(parts)

    async def _open_claim(self, game_round: GameRound, slot: int, leaf: int) -> bytes:
        """Returns the pseudo-gradient's leaf and path, the claim's carried root, and the path of its work
        leaf."""
        await self.claim_data.fetch_delta(game_round, slot)
        proof = await self.claim_data.find_work(game_round, game_round.claims[slot])
        ref = refer_delta(proof.delta_root, self.get_view().spec.terms.parameter_count)
        opened = await asyncio.to_thread(self._open, ref, leaf)
        return opened + proof.carried_root + b"".join(proof.path)

    def _open(self, ref: BlobRef, leaf: int) -> bytes:
        (proof,) = self.store.open_leaves(ref, [leaf])
        return proof.data + b"".join(proof.path)

    def choose_child(self, contest: InnerContest, made: MergeMade) -> int:
        """Returns the first posted node that this node's own tree lacks."""
        child = find_differing(self.list_nodes(contest, made), contest.nodes)
        if child is None:
            raise EnvironmentFault(
                what="a contested root is right at every entry that was shown",
                expected="an entry that this node's own tree lacks",
                actual="none",
                remedy="No entry can be named, so the contest is lost.",
            )
        return child

    def list_nodes(self, contest: InnerContest, made: MergeMade) -> list[bytes]:
        """Returns the children of the contested node in this node's own tree."""
        roots = (made.weights_root, made.momentum_root)
        if contest.level == 0:
            return list(roots)
        tree = self._build_tree(roots[contest.tensor])
        return compute_nodes_below(tree.levels, contest.level - 1, contest.index)

    def _build_tree(self, root: bytes) -> ByteTree:
        return build_byte_tree(self.store.get(refer_tensor(root, self.get_view().spec.terms.parameter_count)))


ATTEMPTS_MAX = 2
"""The most contests that this node opens on one root. If it loses them all, its own merge is wrong."""
LATEST_RESPONDS = 2
"""When this many `respond` are left of a root's window, a node contests the root even if another account
already does."""


@dataclass(frozen=True)
class CheckRoot:
    """Merge the claims that a posted root names, and check whether the result is the posted root."""

    round: int
    root: bytes
    root_until: int

    async def perform(self, room: "Contesting") -> None:
        """Merges the claims and writes down the result."""
        game_round = room.get_view().game.rounds[self.round]
        made = await room.outer_steps.merge_claims(make_key(game_round, game_round.merged))
        if get_root(made) != self.root:
            room.notify(f"round {self.round}: the posted root is wrong; this node contests it")


@dataclass(frozen=True)
class BeginContest:
    """Contest a posted root that differs from this node's own merge. `attempt` counts this node's earlier
    contests of it."""

    round: int
    root: bytes
    root_until: int
    attempt: int

    async def perform(self, room: "Contesting") -> None:
        """Opens the contest. The account's credit pays the bond; the k-th open contest costs k bonds."""
        view = room.get_view()
        book, name = room.claims, (self.round, self.root, self.root_until, self.attempt)
        if name not in book.contests:
            book.write(ContestMade(view.task, *name, secrets.token_bytes(32)))
        salt, game = book.contests[name].salt, view.game
        async with room.locks["credit", None]:
            limit_wei = await fund_bonds(
                room.chain, room.get_view(), len(game.contests), game.terms.amounts.contest_bond
            )
            await room.chain.game.contest(room.get_view().task, self.round, limit_wei, salt)


@dataclass(frozen=True)
class MoveContest:
    """Make the next move of a contest. `turn` and `level` say where the contest is, so that each move is a
    separate duty."""

    name: bytes
    turn: InnerTurn
    level: int

    async def perform(self, room: "Contesting") -> None:
        """Answers, names a child, or brings the leaf. Raises EnvironmentFault if this node lacks the tree of
        the posted root."""
        view = room.get_view()
        contest = view.chain_state.contests[view.task].contests[self.name]
        game_round = view.game.rounds[contest.round]
        made = await room.outer_steps.merge_claims(make_key(game_round, game_round.merged))
        if self.turn == InnerTurn.LEAF:
            inputs = await room.gather_inputs(game_round, contest.index)
            await room.chain.game.bring_leaf(room.get_view().task, self.name, inputs)
        elif self.turn == InnerTurn.CONTESTER:
            child = await asyncio.to_thread(room.choose_child, contest, made)
            nodes = list(contest.nodes)
            await room.chain.game.name_child(room.get_view().task, self.name, child, nodes)
        else:
            nodes = await asyncio.to_thread(room.list_nodes, contest, made)
            await room.chain.game.answer_contest(room.get_view().task, self.name, nodes)


def list_duties(view: View, block: int) -> Iterator[Duty[Contesting] | Wait]:
    """Yields duties: to check posted roots, to contest wrong ones, and to move in contests."""
    state = get_state_at(view.game, block)
    for game_round in state.rounds.values():
        if game_round.phase == RoundPhase.POSTED and block <= game_round.root_until:
            yield from _list_checks(view, state, game_round, block)
    for contest in view.chain_state.contests[view.task].contests.values():
        if contest.turn not in ENDED and block <= contest.clock:
            yield from _list_moves(view, state, contest, block)


def list_own_moves(view: View, block: int) -> Iterator[Duty[Contesting] | Wait]:
    """Yields moves in contests that this account has opened. A role that opens none needs this too: the
    account may have had another seat before, and still has a bond in a contest."""
    state = get_state_at(view.game, block)
    for contest in view.chain_state.contests[view.task].contests.values():
        is_open = contest.turn not in ENDED and block <= contest.clock
        if is_open and contest.contester == view.account:
            yield from _list_moves(view, state, contest, block)


def _list_checks(
    view: View, state: GameState, game_round: GameRound, block: int
) -> Iterator[Duty[Contesting] | Wait]:
    assert game_round.root is not None
    made, posting = find_own_merge(view, game_round), (game_round.root, game_round.root_until)
    if made is None:
        yield CheckRoot(game_round.index, *posting)
    elif get_root(made) != game_round.root:
        yield from _list_contest(view, state, game_round, block)


def _list_contest(
    view: View, state: GameState, game_round: GameRound, block: int
) -> Iterator[Duty[Contesting] | Wait]:
    """Yields this node's own contest, when it is its turn. If another account contests the root, this node
    first waits for the outcome as long as time allows: the other contester may give up, or lose on
    purpose."""
    open_ones = [contest for contest in state.contests.values() if _is_about(contest, game_round)]
    assert game_round.root is not None
    if any(contest.contester == view.account for contest in open_ones):
        return
    attempt = _count_ended(view, game_round)
    if attempt >= ATTEMPTS_MAX:
        return
    name = BeginContest(game_round.index, game_round.root, game_round.root_until, attempt)
    latest = game_round.root_until - LATEST_RESPONDS * state.terms.windows.respond
    if open_ones:
        yield name if block >= latest else Wait(latest)
    else:
        yield from take_turn(view, game_round, name, block, name, game_round.root_until)


def _count_ended(view: View, game_round: GameRound) -> int:
    """Counts this node's own contests of a root that it lost, by silence or because its own merge is
    wrong."""
    return sum(
        (contest.round, contest.root, contest.contester) == (game_round.index, game_round.root, view.account)
        and contest.turn == InnerTurn.HOLDS
        for contest in view.chain_state.contests[view.task].contests.values()
    )


def _is_about(contest: RootContest, game_round: GameRound) -> bool:
    """Returns whether a contest is about the root that is posted now."""
    posting = (game_round.index, game_round.root, game_round.root_until)
    return (contest.round, contest.root, contest.root_until) == posting


def _list_moves(
    view: View, state: GameState, contest: InnerContest, block: int
) -> Iterator[Duty[Contesting] | Wait]:
    """Yields this node's next move. A contester moves at once. Defenders of a right root take turns."""
    game_round = state.rounds[contest.round]
    is_there = game_round.phase == RoundPhase.POSTED and game_round.root == contest.root
    made = find_own_merge(view, game_round) if is_there else None
    if made is None:
        return
    move, is_own = MoveContest(contest.name, contest.turn, contest.level), contest.contester == view.account
    is_right = get_root(made) == contest.root
    if contest.turn == InnerTurn.CONTESTER:
        if is_own and not is_right:
            yield move
    elif is_right:
        turn = _get_turn_block(view, state, contest, game_round)
        yield move if block >= turn else Wait(turn)


def _get_turn_block(view: View, state: GameState, contest: InnerContest, game_round: GameRound) -> int:
    """Returns the block from which this node defends. Signers of the root come first, one after the other;
    all have come when half of the clock is over."""
    respond = state.terms.windows.respond
    slot = find_own_slot(state, game_round, view.account)
    seat = None if slot is None else game_round.pool.solvers[slot]
    first = 0 if seat in game_round.signers else respond // 4
    delay = min(first + SPREAD_BLOCKS * compute_rank(view, game_round), respond // 2)
    return contest.clock - respond + delay
