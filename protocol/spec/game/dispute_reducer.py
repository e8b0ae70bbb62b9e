"""Folds the events inside disputes and queries: those of `Disputes.sol`, `Steps.sol` and `Queries.sol`.

Events come decoded: the name as in Solidity, values by their names in snake case.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from touchstone.protocol.spec.game.inner_dispute import (
    DemandedLeaf,
    DisputeStage,
    InnerBook,
    InnerDispute,
    InnerQuery,
    PostedTrace,
    QueryEnding,
)
from touchstone.protocol.spec.game.log_values import Values, read_statement, read_vote


def fold_inner(book: InnerBook, event: str, values: Values, block: int) -> InnerBook:
    """Returns the book after an event of the task, named as in Solidity, from `block`. Events of other
    contracts change nothing."""
    return _FOLDS[event](book, values, block) if event in _FOLDS else book


def _fold_opened(book: InnerBook, values: Values, block: int) -> InnerBook:
    statement, segment = read_statement(values["statement"]), int(values["segment"])
    place = (bytes(values["dispute"]), int(values["seat"]), statement, segment)
    opened = InnerDispute(*place, str(values["opener"]).lower(), int(values["clock_block"]))
    return _put(book, opened)


def _fold_roots(book: InnerBook, values: Values, block: int) -> InnerBook:
    return _move(book, values, DisputeStage.NAME, roots=tuple(values["roots"]))


def _fold_named(book: InnerBook, values: Values, block: int) -> InnerBook:
    return _move(book, values, DisputeStage.TRACE, step=int(values["step"]))


def _fold_traced(book: InnerBook, values: Values, block: int) -> InnerBook:
    trace = PostedTrace(bytes(values["trace_root"]), values["start"], values["end"])
    return _move(book, values, DisputeStage.PROVE, trace=trace)


def _fold_demanded(book: InnerBook, values: Values, block: int) -> InnerBook:
    dispute = _find(book, values)
    leaf = DemandedLeaf(int(values["node"]), int(values["place"]), int(values["leaf_index"]))
    return _put(book, replace(dispute, demands=(*dispute.demands, leaf)))


def _fold_due(book: InnerBook, values: Values, block: int) -> InnerBook:
    return _move(book, values, DisputeStage.LEAVES)


def _fold_shown(book: InnerBook, values: Values, block: int) -> InnerBook:
    dispute = _find(book, values)
    dispute = replace(dispute, shown=(*dispute.shown, bytes(values["leaf"])))
    if len(dispute.shown) == len(dispute.demands):
        dispute = replace(dispute, stage=DisputeStage.LAST, clock=block + book.respond)
    return _put(book, dispute)


def _fold_ended(book: InnerBook, values: Values, block: int) -> InnerBook:
    return _put(book, replace(_find(book, values), stage=DisputeStage(int(values["outcome"]))))


def _fold_asked(book: InnerBook, values: Values, block: int) -> InnerBook:
    vote, asker = read_vote(values["vote"]), str(values["asker"]).lower()
    place = (bytes(values["id"]), int(values["seat"]), vote, int(values["leaf"]))
    asked = InnerQuery(*place, asker, int(values["last_block"]))
    return replace(book, queries={**book.queries, asked.name: asked})


def _fold_query_ended(book: InnerBook, values: Values, block: int) -> InnerBook:
    name = bytes(values["id"])
    ended = replace(book.queries[name], ending=QueryEnding(int(values["ending"])))
    return replace(book, queries={**book.queries, name: ended})


def _find(book: InnerBook, values: Values) -> InnerDispute:
    return book.disputes[bytes(values["dispute"])]


def _put(book: InnerBook, dispute: InnerDispute) -> InnerBook:
    return replace(book, disputes={**book.disputes, dispute.name: dispute})


def _move(book: InnerBook, values: Values, stage: DisputeStage, **changes: Any) -> InnerBook:
    return _put(book, replace(_find(book, values), stage=stage, clock=int(values["clock_block"]), **changes))


_FOLDS: Mapping[str, Callable[[InnerBook, Values, int], InnerBook]] = {
    "DisputeOpened": _fold_opened,
    "StepRootsPosted": _fold_roots,
    "StepNamed": _fold_named,
    "TracePosted": _fold_traced,
    "LeafDemanded": _fold_demanded,
    "LeavesDue": _fold_due,
    "LeafShown": _fold_shown,
    "DisputeEnded": _fold_ended,
    "QueryOpened": _fold_asked,
    "QueryEnded": _fold_query_ended,
}
