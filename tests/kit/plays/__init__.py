"""Every rule of the round, played once: a module of plays for each group of rules."""

from tests.kit.plays import (
    contests,
    convictions,
    descents,
    dispute_roots,
    disputes,
    evidence,
    false_votes,
    moments,
    queries,
    relayed,
    ring,
    rounds,
    seats,
    settlement,
    shares,
    silence,
    steps,
    tasks,
    votes,
)
from tests.kit.plays.collection import Plays

GROUPS: dict[str, Plays] = {
    module.PLAYS.group: module.PLAYS
    for module in (
        tasks,
        seats,
        rounds,
        votes,
        relayed,
        queries,
        contests,
        descents,
        disputes,
        dispute_roots,
        steps,
        evidence,
        moments,
        false_votes,
        convictions,
        settlement,
        ring,
        shares,
        silence,
    )  # fmt: skip
}
