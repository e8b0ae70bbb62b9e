"""Plays whole rounds from the duties alone, with chosen parties silent or wrong, and writes down every call.

A step is one call in one block (blocks count from the round's start). Parties are named by what they are in
the round (`solver:0`, `auditor:slot.draw.rank`), so that the same script can be played where block hashes
deal other cards.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields
from enum import IntEnum
from typing import Any

from protocol.spec import calls
from protocol.spec.calls import Call
from protocol.spec.clock import NEVER
from protocol.spec.containers import TaskTerms
from protocol.spec.drawn import compute_leaf_indices, get_auditor, get_drawn
from protocol.spec.duties import get_auditor_actions, get_next_deadline, get_solver_actions
from protocol.spec.guards import check_call, has_poster
from protocol.spec.keeping import get_keeper_actions
from protocol.spec.round import RoundState, get_audit_ref, get_included, get_phase, get_slot
from protocol.spec.statuses import AuditRef, Role
from tests.protocol.spec.simulator import Simulator, make_account, make_round, make_terms

KEEPER, OUTSIDER = make_account("keeper"), make_account("outsider")
PROBES_PER_BLOCK = 4


@dataclass(frozen=True)
class Plot:
    """What goes wrong in a round. silent: labels of calls that nobody sends (`get_label`; `label@party`: that
    party does not); held: the same, until so many blocks after the round's start; words: what auditors say
    instead of committing, by label of their commitReplay; results: by (slot, draw, rank)."""

    name: str
    solvers: int = 1
    verifiers: int = 3
    whistleblowers: int = 1
    silent: frozenset[str] = frozenset()
    held: Mapping[str, int] = field(default_factory=dict)
    words: Mapping[str, type[calls.SayUnserved] | type[calls.Abstain]] = field(default_factory=dict)
    results: Mapping[tuple[int, int, int], str] = field(default_factory=dict)
    is_repeated: bool = False
    is_probed: bool = False


@dataclass(frozen=True)
class Step:
    """One call: its block, who sends it, the name of the refusal or the events and penalties it caused."""

    block: int
    sender: str
    call: Call
    error: str | None
    events: tuple[str, ...] = ()
    penalties: tuple[tuple[str, str], ...] = ()


def get_label(state: RoundState, call: Call) -> str:
    """The kind of a call as plots name it: `openStart.late`, `commitReplay.1`, `sealLeaves.0`."""
    name = get_function(call)
    if isinstance(call, calls.OpenLeaves | calls.SealLeaves):
        return f"{name}.{call.phase}"
    ref = getattr(call, "audit", None)
    draw = ref.draw if ref is not None else getattr(call, "draw", None)
    if draw == state.late_draw:
        return f"{name}.late"
    return f"{name}.{ref.rank}" if ref is not None else name


def get_function(call: Call) -> str:
    """The Solidity function of a call."""
    name = type(call).__name__.replace("CommitClaim", "Commit")
    return name[0].lower() + name[1:]


class Play:
    """A round under a plot, from the first enrolment until nothing is left to do."""

    def __init__(self, plot: Plot, terms: TaskTerms | None = None) -> None:
        self.plot = plot
        self.sim = Simulator(make_round(terms or make_terms()), plot.results)
        self.steps: list[Step] = []
        self.missed: dict[tuple[str, Call], int] = {}
        self.probes = 0
        groups = {Role.SOLVER: plot.solvers, Role.VERIFIER: plot.verifiers}
        groups[Role.WHISTLEBLOWER] = plot.whistleblowers
        self.parties = {make_account(f"{role.name}{i}"): role for role, n in groups.items() for i in range(n)}

    def run(self) -> "Play":
        """Plays to the end."""
        block = self.sim.state.start_block + 1
        while block != NEVER:
            acted = self.play_block(block)
            block = block + 1 if acted else self.get_next_block(block)
        return self

    def get_next_block(self, block: int) -> int:
        """When something can happen again: at a deadline, or where a call is held no longer."""
        freed = [self.sim.state.start_block + offset for offset in self.plot.held.values()]
        return min(get_next_deadline(self.sim.state, block), *(one for one in freed if one > block), NEVER)

    def play_block(self, block: int) -> bool:
        """At most one call that is meant to pass, after those that are not; tells whether there was one."""
        self.probe(block)
        due = list(self.list_due(block))
        self.send_missed(block, due)
        for sender, call in due:
            if self.is_silent(sender, call, block):
                self.missed[sender, call] = block
                continue
            call = self.reword(call)
            self.send(call, sender, block, must_pass=True)
            if self.plot.is_repeated:
                self.send(call, sender, block)
            return True
        return False

    def is_silent(self, sender: str, call: Call, block: int) -> bool:
        """Whether the plot wants this call left out."""
        label = get_label(self.sim.state, call)
        is_held = block - self.sim.state.start_block < self.plot.held.get(label, 0)
        return is_held or not self.plot.silent.isdisjoint({label, f"{label}@{self.name_of(sender)}"})

    def list_due(self, block: int) -> Iterator[tuple[str, Call]]:
        """All calls that somebody should send now."""
        state = self.sim.state
        yield from ((KEEPER, call) for call in get_keeper_actions(state, block))
        for account, role in self.parties.items():
            if role == Role.SOLVER:
                found = get_solver_actions(state, account, block)
            else:
                found = get_auditor_actions(state, account, block, role)
            yield from ((account, call) for call in found if not isinstance(call, calls.OFF_CHAIN))

    def send_missed(self, block: int, due: list[tuple[str, Call]]) -> None:
        """What silence missed is tried in the first block in which it is too late."""
        gone = [key for key in self.missed if key not in due]
        for sender, call in gone:
            del self.missed[sender, call]
            if check_call(self.sim.state, call, sender, block) is not None:
                self.send(call, sender, block)

    def reword(self, call: Call) -> Call:
        """An auditor's other word, if the plot gives it one."""
        word = self.plot.words.get(get_label(self.sim.state, call))
        if word is None or not isinstance(call, calls.CommitReplay):
            return call
        return word(call.round, call.audit)

    def probe(self, block: int) -> None:
        """A few calls that must be refused, another few in every block."""
        if not self.plot.is_probed:
            return
        catalogue = list(self.list_trespasses())
        for i in range(PROBES_PER_BLOCK):
            sender, call = catalogue[(self.probes + i) % len(catalogue)]
            if check_call(self.sim.state, call, sender, block) is not None:
                self.send(call, sender, block)
        self.probes += PROBES_PER_BLOCK

    def list_trespasses(self) -> Iterator[tuple[str, Call]]:
        """Every kind of call, from the solver, the primary and somebody foreign, right or wrong."""
        state, late = self.sim.state, self.sim.state.late_draw
        primary = get_auditor(state, (0, 0, 0)) or make_account("VERIFIER0")
        refs = [get_audit_ref(state, 0, 0, rank) for rank in range(3)] + [get_audit_ref(state, 0, late, 0)]
        for sender in (make_account("SOLVER0"), primary, OUTSIDER):
            for call in (*self._list_round_calls(), *self._list_audit_calls(refs)):
                yield sender, call

    def _list_round_calls(self) -> Iterator[Call]:
        yield calls.Enrol(0, Role.WHISTLEBLOWER)
        yield calls.CommitClaim(0)
        yield from (kind(0) for kind in (calls.SealBeacon, calls.SealDraw, calls.SealLate, calls.Advance))
        included = get_included(self.sim.state)
        yield from (calls.Judge(0, 0), calls.Judge(0, 9), calls.PostOuter(0, included), calls.SettleMerge(0))
        yield from (calls.SettleClaim(0, 0), calls.SettleClaim(0, 9), calls.SettleEnrolments(0, 0, 9))
        yield from (calls.SealLeaves(0, phase) for phase in range(4))

    def _list_audit_calls(self, refs: list[AuditRef]) -> Iterator[Call]:
        state = self.sim.state
        for draw in (0, state.late_draw):
            drawn = get_drawn(state, 0, draw)
            start, last = drawn.segment if drawn else 0, state.terms.segment_count
            yield from (calls.OpenStart(0, draw, start), calls.OpenEnd(0, draw, start + 1, last))
            for phase in range(3):
                yield calls.OpenLeaves(0, draw, phase, compute_leaf_indices(state, 0, draw, phase))
        for ref in refs:
            indices = compute_leaf_indices(state, 0, ref.draw, get_phase(state, ref.draw, ref.rank))
            yield from (calls.CommitReplay(0, ref, 0), calls.SayUnserved(0, ref), calls.Abstain(0, ref))
            yield from (calls.Reveal(0, ref), calls.CompareLeaves(0, ref, indices))

    def send(self, call: Call, sender: str, block: int, must_pass: bool = False) -> None:
        """Sends one call and writes the step down."""
        name, log, lost = self.name_of(sender, call), len(self.sim.log), len(self.sim.penalties)
        refusal = self.sim.send(call, sender, block)
        assert refusal is None or not must_pass, (block, call, refusal)
        penalties = [(self.name_of(one.account), one.kind.name) for one in self.sim.penalties[lost:]]
        self.steps.append(
            Step(
                block=block - self.sim.state.start_block,
                sender=name,
                call=call,
                error=None if refusal is None else refusal.name,
                events=tuple(type(event).__name__ for event in self.sim.log[log:]),
                penalties=tuple(penalties),
            )
        )

    def name_of(self, account: str, call: Call | None = None) -> str:
        """What an account is in this round; auditors by the audit that a call is about."""
        state = self.sim.state
        ref = getattr(call, "audit", None)
        if isinstance(ref, AuditRef) and get_auditor(state, ref.key) == account:
            return "auditor:" + ".".join(map(str, ref.key))
        for key in [(0, 0, 0), (0, 0, 1), (0, 0, 2), (0, state.late_draw, 0)]:
            if get_auditor(state, key) == account:
                return "auditor:" + ".".join(map(str, key))
        slot = get_slot(state, account)
        named = {KEEPER: "keeper", OUTSIDER: "outsider"}
        return named.get(account) or (f"solver:{slot}" if slot is not None else self._seat_of(account))

    def _seat_of(self, account: str) -> str:
        role = self.parties[account]
        same = [one for one, its_role in self.parties.items() if its_role == role]
        return f"{role.name.lower()}:{same.index(account)}"


