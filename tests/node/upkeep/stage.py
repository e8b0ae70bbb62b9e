"""A node whose books and store are filled as if it had trained, merged and audited: rounds are played on the
pure machine, states are made up, so that fifty rounds take seconds."""

from __future__ import annotations

from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any, cast

import numpy as np

from tests.kit.nodes import NoJournal
from tests.protocol.spec.game.simulation import Simulation, make_word
from touchstone.node.kit.retention_windows import PruningMemory, list_stages
from touchstone.node.models.expected_merge import make_key
from touchstone.node.records.audit_records import (
    AuditBook,
    EndsShown,
    SealMade,
    ShownWork,
    VoteMade,
    make_sealed,
)
from touchstone.node.records.claim_records import (
    ClaimBook,
    ClaimBoundaryReached,
    ClaimFinished,
    ClaimName,
    MergeMade,
    WorkProof,
    compute_basis,
)
from touchstone.node.records.dispute_records import DisputeRecords
from touchstone.node.records.round_seats import find_carried_round, find_own_slot
from touchstone.node.upkeep.deletion import PRUNED_KINDS, delete_blobs, list_removable
from touchstone.node.upkeep.retention import Books, list_kept
from touchstone.protocol.adapters.chain.abi_values import BoundaryProof
from touchstone.protocol.adapters.store.blob_store import BlobStore
from touchstone.protocol.compute.digest import build_byte_tree, build_delta_tree
from touchstone.protocol.spec.game.drawn_audits import DrawnAudit
from touchstone.protocol.spec.game.enums import RoundPhase
from touchstone.protocol.spec.game.inner_dispute import InnerBook
from touchstone.protocol.spec.game.pools import find_seat
from touchstone.protocol.spec.game.state import GameRound, GameState
from touchstone.protocol.spec.game.timing import REORG_BLOCKS
from touchstone.protocol.spec.params import DELTA_LEAF_BYTES
from touchstone.protocol.spec.state_headers import OuterHeader, StateHeader
from touchstone.protocol.spec.statements import Vote, VoteWord

TASK = make_word("task")
COUNT = 64
"""Parameters."""
TENSOR_BYTES = 4 * COUNT
SEGMENTS = 6


