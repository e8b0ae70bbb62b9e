"""The ways to harass: demands, false proofs, silence, floods, last-second moves."""

import asyncio
from collections.abc import Hashable, Iterator
from dataclasses import dataclass
from itertools import chain, islice

from protocol.actions.suspicion import OpenAccusation
from protocol.adapters.blobs import BlobKey, BlobKind
from protocol.adapters.wire import paths
from protocol.adapters.wire.auth import RequestSigner
from protocol.adapters.wire.session import Patience, Peer, PeerSession, read_at_most
from protocol.compute.program import build_program, describe_program
from protocol.spec.clock import NEVER
from protocol.spec.dispute import DisputeState
from protocol.spec.dispute_moves import MAX_DEMANDS_EACH, SCALAR_COUNT, DemandLeaf, NameStep
from protocol.spec.errors import TouchstoneError
from protocol.spec.program import Program, leaf_bytes
from protocol.spec.program import Role as BufferRole
from protocol.spec.statuses import Stage
from protocol.spec.typed_data import SigningDomain
from tests.e2e.false_moves import (
    FalseMove,
    list_false_demands,
    list_false_operations,
    list_false_scalars,
    list_false_tokens,
    list_stolen_moves,
)
from tests.e2e.hostile import AFTERWARDS, IN_TIME, Hostile, Learn, Lie, SealOnly

LAST_BLOCKS = 2
"""Of a window: a transaction that is sent for the first of them may stand in the second."""
SAMPLED_NODES = 20
LATE_LIES = 6
"""What stands in two blocks."""
FLOOD_REQUESTS = 300
"""More than a server lets one account ask in a moment."""
MOST_BYTES = 1 << 20


@dataclass
class Demander(Hostile):
    """Names step 0 and demands as many leaves as it may. demands: at most so many in a dispute."""

    demands: int = MAX_DEMANDS_EACH

    def list_torments(self, state: DisputeState, block: int) -> Iterator[Hashable]:
        if state.opener == self.party.account:
            yield from (
                move
                for move in (NameStep(state.dispute, 0), *self.list_demands(state))
                if self.is_allowed(state, move, block)
            )

    def list_demands(self, state: DisputeState) -> list[DemandLeaf]:
        """What is left of its demands."""
        mine = [one for one in state.demands if one.challenger == self.party.account]
        made = {(one.node, one.place, one.leaf_index) for one in mine}
        places = list_places(build_program(describe_program(self.party.spec.training)).program)
        left = [DemandLeaf(state.dispute, *place) for place in places if place not in made]
        return left[: max(0, self.demands - len(mine))]


