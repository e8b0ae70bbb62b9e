"""Honest roles: alone among honest others, with a crash in each phase, and among cheats."""

from dataclasses import dataclass

from lab.benchmarks.economy.auditors import Says
from lab.benchmarks.economy.challengers import Contests, Harasses
from lab.benchmarks.economy.parameters import SEGMENTS, WINDOWS
from lab.benchmarks.economy.play import Play
from lab.benchmarks.economy.signers import Forges
from lab.benchmarks.economy.solvers import Refuses, Spoils
from lab.benchmarks.economy.strategy import Agent, Audit, Seats, Strategy
from lab.benchmarks.economy.submitters import Halts
from touchstone.protocol.spec.game.claim_status import has_undecided
from touchstone.protocol.spec.game.enums import RoundPhase
from touchstone.protocol.spec.game.round_opening import SHARES
from touchstone.protocol.spec.game.state import GameRound
from touchstone.protocol.spec.statements import VoteWord

SOLVER, VERIFIER, WHISTLEBLOWER = (1, 0, 0), (0, 1, 0), (0, 0, 1)
CRASH_ROUND = 3


@dataclass(frozen=True)
class Crashes(Strategy):
    """Is down in one phase of round 3, then up again. `phase` is `train`, `audit`, `post`, `sign` (decided,
    not posted yet), `contest` (of any root), or `good` (never up again)."""

    phase: str = "train"

    def is_down(self, play: Play, name: str) -> bool:
        """Returns whether the game is in that phase."""
        is_for_good = self.phase == "good"
        game_round = play.table.state.rounds.get(CRASH_ROUND + is_for_good)
        if game_round is None:
            return False
        phases = {
            "train": game_round.closed is None,
            "audit": game_round.phase == RoundPhase.RUNNING,
            "post": game_round.closed is not None and game_round.phase == RoundPhase.RUNNING,
            "sign": game_round.closed is not None
            and game_round.phase == RoundPhase.RUNNING
            and not has_undecided(play.now, game_round, play.block),
            "contest": bool(play.table.state.contests),
            "good": True,
        }
        return phases[self.phase]


@dataclass(frozen=True)
class LosesDispute(Strategy):
    """Is down while its own dispute of the first known false claim runs, and so loses it."""

    def is_down(self, play: Play, name: str) -> bool:
        """Returns whether that dispute runs; the node comes back once it is lost."""
        disputes, first = play.table.state.disputes.values(), next(iter(play.seen), None)
        return any(one.statement == first and play.name_of(one.opener) == name for one in disputes)


@dataclass(frozen=True)
class Colludes(Spoils):
    """A solver that computes nothing, with verifiers that accept everything without a replay."""

    spoiled: frozenset[int] = frozenset(range(SEGMENTS))

    def choose_verdict(self, play: Play, audit: Audit) -> VoteWord | None:
        """Returns ACCEPT."""
        return VoteWord.ACCEPT

    def has_replayed(self, play: Play, audit: Audit) -> bool:
        """Returns False: it never replays."""
        return False


@dataclass(frozen=True)
class AnswersLate(Strategy):
    """Is down from a query or a dispute until the last block for an answer."""

    def is_answering(self, play: Play, name: str) -> bool:
        """Returns whether this is the last block of a clock."""
        state, seat = play.table.state, play.get_seat(name)
        number = seat.number if seat is not None else -1
        clocks = [one.clock for one in state.queries.values() if one.seat == number]
        clocks += [one.clock for one in state.disputes.values() if one.seat == number]
        return not clocks or min(clocks) <= play.block


@dataclass(frozen=True)
class CrashesSealed(Strategy):
    """Is down in round 3 between its seal and its vote. The replay is wasted, and a reserve takes its
    place."""

    def choose_verdict(self, play: Play, audit: Audit) -> VoteWord | None:
        """Returns None in that round, because the node is down."""
        word = play.look(audit)
        return None if audit.ref.round == CRASH_ROUND else word


@dataclass(frozen=True)
class OpensLate(Strategy):
    """Is down in each round between its vote and its opening, which it sends two audit windows later."""

    def is_opening(self, play: Play, audit: Audit) -> bool:
        """Returns whether the late block has come."""
        closed = play.table.state.rounds[audit.ref.round].closed or 0
        return play.block >= closed + 60 - WINDOWS.audit_max


@dataclass(frozen=True)
class Straggles(Strategy):
    """Is honest and slow: it commits in the last block before two thirds of the solvers would go on without
    it."""

    def get_commit_block(self, play: Play, game_round: GameRound, name: str) -> int:
        """Returns the block just before `train_min` is over."""
        return (game_round.trained_from or 0) + WINDOWS.train_min - 1


def _make(name: str, play: str, strategy: Strategy, seats: Seats, **more: object) -> Agent:
    return Agent(name, play, strategy, seats, is_honest=True, **more)  # type: ignore[arg-type]