def to_json(play: Play) -> dict[str, Any]:
    """A script: its cast, its steps, and what the round came to."""
    state = play.sim.state
    return {
        "name": play.plot.name,
        "cast": {name: getattr(play.plot, name) for name in ("solvers", "verifiers", "whistleblowers")},
        "results": {_key(key): result for key, result in play.plot.results.items()},
        "steps": [_step_to_json(step) for step in play.steps],
        "outer": "none" if state.outer is None else "posted" if has_poster(state) else "empty",
        "claims": {str(slot): claim.status.name for slot, claim in sorted(state.claims.items())},
        "audits": {_key(key): audit.status.name for key, audit in sorted(state.audits.items())},
        "settledSlots": sorted(state.settled_slots),
    }


def _key(key: tuple[int, int, int]) -> str:
    return ".".join(map(str, key))


def _step_to_json(step: Step) -> dict[str, Any]:
    arguments = {_camel(f.name): _plain(getattr(step.call, f.name)) for f in fields(step.call)}
    arguments = {name: value for name, value in arguments.items() if name not in _DEALT}
    found: dict[str, Any] = {"block": step.block, "sender": step.sender, "call": get_function(step.call)}
    found |= {"args": arguments, "error": step.error}
    if step.error is None:
        found |= {"events": list(step.events), "penalties": [list(pair) for pair in step.penalties]}
    return found


_DEALT = ("segment", "boundary", "lastBoundary", "indices", "included", "worst") + (
    "isProofValid", "isStartExpected", "isCommitmentMet", "areStepsRight", "areProofsValid",
)  # fmt: skip
"""What the cards decide, or is always so in these scripts: a player of them takes it from the chain."""


def _camel(name: str) -> str:
    return re.sub(r"_(\w)", lambda match: match[1].upper(), name)


def _plain(value: Any) -> Any:
    if isinstance(value, AuditRef):
        return [value.slot, value.draw, value.rank]
    if isinstance(value, IntEnum):
        return value.name
    return value
