"""Every rule of the round, played once: a module of plays for each group of rules."""

from tests.kit.plays import rounds, seats, tasks, votes
from tests.kit.plays.collection import Plays

GROUPS: dict[str, Plays] = {
    plays.group: plays
    for plays in (
        tasks.PLAYS,
        seats.PLAYS,
        rounds.PLAYS,
        votes.PLAYS,
    )
}
