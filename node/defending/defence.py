"""Lists what a node must do for its own statements: answer disputes and queries, and show its steps."""

from collections.abc import Hashable, Iterator
from dataclasses import dataclass, field

from touchstone.node.defending.dispute_answers import DisputeAnswers
from touchstone.node.defending.query_answers import QueryAnswers, list_others_asked, list_own_asked
from touchstone.node.defending.step_serving import StepServing, list_wanted
from touchstone.node.kit.duty import Duty
from touchstone.node.kit.known_statements import find_claimant, get_inner, list_playable
from touchstone.node.kit.view import View
from touchstone.protocol.spec.game.dispute_moves import Move
from touchstone.protocol.spec.game.inner_dispute import InnerDispute, InnerQuery


@dataclass(frozen=True)
class Defence:
    """The tools that defend this node's statements."""

    answers: DisputeAnswers
    queries: QueryAnswers
    steps: StepServing


@dataclass(frozen=True)
class _InDispute:
    """A duty in a dispute. `about` is the dispute's name; it includes the stage if each stage is a separate
    duty."""

    about: Hashable
    dispute: InnerDispute = field(compare=False, repr=False)

    @property
    def round(self) -> int:
        """The round of the disputed statement."""
        return self.dispute.statement.round


class PostRoots(_InDispute):
    """Post the roots of all steps of a disputed segment."""

    async def perform(self, defence: Defence) -> None:
        """Trains the segment again and posts the roots. Raises ContractRefused if the turn is over."""
        await defence.answers.post_roots(self.dispute)


class PostTrace(_InDispute):
    """Post the root of the trace of the named step."""

    async def perform(self, defence: Defence) -> None:
        """Runs the step again and posts the root. Raises ContractRefused if the turn is over."""
        await defence.answers.post_trace(self.dispute)


class ShowLeaves(_InDispute):
    """Show the demanded leaves of a trace."""

    async def perform(self, defence: Defence) -> None:
        """Shows the leaves. Raises ContractRefused if the turn is over."""
        await defence.answers.show_leaves(self.dispute)


class ServeSteps(_InDispute):
    """Show the opponent the states of a disputed segment, and the trace once it is posted."""

    async def perform(self, defence: Defence) -> None:
        """Shows the states. It trains those again that it does not have."""
        await defence.answers.serve(self.dispute)


@dataclass(frozen=True)
class ForgetSteps:
    """Stop showing the steps or the trace of a closed dispute. `kind` is "steps" or "trace"."""

    kind: str
    dispute: bytes

    async def perform(self, defence: Defence) -> None:
        """Deletes the dispute's blobs that nothing else needs."""
        defence.steps.forget_dispute(self.kind, self.dispute)


@dataclass(frozen=True)
class _OfQuery:
    """A query to answer. `name` says which one."""

    name: bytes
    query: InnerQuery = field(compare=False, repr=False)

    @property
    def round(self) -> int:
        """The round of the vote that the query is about."""
        return self.query.statement.round


class AnswerQuery(_OfQuery):
    """Answer a query about this node's own vote."""

    async def perform(self, defence: Defence) -> None:
        """Answers. It trains the segment again if the end is not kept. Raises ContractRefused if the time is
        over."""
        await defence.queries.answer_own(self.query)


class AnswerForAnother(_OfQuery):
    """Answer a query about a vote whose signer is silent."""

    async def perform(self, defence: Defence) -> None:
        """Answers. Raises ContractRefused if another node was faster."""
        await defence.queries.answer_others(self.query)


@dataclass(frozen=True)
class ShowSteps:
    """Compute and show the steps of a segment that an auditor asked for. `place` is what `compute_place`
    returns."""

    round: int
    place: int

    async def perform(self, defence: Defence) -> None:
        """Computes the steps once it is their turn in the recompute queue."""
        await defence.steps.show_wanted((self.round, self.place))


def list_duties(view: View, block: int) -> Iterator[Duty[Defence]]:
    """Lists what is due in `block`. The duty that costs most when it is late comes first."""
    for dispute, moves in list_playable(view, block):
        if Move.POST_ROOTS in moves:
            yield PostRoots(dispute.name, dispute)
        if Move.POST_TRACE in moves:
            yield PostTrace(dispute.name, dispute)
        if Move.SHOW_LEAVES in moves:
            yield ShowLeaves(dispute.name, dispute)
    for asked in list_own_asked(view, block):
        yield AnswerQuery(asked.name, asked)
    for asked in list_others_asked(view, block):
        yield AnswerForAnother(asked.name, asked)
    yield from _list_served(view)
    for wanted in list_wanted(view, block):
        yield ShowSteps(*wanted)


def _list_served(view: View) -> Iterator[Duty[Defence]]:
    shown = view.cases.shown
    for dispute in get_inner(view).disputes.values():
        kinds = [kind for kind in ("steps", "trace") if (kind, dispute.name) in shown]
        if not dispute.is_open:
            yield from (ForgetSteps(kind, dispute.name) for kind in kinds)
        elif dispute.roots and find_claimant(view, dispute) == view.account:
            is_traced = dispute.trace is None or "trace" in kinds
            if "steps" not in kinds or not is_traced:
                yield ServeSteps((dispute.name, dispute.stage), dispute)