LIARS, IDLE = (0, 2, 0), Spoils(frozenset(range(10)))
AGENTS = (
    _make("honest solver", "trains, commits, serves, signs", Strategy(), SOLVER),
    _make("honest verifier", "replays what is drawn, votes, opens", Strategy(), VERIFIER),
    _make("honest whistleblower", "audits accepted work late", Strategy(), WHISTLEBLOWER),
    Agent("honest submitter", "posts the task and takes the model", is_submitter=True, is_honest=True),
    _make("solver that crashes in training", "misses round 3", Crashes(phase="train"), SOLVER),
    _make(
        "solver that crashes before it serves",
        "committed, serves nobody in round 3",
        Crashes(phase="post"),
        SOLVER,
    ),
    _make("solver that crashes before it signs", "signs no root of round 3", Crashes(phase="sign"), SOLVER),
    _make(
        "solver that crashes when its root is contested",
        "is away while others answer",
        Crashes(phase="contest"),
        SOLVER,
        foes=Contests(),
    ),
    _make("solver that crashes for good", "is gone from round 4 on", Crashes(phase="good"), SOLVER),
    _make(
        "solver that crashes when it is disputed",
        "is back in the last block for an answer",
        AnswersLate(),
        SOLVER,
        foes=Harasses("disputes"),
        foe_seats=WHISTLEBLOWER,
    ),
    _make(
        "verifier that crashes before its replay", "is silent in round 3", Crashes(phase="audit"), VERIFIER
    ),
    _make(
        "verifier that crashes after its seal",
        "has replayed, does not vote in round 3",
        CrashesSealed(),
        VERIFIER,
    ),
    _make("verifier that crashes before it opens", "opens two windows late", OpensLate(), VERIFIER),
    _make("verifier that crashes for good", "is gone from round 4 on", Crashes(phase="good"), VERIFIER),
    _make(
        "verifier that crashes when it is asked",
        "is back in the last block for an answer",
        AnswersLate(),
        VERIFIER,
        foes=Harasses("queries"),
        foe_seats=WHISTLEBLOWER,
    ),
    _make(
        "whistleblower that crashes in a late audit",
        "is silent in round 3",
        Crashes(phase="audit"),
        (0, 0, 2),
    ),
    _make(
        "whistleblower that crashes for good", "is gone from round 4 on", Crashes(phase="good"), WHISTLEBLOWER
    ),
    _make(
        "whistleblower that crashes in its dispute",
        "loses it, and finds the next false claim",
        LosesDispute(),
        (0, 0, 6),
        foes=Colludes(),
        foe_seats=(2, 6, 0),
    ),
    _make("straggler", "commits just before train_min", Straggles(), SOLVER),
    _make(
        "solver among auditors who reject it",
        "two of six verifiers reject its work",
        Strategy(),
        SOLVER,
        foes=Says(VoteWord.REJECT_STATE),
        foe_seats=LIARS,
    ),
    _make(
        "solver whose base root falls",
        "does not train on a wrong root of three of five",
        Strategy(),
        SOLVER,
        foes=Forges(),
        foe_seats=(3, 0, 0),
    ),
    _make(
        "verifier of a false claim's right segments",
        "accepts what it saw, and keeps its seat",
        Strategy(),
        VERIFIER,
        foes=Spoils(frozenset({0})),
        foe_seats=(2, 0, 0),
    ),
    _make(
        "whistleblower that finds a false claim",
        "disputes what its late replay shows",
        Strategy(),
        (0, 0, 6),
        foes=Colludes(),
        foe_seats=(2, 6, 0),
    ),
    _make(
        "whistleblower that contests a wrong root",
        "names the child that its own tree lacks",
        Strategy(),
        (0, 0, 6),
        foes=Forges(),
        foe_seats=(3, 0, 0),
    ),
    Agent(
        "submitter among idle solvers",
        "gets its pay back where a fault is proven",
        is_submitter=True,
        is_honest=True,
        foes=IDLE,
        foe_seats=(2, 0, 0),
    ),
    _make(
        "solver of a task that is halted early",
        "is paid for what was accepted",
        Strategy(),
        SOLVER,
        foes=Halts(),
    ),
    _make(
        "solver of a task that bought votes halt",
        "is paid for what was accepted",
        Strategy(),
        SOLVER,
        foes=Halts(0, SHARES),
    ),
    _make(
        "solver of a task that is halted after a good model",
        "is paid for what was accepted",
        Strategy(),
        SOLVER,
        foes=Halts(3),
    ),
    _make(
        "verifier whom two solvers do not serve",
        "says UNSERVED as long as it can afford it",
        Strategy(),
        VERIFIER,
        foes=Refuses(),
        foe_seats=(2, 0, 0),
        known="A truthful UNSERVED costs F",
    ),
)
