"""Measures disputes: all answers and moves, proofs, a conviction; at the bounds, and at an ordinary size."""

from collections.abc import Iterator
from dataclasses import astuple, dataclass, replace
from functools import cached_property
from typing import Any

from lab.benchmarks.gas_bounds.gas_bounds import (
    BOUND_WINDOWS,
    SEGMENT,
    STEPS,
    BoundPlay,
    grow,
    grow_run,
    make_noise,
    require_event,
)
from lab.benchmarks.gas_bounds.gas_play import AMOUNTS, SOLVER, Case
from tests.kit.members import hand_vote, make_word
from tests.rounds.chain import RoundChain, Sent
from touchstone.protocol.spec.claim_tree import name_claim
from touchstone.protocol.spec.commitments import compute_boundary_leaf, compute_state_root, compute_step_root
from touchstone.protocol.spec.merkle import compute_levels, compute_path, hash_leaf, hash_node
from touchstone.protocol.spec.merkle_sets import compute_set_path
from touchstone.protocol.spec.program import (
    MAX_ELEMENTS,
    MAX_TRACE_LEAF_BYTES,
    Access,
    Buffer,
    Node,
    Outputs,
    Program,
    Role,
)
from touchstone.protocol.spec.program_codec import compute_program_root, open_program_leaf
from touchstone.protocol.spec.program_operations import Operation
from touchstone.protocol.spec.state_headers import StateHeader
from touchstone.protocol.spec.statements import VoteWord
from touchstone.protocol.spec.task_spec import StepFacts

CLAIM_DEPTH = 17
SELECTED = 0x15555555
"""The index of all terms of a selected sum; none of its bytes is zero."""

SERVED = ("disputeClaim", "postClaimRoots", "nameStep", "postTrace", "proveOperation")
"""The moves of a dispute whose claimant serves the trace: no leaf is demanded."""


