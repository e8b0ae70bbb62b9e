"""What the journal of a node says about one task: salts, boundaries and claims, by round.

Read once at the start, then kept in step with every record that is written through it.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from protocol.adapters.journal import Journal
from protocol.adapters.records import (
    AccusationMade,
    AuditMade,
    BoundaryReached,
    BoundarySaltsDrawn,
    ClaimMade,
    JournalBegun,
    RoundDealt,
)
from protocol.spec.codec import compute_audit_commitment, compute_state_root
from protocol.spec.containers import StateHeader
from protocol.spec.errors import EnvironmentFault, InvalidInput
from protocol.spec.round import RoundState, get_opening
from protocol.spec.statuses import AuditStatus

AuditKey = tuple[int, int, int, int]
"""(round, slot, draw, rank)"""


@dataclass
class Memory:
    """The journal's records of one task, indexed. `write` appends a record durably before it is known
    here."""

    journal: Journal
    task: bytes
    beacons: dict[int, bytes] = field(default_factory=dict)
    salts: dict[int, tuple[bytes, ...]] = field(default_factory=dict)
    boundaries: dict[tuple[int, int], StateHeader] = field(default_factory=dict)
    claims: dict[int, ClaimMade] = field(default_factory=dict)
    audits: dict[AuditKey, AuditMade] = field(default_factory=dict)
    accusations: list[AccusationMade] = field(default_factory=list)

    def __post_init__(self) -> None:
        for record in self.journal.replay():
            self._index(record)

    def write(self, record: Any) -> None:
        """Append a record; on return it is on disk and indexed."""
        self.journal.append(record)
        self._index(record)

    def note_beacon(self, state: RoundState) -> None:
        """To be called before anything is computed in a round: what was computed for another beacon, before a
        reorg, counts no more."""
        assert state.beacon is not None
        if not self.is_dealt(state):
            self.write(RoundDealt(self.task, state.index, state.beacon))

    def is_dealt(self, state: RoundState) -> bool:
        """Whether what is known of the round was computed for the beacon that stands."""
        return state.beacon is not None and self.beacons.get(state.index) == state.beacon

    def find_audit(self, state: RoundState, key: tuple[int, int, int]) -> AuditMade | None:
        """This node's replay for an audit (slot, draw, rank), where it is of the beacon and the start state
        that stand."""
        made, start = self.audits.get((state.index, *key)), get_opening(state, *key[:2]).start
        is_same = made is not None and start is not None and made.start_root == compute_state_root(start)
        return made if is_same and self.is_dealt(state) else None

    def _forget(self, index: int) -> None:
        """What is known of a round is void."""
        self.salts.pop(index, None)
        self.claims.pop(index, None)
        self.boundaries = {key: header for key, header in self.boundaries.items() if key[0] != index}
        self.audits = {key: made for key, made in self.audits.items() if key[0] != index}

    def _index(self, record: Any) -> None:
        if getattr(record, "task", None) != self.task:
            return
        if isinstance(record, RoundDealt):
            self._forget(record.round)
            self.beacons[record.round] = record.beacon
        elif isinstance(record, BoundarySaltsDrawn):
            self.salts[record.round] = record.salts
        elif isinstance(record, BoundaryReached):
            self.boundaries[(record.round, record.boundary)] = header_of(record)
        elif isinstance(record, ClaimMade):
            self.claims[record.round] = record
        elif isinstance(record, AuditMade):
            self.audits[(record.round, record.slot, record.draw, record.rank)] = record
        elif isinstance(record, AccusationMade):
            self.accusations.append(record)


def require_owner(journal: Journal, account: str) -> None:
    """Raises InvalidInput where the journal is another account's: what that one trained, on data dealt to it,
    would be committed to as `account`'s own. A journal without an owner gets this one."""
    owner = next((one.account for one in journal.replay() if isinstance(one, JournalBegun)), None)
    if owner is None:
        journal.append(JournalBegun(account))
    elif owner != account:
        raise InvalidInput(
            what="the journal is another account's",
            expected=account,
            actual=owner,
            where=str(journal.path),
            remedy="Give each account a home of its own, made by `touchstone init`; copy no journal.",
        )


def require_records(memory: Memory, rounds: Iterable[RoundState], account: str) -> None:
    """Raises EnvironmentFault where the chain has a claim of `account` that is not settled, or a commitment
    to a replay that is not revealed, and the journal lacks the record with its salt: it is another journal
    than the one that this was written to, or an older copy of it."""
    for state in rounds:
        for slot, claim in state.claims.items():
            made = memory.claims.get(state.index)
            is_known = made is not None and made.claim_root == claim.claim_root
            if claim.solver == account and not is_known and slot not in state.settled_slots:
                raise _unknown(f"the claim on round {state.index}", account)
        for key, audit in state.audits.items():
            found = memory.audits.get((state.index, *key))
            is_known = audit.status != AuditStatus.COMMITTED or (
                found is not None and seal_audit(state.domain, account, found) == audit.commitment
            )
            if audit.auditor == account and not is_known and key[0] not in state.settled_slots:
                raise _unknown(f"the replay for round {state.index}, slot {key[0]}, draw {key[1]}", account)


def _unknown(what: str, account: str) -> EnvironmentFault:
    return EnvironmentFault(
        what="the journal lacks what this account committed to on chain",
        expected=f"a record of {what}",
        actual="none",
        where=account,
        remedy="Start with the home that made it. If its journal is lost, wait until that round is settled.",
        retryable=False,
    )


def seal_audit(domain: bytes, account: str, made: AuditMade) -> bytes:
    """The commitment of `account` to the result of a replay; `domain` of the task."""
    end_root = compute_state_root(header_of(made))
    place = (made.round, made.slot, made.draw, made.rank)
    return compute_audit_commitment(domain, *place, account, end_root, made.salt)


def refuse_other_beacon(now: RoundState, then: RoundState) -> None:
    """Raises EnvironmentFault where a reorg has dealt a round anew since `then`."""
    if now.beacon != then.beacon:
        raise EnvironmentFault(
            what=f"a reorg has dealt round {now.index} anew",
            expected="the beacon that it had when this computation began",
            actual="another",
            remedy="Nothing: it is computed anew.",
        )


def header_of(record: BoundaryReached | AuditMade) -> StateHeader:
    """The state that a record names."""
    return StateHeader(
        record.weights_root,
        record.first_moment_root,
        record.second_moment_root,
        record.local_step,
        record.global_step,
    )


def header_fields(header: StateHeader) -> dict[str, Any]:
    """The fields of a record that names a state."""
    return {
        "weights_root": header.weights_root,
        "first_moment_root": header.first_moment_root,
        "second_moment_root": header.second_moment_root,
        "local_step": header.local_step,
        "global_step": header.global_step,
    }
