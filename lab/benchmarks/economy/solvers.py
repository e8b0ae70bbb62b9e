"""Solvers that cheat: in what they compute, commit, show, sign, and when."""

from dataclasses import dataclass, replace

from lab.benchmarks.economy.parameters import FIGURES, SEGMENTS, make_word
from lab.benchmarks.economy.play import Play
from lab.benchmarks.economy.strategy import Agent, Audit, Claim, Fault, Sends, Shown, Strategy, list_outcomes
from touchstone.protocol.spec.game import calls
from touchstone.protocol.spec.game.enums import SeatRole
from touchstone.protocol.spec.game.state import GameRound
from touchstone.protocol.spec.game.timing import get_live_round
from touchstone.protocol.spec.statements import VoteWord

ALL = frozenset(range(SEGMENTS))


@dataclass(frozen=True)
class Spoils(Strategy):
    """Does not compute some segments, in rounds from `since` on (-1: in the last), and serves whoever asks.
    Its auditors accept where that decides and abstain elsewhere."""

    spoiled: frozenset[int] = frozenset({0})
    since: int = 0
    fault: Fault = Fault.NONE
    is_drifting: bool = False
    is_inventing: bool = False

    def plan_claim(self, play: Play, game_round: GameRound, name: str) -> Claim | None:
        """False from `since` on."""
        since = self.since if self.since >= 0 else play.table.state.terms.rounds + self.since
        if game_round.index < since:
            return Claim()
        if self.is_drifting:
            return Claim(drifted=self.spoiled)
        return Claim(self.spoiled, fault=self.fault)

    def choose_verdict(self, play: Play, audit: Audit) -> VoteWord | None:
        """For its own false claim without a look."""
        claim = play.get_claim(audit.ref)
        if not (claim.owner.startswith("own") and claim.is_false) or play.is_honest(audit.auditor):
            return play.look(audit)
        others = [play.get_audit(replace(audit.ref, rank=rank)) for rank in (1, 2)]
        is_both = all(one is not None and one.auditor.startswith("own") for one in others)
        return VoteWord.ACCEPT if audit.ref.rank == 0 or is_both else VoteWord.ABSTAIN

    def has_replayed(self, play: Play, audit: Audit) -> bool:
        """Not its own false claims."""
        return not play.get_claim(audit.ref).is_false

    def is_end_shared(self, play: Play, audit: Audit) -> bool:
        """Of its own false claims they seal the claimed end."""
        return not self.has_replayed(play, audit)

    def is_stepping(self, play: Play, name: str) -> bool:
        """Whether it invents step roots when it is disputed."""
        return self.is_inventing


@dataclass(frozen=True)
class HidesTrace(Spoils):
    """Computes everything but one operation, and serves the trace of that step to nobody. Whoever disputes it
    has to guess which leaves to demand."""

    def plan_claim(self, play: Play, game_round: GameRound, name: str) -> Claim | None:
        """False, at the price of a right one."""
        play.spent[name] += FIGURES.cost * len(self.spoiled) // SEGMENTS
        return Claim(self.spoiled, is_untraced=True)

    def is_stepping(self, play: Play, name: str) -> bool:
        """It has its steps."""
        return True


@dataclass(frozen=True)
class Refuses(Strategy):
    """Shows auditors less than it must. where: which audits, of `always`, `other` (every second round), `hit`
    (those of spoiled segments, but for its own auditors')."""

    shown: Shown = Shown.NOTHING
    where: str = "always"
    spoiled: frozenset[int] = frozenset()

    def plan_claim(self, play: Play, game_round: GameRound, name: str) -> Claim | None:
        """Right, but for `spoiled`."""
        return Claim(self.spoiled)

    def show(self, play: Play, audit: Audit, claim: Claim) -> Shown:
        """As `where` says."""
        is_own = audit.auditor.startswith("own") and not play.agent.is_honest
        places = {
            "always": not is_own,
            "other": audit.ref.round % 2 == 1,
            "hit": audit.segment in claim.spoiled and not is_own,
        }
        return self.shown if places[self.where] else Shown.ALL

    def choose_verdict(self, play: Play, audit: Audit) -> VoteWord | None:
        """Own auditors accept own false claims where that decides."""
        return Spoils.choose_verdict(Spoils(self.spoiled), play, audit)

    def has_replayed(self, play: Play, audit: Audit) -> bool:
        """Not its own false claims."""
        return not play.get_claim(audit.ref).is_false

    def is_end_shared(self, play: Play, audit: Audit) -> bool:
        """Of its own false claims they seal the claimed end."""
        return not self.has_replayed(play, audit)


