"""Proxy of AuditBook: blind audits from start leaf to judgement. `contracts/interfaces/IAuditBook.sol` is the
manual."""

from collections.abc import Sequence
from typing import NamedTuple

from protocol.adapters.chain.proxy import Proxy, Receipt
from protocol.adapters.chain.types import BoundaryProof
from protocol.spec.containers import StateHeader, StateLeaves
from protocol.spec.statuses import AuditRef, AuditStatus


class Opened(NamedTuple):
    """What the solver has opened for one draw."""

    start: bool
    end: bool
    leaves: bool


class Summary(NamedTuple):
    """Whether the solver opened all starts and all ends of a claim's draws, and all primaries accept."""

    starts: bool
    ends: bool
    accepts: bool


class AuditBook(Proxy):
    """Blind audits: start leaf, sealed replay, reveal, leaf openings, computed judgement."""

    contract = "AuditBook"

    async def open_start(self, task: bytes, round: int, draw: int, start: BoundaryProof) -> Receipt:
        """The solver opens the start of the drawn segment."""
        return await self._send("openStart", task, round, draw, start)

    async def open_starts(self, task: bytes, round: int, starts: Sequence[BoundaryProof]) -> Receipt:
        """The same for draws 0, 1, ... at once."""
        return await self._send("openStarts", task, round, starts)

    async def commit_replay(self, audit: AuditRef, commitment: bytes) -> Receipt:
        """The auditor commits blindly to its end state (`auditCommitment`, docs/spec.md section 3)."""
        return await self._send("commitReplay", audit, commitment)

    async def commit_replays(self, audits: Sequence[AuditRef], commitments: Sequence[bytes]) -> Receipt:
        """The same for several audits at once: all or none."""
        return await self._send("commitReplays", audits, commitments)

    async def say_unserved(self, audit: AuditRef) -> Receipt:
        """The auditor could not get the start state."""
        return await self._send("sayUnserved", audit)

    async def abstain(self, audit: AuditRef) -> Receipt:
        """The auditor cannot validate; not a vote."""
        return await self._send("abstain", audit)

    async def open_end(
        self, task: bytes, round: int, draw: int, end: BoundaryProof, last: BoundaryProof
    ) -> Receipt:
        """The solver opens the end of the drawn segment and the last boundary of its claim."""
        return await self._send("openEnd", task, round, draw, end, last)

    async def open_ends(
        self, task: bytes, round: int, ends: Sequence[BoundaryProof], last: BoundaryProof
    ) -> Receipt:
        """The same for draws 0, 1, ... at once."""
        return await self._send("openEnds", task, round, ends, last)

    async def reveal(self, audit: AuditRef, end: StateHeader, salt: bytes) -> Receipt:
        """The auditor reveals what it committed to."""
        return await self._send("reveal", audit, end, salt)

    async def reveals(
        self, audits: Sequence[AuditRef], ends: Sequence[StateHeader], salts: Sequence[bytes]
    ) -> Receipt:
        """The same for several audits at once: all or none."""
        return await self._send("reveals", audits, ends, salts)

    async def seal_leaves(self, task: bytes, round: int, phase: int, proof: bytes) -> Receipt:
        """Fix the leaf draw of a phase (0 primary, 1 reserves, 2 late); `proof` is `Randomness.prove` of its
        block. Anybody may."""
        return await self._send("sealLeaves", task, round, phase, proof)

    async def open_leaves(
        self, task: bytes, round: int, draw: int, phase: int, end: StateHeader, leaves: Sequence[StateLeaves]
    ) -> Receipt:
        """The solver opens the drawn leaves of its end state (its header again), for all ranks of a draw."""
        return await self._send("openLeaves", task, round, draw, phase, end, leaves)

    async def compare_leaves(
        self,
        audit: AuditRef,
        ends: tuple[StateHeader, StateHeader],
        claimed: Sequence[StateLeaves],
        replayed: Sequence[StateLeaves],
        extra_index: Sequence[int],
        learning_rate_sum: int,
        schedule_path: Sequence[bytes],
    ) -> Receipt:
        """The auditor opens its own leaves beside the solver's and the contract judges them. `ends` are the
        headers of both, the solver's first. With one `extra_index` the last pair is a leaf of the auditor's
        choice. `learning_rate_sum` is the segment's schedule leaf."""
        return await self._send(
            "compareLeaves", audit, ends, claimed, replayed, extra_index, learning_rate_sum, schedule_path
        )

    async def status_of(self, audit: AuditRef) -> AuditStatus:
        """How far one audit is."""
        return await self._read(AuditStatus, "statusOf", audit)

    async def opened_of(self, task: bytes, round: int, slot: int, draw: int, phase: int) -> Opened:
        """What the solver has opened for one draw; the leaves are those of `phase`."""
        return await self._read(Opened, "openedOf", task, round, slot, draw, phase)

    async def summary_of(self, task: bytes, round: int, slot: int, draws: int) -> Summary:
        """How the first `draws` draws of a claim stand."""
        return await self._read(Summary, "summaryOf", task, round, slot, draws)

    async def start_of(self, task: bytes, round: int, slot: int, draw: int) -> bytes:
        """Root of the start state that the solver opened, zero until then."""
        return await self._read(bytes, "startOf", task, round, slot, draw)

    async def last_of(self, task: bytes, round: int, slot: int) -> StateHeader:
        """The last state of a claim, once opened: its weights' root, all of it where moments carry over."""
        return await self._read(StateHeader, "lastOf", task, round, slot)

    async def revealed_of(self, audit: AuditRef) -> bytes:
        """Root of the end state that the auditor revealed, zero until then."""
        return await self._read(bytes, "revealedOf", audit)

    async def leaf_seed_of(self, task: bytes, round: int, phase: int) -> bytes:
        """The seed of a phase's leaf draw, zero until sealed."""
        return await self._read(bytes, "leafSeedOf", task, round, phase)