@dataclass(frozen=True)
class Sizes:
    """What a disputed step is made of: the terms of a sum, nodes (as many buffers), elements of the largest
    tensor, leaves that are demanded."""

    terms: int
    nodes: int
    elements: int
    demands: int

    @property
    def outputs(self) -> Outputs:
        """The buffers of the state after the step, somewhere among all."""
        return Outputs(*(self._place(part) for part in (10, 21, 32, 43)))

    @property
    def summed(self) -> tuple[int, int, int]:
        """The buffers of the sum: its output and its operands."""
        return self._place(27), self._place(38), self._place(54)

    @property
    def shown(self) -> int:
        """The buffer whose leaves are demanded."""
        return self._place(60)

    @property
    def sum_number(self) -> int:
        """The number of the sum's node."""
        return self._place(44)

    @property
    def wide_number(self) -> int:
        """The number of the node whose leaves are demanded."""
        return self._place(20)

    @property
    def leaf_bytes(self) -> int:
        """The bytes of a leaf: as many terms as a sum has, if that many fit."""
        return min(4 * self.terms, MAX_TRACE_LEAF_BYTES)

    @property
    def first(self) -> int:
        """The leaf in whose middle the terms begin, so that a sum touches one leaf more than it fills."""
        return 4 * self.elements // self.leaf_bytes // 3

    @property
    def start(self) -> int:
        """The element with which the terms begin."""
        return (self.first * self.leaf_bytes + self.leaf_bytes // 2) // 4

    @property
    def leaves(self) -> int:
        """How many leaves of an operand a sum touches."""
        return (self.leaf_bytes // 2 + 4 * self.terms - 1) // self.leaf_bytes + 1

    @property
    def depth(self) -> int:
        """The depth of a tensor's tree."""
        return (4 * self.elements // self.leaf_bytes - 1).bit_length()

    def _place(self, part: int) -> int:
        """Returns a place at so many 64ths of all."""
        return self.nodes * part // 64


GREATEST = Sizes(terms=4096, nodes=1 << 16, elements=MAX_ELEMENTS, demands=8)
"""As much as terms allow; more nodes and buffers than any model's program has."""
ORDINARY = Sizes(terms=512, nodes=2_148, elements=50_304 * 768, demands=8)
"""The step of a model of 124 million parameters with the usual length of chunks (decision 0047)."""


def make_sum(operation: Operation, sizes: Sizes = GREATEST) -> Node:
    """Returns a sum over two runs: of products, or of the second run's elements where the first has the
    element's index."""
    output, first, second = (Access(buffer, sizes.start, (0,) * 7) for buffer in sizes.summed)
    loops, row = (SELECTED + 1, *(1,) * 6, sizes.terms), (*(0,) * 7, 1)
    return Node(operation, loops, 1, output, (replace(first, strides=row), replace(second, strides=row)))


def make_program(summing: Node, sizes: Sizes = GREATEST) -> Program:
    """Returns a program of this size; both shown nodes have as many loops as allowed."""
    one = Access(sizes.shown, sizes.start, (0,) * 8)
    wide = Node(Operation.FINITE_SELECT, (1,) * 8, 0, one, (one, one, one))
    nodes = [wide] * sizes.nodes
    nodes[sizes.sum_number] = summing
    buffers = (Buffer(Role.TENSOR, sizes.elements),) * sizes.nodes
    return Program(sizes.terms, buffers, tuple(nodes), sizes.outputs)


def make_factors(count: int, *name: object) -> bytes:
    """Returns a leaf of `count` bytes: numbers of very different sizes, whose sum is the most expensive."""
    noise = make_noise(count, *name)
    pieces = (noise[i : i + 4] for i in range(0, len(noise), 4))
    return b"".join(
        ((77 + piece[3] % 100) << 23 | int.from_bytes(piece[:3], "little") & 0x7FFFFF).to_bytes(4, "little")
        for piece in pieces
    )


def make_facts(program: Program) -> StepFacts:
    """Returns the largest facts that a step of this program may have."""
    nodes, buffers = len(program.nodes), len(program.buffers)
    return StepFacts(
        compute_program_root(program), make_word("dataset"), make_word("scalars"), nodes, buffers, 0,
        0x7FFF, 0x7FFF, 4, (1 << 40) - 1, (1 << 42) - 1, (1 << 31) - 1,
        (1 << 31) - 1,
    )  # fmt: skip


class DisputePlay(BoundPlay):
    """A claim of which two boundaries, a step and its trace can be shown."""

    sizes = GREATEST
    program = make_program(make_sum(Operation.PRODUCT_SUM))
    facts = make_facts(program)
    step_root = compute_step_root(facts)

    # What is claimed
    def make_claim(self, number: int, slot: int) -> bytes:
        """Returns a claim of which two boundaries are known."""
        node = hash_node(*(self._make_boundary(boundary) for boundary in (SEGMENT, SEGMENT + 1)))
        return name_claim(grow(node, SEGMENT >> 1, CLAIM_DEPTH - 1, "claim")[0], self.segments)

    def make_header(self, step: int) -> StateHeader:
        """Returns the state before a step of the segment."""
        first, second, third = (make_word("state", tensor, step) for tensor in range(3))
        return StateHeader(first, second, third, SEGMENT * STEPS + step, SEGMENT * STEPS + step)

    def _make_boundary(self, boundary: int) -> bytes:
        root = compute_state_root(self.make_header((boundary - SEGMENT) * STEPS))
        solver = self.seats[SOLVER][0].address
        return compute_boundary_leaf(self.domain, 0, solver, boundary, make_word("salt", boundary), root)

    def open_boundary(self, boundary: int) -> Any:
        """Returns a boundary as `postClaimRoots` takes it."""
        _, path = grow(b"", SEGMENT >> 1, CLAIM_DEPTH - 1, "claim")
        header, sibling = self.make_header((boundary - SEGMENT) * STEPS), self._make_boundary(boundary ^ 1)
        return astuple(header), make_word("salt", boundary), [sibling, *path]

    # The trace
    def make_leaf(self, buffer: int, index: int) -> bytes:
        """Returns a leaf of a buffer of the sum."""
        return make_factors(self.sizes.leaf_bytes, buffer, index)

    @cached_property
    def runs(self) -> list[tuple[bytes, bytes, list[bytes]]]:
        """Leaves, root and path of the sum's output and operands."""
        found = []
        for buffer in self.sizes.summed:
            count = 1 if buffer == self.sizes.summed[0] else self.sizes.leaves
            leaves = [self.make_leaf(buffer, i) for i in range(count)]
            root, path = grow_run(leaves, self.sizes.first, self.sizes.depth, buffer)
            found.append((b"".join(leaves), root, path))
        return found

    @cached_property
    def shown(self) -> tuple[bytes, bytes, list[bytes]]:
        """The demanded leaf: its bytes, root and path."""
        leaf = make_noise(self.sizes.leaf_bytes, "shown")
        return leaf, *grow(hash_leaf(leaf), self.sizes.first, self.sizes.depth, "shown")

    @cached_property
    def trace(self) -> Any:
        """All levels of the tree over the roots of all buffers."""
        roots = [make_word("buffer", buffer) for buffer in range(self.sizes.nodes)]
        end, outputs = self.make_header(STEPS), self.sizes.outputs
        for buffer, root in zip(
            (outputs.weights, outputs.first_moment, outputs.second_moment), astuple(end)[:3], strict=True
        ):
            roots[buffer] = root
        for buffer, (_, root, _) in zip(self.sizes.summed, self.runs, strict=True):
            roots[buffer] = root
        roots[self.sizes.shown] = self.shown[1]
        return compute_levels(roots)

    def prove_node(self, number: int) -> Any:
        """Returns a node as a demand and a proof take it."""
        data, path = open_program_leaf(self.program, 2 + number)
        return number, data, path

    # Moves
    def list_moves(self) -> Iterator[tuple[str, str, int, tuple[Any, ...]]]:
        """Yields moves: the contract, the function, who moves (0: the claimant), the other arguments."""
        roots = [make_word("root", step) for step in range(STEPS + 1)]
        for step in (0, STEPS - 1, STEPS):
            roots[step] = compute_state_root(self.make_header(step))
        ends = (self.open_boundary(SEGMENT), self.open_boundary(SEGMENT + 1))
        yield "Disputes", "postClaimRoots", 0, (roots, *ends)
        yield "Disputes", "nameStep", 1, (STEPS - 1, roots)
        start, end = (astuple(self.make_header(step)) for step in (STEPS - 1, STEPS))
        head, head_path = open_program_leaf(self.program, 0)
        sizes = self.sizes
        outputs = (sizes.outputs.weights, sizes.outputs.first_moment, sizes.outputs.second_moment)
        proof = (head, head_path, *(compute_path(self.trace, buffer) for buffer in outputs))
        facts = astuple(self.facts)
        yield "Steps", "postTrace", 0, (facts, self.trace[-1][0], start, end, proof)
        yield (
            "Steps",
            "demandLeaves",
            1,
            (facts, [(self.prove_node(sizes.wide_number), 1, sizes.first)] * sizes.demands),
        )
        leaf, root, path = self.shown
        opening = (root, compute_path(self.trace, sizes.shown), leaf, path)
        yield "Steps", "showLeaves", 0, (start, [opening] * sizes.demands)
        parts = b"".join(b"".join((leaves, *path)) for leaves, _, path in self.runs)
        openings = parts + b"".join(compute_set_path(self.trace, sizes.summed))
        node = self.prove_node(sizes.sum_number)
        yield "Steps", "proveOperation", 1, (facts, start, node, SELECTED % sizes.elements, openings)


class SelectedPlay(DisputePlay):
    """A `DisputePlay` with a sum whose terms are all selected: each is copied before it is added."""

    program = make_program(make_sum(Operation.SELECTED_SUM))
    facts = make_facts(program)
    step_root = compute_step_root(facts)

    def make_leaf(self, buffer: int, index: int) -> bytes:
        """Returns a leaf; the first operand holds indices."""
        return (
            SELECTED.to_bytes(4, "little") * (self.sizes.leaf_bytes // 4)
            if buffer == self.sizes.summed[1]
            else make_factors(self.sizes.leaf_bytes, buffer, index)
        )


class OrdinaryPlay(DisputePlay):
    """A `DisputePlay` of an ordinary step."""

    sizes = ORDINARY
    program = make_program(make_sum(Operation.PRODUCT_SUM, ORDINARY), ORDINARY)
    facts = make_facts(program)
    step_root = compute_step_root(facts)


class RejectPlay(BoundPlay):
    """Lets two auditors make a claim void."""

    def list_words(self, slot: int, draw: int, is_late: bool) -> list[VoteWord]:
        """Returns the verdicts of a primary and a reserve."""
        return [VoteWord.REJECT_STATE] * 2


# Measuring
def measure_dispute(chain: RoundChain) -> dict[str, Any]:
    """Measures all moves of a dispute of a claim with the largest leaves up to a conviction, and the end of a
    dispute in which nothing is proven. `defence` is the sum of the claimant's moves. `conviction` is the
    sum of the opener's moves with the more expensive proof, against an auditor if that costs more. `ordinary`
    is the sum of all moves of both sides, to a conviction, for an ordinary step whose trace is served."""
    with chain.undone():
        selected = _play_dispute(SelectedPlay(chain, Case(1, 6)))
    gas = _play_dispute(DisputePlay(chain, Case(1, 6))) | measure_silence(chain)
    gas["proveSelected"] = selected["proveOperation"]
    with chain.undone():
        ordinary = _play_dispute(OrdinaryPlay(chain, Case(1, 6)))
    dearer = gas["disputeVote"] - gas["disputeClaim"] + max(0, gas["punishAuditor"] - gas["punishSolver"])
    proof = max(gas["proveOperation"], gas["proveSelected"])
    return {
        **gas,
        "ordinary": sum(ordinary[name] for name in SERVED),
        "defence": sum(gas[name] for name in ("postClaimRoots", "postTrace", "showLeaves", "end")),
        "conviction": dearer
        + proof
        + sum(gas[name] for name in ("disputeClaim", "nameStep", "demandLeaves")),
    }


def _play_dispute(play: DisputePlay) -> dict[str, int]:
    """Plays a dispute; returns gas by function."""
    play.start()
    play.play(0)
    challenger = play.make_challenger()
    salt = make_word("salt")
    bond = AMOUNTS.dispute_bond
    opened = play.do(challenger, "Disputes", "disputeClaim", play.task, 0, 0, SEGMENT, bond, salt)
    dispute = require_event(opened, "DisputeOpened")["dispute"]
    gas, movers = {"disputeClaim": opened.gas}, (play.seats[SOLVER][0], challenger)
    for contract, function, mover, rest in play.list_moves():
        if function == "proveOperation":
            gas["end"] = _end(play, dispute).gas
        sent = play.do(movers[mover], contract, function, play.task, dispute, *rest)
        gas[function] = sent.gas
    require_event(sent, "SeatConvicted")
    return gas


def measure_silence(chain: RoundChain) -> dict[str, int]:
    """Measures disputes that nobody answers: of a claim, and of the vote that made it void, whose pay is
    restored."""
    play = RejectPlay(chain, Case(1, 6))
    play.start()
    play.commit(0, 0)
    play.seal(0)
    play.do(play.submitter, "Votes", "judge", play.task, 0, play.cast(0, False))
    challenger, bond, (vote, auditor) = play.make_challenger(), AMOUNTS.dispute_bond, play.signed[0]
    signed = (astuple(vote), *hand_vote(vote, None, auditor, play.signing)[-2:])
    salts = (make_word("vote"), make_word("claim"))
    by_vote = play.do(challenger, "Disputes", "disputeVote", play.task, signed, bond, salts[0])
    by_claim = play.do(challenger, "Disputes", "disputeClaim", play.task, 0, 0, SEGMENT, bond, salts[1])
    names = [require_event(sent, "DisputeOpened")["dispute"] for sent in (by_vote, by_claim)]
    auditor_ended, solver_ended = (_end(play, name) for name in names)
    require_event(auditor_ended, "PayRestored")
    return {
        "disputeVote": by_vote.gas,
        "punishAuditor": auditor_ended.gas,
        "punishSolver": solver_ended.gas,
    }


def _end(play: BoundPlay, dispute: bytes) -> Sent:
    """Ends a dispute after its clock, and undoes that."""
    with play.chain.undone():
        play.chain.mine_to(play.chain.get_block() + BOUND_WINDOWS.respond + 1)
        return play.do(play.submitter, "Disputes", "endDispute", play.task, dispute)