@dataclass(frozen=True)
class Drops(Strategy):
    """Skips rounds whose shard it does not like: every second one."""

    def plan_claim(self, play: Play, game_round: GameRound, name: str) -> Claim | None:
        """Nothing in every second round."""
        return None if game_round.index % 2 else Claim()


@dataclass(frozen=True)
class Recommits(Strategy):
    """Commits a second time. how: `again` another root in the same round; `rejected` a new claim of the round
    before, once that is drawn; `stale` on the root of the round before."""

    how: str = "again"

    def plan(self, play: Play) -> Sends:
        """One call a round."""
        live = get_live_round(play.now)
        for name in play.list_own(SeatRole.SOLVER) if live else []:
            seat = play.get_seat(name)
            is_first = live is not None and live.index == 0 and self.how == "rejected"
            if live is None or seat is None or is_first:
                continue
            if all(one.seat != seat.number for one in live.claims.values()):
                continue
            index = live.index - 1 if self.how == "rejected" else live.index
            base = make_word("stale") if self.how == "stale" else live.base_root
            root = make_word("second", live.index, self.how)
            yield name, calls.CommitRound(index, base, live.beacon or b"", root, SEGMENTS)

    def get_commit_block(self, play: Play, game_round: GameRound, name: str) -> int:
        """Late where it builds on the older root: it has trained that long."""
        first = super().get_commit_block(play, game_round, name)
        return first + 1 if self.how == "stale" else first


@dataclass(frozen=True)
class Copies(Strategy):
    """Commits the root of another's claim, and shows nobody anything: its leaves name another solver."""

    def plan_claim(self, play: Play, game_round: GameRound, name: str) -> Claim | None:
        """Another's, so that it spends no compute."""
        return Claim(spoiled=ALL, about="another's root")

    def show(self, play: Play, audit: Audit, claim: Claim) -> Shown:
        """Bytes that do not fit its own leaves."""
        return Shown.GARBAGE


@dataclass(frozen=True)
class Chooses(Strategy):
    """Trains twice and commits the better run: one claim a seat, so the other run is spent for nothing."""

    def plan_claim(self, play: Play, game_round: GameRound, name: str) -> Claim | None:
        """The second run."""
        play.spent[name] += FIGURES.cost
        return Claim(about="best of two")


@dataclass(frozen=True)
class Leaves(Spoils):
    """Makes false claims, leaves after the first and asks for its stake at once."""

    def plan(self, play: Play) -> Sends:
        """Once its first false claim stands."""
        seats = [(name, play.get_seat(name)) for name in play.list_own(SeatRole.SOLVER) if play.claims]
        for name, seat in seats:
            assert seat is not None
            yield name, calls.LeaveSeat(seat.number)
            yield name, calls.PayOut(seat.number)


@dataclass(frozen=True)
class ComesAndGoes(Strategy):
    """Leaves when its shard is assigned, joins again when it is paid out, around every draw."""

    def plan(self, play: Play) -> Sends:
        """What its seat allows."""
        live = get_live_round(play.now)
        seat = play.get_seat("own solver 0")
        if live is not None and seat is not None and live.index % 3 == 1:
            yield "own solver 0", calls.LeaveSeat(seat.number)
            yield "own solver 0", calls.JoinSeat(SeatRole.SOLVER, play.table.state.terms.amounts.solver_stake)


def _make(
    name: str, play: str, strategy: Strategy, seats: tuple[int, int, int] = (1, 0, 0), **more: object
) -> Agent:
    return Agent(name, play, strategy, seats, **more)  # type: ignore[arg-type]


