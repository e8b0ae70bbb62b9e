"""Chooses the model of a task to export: the newest, or the newest that is final."""

from collections.abc import Iterator
from dataclasses import dataclass

from touchstone.node.models.outer_step import find_oldest
from touchstone.protocol.spec.errors import InvalidInput
from touchstone.protocol.spec.game.enums import RoundPhase
from touchstone.protocol.spec.game.state import GameRound, GameState

SETTLED = "every root before it stands, the time for contests is over, and none is open"


@dataclass(frozen=True)
class Choice:
    """A model to export: its outer root, and the round that made it (-1 for the first model)."""

    root: bytes
    after: int

    def __str__(self) -> str:
        return "the model before any training" if self.after < 0 else f"the model after round {self.after}"


def choose(game: GameState, account: str, *, is_member: bool, block: int) -> Choice | None:
    """Returns the newest trained model that an account may have at `block`; None if there is none."""
    if is_member or account == game.terms.submitter:
        return choose_newest(game)
    return choose_settled(game, block)


def choose_newest(game: GameState) -> Choice:
    """Returns the model of the last posted root that is not contested; if there is none, the one that the
    known rounds began with."""
    contested = {contest.round for contest in game.contests.values()}
    roots = [one for one in _list_posted(game) if one.index not in contested]
    return _name(roots[-1]) if roots else _choose_base(game)


def _choose_base(game: GameState) -> Choice:
    """Returns the model that the oldest known round began with."""
    oldest, root = find_oldest(game)
    return Choice(root, -1 if root == game.terms.root else oldest - 1)


def choose_settled(game: GameState, block: int) -> Choice | None:
    """Returns the newest final model; None if none was trained."""
    base = _choose_base(game)
    found = base if base.after >= 0 else None
    contested = {contest.round for contest in game.contests.values()}
    for one in _list_posted(game):
        # A root that falls undoes all later ones.
        if one.index in contested or block <= one.root_until:
            break
        found = _name(one)
    return found


def _list_posted(game: GameState) -> Iterator[GameRound]:
    return (one for _, one in sorted(game.rounds.items()) if one.phase == RoundPhase.POSTED)


def _name(game_round: GameRound) -> Choice:
    assert game_round.root is not None
    return Choice(game_round.root, game_round.index)


def explain_refusal(game: GameState, block: int) -> InvalidInput:
    """Returns why an account without a seat gets no model, and what it can do. `block` is the chain's
    head."""
    count = len(list(_list_posted(game)))
    return InvalidInput(
        what="no model of this task is public yet",
        expected=f"a root that is settled: {SETTLED}",
        actual=f"{count} roots posted, none settled at block {block}" + ", closed" * game.is_closed,
        remedy=advise(game, block),
    )


def advise(game: GameState, block: int) -> str:
    """Returns what to do if no model can be exported yet."""
    first = next((one for one in _list_posted(game) if block <= one.root_until), None)
    if first is None and game.is_closed:
        return "Nothing: the task is closed, and no further root will be posted."
    when = "a root is posted" if first is None else f"block {first.root_until + 1} (it is {block} now)"
    return (
        f"Wait until {when}, and export again. An account with a seat in some task and the task's submitter "
        "need not wait."
    )
