"""Solvers that cheat in signing and posting roots, and in contests of them."""

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
    """Signs merges dishonestly. `how` is `nothing`: signs none; `not posts`: signs and lets others post;
    `leaves out`: signs without the claim of the last slot; `alone`: posts with its own signatures only;
    `early`: posts before audits are over."""

    how: str = "nothing"

    def choose_merge(self, play: Play, game_round: GameRound, merged: tuple[int, ...]) -> tuple[int, ...]:
        """Returns fewer slots than are mergeable."""
        kinds = {"nothing": (), "alone": (), "leaves out": merged[:-1]}
        return kinds.get(self.how, merged)

    def plan(self, play: Play) -> Sends:
        """Sends a post that must be refused."""
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
    """Lets more than half of the solver seats sign a wrong root in round 2, and leaves its contest
    unanswered."""

    first: int = 2

    def is_forging(self, play: Play, game_round: GameRound, name: str) -> bool:
        """Returns True for enough seats to decide, in that round."""
        is_signer = name.rsplit(maxsplit=1)[1] in "012"
        return is_signer and game_round.index == self.first and game_round.fallen is None


@dataclass(frozen=True)
class ContestsItself(Strategy):
    """Is both poster and contester: its solver contests each right root, and answers itself."""

    def plan(self, play: Play) -> Sends:
        """Opens one contest in each round, answers it, then makes no more moves."""
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
