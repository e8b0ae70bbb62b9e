"""An audited claim for tests: the solver has claimed, the draw is sealed, the start of its first draw is
opened; the primary is ready to replay."""

from dataclasses import dataclass, replace

from protocol.actions import claim
from protocol.actions.replay import prepare_replay
from protocol.actions.states import open_state_leaves
from protocol.adapters.records import AuditMade
from protocol.compute.step import GetBatch, TrainingState, train_segment
from protocol.spec import events
from protocol.spec.containers import StateHeader, TrainingSpec
from protocol.spec.drawn import get_drawn
from protocol.spec.statuses import AuditRef
from tests.protocol.actions.facts import TASK
from tests.protocol.actions.lone import SOLVER, Lone, get_spec, make_lone, seal_draw

REF = AuditRef(TASK, 0, 0, 0, 0)


@dataclass
class Audited:
    """A solver with a claim and the verifier that audits its draw 0. `segment`: the one drawn."""

    solver: Lone
    verifier: Lone
    segment: int

    def boundary(self, at: int) -> StateHeader:
        """What the solver claims."""
        return self.solver.party.memory.boundaries[(0, at)]

    def take(self, *found: events.Event) -> None:
        """Both hear of it."""
        for lone in (self.solver, self.verifier):
            lone.take(*found)

    def open_end(self, end: StateHeader | None = None) -> None:
        """The solver opens the end of draw 0."""
        last = self.boundary(get_spec().terms.segment_count)
        where = {"task": TASK, "round": 0, "slot": 0, "draw": 0}
        self.take(
            events.EndOpened(
                block_number=9,
                end=end or self.boundary(self.segment + 1),
                last=last,
                **where,  # type: ignore[arg-type]
            )
        )

    def open_leaves(self, end: StateHeader, indices: tuple[int, ...]) -> None:
        """The solver opens leaves of its end of draw 0, which it has kept, on chain."""
        where = {"task": TASK, "round": 0, "slot": 0, "draw": 0, "phase": 0}
        leaves = tuple(open_state_leaves(self.solver.party, end, indices))
        self.take(events.LeavesOpened(block_number=10, leaves=leaves, **where))  # type: ignore[arg-type]

    def withhold(self) -> None:
        """Nothing is served any more, and the chain has come so far that nothing is waited for."""
        self.verifier.client.remote = self.verifier.party.store
        deadlines = self.verifier.party.round(0).deadlines
        self.verifier.chain.head = deadlines.compare_end


async def audit_claim(solver: Lone) -> Audited:
    """Claim, commitment, draw and opening of the start."""
    made = await claim.prepare_claim(solver.party, 0, 0, train_segment)
    solver.take(
        events.Committed(
            block_number=5, task=TASK, round=0, slot=0, solver=SOLVER,
            claim_root=made.claim_root, delta_root=made.delta_root,
        ),
        seal_draw(),
    )  # fmt: skip
    drawn = get_drawn(solver.party.round(0), 0, 0)
    assert drawn is not None
    home = solver.party.config.home.parent / "verifier"
    verifier = make_lone(home, drawn.primary, remote=solver.party.store)
    verifier.take(*solver.party.view.events[-2:])
    found = Audited(solver, verifier, drawn.segment)
    start = found.boundary(drawn.segment)
    found.take(events.StartOpened(block_number=7, task=TASK, round=0, slot=0, draw=0, start=start))
    return found


async def replay_and_reveal(audited: Audited) -> AuditMade:
    """The primary's result, made and shown on chain."""
    made = await prepare_replay(audited.verifier.party, REF, audited.segment, train_segment)
    end = audited.boundary(audited.segment + 1)
    where = {"task": TASK, "round": 0, "slot": 0, "draw": 0, "rank": 0}
    account = audited.verifier.party.account
    audited.take(
        events.ReplayCommitted(block_number=8, auditor=account, commitment=bytes(32), **where),  # type: ignore[arg-type]
        events.Revealed(block_number=9, auditor=account, end=end, **where),  # type: ignore[arg-type]
    )
    return made


def train_wrongly(
    state: TrainingState, spec: TrainingSpec, batches: GetBatch, inner_step: int, steps: int
) -> tuple[TrainingState, list[float]]:
    """`train_segment`, then a push far beyond the reject limits."""
    state, losses = train_segment(state, spec, batches, inner_step, steps)
    return replace(state, weights=state.weights + 1.0), losses
