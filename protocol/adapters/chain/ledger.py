"""Proxy of RoundLedger: claims, draws, verdicts, outer roots. `contracts/interfaces/IRoundLedger.sol` is the
manual."""

from typing import NamedTuple

from protocol.adapters.chain.proxy import Proxy, Receipt
from protocol.adapters.chain.types import BoundaryProof
from protocol.spec.containers import StateHeader
from protocol.spec.statuses import AuditRef, ClaimStatus


class ClaimInfo(NamedTuple):
    """One solver's claim of a round; the roots are zero until it is committed."""

    solver: str
    status: ClaimStatus
    settled: bool
    claim_root: bytes
    delta_root: bytes


class Ground(NamedTuple):
    """The root of a claim, and the local step that it starts with."""

    claim_root: bytes
    start_local_step: int


class DrawSeeds(NamedTuple):
    """Seeds of a round's draws, zero until sealed."""

    draw_seed: bytes
    late_seed: bytes


class DrawnAudit(NamedTuple):
    """What the draw gave to one audit."""

    segment: int
    auditor: str


class OuterInfo(NamedTuple):
    """The posted outer root of a round."""

    poster: str
    weights_root: bytes
    momentum_root: bytes
    posted_block: int
    contested: bool


class StepNumbers(NamedTuple):
    """The step counters of a state."""

    local_step: int
    global_step: int


class GlobalModel(NamedTuple):
    """Roots of the global weights and of the outer momentum."""

    weights_root: bytes
    momentum_root: bytes


class Progress(NamedTuple):
    """Counts over all rounds of a task: claims settled, and posted outer roots whose bond and pay are not."""

    settled_claims: int
    open_merges: int


class RoundLedger(Proxy):
    """Claims of solvers, the draw, verdicts, the outer root and settlement."""

    contract = "RoundLedger"

    async def commit(
        self, task: bytes, round: int, claim_root: bytes, delta_root: bytes, start: BoundaryProof
    ) -> Receipt:
        """Commit to one's claim, once; `start` opens boundary 0."""
        return await self._send("commit", task, round, claim_root, delta_root, start)

    async def seal_draw(self, task: bytes, round: int, proof: bytes) -> Receipt:
        """Fix the draw of all claims of the round; `proof`: `Randomness.prove` of its block. Anybody may."""
        return await self._send("sealDraw", task, round, proof)

    async def judge(self, task: bytes, round: int, slot: int) -> Receipt:
        """Compute a claim's verdict as far as the clock allows. Anybody may; refused when nothing is due."""
        return await self._send("judge", task, round, slot)

    async def judge_claims(self, task: bytes, round: int, first: int, end: int) -> Receipt:
        """The same for slots [first, end); those of which nothing is due stay as they are. Anybody may."""
        return await self._send("judgeClaims", task, round, first, end)

    async def post_outer(
        self, task: bytes, round: int, included: int, weights_root: bytes, momentum_root: bytes
    ) -> Receipt:
        """Post the outer root over the accepted claims, `included` of them, with the merge bond."""
        return await self._send("postOuter", task, round, included, weights_root, momentum_root)

    async def settle_merge(self, task: bytes, round: int) -> Receipt:
        """Release the bond of the poster whose root stands and credit its pay. Anybody may."""
        return await self._send("settleMerge", task, round)

    async def seal_late(self, task: bytes, round: int, proof: bytes) -> Receipt:
        """Fix the late draw; `proof` is `Randomness.prove` of its block. Anybody may."""
        return await self._send("sealLate", task, round, proof)

    async def settle_claim(self, task: bytes, round: int, slot: int) -> Receipt:
        """Pay and release everything of one claim, from `settle_block_of` on. Anybody may."""
        return await self._send("settleClaim", task, round, slot)

    async def settle_claims(self, task: bytes, round: int, first: int, end: int) -> Receipt:
        """The same for slots [first, end); settled and disputed ones are left out. Anybody may."""
        return await self._send("settleClaims", task, round, first, end)

    async def settle_enrolments(self, task: bytes, round: int, first: int, end: int) -> Receipt:
        """Release the enrolment exposures [first, end), verifiers first, then whistleblowers. Anybody may."""
        return await self._send("settleEnrolments", task, round, first, end)

    async def claim_of(self, task: bytes, round: int, slot: int) -> ClaimInfo:
        """The claim of one slot."""
        return await self._read(ClaimInfo, "claimOf", task, round, slot)

    async def ground_of(self, task: bytes, round: int, slot: int) -> Ground:
        """What openings of a claim are checked against."""
        return await self._read(Ground, "groundOf", task, round, slot)

    async def draw_seed_of(self, task: bytes, round: int) -> DrawSeeds:
        """The seeds of the draw and of the late draw."""
        return await self._read(DrawSeeds, "drawSeedOf", task, round)

    async def drawn_of(self, audit: AuditRef) -> DrawnAudit:
        """Segment and auditor of one audit."""
        return await self._read(DrawnAudit, "drawnOf", audit)

    async def outer_of(self, task: bytes, round: int) -> OuterInfo:
        """The outer root posted for a round."""
        return await self._read(OuterInfo, "outerOf", task, round)

    async def is_merged(self, task: bytes, round: int) -> bool:
        """Whether the outer root stands: posted, its merge window over, not contested."""
        return await self._read(bool, "isMerged", task, round)

    async def global_of(self, task: bytes, round: int) -> GlobalModel:
        """The global model that `round` starts from."""
        return await self._read(GlobalModel, "globalOf", task, round)

    async def expected_start(self, task: bytes, round: int, solver: str) -> StateHeader:
        """The start state that the contract expects of `solver`."""
        return await self._read(StateHeader, "expectedStart", task, round, solver)

    async def included_of(self, task: bytes, round: int) -> tuple[int, ...]:
        """Slots of the accepted claims in ascending order of shard."""
        return await self._read(tuple, "includedOf", task, round)

    async def is_escalated(self, task: bytes, round: int, slot: int, draw: int) -> bool:
        """Whether the reserves of one draw of this claim were called."""
        return await self._read(bool, "isEscalated", task, round, slot, draw)

    async def merged_block_of(self, task: bytes, round: int) -> int:
        """From where the late deadlines count, 0 while it is unknown."""
        return await self._read(int, "mergedBlockOf", task, round)

    async def settle_block_of(self, task: bytes, round: int) -> int:
        """From which block on claims can be settled and no longer disputed; the latest possible one while
        unknown."""
        return await self._read(int, "settleBlockOf", task, round)

    async def progress_of(self, task: bytes) -> Progress:
        """What is settled of a task, and what waits for `settle_merge`."""
        return await self._read(Progress, "progressOf", task)

    async def steps_of(self, task: bytes, round: int, slot: int, inner_step: int) -> StepNumbers:
        """The step numbers that a claim must have after `inner_step` steps of its round."""
        return await self._read(StepNumbers, "stepsOf", task, round, slot, inner_step)

    async def verify_boundary(
        self, task: bytes, round: int, slot: int, boundary: int, proof: BoundaryProof
    ) -> None:
        """Raises ContractRefused unless `proof` opens that boundary of the claim."""
        return await self._read(type(None), "verifyBoundary", task, round, slot, boundary, proof)
