"""Moves inside a dispute: what each side shows, down to one number. The machine knows its clocks alone."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from tests.kit.played_calls import list_plain
from tests.kit.played_claims import PlayedClaim
from tests.kit.toy_step import FACTS, PROGRAM, Lie, ToyStep
from touchstone.protocol.compute.bounds.step_openings import prove_node
from touchstone.protocol.spec.game.assignments import get_drawn_segment
from touchstone.protocol.spec.game.inner_dispute import DisputeStage
from touchstone.protocol.spec.game.state import RunningDispute

if TYPE_CHECKING:
    from tests.kit.world import World

Move = tuple[str, tuple[Any, ...]]
"""A function of `Disputes` or `Steps`, and its arguments behind the dispute's name."""
Place = tuple[int, int, int]
"""A node, a place of it (0 its output, 1 and up its operands), and a leaf of the buffer there."""
STEP_MOVES = ("postTrace", "demandLeaves", "showLeaves", "proveOperation", "proveDatum")
"""Moves that are functions of `Steps`; the others are of `Disputes`."""
NEXT_STAGES = {
    "postClaimRoots": DisputeStage.NAME, "postVoteRoots": DisputeStage.NAME, "nameStep": DisputeStage.TRACE,
    "postTrace": DisputeStage.PROVE, "demandLeaves": DisputeStage.LEAVES,
}  # fmt: skip


@dataclass(frozen=True)
class PlayedDispute:
    """Where a dispute stands. clock: the last block of the running turn; segment: of a claim; lie: in the
    trace; demanded: leaves; shown: how many of them."""

    stage: DisputeStage
    clock: int
    segment: int = 0
    step: int = 0
    lie: Lie | None = None
    demanded: tuple[Place, ...] = ()
    shown: int = 0


@dataclass(frozen=True)
class DisputeMoves:
    """Makes the moves of a dispute. Keyword arguments are parts of a move, in place of the right ones."""

    world: World
    number: int

    @property
    def played(self) -> PlayedDispute:
        """Where it stands."""
        return self.world.disputes[self.number]

    @property
    def running(self) -> RunningDispute:
        """The dispute as the machine has it."""
        return self.world.state.disputes[self.number]

    @property
    def claim(self) -> PlayedClaim:
        """The claim that is disputed, or that the vote is about."""
        ref = self.running.statement
        return self.world.claims[self.world.state.rounds[ref.round].claims[ref.slot].claim_root]

    @property
    def segment(self) -> int:
        """The segment of the claim that is disputed, or that the vote is about."""
        ref = self.running.statement
        if ref.draw is None:
            return self.played.segment
        drawn = get_drawn_segment(self.world.state, self.world.state.rounds[ref.round], ref.slot, ref.draw)
        assert drawn is not None
        return drawn

    @property
    def step(self) -> ToyStep:
        """The named step of whoever claims it."""
        ref = self.running.statement
        game_round, played = self.world.state.rounds[ref.round], self.played
        place = (game_round.beacon or b"", ref.slot, len(game_round.pool.solvers))
        return ToyStep(self.claim, *place, self.segment, played.step, played.lie)

    def list_roots(self) -> list[bytes]:
        """Returns the roots of the states along the segment, as the claimant computes them."""
        ref = self.running.statement
        if ref.draw is None:
            return self.claim.list_roots(self.segment)
        _, shown, _ = self.world._vote(ref, self.world._counted_word(ref))
        return self.claim.list_roots(self.segment, shown[2])

    def post_roots(self, **other: Any) -> Move:
        """The claimant's first answer."""
        ref, claim = self.running.statement, self.claim
        ends = (claim.open(self.segment), claim.open(self.segment + 1))
        parts: dict[str, Any] = {"roots": self.list_roots(), "start": ends[0], "end": ends[1]}
        if ref.draw is None:
            return "postClaimRoots", tuple((parts | other).values())
        _, shown, _ = self.world._vote(ref, self.world._counted_word(ref))
        parts = {"roots": parts.pop("roots"), "solver": claim.solver, **parts, "salt": shown[3]}
        return "postVoteRoots", tuple((parts | other).values())

    def name_step(self, step: int, roots: list[bytes] | None = None) -> Move:
        """The opener names the first step that it computes otherwise."""
        return "nameStep", (step, self.list_roots() if roots is None else roots)

    def post_trace(self, **other: Any) -> Move:
        """The trace of the named step."""
        step = self.step
        parts = {"facts": FACTS, "root": step.tree.root, "start": step.start, "end": step.end}
        return "postTrace", tuple((parts | {"proof": step.outputs} | other).values())

    def demand(self, *places: Place, facts: Any = FACTS, **node: Any) -> Move:
        """Leaves that the opener wants to see. node: parts of each node's proof."""
        nodes = [(replace(prove_node(PROGRAM, place[0]), **node), *place[1:]) for place in places]
        return "demandLeaves", (facts, nodes)

    def show(self, first: int, last: int, **other: Any) -> Move:
        """Demanded leaves, from the first to before the last."""
        step = self.step
        openings = [step.open_demanded(*place) for place in self.played.demanded[first:last]]
        return "showLeaves", tuple(({"start": step.start, "openings": openings} | other).values())

    def prove_operation(self, element: int, /, **other: Any) -> Move:
        """That an element of node 0 is false."""
        step, proof = self.step, self.step.prove(element)
        parts = {"facts": FACTS, "start": step.start, "node": proof.node, "element": element}
        return "proveOperation", tuple((parts | {"openings": proof.openings} | other).values())

    def prove_datum(self, buffer: int, position: int, **other: Any) -> Move:
        """That an element of the tokens, labels or scalars is not the task's."""
        step = self.step
        parts: dict[str, Any] = {"facts": FACTS, "start": step.start, "buffer": buffer, "position": position}
        for name, make in (("opening", step.open_element), ("datum", step.open_datum)):
            parts[name] = other[name] if name in other else make(buffer, position)
        return "proveDatum", tuple((parts | other).values())

    def write(self, move: Move) -> tuple[Any, ...]:
        """Returns a move as a call of the contracts."""
        function, arguments = move
        part = "Steps" if function in STEP_MOVES else "Disputes"
        return part, function, self.world.task, self.world.ids[self.number], *list_plain(arguments)

    def pass_turn(self, move: Move) -> None:
        """Notes where the dispute stands after a move that was taken."""
        function, arguments = move
        played, stage = self.played, NEXT_STAGES.get(function, self.played.stage)
        if function == "nameStep":
            played = replace(played, step=arguments[0])
        if function == "showLeaves":
            played = replace(played, shown=played.shown + len(arguments[1]))
            stage = DisputeStage.LAST if played.shown == len(played.demanded) else stage
        if stage != played.stage:
            played = replace(
                played, stage=stage, clock=self.world.block + self.world.state.terms.windows.respond
            )
        self.world.disputes[self.number] = played