def list_places(program: Program) -> list[tuple[int, int, int]]:
    """(node, place, leaf) all over a program: the last leaf of the buffer there, states and data included."""
    found = []
    for number in range(0, len(program.nodes), max(1, len(program.nodes) // SAMPLED_NODES)):
        node = program.nodes[number]
        for place, access in enumerate((node.output, *node.operands)):
            buffer = program.buffers[access.buffer]
            if buffer.role is not BufferRole.CONSTANT:
                found.append((number, place, (4 * buffer.size - 1) // leaf_bytes(program, access.buffer)))
    return found


class Prover(Hostile):
    """Names step 0 and sends every false proof of an operation, in each dispute of another node, in time and
    again once it is closed; with the first all other false proofs and moves that are not its own."""

    def list_torments(self, state: DisputeState, block: int) -> Iterator[Hashable]:
        if state.opener != self.party.account:
            return
        if self.is_allowed(state, name := NameStep(state.dispute, 0), block):
            yield name
        when = {Stage.PROVE: IN_TIME, Stage.CLOSED: AFTERWARDS}.get(state.stage)
        if state.trace is not None and when is not None:
            yield Lie(state.dispute, when) if state.dispute in self.steps else Learn(state.dispute)

    def list_lies(self, action: Lie) -> Iterator[FalseMove]:
        step = self.steps[action.dispute]
        number = int.from_bytes(action.dispute[:8], "big") % len(step.tree.program.nodes)
        yield from list_false_operations(step, number)
        if self.record.landed:
            return  # All the rest once: it is the same in each dispute.
        yield from chain(*(list_false_tokens(self.party, step, is_label) for is_label in (False, True)))
        yield from chain(*(list_false_scalars(self.party, step, which) for which in range(SCALAR_COUNT)))
        yield from list_false_demands(step)
        yield from list_stolen_moves(step)


class Withholder(Hostile):
    """Falls silent, in each segment at another stage: sealed; opened; named; one leaf demanded."""

    SEALS, OPENS, NAMES, DEMANDS = range(4)
    """What it does last, by segment."""

    def list_openings(self, block: int) -> Iterator[OpenAccusation | SealOnly]:
        """Seals the first segment only."""
        for opening in super().list_openings(block):
            if opening.made.segment != self.SEALS:
                yield opening
            elif (seal := SealOnly(opening.made)) not in self.done:
                yield seal

    def list_torments(self, state: DisputeState, block: int) -> Iterator[Hashable]:
        if state.opener != self.party.account:
            return
        moves = (NameStep(state.dispute, 1), DemandLeaf(state.dispute, 0, 0, 0))
        last = max(0, state.claim.segment - self.OPENS) - len(state.demands)
        yield from (move for move in moves[:last] if self.is_allowed(state, move, block))


class Flooder(Demander):
    """One of several. Opens every segment at once whoever else does, demands as much as anybody may in every
    dispute on its victims, and asks their servers for everything."""

    def list_torments(self, state: DisputeState, block: int) -> Iterator[Hashable]:
        if state.claimant not in self.victims:
            return
        moves = (NameStep(state.dispute, 0), *self.list_demands(state))
        yield from (move for move in moves if self.is_allowed(state, move, block))
        if state.trace is not None:
            yield Flood(state.claimant)

    async def perform(self, action: Hashable) -> None:
        if not isinstance(action, Flood):
            await super().perform(action)
            return
        self.done.add(action)
        self.record.answers += await self.flood(self.party.view.network.find(action.victim))

    async def flood(self, peer: Peer) -> list[str]:
        """What a server answers to many requests at once, all well signed."""
        deployment = self.party.chain.deployment
        signer = RequestSigner(self.party.config.key, SigningDomain(deployment.chain_id, deployment.registry))
        session = PeerSession(Patience(attempts=1))
        session.open()
        try:
            asked = [self.ask(session, signer, peer, number) for number in range(FLOOD_REQUESTS)]
            return await asyncio.gather(*asked)
        finally:
            await session.close()

    async def ask(self, session: PeerSession, signer: RequestSigner, peer: Peer, number: int) -> str:
        """One request: every second one for a blob that the server has, the others for nothing."""
        root = self.party.spec.training.dataset_root if number % 2 else number.to_bytes(32, "big")
        path = paths.format_path(paths.BLOB, BlobKey(BlobKind.DATASET, root))
        try:
            async with session.get(peer, path, signer.sign("GET", path, peer.account), MOST_BYTES) as answer:
                await read_at_most(answer, MOST_BYTES)
                return str(answer.status)
        except TouchstoneError as fault:
            return str(fault)


@dataclass(frozen=True)
class Flood:
    """Ask a victim's server for everything, once."""

    victim: str


class LastSecond(Demander):
    """Does whatever it may, openings and false proofs too, in the last blocks in which it may, one demand
    after the other."""

    def is_last(self, clock: int, block: int) -> bool:
        """Whether a window that closes at `clock` is about to."""
        return clock - LAST_BLOCKS <= block < clock

    def list_openings(self, block: int) -> Iterator[OpenAccusation | SealOnly]:
        """Sealed at once, opened at last."""
        for opening in super().list_openings(block):
            if (seal := SealOnly(opening.made)) not in self.done:
                yield seal
            elif self.is_last(self.get_closing_block(opening.made.round, block), block):
                yield opening

    def list_torments(self, state: DisputeState, block: int) -> Iterator[Hashable]:
        if state.opener != self.party.account:
            return
        if state.trace is not None and state.dispute not in self.steps:
            yield Learn(state.dispute)
        if state.has_open_demand or not self.is_last(state.clock_block, block):
            return
        moves = (NameStep(state.dispute, 0), *self.list_demands(state)[:1])
        yield from (move for move in moves if self.is_allowed(state, move, block))
        if state.stage == Stage.PROVE and state.dispute in self.steps:
            yield Lie(state.dispute, IN_TIME)

    def list_lies(self, action: Lie) -> Iterator[FalseMove]:
        return islice(list_false_operations(self.steps[action.dispute], 0), LATE_LIES)

    def get_next_opening(self, block: int) -> int:
        ends = [self.get_closing_block(one.made.round, block) for one in super().list_openings(block)]
        return min((end - LAST_BLOCKS for end in ends if end - LAST_BLOCKS > block), default=NEVER)

    def get_next_torment(self, state: DisputeState, block: int) -> int:
        begins, is_mine = state.clock_block - LAST_BLOCKS, state.opener == self.party.account
        is_moving = state.stage in (Stage.NAME, Stage.PROVE) and not state.has_open_demand
        return begins if is_mine and is_moving and begins > block else NEVER
