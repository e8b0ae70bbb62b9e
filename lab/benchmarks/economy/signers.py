"""Solvers that cheat in what they sign and post, and the contests of it."""

from dataclasses import dataclass

from lab.benchmarks.economy.play import Play
from lab.benchmarks.economy.strategy import Agent, Sends, Strategy
from touchstone.protocol.spec.game import calls
from touchstone.protocol.spec.game.claim_status import list_mergeable
from touchstone.protocol.spec.game.enums import ContestTurn, RoundPhase, SeatRole
from touchstone.protocol.spec.game.root_posting import get_waiting_round
from touchstone.protocol.spec.game.state import GameRound


@dataclass(frozen=True)
class Signs(Strategy):
    """How it signs. how: `nothing`; `not posts`, signs and leaves the posting to others; `leaves out` the
    claim of the last slot; `alone`, posts with its own signatures only; `early`, before audits are over."""

    how: str = "nothing"

    def choose_merge(self, play: Play, game_round: GameRound, merged: tuple[int, ...]) -> tuple[int, ...]:
        """Less than all."""
        kinds = {"nothing": (), "alone": (), "leaves out": merged[:-1]}
        return kinds.get(self.how, merged)

    def plan(self, play: Play) -> Sends:
        """A post that does not count."""
        waiting = get_waiting_round(play.now)
        if waiting is None or self.how not in ("alone", "early"):
            return
        own = {play.get_seat(name) for name in play.list_own(SeatRole.SOLVER)}
        signers = tuple(sorted(seat.number for seat in own if seat is not None))
        merged = list_mergeable(play.now, waiting, play.block)
        merged = tuple(sorted(waiting.claims)) if self.how == "early" else merged
        if merged:
            root = play.table.make_root(waiting.index, merged, self.how == "alone")
            signers = waiting.pool.solvers if self.how == "early" else signers
            yield "own solver 0", calls.PostRoot(waiting.index, merged, root, signers)


@dataclass(frozen=True)
class Forges(Strategy):
    """More than half of the solver seats sign a wrong root in round 2, and leave its contest unanswered."""

    first: int = 2

    def is_forging(self, play: Play, game_round: GameRound, name: str) -> bool:
        """Where its seats are enough to decide."""
        is_signer = name.rsplit(maxsplit=1)[1] in "012"
        return is_signer and game_round.index == self.first and game_round.fallen is None


@dataclass(frozen=True)
class ContestsItself(Strategy):
    """Poster and contester in one hand: its solver contests each right root, and answers it as well."""

    def plan(self, play: Play) -> Sends:
        """A contest a round, answered by itself, then dropped."""
        state = play.table.state
        for game_round in state.rounds.values():
            if (
                game_round.phase == RoundPhase.POSTED
                and not state.contests
                and play.block < game_round.opened + 99
            ):
                yield "own solver 0", calls.OpenContest(game_round.index, state.terms.amounts.contest_bond)
        for number, contest in state.contests.items():
            if contest.turn == ContestTurn.ANSWER:
                yield "own solver 1", calls.AnswerContest(number)


def _make(
    name: str, play: str, strategy: Strategy, seats: tuple[int, int, int] = (1, 0, 0), **more: object
) -> Agent:
    return Agent(name, play, strategy, seats, **more)  # type: ignore[arg-type]


LEFT_TO_OTHERS = "Who leaves posting and upkeep to others"
AGENTS = (
    _make(
        "silent poster",
        "three of five solvers sign nothing in any round",
        Signs("nothing"),
        (3, 0, 0),
        known="Half of the open solver seats can stop progress",
    ),
    _make(
        "silent minority",
        "one solver signs nothing and posts nothing",
        Signs("nothing"),
        known=LEFT_TO_OTHERS,
    ),
    _make(
        "leaver-out",
        "three of five sign a set that lacks an accepted claim",
        Signs("leaves out"),
        (3, 0, 0),
        known="A majority can leave claims out",
    ),
    _make(
        "minority's root",
        "two of five post a wrong root",
        Signs("alone"),
        (2, 0, 0),
        known=LEFT_TO_OTHERS,
    ),
    _make("merger before audits", "posts before the claims are decided", Signs("early")),
    _make("majority's wrong root", "three of five sign a wrong root", Forges(), (3, 0, 0)),
    _make("poster and contester", "contests right roots and answers itself", ContestsItself(), (2, 0, 0)),
)
