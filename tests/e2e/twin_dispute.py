"""Plays the shared sequences of disputes (tests/vectors/dispute.json) against the contracts on a chain.

They are played on an honest round of `twin.py` up to its reveals: a claim stands then, and one audit of it.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import groupby
from typing import Any

from protocol.spec import dispute_moves as moves
from protocol.spec.containers import BufferOpening, LeafProof, StateHeader, StepFacts
from protocol.spec.dispute import OPEN_STAGES, DisputeBook, process_book_event
from protocol.spec.game_events import DisputeClosed, DisputeConvicted
from protocol.spec.guards import Refusal
from protocol.spec.hashing import sha256_of
from protocol.spec.round import get_audit, get_audit_ref, get_claim, get_settle_block, process_event
from protocol.spec.statuses import AuditStatus, ClaimRef, ClaimStatus
from tests.e2e.twin import STAKED, SUBMITTER, RoundTwin, Script, Step, compare_refusals, make_account
from tests.e2e.twin_chain import Outcome, Sending, TwinChain
from tests.e2e.twin_step import (
    LABELS,
    PROGRAM,
    ROW_TOKENS,
    ROWS,
    SCALARS,
    TOKENS,
    DealtData,
    StepTrace,
    make_facts,
    prove_node,
    prove_scalars,
)
from tests.e2e.twin_world import TENSORS, Claims, State, make_tensor, state_after

KINDS: dict[str, Any] = {
    kind.__name__[0].lower() + kind.__name__[1:]: kind
    for kind in (
        moves.PostStepRoots, moves.NameStep, moves.PostTrace, moves.DemandLeaf, moves.AnswerDemand,
        moves.ProveOperation, moves.ProveToken, moves.ProveScalar, moves.Timeout,
    )
}  # fmt: skip
SOLVER_SEGMENT = 1
NAMED_STEP = 1
"""of its segment, in every script that has a trace."""
OPENINGS = ("sealOpening", "openDispute")
FINDER_DIVISOR = 4
"""StakeVault.SHARE_DIVISOR: finder and submitter each get at most this part of a slash."""


class DisputeTwin:
    """One script on one chain. `book` and the round's state are folded from the chain's logs alone."""

    def __init__(self, chain: TwinChain, honest: Script, script: Script) -> None:
        """honest: a script of round.json in which all goes well; it is played up to its first reveal."""
        last = next(int(step["block"]) for step in honest["steps"] if step["call"] == "reveal")
        shown = [step for step in honest["steps"] if int(step["block"]) <= last]
        self.round = RoundTwin(chain, {**honest, "name": script["name"], "steps": shown})
        self.chain, self.script, self.terms = chain, script, self.round.terms
        self.round.play_steps()
        self.book = DisputeBook(self.round.state.task, self.terms)
        self.base_block = chain.head + 1
        self.is_by_solver = bool(script["bySolver"])

    # Who and what -------------------------------------------------------------------------------------------
    @property
    def claim(self) -> ClaimRef:
        """What is disputed."""
        ref = get_audit_ref(self.round.state, 0, 0, 0)
        drawn = self.round.segment_of(0, 0)
        return ClaimRef(ref, SOLVER_SEGMENT if self.is_by_solver else drawn, self.is_by_solver)

    @property
    def claimant(self) -> str:
        """Whose sentence it is."""
        return self.round.account_of("solver:0" if self.is_by_solver else "auditor:0.0.0")

    @property
    def is_convicted(self) -> bool:
        """Whether the claim has fallen."""
        if self.is_by_solver:
            return get_claim(self.round.state, 0).status == ClaimStatus.CONVICTED
        return get_audit(self.round.state, (0, 0, 0)).status == AuditStatus.SLASHED

    def account_of(self, name: str) -> str:
        """The account of a sender of the script."""
        return self.claimant if name == "claimant" else make_account(name)

    def opener_of(self, dispute: str) -> str:
        """Who opens `a` or `b`: its name depends on that."""
        steps = self.script["steps"]
        return self.account_of(
            next(one["sender"] for one in steps if one["dispute"] == dispute and one["call"] in OPENINGS)
        )

    def id_of(self, dispute: str, claim: ClaimRef | None = None) -> bytes:
        """The id, which is the hash of its seal."""
        opener, salt = self.opener_of(dispute), sha256_of(dispute.encode())
        return moves.compute_opening_seal(claim or self.claim, opener, salt)

    @property
    def broken_claim(self) -> ClaimRef:
        """A segment beyond the last."""
        return replace(self.claim, segment=self.terms.segment_count)

    def step_state(self, index: int) -> State:
        """The state after `index` steps of the segment; where the script says so the one before the named
        step has a wrong local step."""
        state = state_after(0, self.claim.segment * self.terms.segment_steps + index)
        is_bad = any(not is_fact(step, "are_steps_right") for step in self.script["steps"])
        return state._replace(local_step=state.local_step + (is_bad and index == NAMED_STEP))

    @property
    def step_roots(self) -> list[bytes]:
        """What an honest claimant posts."""
        return [self.step_state(index).root for index in range(self.terms.segment_steps + 1)]

    @cached_property
    def trace(self) -> StepTrace:
        """The trace of the named step, with the faults that the script proves."""
        start, end = self.step_state(NAMED_STEP), self.step_state(NAMED_STEP + 1)
        tensors = {number: make_tensor(start[number])[0] for number in range(TENSORS)}
        outputs = PROGRAM.outputs
        for number, buffer in enumerate((outputs.weights, outputs.first_moment, outputs.second_moment)):
            tensors[buffer] = make_tensor(end[number])[0]
        data = DealtData(self.round.state, self.claim.segment * self.terms.segment_steps + NAMED_STEP)
        lies = frozenset(map(find_lie, filter(is_accepted_proof, self.script["steps"])))
        return StepTrace(data, start.header, end.header, tensors, lies)

    # Playing ------------------------------------------------------------------------------------------------
    def play(self) -> None:
        """All steps, then the script's end."""
        self.play_steps()
        assert self.is_convicted == (self.script["claim"] == "CONVICTED")
        self.round.check_money(self.lock_bonds())

    def play_steps(self) -> None:
        """All steps, block by block."""
        for offset, steps in groupby(self.script["steps"], key=lambda step: int(step["block"])):
            self.play_block(self.base_block + offset, list(steps))

    def play_block(self, block: int, steps: Sequence[Step]) -> None:
        """Steps of one block, mined together and then compared one by one."""
        self.chain.mine_to(block - 1)
        sendings = [self.make_sending(step) for step in steps]
        outcomes = self.chain.mine([*sendings, *self.seal_broken(steps)])
        for step, outcome in zip(steps, outcomes, strict=False):
            self.compare_step(step, block, outcome)
        for outcome in outcomes[len(steps) :]:
            self.fold(outcome)
        stages = {name: self.chain.read("DisputeGame", "stageOf", name)[0] for name in self.book.disputes}
        assert stages == {name: one.stage for name, one in self.book.disputes.items()}, steps
        self.round.compare_statuses(block)

    def seal_broken(self, steps: Sequence[Step]) -> list[Sending]:
        """A claim that cannot be disputed has another seal; it is made beside the right one."""
        sealed = [one["dispute"] for one in steps if one["call"] == "sealOpening" and one["error"] is None]
        return [
            Sending(self.opener_of(one), "DisputeGame", "sealOpening", (self.id_of(one, self.broken_claim),))
            for one in sealed
        ]

    def make_sending(self, step: Step) -> Sending:
        """The transaction of a step."""
        name, dispute = step["call"], self.id_of(step["dispute"])
        if name == "sealOpening":
            arguments: tuple[Any, ...] = (dispute,)
        elif name == "openDispute":
            claim = self.claim if is_fact(step, "is_disputable") else self.broken_claim
            arguments = (claim, sha256_of(step["dispute"].encode()))
        else:
            arguments = (dispute, *_ARGUMENTS[name](self, step))
        return Sending(self.account_of(step["sender"]), "DisputeGame", name, arguments)

    # Comparing ----------------------------------------------------------------------------------------------
    def compare_step(self, step: Step, block: int, outcome: Outcome) -> None:
        """One transaction: its refusal, or the stages it led to; then its money is booked."""
        refusal = self.check(step, block)
        compare_refusals(step["error"], refusal, outcome, str(step))
        was_convicted = self.is_convicted
        self.fold(outcome)
        found = {name: self.book.disputes[id_].stage.name for name, id_ in self.list_open()}
        assert found == step["stages"], step
        if outcome.error is None:
            self.book_money(step, outcome, was_convicted)

    def fold(self, outcome: Outcome) -> None:
        """The chain's logs, into both machines."""
        for event in outcome.events:
            self.book = process_book_event(self.book, event)
            self.round.state = process_event(self.round.state, event)

    def list_open(self) -> list[tuple[str, bytes]]:
        """Name and id of the disputes that were opened."""
        names = sorted({step["dispute"] for step in self.script["steps"]})
        return [(name, self.id_of(name)) for name in names if self.id_of(name) in self.book.disputes]

    def check(self, step: Step, block: int) -> Refusal:
        """What the Python guards say."""
        sender, dispute = self.account_of(step["sender"]), self.id_of(step["dispute"])
        if step["call"] == "sealOpening":
            return None
        if step["call"] == "openDispute":
            closes = get_settle_block(self.round.state, block)
            is_whole = is_fact(step, "is_disputable")
            seal = dispute if is_whole else self.id_of(step["dispute"], self.broken_claim)
            is_right = is_whole and not self.is_convicted
            call = moves.OpenDispute(
                self.claim, seal, self.claimant, is_disputable=is_right, closes_block=closes
            )
            return moves.check_opening(self.book, call, sender, block)
        return moves.check_move(self.book.disputes[dispute], self.make_move(step), sender, block)

    def make_move(self, step: Step) -> moves.Move:
        """The move of a step with its facts."""
        kind, given = KINDS[step["call"]], {**step["args"], **step["facts"]}
        if issubclass(kind, moves.Proof):
            given["is_standing"] = not self.is_convicted
        if kind is moves.Timeout:
            given["is_claim_convicted"] = self.is_convicted
        move: moves.Move = kind(self.id_of(step["dispute"]), **given)
        return move

    def book_money(self, step: Step, outcome: Outcome, was_convicted: bool) -> None:
        """Fees of demands, bonds of closed disputes, the stake of a convicted claimant."""
        books, amounts = self.round.books, self.terms.amounts
        if step["call"] == "demandLeaf":
            books.move(self.account_of(step["sender"]), self.claimant, amounts.demand_fee, amounts.demand_fee)
        for event in outcome.events:
            if isinstance(event, DisputeConvicted):
                stake = amounts.solver_stake if self.is_by_solver else amounts.audit_stake
                cap = amounts.solver_pay if self.is_by_solver else amounts.audit_pay
                share = stake // FINDER_DIVISOR
                books.move(event.claimant, event.finder, stake, min(amounts.finder_cap, share))
                books.credits[SUBMITTER] += min(cap, share)
            elif isinstance(event, DisputeClosed) and not was_convicted:
                closed = self.book.disputes[event.dispute]
                books.move(closed.opener, closed.claimant, closed.bond_wei, closed.bond_wei // 2)

    def lock_bonds(self) -> dict[str, int]:
        """What open disputes hold of their openers, in wei."""
        held = dict.fromkeys(STAKED, 0)
        for number, one in enumerate(self.book.disputes.values()):
            if one.stage in OPEN_STAGES:
                held[one.opener] += one.bond_wei
            assert one.bond_wei == self.terms.amounts.dispute_bond << number
        return held


def is_fact(step: Step, name: str) -> bool:
    """Whether something is as it should be in a call."""
    return bool(step["facts"].get(name, True))


def is_accepted_proof(step: Step) -> bool:
    """Whether a step proves a fault."""
    return step["call"].startswith("prove") and step["error"] is None


def find_lie(step: Step) -> tuple[int, int]:
    """Buffer and element of the trace whose fault a step proves."""
    given = step["args"]
    if step["call"] == "proveOperation":
        return PROGRAM.nodes[given["node"]].output.buffer, given["element"]
    if step["call"] == "proveToken":
        return LABELS if given["is_label"] else TOKENS, given["position"]
    return SCALARS, given["which"]


def _post_roots(twin: DisputeTwin, step: Step) -> tuple[Any, ...]:
    roots = twin.step_roots
    if not is_fact(step, "are_endpoints_met"):
        roots[-1] = roots[0]
    claims, segment = Claims(twin.round.state), twin.claim.segment
    ends = [claims.prove_boundary(0, segment + i) for i in range(2)] if twin.is_by_solver else []
    return roots[: step["args"]["root_count"]], ends


def _name(twin: DisputeTwin, step: Step) -> tuple[Any, ...]:
    roots = twin.step_roots
    if not is_fact(step, "are_roots_right"):
        roots[1] = roots[0]
    return step["args"]["step"], roots


def _show_facts(step: Step) -> StepFacts:
    facts = make_facts()
    return facts if is_fact(step, "are_facts_right") else replace(facts, token_count=1)


def _post_trace(twin: DisputeTwin, step: Step) -> tuple[Any, ...]:
    trace, proof = twin.trace, twin.trace.prove_outputs()
    end = trace.end if is_fact(step, "are_headers_right") else trace.start
    if not is_fact(step, "is_head_right"):
        proof = replace(proof, head=proof.head[:-1] + b"\xff")
    if not is_fact(step, "are_outputs_right"):
        proof = replace(proof, second_moment_path=proof.weights_path)
    return _show_facts(step), trace.root, trace.start, end, proof


def _demand(twin: DisputeTwin, step: Step) -> tuple[Any, ...]:
    given = step["args"]
    node = prove_node(given["node"])
    if not is_fact(step, "is_node_right"):
        node = replace(node, number=given["node"] + 1)
    return _show_facts(step), node, given["place"], given["leaf_index"]


def _show_start(twin: DisputeTwin, step: Step) -> StateHeader:
    return twin.trace.start if is_fact(step, "is_header_right") else twin.trace.end


def _spoil(opening: BufferOpening, step: Step) -> BufferOpening:
    if not is_fact(step, "is_length_right"):
        return replace(opening, leaves=opening.leaves[:-4])
    if not is_fact(step, "is_buffer_right"):
        return replace(opening, root=sha256_of(opening.root))
    if not is_fact(step, "is_leaf_right"):
        return replace(opening, leaves=bytes(len(opening.leaves)))
    return opening


def _answer(twin: DisputeTwin, step: Step) -> tuple[Any, ...]:
    given = step["args"]
    opening = twin.trace.open_place(given["node"], given["place"], given["leaf_index"])
    return given["demand"], _show_start(twin, step), _spoil(opening, step)


def _prove_operation(twin: DisputeTwin, step: Step) -> tuple[Any, ...]:
    """Without a fault: of the next element, which is right."""
    number, element = step["args"]["node"], step["args"]["element"] + (not is_fact(step, "is_fault"))
    openings = twin.trace.open_element(number, element)
    return _show_facts(step), _show_start(twin, step), prove_node(number), element, openings


def _prove_token(twin: DisputeTwin, step: Step) -> tuple[Any, ...]:
    is_label, position = step["args"]["is_label"], step["args"]["position"]
    position += not is_fact(step, "is_fault")
    shown = min(position, ROWS * ROW_TOKENS - 1)
    opening = _spoil(twin.trace.open_leaf(LABELS if is_label else TOKENS, 0), step)
    leaf = twin.trace.data.prove_token(shown, is_label)
    return _show_facts(step), is_label, position, opening, _spoil_leaf(leaf, step)


def _prove_scalar(twin: DisputeTwin, step: Step) -> tuple[Any, ...]:
    opening = _spoil(twin.trace.open_leaf(SCALARS, 0), step)
    leaf = _spoil_leaf(prove_scalars(twin.trace.start.local_step), step)
    return _show_facts(step), _show_start(twin, step), step["args"]["which"], opening, leaf


def _spoil_leaf(leaf: LeafProof, step: Step) -> LeafProof:
    return leaf if is_fact(step, "are_leaves_right") else replace(leaf, data=bytes(len(leaf.data)))


_ARGUMENTS: dict[str, Callable[[DisputeTwin, Step], tuple[Any, ...]]] = {
    "postStepRoots": _post_roots,
    "nameStep": _name,
    "postTrace": _post_trace,
    "demandLeaf": _demand,
    "answerDemand": _answer,
    "proveOperation": _prove_operation,
    "proveToken": _prove_token,
    "proveScalar": _prove_scalar,
    "timeout": lambda twin, step: (),
}
