"""Disputes of the tiny world played move by move: who does what in which block, and what comes of it.

Blocks count from the seal of the first opening. `a` and `b` name two disputes on the same solver's claim.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, fields
from typing import Any

from protocol.spec import game_events
from protocol.spec.containers import StateHeader
from protocol.spec.dispute import (
    ACTIVE_STAGES,
    OPEN_STAGES,
    DisputeBook,
    DisputeState,
    count_queue,
    process_book_event,
)
from protocol.spec.dispute_moves import (
    AnswerDemand,
    DemandLeaf,
    Move,
    NameStep,
    OpenDispute,
    PostStepRoots,
    PostTrace,
    Proof,
    ProveOperation,
    ProveScalar,
    ProveToken,
    Timeout,
    check_move,
    check_opening,
)
from protocol.spec.events import Event
from protocol.spec.guards import Refusal
from protocol.spec.statuses import AuditRef, ClaimRef, Stage
from tests.protocol.spec.simulator import make_account, make_header, make_terms, make_word

CLAIMANT, OPENER, OTHER = (make_account(name) for name in ("claimant", "opener", "other"))
SENDERS = {"claimant": CLAIMANT, "opener": OPENER, "other": OTHER}
TASK = make_word("task")
CLAIM = ClaimRef(AuditRef(TASK, 0, 0, 0, 0), segment=1, by_solver=True)
A, B = make_word("a"), make_word("b")
NAMES = {A: "a", B: "b"}
FIRST_BLOCK = 200


@dataclass(frozen=True)
class Seal:
    """sealOpening of dispute `seal_hash`."""

    seal_hash: bytes


Action = Seal | OpenDispute | Move
Turn = tuple[int, str, Action]


@dataclass(frozen=True)
class DisputeScript:
    """A dispute as it is to be tried; `by_solver`: whose claim it is about."""

    name: str
    turns: tuple[Turn, ...]
    by_solver: bool = True


@dataclass
class DisputeSimulator:
    """A book of disputes that accepted moves change as the contract does."""

    book: DisputeBook = field(default_factory=lambda: DisputeBook(TASK, make_terms()))
    is_convicted: bool = False

    def send(self, action: Action, sender: str, block: int) -> Refusal:
        """Plays one move in one block; a refused one changes nothing."""
        refusal = self.check(action, sender, block)
        if refusal is None:
            for event in list(self.list_events(action, sender, block)):
                self.book = process_book_event(self.book, event)
        return refusal

    def check(self, action: Action, sender: str, block: int) -> Refusal:
        """Why a move is refused."""
        if isinstance(action, Seal):
            return None
        if isinstance(action, OpenDispute):
            return check_opening(self.book, action, sender, block)
        return check_move(self.book.disputes[action.dispute], action, sender, block)

    def list_events(self, action: Action, sender: str, block: int) -> Iterator[Event]:
        """What the contract logs for an accepted move."""
        if isinstance(action, Seal):
            yield game_events.OpeningSealed(block_number=block, opener=sender, seal_hash=action.seal_hash)
        elif isinstance(action, OpenDispute):
            yield from self._open(action, sender, block)
        else:
            state = self.book.disputes[action.dispute]
            yield from _EFFECTS[type(action)](self, state, action, sender, block)

    def _open(self, action: OpenDispute, sender: str, block: int) -> Iterator[Event]:
        ahead, terms = count_queue(self.book, action.claimant), self.book.terms
        yield game_events.DisputeOpened(
            block_number=block,
            dispute=action.seal_hash,
            claim=action.claim,
            claimant=action.claimant,
            opener=sender,
            bond_wei=terms.amounts.dispute_bond << ahead,
        )
        if ahead == 0:
            yield self.activate(action.seal_hash, block)

    def activate(self, dispute: bytes, block: int) -> Event:
        """The turn of a dispute."""
        clock = block + self.book.terms.windows.respond
        return game_events.DisputeActivated(block_number=block, dispute=dispute, clock_block=clock)

    def end(self, state: DisputeState, block: int, event: Event) -> Iterator[Event]:
        """The end of a dispute, and the turn of the next one."""
        yield event
        left = [name for name, one in self.book.disputes.items() if one.stage in OPEN_STAGES and one != state]
        if state.stage in ACTIVE_STAGES and left:
            yield self.activate(left[0], block)

    def convict(self, state: DisputeState, sender: str, block: int, reason: str) -> Iterator[Event]:
        """A conviction: the opener finds while the dispute is active, later whoever proves."""
        finder = state.opener if state.stage in ACTIVE_STAGES else sender
        self.is_convicted = True
        word = reason.encode().ljust(32, b"\0")
        yield from self.end(
            state,
            block,
            game_events.DisputeConvicted(
                block_number=block, dispute=state.dispute, claimant=state.claimant, finder=finder, reason=word
            ),
        )


def _post(
    sim: DisputeSimulator, state: DisputeState, move: PostStepRoots, sender: str, block: int
) -> Iterator[Event]:
    roots = tuple(make_word("root", i) for i in range(move.root_count))
    yield game_events.StepRootsPosted(block_number=block, dispute=state.dispute, roots=roots)


def _name(
    sim: DisputeSimulator, state: DisputeState, move: NameStep, sender: str, block: int
) -> Iterator[Event]:
    clock = block + state.terms.windows.respond
    yield game_events.StepNamed(block_number=block, dispute=state.dispute, step=move.step, clock_block=clock)


def _trace(
    sim: DisputeSimulator, state: DisputeState, move: PostTrace, sender: str, block: int
) -> Iterator[Event]:
    assert state.step is not None
    yield game_events.TracePosted(
        block_number=block,
        dispute=state.dispute,
        trace_root=make_word("trace"),
        start=make_step_header(state.step),
        end=make_step_header(state.step + 1),
        clock_block=block + state.terms.windows.prove,
    )


def _demand(
    sim: DisputeSimulator, state: DisputeState, move: DemandLeaf, sender: str, block: int
) -> Iterator[Event]:
    clock = state.demand_clock if state.has_open_demand else block + state.terms.windows.respond
    yield game_events.LeafDemanded(
        block_number=block,
        dispute=state.dispute,
        demand=len(state.demands),
        challenger=sender,
        node=move.node,
        place=move.place,
        leaf_index=move.leaf_index,
        clock_block=clock,
    )


def _answer(
    sim: DisputeSimulator, state: DisputeState, move: AnswerDemand, sender: str, block: int
) -> Iterator[Event]:
    yield game_events.LeafAnswered(block_number=block, dispute=state.dispute, demand=move.demand, data=b"")


def _prove(
    sim: DisputeSimulator, state: DisputeState, move: Proof, sender: str, block: int
) -> Iterator[Event]:
    reason = "operation" if isinstance(move, ProveOperation) else "data"
    yield from sim.convict(state, sender, block, reason)


def _timeout(
    sim: DisputeSimulator, state: DisputeState, move: Timeout, sender: str, block: int
) -> Iterator[Event]:
    if not move.is_claim_convicted and state.stage in (Stage.ROOTS, Stage.TRACE):
        yield from sim.convict(state, sender, block, "silent")
    elif not move.is_claim_convicted and state.has_open_demand:
        yield from sim.convict(state, sender, block, "withheld")
    else:
        closed = game_events.DisputeClosed(block_number=block, dispute=state.dispute)
        yield from sim.end(state, block, closed)


_EFFECTS: dict[type[Move], Callable[..., Iterator[Event]]] = {
    PostStepRoots: _post,
    NameStep: _name,
    PostTrace: _trace,
    DemandLeaf: _demand,
    AnswerDemand: _answer,
    ProveOperation: _prove,
    ProveToken: _prove,
    ProveScalar: _prove,
    Timeout: _timeout,
}


def make_step_header(state_index: int) -> StateHeader:
    """The state after `state_index` steps of segment 1."""
    whole = make_header(0, state_index, "step")
    roots = (whole.weights_root, whole.first_moment_root, whole.second_moment_root)
    return StateHeader(*roots, local_step=2 + state_index, global_step=2 + state_index)


def is_fact_name(name: str) -> bool:
    """Whether a field of a move says something that only hashing or another contract can tell; `is_label` is
    an argument."""
    return name.startswith(("is_", "are_")) and name != "is_label"


def play_dispute(script: DisputeScript) -> dict[str, Any]:
    """The script with what comes of each turn."""
    sim, steps = DisputeSimulator(), []
    for block, sender, action in script.turns:
        if isinstance(action, Timeout):
            action = Timeout(action.dispute, is_claim_convicted=sim.is_convicted)
        refusal = sim.send(action, SENDERS[sender], FIRST_BLOCK + block)
        stages = {NAMES[name]: one.stage.name for name, one in sim.book.disputes.items()}
        steps.append(
            {
                "block": block,
                "sender": sender,
                **_action_to_json(action),
                "error": None if refusal is None else refusal.name,
                "stages": stages,
            }
        )
    claimed = "CONVICTED" if sim.is_convicted else "STANDING"
    return {"name": script.name, "bySolver": script.by_solver, "steps": steps, "claim": claimed}


def _action_to_json(action: Action) -> dict[str, Any]:
    name = "sealOpening" if isinstance(action, Seal) else type(action).__name__
    found: dict[str, Any] = {"call": name[0].lower() + name[1:]}
    dispute = action.dispute if isinstance(action, Move) else action.seal_hash
    arguments = {f.name: getattr(action, f.name) for f in fields(action)}
    found["dispute"] = NAMES[dispute]
    hidden = ("seal_hash", "dispute", "claim", "claimant", "closes_block", "is_claim_convicted")
    plain = {name: value for name, value in arguments.items() if name not in hidden}
    facts = {name: value for name, value in plain.items() if is_fact_name(name)}
    found["args"] = {name: value for name, value in plain.items() if name not in facts}
    # A fact is told where it is not the usual truth.
    return found | {"facts": {name: value for name, value in facts.items() if not value}}
