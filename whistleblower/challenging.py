"""Lists what a node must do against false statements of others (`node/defending` defends its own).

read votes -> suspect -> judge the steps -> plan a dispute -> open it -> name a step -> prove an operation
query a signer for a leaf;  prove at once what one transaction shows to be false
"""

from collections.abc import Hashable, Iterator
from dataclasses import dataclass, field

from touchstone.node.kit.duty import Duty, Wait
from touchstone.node.kit.known_statements import get_now, list_playable, list_provable_rounds
from touchstone.node.kit.view import View
from touchstone.node.records.dispute_records import DisputePlanned, StatementKey, to_key
from touchstone.protocol.spec.game.calls import DisputeStatement, GameCall, QueryVote
from touchstone.protocol.spec.game.dispute_moves import Move
from touchstone.protocol.spec.game.inner_dispute import InnerDispute
from touchstone.protocol.spec.game.timing import get_query_until, get_statement_until
from touchstone.protocol.spec.game.upkeep_turns import find_turn
from touchstone.protocol.spec.statements import VoteWord
from touchstone.whistleblower.case_judging import OPENING_BLOCKS, CaseJudging, list_unjudged
from touchstone.whistleblower.dispute_opening import DisputeOpening, list_unopened
from touchstone.whistleblower.evidence import list_provable_faults
from touchstone.whistleblower.judging_work import FalseClaim, FalseStart, WorkFault, list_work_faults
from touchstone.whistleblower.proof_calls import Proof, ProofCalls
from touchstone.whistleblower.prosecuting import Prosecuting
from touchstone.whistleblower.query_opening import PlannedQuery, Queries, list_planned_queries
from touchstone.whistleblower.step_judging import StepJudging
from touchstone.whistleblower.suspicions import SuspectedFault
from touchstone.whistleblower.votes_on_chain import Unread, VotesOnChain, list_unread
from touchstone.whistleblower.work_proofs import WorkProofs


@dataclass(frozen=True)
class Challenging:
    """The tools that challenge false statements of others."""

    votes: VotesOnChain
    judging: CaseJudging
    opening: DisputeOpening
    queries: Queries
    steps: StepJudging
    prosecuting: Prosecuting
    proofs: ProofCalls
    work_proofs: WorkProofs


@dataclass(frozen=True)
class NameStep:
    """Name the step of a dispute that this node says is false."""

    name: bytes
    dispute: InnerDispute = field(compare=False, repr=False)

    @property
    def round(self) -> int:
        """The round of the disputed statement."""
        return self.dispute.statement.round

    async def perform(self, tools: Challenging) -> None:
        """Names the step. Raises ProtocolFault or EnvironmentFault while the claimant shows nothing and still
        has time."""
        await tools.steps.name_step(self.dispute)


@dataclass(frozen=True)
class Prosecute:
    """Prove an operation of a trace false, or demand the data that the claimant does not show. `about` is the
    dispute and its stage."""

    about: Hashable
    dispute: InnerDispute = field(compare=False, repr=False)

    @property
    def round(self) -> int:
        """The round of the disputed statement."""
        return self.dispute.statement.round

    async def perform(self, tools: Challenging) -> None:
        """Searches and proves. Raises ProtocolFault or EnvironmentFault if the claimant does not show
        something."""
        await tools.prosecuting.prosecute(self.dispute)


@dataclass(frozen=True)
class ReadVotes:
    """Read votes out of the transactions that contain them."""

    unread: Unread

    @property
    def round(self) -> int:
        """The round of the votes."""
        return self.unread.round

    async def perform(self, tools: Challenging) -> None:
        """Reads the votes. Raises EnvironmentFault if the endpoint does not show all of them."""
        await tools.votes.read_votes(self.unread)


@dataclass(frozen=True)
class JudgeSteps:
    """Judge a suspected fault by the claimant's own steps."""

    statement: StatementKey
    fault: SuspectedFault = field(compare=False, repr=False)

    @property
    def round(self) -> int:
        """The round of the suspected statement."""
        return self.statement.ref.round

    async def perform(self, tools: Challenging) -> None:
        """Judges the steps. Raises ProtocolFault or EnvironmentFault while the claimant shows none and still
        has time."""
        await tools.judging.judge_case(self.fault)


