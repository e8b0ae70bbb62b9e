"""Solvers that cheat: in what they compute, commit, show and sign, and when."""

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
    """Does not compute some segments, from round `since` on (-1: in the last round), and serves everybody.
    Its own auditors accept if that decides, and abstain otherwise."""

    spoiled: frozenset[int] = frozenset({0})
    since: int = 0
    fault: Fault = Fault.NONE
    is_drifting: bool = False
    is_inventing: bool = False

    def plan_claim(self, play: Play, game_round: GameRound, name: str) -> Claim | None:
        """Plans a false claim from round `since` on."""
        since = self.since if self.since >= 0 else play.table.state.terms.rounds + self.since
        if game_round.index < since:
            return Claim()
        if self.is_drifting:
            return Claim(drifted=self.spoiled)
        return Claim(self.spoiled, fault=self.fault)

    def choose_verdict(self, play: Play, audit: Audit) -> VoteWord | None:
        """Accepts its own false claim without a replay, if that decides."""
        claim = play.get_claim(audit.ref)
        if not (claim.owner.startswith("own") and claim.is_false) or play.is_honest(audit.auditor):
            return play.look(audit)
        others = [play.get_audit(replace(audit.ref, rank=rank)) for rank in (1, 2)]
        is_both = all(one is not None and one.auditor.startswith("own") for one in others)
        return VoteWord.ACCEPT if audit.ref.rank == 0 or is_both else VoteWord.ABSTAIN

    def has_replayed(self, play: Play, audit: Audit) -> bool:
        """Returns False for its own false claims."""
        return not play.get_claim(audit.ref).is_false

    def is_end_shared(self, play: Play, audit: Audit) -> bool:
        """Returns True for its own false claims: its auditors seal the claimed end."""
        return not self.has_replayed(play, audit)

    def is_stepping(self, play: Play, name: str) -> bool:
        """Returns whether it invents step roots when it is disputed."""
        return self.is_inventing


@dataclass(frozen=True)
class HidesTrace(Spoils):
    """Computes everything but one operation, and serves the trace of that step to nobody. An opponent in a
    dispute has to guess which leaves to demand."""

    def plan_claim(self, play: Play, game_round: GameRound, name: str) -> Claim | None:
        """Plans a false claim that costs as much as a right one."""
        play.spent[name] += FIGURES.cost * len(self.spoiled) // SEGMENTS
        return Claim(self.spoiled, is_untraced=True)

    def is_stepping(self, play: Play, name: str) -> bool:
        """Returns True: it has the roots of its steps."""
        return True


@dataclass(frozen=True)
class Refuses(Strategy):
    """Shows auditors less than it must. `where` says in which audits: `always`, `other` (every second round),
    or `hit` (those of spoiled segments, except for its own auditors)."""

    shown: Shown = Shown.NOTHING
    where: str = "always"
    spoiled: frozenset[int] = frozenset()

    def plan_claim(self, play: Play, game_round: GameRound, name: str) -> Claim | None:
        """Plans a claim that is right except for `spoiled`."""
        return Claim(self.spoiled)

    def show(self, play: Play, audit: Audit, claim: Claim) -> Shown:
        """Returns what `where` allows."""
        is_own = audit.auditor.startswith("own") and not play.agent.is_honest
        places = {
            "always": not is_own,
            "other": audit.ref.round % 2 == 1,
            "hit": audit.segment in claim.spoiled and not is_own,
        }
        return self.shown if places[self.where] else Shown.ALL

    def choose_verdict(self, play: Play, audit: Audit) -> VoteWord | None:
        """Lets its own auditors accept its own false claims if that decides."""
        return Spoils.choose_verdict(Spoils(self.spoiled), play, audit)

    def has_replayed(self, play: Play, audit: Audit) -> bool:
        """Returns False for its own false claims."""
        return not play.get_claim(audit.ref).is_false

    def is_end_shared(self, play: Play, audit: Audit) -> bool:
        """Returns True for its own false claims: its auditors seal the claimed end."""
        return not self.has_replayed(play, audit)


@dataclass(frozen=True)
class Drops(Strategy):
    """Skips every second round, as if it did not like its shard."""

    def plan_claim(self, play: Play, game_round: GameRound, name: str) -> Claim | None:
        """Plans no claim in every second round."""
        return None if game_round.index % 2 else Claim()


@dataclass(frozen=True)
class Recommits(Strategy):
    """Commits a second time. `how` is `again`: another root in the same round; `rejected`: a new claim of the
    round before, once that is drawn; `stale`: on the root of the round before."""

    how: str = "again"

    def plan(self, play: Play) -> Sends:
        """Sends one such call in each round."""
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
        """Returns one block later if it builds on the older root, on which it trained that long."""
        first = super().get_commit_block(play, game_round, name)
        return first + 1 if self.how == "stale" else first


@dataclass(frozen=True)
class Copies(Strategy):
    """Commits the root of another's claim, and shows nothing: the leaves name another solver."""

    def plan_claim(self, play: Play, game_round: GameRound, name: str) -> Claim | None:
        """Plans another's claim, so that it computes nothing."""
        return Claim(spoiled=ALL, about="another's root")

    def show(self, play: Play, audit: Audit, claim: Claim) -> Shown:
        """Returns bytes that do not fit the root."""
        return Shown.GARBAGE


@dataclass(frozen=True)
class Chooses(Strategy):
    """Trains twice and commits the better run. A seat has one claim, so the other run is wasted."""

    def plan_claim(self, play: Play, game_round: GameRound, name: str) -> Claim | None:
        """Charges the second run."""
        play.spent[name] += FIGURES.cost
        return Claim(about="best of two")


@dataclass(frozen=True)
class Leaves(Spoils):
    """Makes false claims, leaves after the first and asks for its stake at once."""

    def plan(self, play: Play) -> Sends:
        """Leaves once its first false claim is committed."""
        seats = [(name, play.get_seat(name)) for name in play.list_own(SeatRole.SOLVER) if play.claims]
        for name, seat in seats:
            assert seat is not None
            yield name, calls.LeaveSeat(seat.number)
            yield name, calls.PayOut(seat.number)


@dataclass(frozen=True)
class ComesAndGoes(Strategy):
    """Leaves when its shard is assigned, and joins again when it is paid out."""

    def plan(self, play: Play) -> Sends:
        """Leaves or joins, as its seat allows."""
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