LAST, THIRD = -1, (1, 2, 2)
FEE_BOUND = "Refusal to serve bounds V by F"
assert FIGURES.withholding_gain is not None
AGENTS = (
    _make("idle solver", "computes nothing, serves noise", Spoils(ALL)),
    _make("one false segment", "spoils one segment in each round", Spoils()),
    _make(
        "every second segment",
        "spoils all that can be spoiled without two drawn neighbours",
        Spoils(frozenset(range(0, SEGMENTS, 2))),
    ),
    _make(
        "one false claim at the end",
        "spoils one segment, in the last round only",
        Spoils(since=LAST),
        outcomes=list_outcomes((0, 0)),
    ),
    _make(
        "cartel's one false claim",
        "the same with a third of all auditors",
        Spoils(since=LAST),
        THIRD,
        outcomes=list_outcomes((2, 2)),
    ),
    _make(
        "grinder",
        "one false claim, and the better of two blocks for its draw",
        Spoils(since=LAST),
        outcomes=list_outcomes((0, 0), foresight=2),
    ),
    _make(
        "cartel: idle solver and a third of the auditors",
        "own auditors accept what they decide",
        Spoils(ALL),
        THIRD,
    ),
    _make(
        "inventor of steps",
        "answers its dispute with steps of its own invention",
        Spoils(frozenset(range(1, SEGMENTS)), is_inventing=True),
    ),
    _make(
        "withholder of a trace",
        "one wrong operation a round; shows its trace to nobody who disputes it",
        HidesTrace(),
        known="A withheld trace",
    ),
    _make(
        "drifter",
        "stays inside the limits of each step, beyond those of a segment",
        Spoils(frozenset({0}), is_drifting=True),
        gain=FIGURES.withholding_gain,
    ),
    _make("withheld pseudo-gradient", "commits a root without data", Refuses(Shown.ENDS)),
    _make("withholder", "serves nobody", Refuses()),
    _make("withholder of ends", "shows the start, not the end", Refuses(Shown.START)),
    _make(
        "server of garbage",
        "shows auditors bytes that they cannot read",
        Refuses(Shown.GARBAGE),
    ),
    _make(
        "guess breaker",
        "serves every second round only, so that others train on a wrong guess",
        Refuses(where="other"),
    ),
    _make(
        "hider, V 10",
        "spoils one segment, shows it to its own auditors only; V as the task states",
        Refuses(where="hit", spoiled=frozenset({0})),
        THIRD,
        gain=FIGURES.withholding_gain,
    ),
    _make(
        "hider, V 100",
        "spoils two segments, where V is ten times what the task states to bear",
        Refuses(where="hit", spoiled=frozenset({0, 5})),
        THIRD,
        known=FEE_BOUND,
    ),
    _make(
        "coalition that serves its own",
        "computes nothing, shows own auditors only",
        Refuses(spoiled=ALL),
        THIRD,
    ),
    _make(
        "scale above 220",
        "a pseudo-gradient that no transaction could compute",
        Spoils(frozenset(), fault=Fault.SCALE),
    ),
    _make(
        "leaf of another length",
        "a pseudo-gradient whose leaf is shorter than all others",
        Spoils(frozenset(), fault=Fault.LENGTH),
    ),
    _make(
        "wrong start",
        "boundary 0 is not the root of the round before",
        Spoils(frozenset(), fault=Fault.START),
    ),
    _make(
        "wrong carried moments",
        "carries over what its claim did not end with",
        Spoils(frozenset(), fault=Fault.CARRIED),
    ),
    _make("dropper of shards", "skips every second round", Drops()),
    _make("second commitment", "commits twice in a round", Recommits("again")),
    _make(
        "commitment after the draw",
        "claims the last round again once its draw is known",
        Recommits("rejected"),
    ),
    _make("one round behind", "commits on the root before the last", Recommits("stale")),
    _make("copier of a claim", "commits another's root", Copies()),
    _make("best of two runs", "trains twice", Chooses()),
    _make("early exit", "leaves once its false claim stands", Leaves()),
    _make("guest around draws", "leaves when its shard is assigned, and joins again", ComesAndGoes()),
)