@dataclass(frozen=True)
class OpenDispute:
    """Open a dispute that is planned."""

    case: DisputePlanned

    @property
    def round(self) -> int:
        """The round of the disputed statement."""
        return self.case.round

    async def perform(self, tools: Challenging) -> None:
        """Opens the dispute. Raises ContractRefused if the statement cannot be disputed any more."""
        await tools.opening.open_case(self.case)


@dataclass(frozen=True)
class QuerySigner:
    """Ask the signer of a vote to show a leaf."""

    query: PlannedQuery

    @property
    def round(self) -> int:
        """The round of the vote."""
        return self.query.statement.round

    async def perform(self, tools: Challenging) -> None:
        """Asks the signer. Raises ContractRefused if it is too late for a query."""
        await tools.queries.ask(self.query)


@dataclass(frozen=True)
class ProveStatement:
    """Prove a statement false by one call. `name` is the kind of proof and the accused."""

    name: tuple[object, ...]
    round: int = field(compare=False)
    proof: Proof = field(compare=False, repr=False)

    async def perform(self, tools: Challenging) -> None:
        """Sends the proof. Raises ContractRefused if it fails or comes too late."""
        await tools.proofs.send_proof(self.proof)


@dataclass(frozen=True)
class ProveWork:
    """Prove a start, a pseudo-gradient or a vote about them false. `name` is the kind of proof and the
    accused; it stays the same when the node learns more about the fault."""

    name: tuple[object, ...]
    round: int = field(compare=False)
    fault: WorkFault = field(compare=False, repr=False)

    async def perform(self, tools: Challenging) -> None:
        """Gathers the inputs of the proof and sends it. Raises EnvironmentFault if they are not available,
        ContractRefused if the proof fails or comes too late."""
        if isinstance(self.fault, FalseClaim):
            await tools.work_proofs.prove_claim(self.fault.vote)
        elif isinstance(self.fault, FalseStart):
            await tools.work_proofs.prove_wrong_start(self.fault.claim)
        else:
            await tools.work_proofs.prove_vote(self.fault.vote)


def next_actions(view: View, block: int) -> Iterator[Duty[Challenging] | Wait]:
    """Lists what is due in `block`: moves in disputes, then new disputes and queries, then proofs."""
    for dispute, moves in list_playable(view, block):
        if Move.NAME_STEP in moves:
            yield NameStep(dispute.name, dispute)
        if Move.PROVE in moves and dispute.name not in view.cases.searched:
            yield Prosecute((dispute.name, dispute.stage), dispute)
    for unread in list_unread(view, block):
        yield ReadVotes(unread)
    for suspected in list_unjudged(view, block):
        yield JudgeSteps(suspected.statement_key, suspected)
    for case in list_unopened(view, block):
        ref = to_key(case).ref
        until = get_statement_until(get_now(view), ref) - OPENING_BLOCKS
        yield _take_turn(view, DisputeStatement(ref, 0), until, block, OpenDispute(case))
    for query in list_planned_queries(view, block):
        last = get_query_until(get_now(view), query.statement) or block
        call = QueryVote(query.statement, VoteWord.ACCEPT, query.leaf, 0)
        yield _take_turn(view, call, last - OPENING_BLOCKS, block, QuerySigner(query))
    # A refused proof is tried again: it failed, or it came too late.
    for game_round in list_provable_rounds(get_now(view), block):
        for fault in list_provable_faults(view, game_round, block):
            yield ProveStatement(fault.name, game_round.index, fault.proof)
        for wrong in list_work_faults(view, game_round, block):
            yield ProveWork(wrong.name, game_round.index, wrong)


def _take_turn(
    view: View, call: GameCall, until: int, block: int, duty: Duty[Challenging]
) -> Duty[Challenging] | Wait:
    """Returns the duty if it is this node's turn, or if time is short; else a wait. Several nodes may know of
    the same fault, so they take turns, block by block."""
    turn = find_turn(get_now(view), view.account, call, block)
    return duty if turn <= block or block >= until else Wait(min(turn, until))