@dataclass
class Node:
    """One account with a store. Call `live` in each block."""

    account: str
    folder: Path
    inner: InnerBook = field(default_factory=lambda: InnerBook(10))
    memory: PruningMemory = field(default_factory=PruningMemory)
    models: dict[bytes, OuterHeader] = field(default_factory=dict)

    def __post_init__(self) -> None:
        journal = cast(Any, NoJournal())
        self.store = BlobStore(self.folder, is_durable=False)
        self.claims, self.audits = ClaimBook(journal, TASK), AuditBook(journal, TASK)
        self.cases = DisputeRecords(journal, TASK)
        self.zero = self.put_tensor("zero")
        self.initial = OuterHeader(self.put_tensor("initial weights"), self.zero)

    @property
    def books(self) -> Books:
        known = (self.claims, self.audits, self.cases, self.inner)
        return Books(self.account, self.initial, *known, self.memory.unlike_until)

    # Making things up
    def put_tensor(self, *name: object) -> bytes:
        """A tensor in the store, by a name; its root."""
        seed = int.from_bytes(sha256(repr(name).encode()).digest()[:4], "big")
        data = np.random.default_rng(seed).random(COUNT, dtype=np.float32).tobytes()
        root = build_byte_tree(data).root
        self.store.put_tensor(root, data)
        return root

    def put_state(self, *name: object) -> StateHeader:
        weights, first, second = (self.put_tensor(*name, part) for part in "Wmv")
        return StateHeader(weights, first, second, 1, 1)

    def put_delta(self, *name: object) -> bytes:
        data = bytes(sha256(repr(name).encode()).digest()[:4]).ljust(DELTA_LEAF_BYTES, b"\1")
        root = build_delta_tree(data).root
        self.store.put_delta(root, data)
        return root

    def find_model(self, root: bytes) -> OuterHeader:
        """The model behind an outer root, in the store."""
        if root not in self.models:
            self.models[root] = OuterHeader(self.put_tensor(root, "W"), self.put_tensor(root, "M"))
        return self.models[root]

    # What a node does
    def live(self, world: Simulation) -> None:
        """Train, fetch, merge what is due, and prune."""
        state = world.get_now()
        self.models.setdefault(state.terms.root, self.initial)
        for game_round in state.rounds.values():
            self.train(state, game_round)
            self.merge(game_round)
        stages = list_stages(state, world.block - REORG_BLOCKS)
        if stages != self.memory.done:
            self.prune(state, world.block)
            self.memory.done = stages

    def train(self, state: GameState, game_round: GameRound) -> None:
        """All boundaries and the claim, as soon as the round is dealt."""
        slot = find_own_slot(state, game_round, self.account)
        if slot is None or game_round.beacon is None or game_round.phase != RoundPhase.RUNNING:
            return
        index, basis = game_round.index, compute_basis(game_round.base_root, game_round.beacon)
        if (index, basis) in self.claims.works:
            return
        headers = [self._begin(state, game_round)]
        headers += [self.put_state(index, boundary) for boundary in range(1, SEGMENTS + 1)]
        for boundary, header in enumerate(headers):
            self.claims.write(ClaimBoundaryReached(TASK, index, basis, boundary, *vars(header).values()))
        claim_root = make_word("claim", self.account, index)
        delta = self.put_delta(claim_root)
        self.claims.write(ClaimFinished(TASK, index, basis, claim_root, SEGMENTS, delta, bytes(32)))

    def _begin(self, state: GameState, game_round: GameRound) -> StateHeader:
        seat = find_seat(state, self.account)
        assert seat is not None
        weights = self.find_model(game_round.base_root).weights_root
        earlier = find_carried_round(state, game_round.index, seat)
        if earlier is None:
            return StateHeader(weights, self.zero, self.zero, 0, 0)
        boundaries = self.claims.find(state.rounds[earlier]).boundaries
        last = boundaries[max(boundaries)]
        return StateHeader(weights, last.first_moment_root, last.second_moment_root, 1, 1)

    def merge(self, game_round: GameRound) -> None:
        """Pseudo-gradients once the round is closed, the model once it is posted."""
        if game_round.closed is not None and game_round.phase == RoundPhase.RUNNING:
            for claim in game_round.claims.values():
                name = ClaimName(game_round.index, str(claim.seat), claim.claim_root)
                if name not in self.claims.proofs:
                    self.claims.proofs[name] = WorkProof(self.put_delta(claim.claim_root), bytes(32), ())
        if game_round.phase == RoundPhase.POSTED and game_round.root is not None:
            key = make_key(game_round, game_round.merged)
            if key not in self.claims.merges:
                header = self.find_model(game_round.root)
                self.claims.write(MergeMade(TASK, *key, header.weights_root, header.momentum_root))
                self.claims.outer[game_round.root] = header

    def vote(self, drawn: DrawnAudit, word: VoteWord) -> tuple[SealMade, VoteMade]:
        """A seal and a vote on a drawn segment, with all that was fetched for it."""
        place, name = drawn.place, (drawn.place.round, drawn.place.slot, drawn.place.draw)
        states = (self.put_state(*name, one) for one in ("start", "end", "last"))
        start, end, last = (BoundaryProof(state, b"s" * 32, ()) for state in states)
        sealed = make_sealed(place, drawn.segment, b"l" * 32, b"h" * 32)
        made = SealMade(TASK, sealed, b"s" * 32, start, start, self.put_state(*name, "own"))
        work = ShownWork(self.put_delta(*name), bytes(32), ())
        vote = Vote(**vars(sealed), end_leaf=b"e" * 32, word=word, named_leaf=0)
        voted = VoteMade(TASK, vote, b"v" * 64, EndsShown(end, last, work))
        self.audits.write(made)
        self.audits.write(voted)
        return made, voted

    def prune(self, state: GameState, block: int) -> None:
        kept = list_kept(state, self.books, block - REORG_BLOCKS)
        goes = list_removable(state, self.books, self.memory, self.list_here(), kept.keys(), block)
        delete_blobs(self.store, goes, lambda: ())

    # The disk
    def list_here(self) -> list[Any]:
        return [key for kind in PRUNED_KINDS for key in self.store.list_keys(kind)]

    def measure_bytes(self) -> int:
        """Of all blobs."""
        return sum(self.store.get_size_bytes(key) or 0 for key in self.list_here())

    def has(self, header: StateHeader) -> bool:
        roots = {key.root for key in self.list_here()}
        return {header.weights_root, header.first_moment_root, header.second_moment_root} <= roots
