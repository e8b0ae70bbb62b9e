"""An audit of one segment by anybody, without a seat and without a stake."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeVar

from touchstone.node.joining.dataset import open_data
from touchstone.node.joining.task_reading import require_format
from touchstone.node.joining.task_step import as_reader, fetch_step
from touchstone.node.kit.config import NodeConfig, hold_folder
from touchstone.node.kit.reader import Reader, open_reader
from touchstone.node.kit.states import StateStore
from touchstone.node.models.global_model import WORK, AskWork, WorkSaid, ask_outer
from touchstone.node.serving.audit_messages import (
    PUBLIC,
    BoundarySaid,
    SegmentAsked,
    SegmentShown,
    make_form,
)
from touchstone.node.serving.audit_room import AuditTask, read_audit_task
from touchstone.protocol.adapters.chain.abi_values import BoundaryProof
from touchstone.protocol.adapters.reports.node_state import SPARE_DISK_BYTES
from touchstone.protocol.adapters.wire.hedging import ask_in_turn
from touchstone.protocol.adapters.wire.peer import Peer
from touchstone.protocol.compute.determinism import pin_kernels
from touchstone.protocol.compute.program.step import replay_segment
from touchstone.protocol.compute.program.training_state import Batch
from touchstone.protocol.compute.tolerance.task_tolerance import ClaimedEnd
from touchstone.protocol.spec.calibration_profile import QUANTITIES
from touchstone.protocol.spec.claim_tree import compute_work_leaf, verify_in_claim
from touchstone.protocol.spec.commitments import (
    compute_boundary_leaf,
    compute_outer_root,
    compute_state_root,
)
from touchstone.protocol.spec.errors import InvalidInput, ProtocolFault
from touchstone.protocol.spec.game.drawn_audits import AuditPlace
from touchstone.protocol.spec.game.posted_terms import make_spec
from touchstone.protocol.spec.game.public_boundaries import is_segment_public
from touchstone.protocol.spec.game.state import GameRound, GameState, SlotClaim
from touchstone.protocol.spec.game.timing import REORG_BLOCKS
from touchstone.protocol.spec.params import ZERO_WORD
from touchstone.protocol.spec.state_headers import OuterHeader, StateHeader
from touchstone.protocol.spec.statements import VoteWord
from touchstone.protocol.spec.task_rules import find_training_malformations, refuse_broken
from touchstone.protocol.spec.training_codec import decode_training
from touchstone.verifier.judging import find_carried, is_start_right, judge_ends
from touchstone.verifier.replayed_segment import SegmentReplay, find_segment

Answer = TypeVar("Answer")


MOST_PEERS = 64
"""The most peers that are asked for the same thing, one after the other."""


FOLDER = "replay"
"""The folder in the home that holds the fetched data."""


@dataclass(frozen=True)
class Place:
    """A segment of the claim in `slot`."""

    task: bytes
    round: int
    slot: int
    segment: int


@dataclass(frozen=True)
class Replayed:
    """The result of a replay. `word` is the verdict that an auditor would give. The ends are state roots;
    `own_end` is None if a step gave NaN or infinity. Each distance is (quantity, largest distance, its
    limit); there are none if the roots are equal or nothing can be compared."""

    solver: str
    word: VoteWord
    claimed_end: bytes
    own_end: bytes | None
    distances: tuple[tuple[str, float, float], ...] = ()


@dataclass(frozen=True)
class SeatlessAudit:
    """A replay without a seat, with the tools that it needs. `peers` are in the order in which they are
    asked."""

    reader: Reader
    about: AuditTask
    states: StateStore
    game: GameState
    game_round: GameRound
    place: Place
    peers: list[Peer]
    notify: Callable[[str], None]

    @property
    def segment(self) -> SegmentReplay:
        """The segment to replay."""
        return find_segment(self.about, self.game_round, self.place.slot, self.place.segment)

    @property
    def claim(self) -> SlotClaim:
        """The claim that the segment belongs to."""
        return self.game_round.claims[self.place.slot]


async def replay(config: NodeConfig, place: Place) -> Replayed:
    """Replays a segment on this machine, and compares both ends. The fetched data lies in a folder of the
    home meanwhile.

    Raises InvalidInput if the claim has no such segment or it may not be read yet, EnvironmentFault if no
    node serves it, ProtocolFault if the served data does not fit the claim."""
    pin_kernels(config.threads, device=config.device)
    with hold_folder(config.home, FOLDER) as folder:
        async with open_reader(replace(config, home=folder)) as reader:
            return await compare(await _open_audit(reader, config, place))


async def compare(audit: SeatlessAudit) -> Replayed:
    """Fetches, replays and compares. Raises as `replay` does."""
    shown = await _ask_any(audit, partial(_ask_segment, audit))
    first, start, end = (proof.header for proof in shown)
    word = VoteWord.ACCEPT if await _is_start_right(audit, first, start) else VoteWord.REJECT_START
    return await _replay(audit, start, end, word)


async def _open_audit(reader: Reader, config: NodeConfig, place: Place) -> SeatlessAudit:
    state = reader.state
    game = state.games[place.task]
    game_round = require_public(game, place, state.head_block + 1)
    spec = make_spec(state.task_terms[place.task], decode_training(state.texts[place.task]))
    refuse_broken(find_training_malformations(spec))
    require_format(state.task_terms[place.task].format, spec)
    await fetch_step(as_reader(reader, place.task, spec, config.notify), spec)
    corpus = await open_data(reader.client, reader.store, state, place.task, spec, config.notify)
    about, solver = read_audit_task(place.task, spec, corpus), game_round.claims[place.slot].account

    def rank(peer: Peer) -> tuple[bool, bool]:
        """Returns the sort key of a peer: the solver first, then members of the task, then others."""
        return peer.account != solver, not state.is_member(peer.account, place.task)

    peers = sorted(state.network.peers.values(), key=rank)[:MOST_PEERS]
    states = StateStore(reader.store, about.parameter_count)
    return SeatlessAudit(reader, about, states, game, game_round, place, peers, config.notify)


def require_public(game: GameState, place: Place, block: int) -> GameRound:
    """Returns the round of the segment. Raises InvalidInput if the segment does not exist, or is not public
    at `block`."""
    game_round = game.rounds.get(place.round)
    claim = None if game_round is None else game_round.claims.get(place.slot)
    if game_round is None or claim is None or not 0 <= place.segment < claim.segments:
        raise InvalidInput(
            what="the claim has no segment of this number",
            expected=f"a claim of a round that the chain knows (rounds {sorted(game.rounds)}), and a segment",
            actual=f"round {place.round}, slot {place.slot}, segment {place.segment}",
            remedy="`touchstone status TASK` lists rounds; a round counts its solvers and segments from 0.",
        )
    if not is_segment_public(game, game_round, place.slot, place.segment, block):
        waits = 2 * game.terms.windows.audit_max + REORG_BLOCKS
        first = f" (block {game_round.closed + waits})" if game_round.closed else ""
        raise InvalidInput(
            what="not every account may read this segment yet",
            expected=f"a round with a root, {waits} blocks or more after its close{first}, and its late "
            "audits drawn",
            actual=f"{game_round.phase.name}, closed in block {game_round.closed}, now block {block}",
            remedy="Wait. An auditor that has not sealed its result yet could copy what is shown now.",
        )
    return game_round


async def _ask_any(audit: SeatlessAudit, ask: Callable[[Peer], Awaitable[Answer]]) -> Answer:
    """Returns the first valid answer of a peer. Raises InvalidInput if there is no peer."""
    if not audit.peers:
        raise InvalidInput(
            what="no node is there to ask",
            expected="an announced endpoint of a member of the task",
            actual="none",
            remedy="Replay while a solver or an auditor of the round is up.",
        )
    return await ask_in_turn([partial(ask, peer) for peer in audit.peers])


async def _ask_segment(audit: SeatlessAudit, peer: Peer) -> tuple[BoundaryProof, ...]:
    """Returns boundary 0, start and end of the segment, as one peer shows them. Raises ProtocolFault if they
    do not fit the claim."""
    place = audit.place
    question = SegmentAsked(place.task, place.round, place.slot, place.segment)
    shown = await audit.reader.client.ask(peer, PUBLIC, question, make_form(SegmentShown))
    said = ((0, shown.first), (place.segment, shown.start), (place.segment + 1, shown.end))
    return tuple(_read_boundary(audit, boundary, one) for boundary, one in said)


def _read_boundary(audit: SeatlessAudit, boundary: int, said: BoundarySaid) -> BoundaryProof:
    proof, claim = said.read(), audit.claim
    where = (audit.game.terms.domain, audit.place.round, claim.account, boundary, proof.salt)
    leaf = compute_boundary_leaf(*where, compute_state_root(proof.header))
    verify_in_claim(claim.claim_root, leaf, boundary, claim.segments, proof.path)
    return proof


async def _is_start_right(audit: SeatlessAudit, first: StateHeader, start: StateHeader) -> bool:
    """Returns whether boundary 0 is what the claim must start from, and the start has the right step
    counters."""
    about, place, game_round = audit.about, audit.place, audit.game_round
    base = await _find_base(audit)
    where = (audit.game.terms.domain, place.round, game_round.base_root, game_round.seed or ZERO_WORD)
    named = AuditPlace(*where, place.slot, audit.claim.claim_root, 0, 0)
    carried = await find_carried(about, audit.game, named, partial(_find_handed_on, audit))
    is_begun = is_start_right(about, place.round, first, base.weights_root, carried)
    return is_begun and audit.segment.are_numbers_right(first, start)


async def _find_handed_on(audit: SeatlessAudit, index: int, slot: int) -> bytes:
    return await _ask_any(audit, partial(_ask_carried, audit, index, slot))


async def _ask_carried(audit: SeatlessAudit, index: int, slot: int, peer: Peer) -> bytes:
    """Returns the carried root of a merged claim, as a peer shows it. Raises ProtocolFault if it does not fit
    the claim."""
    claim = audit.game.rounds[index].claims[slot]
    question = AskWork(audit.place.task, index, slot, claim.claim_root)
    said = await audit.reader.client.ask(peer, WORK, question, make_form(WorkSaid))
    place = (audit.game.terms.domain, index, claim.account, claim.segments)
    leaf = compute_work_leaf(*place, said.delta_root, said.carried_root)
    verify_in_claim(claim.claim_root, leaf, claim.segments + 1, claim.segments, said.path)
    return said.carried_root


async def _find_base(audit: SeatlessAudit) -> OuterHeader:
    """Returns the outer header that the round's base root is the hash of."""
    root, terms = audit.game_round.base_root, audit.reader.state.task_terms[audit.place.task]
    initial = OuterHeader(terms.initial_weights_root, terms.zero_root)
    if root == compute_outer_root(initial):
        return initial
    return await _ask_any(audit, partial(ask_outer, audit.reader.client, audit.place.task, root))


