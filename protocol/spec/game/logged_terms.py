"""Reads the terms of a task from the event TaskPosted."""

from dataclasses import fields
from typing import Any, TypeVar

from touchstone.protocol.spec.commitments import compute_domain, compute_outer_root
from touchstone.protocol.spec.contest_tree import FANOUT_LEVELS
from touchstone.protocol.spec.data_trees import count_tensor_leaves
from touchstone.protocol.spec.game.log_values import Values
from touchstone.protocol.spec.game.terms import GameAmounts, GameTerms, GameWindows
from touchstone.protocol.spec.merkle import compute_depth
from touchstone.protocol.spec.params import EXACT_FORMAT
from touchstone.protocol.spec.state_headers import OuterHeader
from touchstone.protocol.spec.typed_data import SigningDomain

Part = TypeVar("Part", GameWindows, GameAmounts)


def read_terms(values: Values, signing: SigningDomain) -> GameTerms:
    """Returns the terms in the values of TaskPosted."""
    said = values["terms"]
    return GameTerms(
        submitter=str(said.submitter).lower(),
        domain=compute_domain(signing.chain_id, signing.contract, bytes(values["task"])),
        root=compute_outer_root(OuterHeader(said.initial_weights_root, said.zero_root)),
        rounds=said.rounds,
        segment_count=said.inner_steps // max(1, said.segment_steps),
        draws=said.draws,
        late_chance=said.late_chance,
        solver_seats=said.solver_seats,
        least_solvers=said.least_solvers,
        least_verifiers=said.least_verifiers,
        least_whistleblowers=said.least_whistleblowers,
        contest_levels=count_contest_levels(said.parameter_count),
        is_exact=said.format == EXACT_FORMAT,
        windows=_read_part(GameWindows, said.windows),
        amounts=_read_part(GameAmounts, said.amounts),
    )


def count_contest_levels(parameter_count: int) -> int:
    """Returns how often a contester names a child before a leaf is reached: first a tensor, then a node of
    each answer."""
    depth = compute_depth(max(1, count_tensor_leaves(parameter_count)))
    return 1 + (depth + FANOUT_LEVELS - 1) // FANOUT_LEVELS


def _read_part(kind: type[Part], said: Any) -> Part:
    return kind(**{one.name: getattr(said, one.name) for one in fields(kind)})
