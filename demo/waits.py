"""Says what a run waits for, and which share of it is over."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from touchstone.explorer.names import Names
from touchstone.protocol.spec.game.enums import RoundPhase
from touchstone.protocol.spec.game.inner_dispute import InnerBook
from touchstone.protocol.spec.game.logged_game import LoggedGame
from touchstone.protocol.spec.game.state import GameRound

SEATED, TRAINED = 0.25, 0.85
"""Shares of a run that are over when all sit, and when the last root is posted."""
STARTING = "to check one training step with the referee contract"
CLOSING = "the last windows for objections, which the test network skips while nobody works"


@dataclass(frozen=True)
class Progress:
    """How far a run is. `trained` are the latest training lines of the present round, by name."""

    names: Names
    members: Sequence[str]
    trained: Mapping[str, str]


def describe_wait(progress: Progress, game: LoggedGame | None, inner: InnerBook | None) -> tuple[str, float]:
    """Returns what is waited for, and the share of the run that is over, 0 to 1."""
    if game is None or inner is None:
        return "the submitter to post the task", 0.02
    seated = {progress.names.of(seat.account) for seat in game.seats.values()}
    missing = [name for name in progress.members if name not in seated]
    if missing and not game.rounds:
        return f"{list_some(missing)} {STARTING}", SEATED * (1 - len(missing) / len(progress.members))
    done = sum(one.phase == RoundPhase.POSTED for one in game.rounds.values())
    share = SEATED + (TRAINED - SEATED) * min(1.0, done / game.terms.rounds)
    running = [one for one in game.rounds.values() if one.phase == RoundPhase.RUNNING]
    if running:
        return describe_round(progress, game, min(running, key=lambda one: one.index)), share
    accused = [progress.names.of_seat(game, one.seat) for one in inner.disputes.values() if one.is_open]
    if accused:
        return f"the next move in the dispute against {accused[0]}", share
    if game.next_round < game.terms.rounds:
        return f"round {game.next_round} to open", share
    return CLOSING, max(share, TRAINED)


def describe_round(progress: Progress, game: LoggedGame, game_round: GameRound) -> str:
    """Returns what a running round waits for."""
    index = game_round.index
    slots = range(len(game_round.pool.solvers))
    late = [progress.names.of_slot(game, index, slot) for slot in slots if slot not in game_round.claims]
    if late and game_round.seed is None:
        steps = [f"{name}{progress.trained.get(name, '')}" for name in late]
        return f"{list_some(steps)} to train round {index}"
    if game_round.seed is None:
        return f"the block whose randomness draws the audits of round {index}"
    if len(game_round.votes) < len(game_round.claims):
        return f"the auditors to repeat what was drawn of round {index}"
    return f"the solvers to sign the model of round {index}"


def list_some(names: Collection[str], most: int = 3) -> str:
    """Returns the first names, and how many others there are."""
    shown, others = list(names)[:most], len(names) - most
    return ", ".join(shown) + (f" and {others} more" if others > 0 else "")
