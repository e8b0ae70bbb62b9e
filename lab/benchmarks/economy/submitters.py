"""Submitters that cheat: through their auditors, the time at which they stop, or the terms of their task."""

from dataclasses import dataclass

from lab.benchmarks.economy.auditors import Says
from lab.benchmarks.economy.parameters import SEGMENTS
from lab.benchmarks.economy.play import STRANGER, Play
from lab.benchmarks.economy.pursuing import make_dispute
from lab.benchmarks.economy.signers import Forges
from lab.benchmarks.economy.strategy import SUBMITTER, Agent, Claim, Sends, Strategy
from touchstone.protocol.spec.game import calls
from touchstone.protocol.spec.game.enums import GameOutcome
from touchstone.protocol.spec.game.round_opening import SHARES
from touchstone.protocol.spec.game.state import GameRound, StatementRef
from touchstone.protocol.spec.statements import VoteWord

ALL = frozenset(range(SEGMENTS))


@dataclass(frozen=True)
class Halts(Strategy):
    """Halts the task once a round is closed, and asks for the rest of the escrow at once. `by` is the
    submitter, or the majority of the shares. The price of the shares is not counted, which favours the
    agent."""

    after: int = 2
    by: str = SUBMITTER

    def plan(self, play: Play) -> Sends:
        """Halts when the claims of that round are committed."""
        game_round = play.now.rounds.get(min(self.after, play.now.terms.rounds - 1))
        if game_round is not None and game_round.closed is not None:
            yield self.by, calls.HaltTask()
            yield SUBMITTER, calls.CloseTask()


@dataclass(frozen=True)
class ChallengesItself(Strategy):
    """Owns an idle solver, a whistleblower that disputes it, and the task: part of the stake comes back as
    the finder's and the submitter's share. With `is_closing` the submitter tries to close the task during the
    dispute."""

    is_closing: bool = False

    def plan_claim(self, play: Play, game_round: GameRound, name: str) -> Claim | None:
        """Plans a claim of which nothing was computed."""
        return Claim(ALL)

    def plan(self, play: Play) -> Sends:
        """Disputes its own claim of round 0, and lets itself be convicted."""
        for index, slot in list(play.claims):
            claim, state = play.claims[index, slot], play.table.state
            seat = play.get_seat(claim.owner)
            ref, is_drawn = StatementRef(index, slot), state.rounds[index].seed is not None
            is_open = any(one.statement == ref for one in state.disputes.values())
            if claim.owner.startswith("own") and seat is not None and is_drawn and not is_open:
                yield "own whistleblower 0", make_dispute(play, ref, seat.number)
        for number, dispute in play.table.state.disputes.items():
            if self.is_closing and play.block < dispute.clock:
                yield SUBMITTER, calls.HaltTask()
                yield SUBMITTER, calls.CloseTask()
            elif play.name_of(dispute.opener).startswith("own"):
                yield "own whistleblower 0", calls.EndDispute(number, outcome=GameOutcome.CONVICTED)


@dataclass(frozen=True)
class BurnsNothing(Forges):
    """Owns submitter, solvers and auditors. Three sign a wrong root, which is contested only when many rounds
    build on it; the slash then pays for their lost pay."""

    def plan(self, play: Play) -> Sends:
        """Contests the root in the last round."""
        state = play.table.state
        for game_round in state.rounds.values():
            is_there = any(one.round == game_round.index for one in state.contests.values())
            if game_round.root in play.wrong and state.next_round == state.terms.rounds and not is_there:
                yield STRANGER, calls.OpenContest(game_round.index, state.terms.amounts.contest_bond)


@dataclass(frozen=True)
class RestoredTwice(Forges):
    """Lets a late REJECT of its own claim be convicted, which pays the claim; then the round falls, and the
    claim would be paid again."""

    first: int = 0

    def choose_verdict(self, play: Play, audit: object) -> VoteWord | None:
        """Returns REJECT in the late audit of its own claim of round 1."""
        is_late, ref = audit.is_late, audit.ref  # type: ignore[attr-defined]
        is_own = play.get_claim(ref).owner.startswith("own") and ref.round == 1
        return VoteWord.REJECT_STATE if is_late and is_own else play.look(audit)  # type: ignore[arg-type]

    def has_replayed(self, play: Play, audit: object) -> bool:
        """Returns False: the REJECT cannot be shown to be right."""
        return False


def _make(
    name: str, play: str, strategy: Strategy, seats: tuple[int, int, int] = (0, 0, 0), **more: object
) -> Agent:
    return Agent(name, play, strategy, seats, is_submitter=True, **more)  # type: ignore[arg-type]


def _trap(name: str, play: str, *changes: tuple[str, int], **more: object) -> Agent:
    return Agent(name, play, is_submitter=True, changes=changes, **more)  # type: ignore[arg-type]


AGENTS = (
    _make(
        "submitter whose verifiers reject",
        "two of six verifiers reject honest work",
        Says(VoteWord.REJECT_STATE),
        (0, 2, 0),
    ),
    _make(
        "submitter whose verifiers abstain",
        "two of six abstain from honest work",
        Says(VoteWord.ABSTAIN),
        (0, 2, 0),
    ),
    _make("submitter that halts early", "halts once work is committed", Halts()),
    _make("submitter that halts after a good model", "halts once half of its rounds are in", Halts(3)),
    Agent("solver that buys votes", "its shares and bought ones halt the task", Halts(1, SHARES), (1, 0, 0)),
    _make("self-challenger", "idle solver, own whistleblower, own task", ChallengesItself(), (1, 0, 1)),
    _make(
        "submitter that closes over a dispute",
        "the same, and closes its task meanwhile",
        ChallengesItself(True),
        (1, 0, 1),
    ),
    _make(
        "fall that burns nothing",
        "submitter, solvers and auditors in one hand: a wrong root falls late",
        BurnsNothing(),
        (5, 6, 6),
    ),
    _make(
        "claim restored twice",
        "late REJECT falls, then the round",
        RestoredTwice(),
        (3, 0, 2),
    ),
    _trap("task with windows of one block", "an answer within a block", ("respond", 1)),
    _trap(
        "task without time for an answer's reserve",
        "reserves count before a draw can be sealed",
        ("audit_max", 6),
    ),
    _trap("task with a long vocabulary", "one maximum over 40,000 entries", ("reduction", 40_000)),
    _trap("task with amounts of 2^96", "later calls would overflow", ("solver_pay", 1 << 96)),
    _trap("task with bonds of nothing", "slashes itself for nothing", ("dispute_bond", 0)),
    _trap("task without a block for a seal", "a grid as wide as the margin", ("draw_grid", 30)),
    _trap("task with bonds beyond everybody's means", "nobody could challenge", ("contest_bond", 1 << 89)),
    _trap(
        "task with the greatest respond",
        "one contest holds up the settlement of all for a year",
        ("respond", 1_000_000),
    ),
    _trap(
        "task with long disputes",
        "its ring of rounds is full most of the time",
        ("dispute", 900_000),
    ),
)