async def _replay(audit: SeatlessAudit, start: StateHeader, end: StateHeader, word: VoteWord) -> Replayed:
    about, place = audit.about, audit.place
    tolerance, client = about.tolerance, audit.reader.client
    state_bytes = 12 * about.parameter_count
    # Room for the start and both ends. A node of the same home writes to this disk too.
    needed_bytes = (3 if tolerance.reads_states else 2) * state_bytes + SPARE_DISK_BYTES
    audit.states.store.require_space(needed_bytes, "the states of a replay, and a node beside it")
    audit.notify(f"fetching the states of the segment, {state_bytes / 1e6:,.1f} MB each")
    await audit.states.fetch(client, audit.peers, start)
    if tolerance.reads_states:
        await audit.states.fetch(client, audit.peers, end)
    segment = audit.segment
    audit.notify(f"fetching the samples of {about.segment_steps} steps")
    await segment.prepare()
    get_batch, steps = segment.get_batches(), segment.steps

    def get_told(step: int) -> Batch:
        """Returns the batch of a step, and prints a line after each tenth of the steps."""
        done = step - steps.start
        if done * 10 // len(steps) != (done - 1) * 10 // len(steps):
            audit.notify(f"replaying: step {done + 1} of {len(steps)}")
        return get_batch(step)

    solver, claimed = audit.claim.account, compute_state_root(end)
    try:
        trees = await asyncio.to_thread(segment.replay, audit.states, start, replay_segment, get_told)
    except ProtocolFault as fault:
        audit.notify(f"training from the start reaches no end state: {fault}")
        return Replayed(solver, VoteWord.REJECT_STATE, claimed, None)
    own = trees.header
    await asyncio.to_thread(audit.states.put, trees)
    found = Replayed(solver, word, claimed, compute_state_root(own))
    ends = ClaimedEnd(end, own, audit.states.open, about.get_rate_sum(place.round, place.segment))
    pairs = await asyncio.to_thread(tolerance.measure, ends)
    if pairs:
        distances = tuple((name, *pair) for name, pair in zip(QUANTITIES, pairs, strict=True))
        found = replace(found, distances=distances)
    judged = await asyncio.to_thread(judge_ends, about, ends)
    return found if judged is None or word != VoteWord.ACCEPT else replace(found, word=judged.word)
