"""Attacks by queries, disputes, contests and proofs (floods, delays, thefts), and by many accounts that
join."""

from dataclasses import dataclass

from lab.benchmarks.economy.auditors import list_audits
from lab.benchmarks.economy.parameters import SEGMENTS, make_word
from lab.benchmarks.economy.play import STRANGER, Play
from lab.benchmarks.economy.pursuing import make_ask, make_dispute
from lab.benchmarks.economy.signers import Forges
from lab.benchmarks.economy.solvers import Spoils
from lab.benchmarks.economy.strategy import Agent, Audit, Claim, Sends, Strategy
from touchstone.protocol.spec.game import calls
from touchstone.protocol.spec.game.claim_status import get_claim_status
from touchstone.protocol.spec.game.enums import ClaimStatus, ContestTurn, ProofKind, RoundPhase, SeatRole
from touchstone.protocol.spec.game.state import GameRound, StatementRef
from touchstone.protocol.spec.game.timing import get_live_round, get_query_until, get_statement_until, is_over
from touchstone.protocol.spec.statements import VoteWord

FLOOD = 5


def list_decided(play: Play, owner: str = "") -> list[StatementRef]:
    """Returns claims that can be disputed now, of owners whose name starts with `owner`."""
    found = []
    for index, slot in play.claims:
        game_round = play.now.rounds[index]
        if slot not in game_round.claims or not play.claims[index, slot].owner.startswith(owner):
            continue
        status = get_claim_status(play.now, game_round, slot, play.block)
        if status in (ClaimStatus.ACCEPTED, ClaimStatus.VOID):
            found.append(StatementRef(index, slot))
    return found


@dataclass(frozen=True)
class Harasses(Strategy):
    """Disputes right claims or queries right votes, and does nothing more. `what` is `disputes` or `asks`,
    `count` how many at once. `is_last` waits for the last block in which it may."""

    what: str = "disputes"
    count: int = 1
    is_last: bool = False

    def plan(self, play: Play) -> Sends:
        """Attacks the same claim or vote again and again, up to `count` times at once."""
        name = play.list_own(SeatRole.WHISTLEBLOWER)[:1] or [STRANGER]
        if self.what == "disputes":
            refs = [ref for ref in list_decided(play) if not play.get_claim(ref).owner.startswith("foe")]
            refs = refs[:1]
            for ref in refs:
                seat = play.table.state.rounds[ref.round].claims[ref.slot].seat
                is_due = get_statement_until(play.now, ref) - play.block < 5 or not self.is_last
                if is_due and len(play.table.state.disputes) < self.count and seat in play.table.state.seats:
                    yield self._get_sender(play, name[0]), make_dispute(play, ref, seat)
            return
        audits = [(ref, audit) for ref, audit in list_audits(play) if play.words.get(ref) == VoteWord.ACCEPT]
        for ref, audit in audits[: self.count]:
            seat_of = play.get_seat(audit.auditor)
            is_due = (get_query_until(play.now, ref) or 0) - play.block < 5 or not self.is_last
            is_open = any(one.statement == ref for one in play.table.state.queries.values())
            if seat_of is not None and is_due and not is_open:
                yield self._get_sender(play, name[0]), make_ask(play, ref, VoteWord.ACCEPT, seat_of.number)

    def _get_sender(self, play: Play, name: str) -> str:
        return "foe whistleblower 0" if play.agent.foes is self else name


@dataclass(frozen=True)
class Contests(Strategy):
    """Contests right roots, `count` at once. `how` is `silent` after the opening, `leaf` goes down to the
    leaf and leaves it to others, `itself` brings the leaf too."""

    count: int = 1
    how: str = "silent"

    def plan(self, play: Play) -> Sends:
        """Contests the first posted root."""
        state = play.table.state
        posted = [one for one in state.rounds.values() if one.phase == RoundPhase.POSTED]
        if posted and len(state.contests) < self.count and play.block <= posted[0].opened + 60:
            bond = state.terms.amounts.contest_bond * (1 + len(state.contests))
            yield STRANGER, calls.OpenContest(posted[0].index, bond)
        for number, contest in state.contests.items():
            if contest.turn == ContestTurn.CONTESTER and self.how != "silent":
                yield STRANGER, calls.NameChild(number, 0)
                if self.how == "itself":
                    yield STRANGER, calls.BringLeaf(number)


@dataclass(frozen=True)
class IdlesBehindContests(Contests):
    """Commits nothing in every second round, and keeps a contest of a right root open when the round closes.
    A contest once excused all solvers without a commitment (0031)."""

    def plan_claim(self, play: Play, game_round: GameRound, name: str) -> Claim | None:
        """Plans no claim in every second round."""
        return None if game_round.index % 2 else Claim()

    def plan(self, play: Play) -> Sends:
        """Contests the newest posted root while the idle round runs."""
        state = play.table.state
        live = get_live_round(state)
        posted = [index for index, one in state.rounds.items() if one.phase == RoundPhase.POSTED]
        if live is not None and live.index % 2 and posted and not state.contests:
            yield STRANGER, calls.OpenContest(max(posted), state.terms.amounts.contest_bond)


@dataclass(frozen=True)
class MootContests(Forges):
    """Signs a wrong root and contests it twice itself. Once the root has fallen, the second contest is
    moot."""

    def plan(self, play: Play) -> Sends:
        """Opens two contests of its own wrong root."""
        state = play.table.state
        for game_round in state.rounds.values():
            if game_round.root in play.wrong and len(state.contests) < 3:
                bond = state.terms.amounts.contest_bond * (1 + len(state.contests))
                yield STRANGER, calls.OpenContest(game_round.index, bond)


@dataclass(frozen=True)
class Shields(Spoils):
    """Makes a false claim; a friend disputes it, names a right step and answers slowly. With `is_right` the
    friend disputes the right claim before it instead, so that the solver looks acquitted."""

    is_right: bool = False

    def plan(self, play: Play) -> Sends:
        """Lets its own whistleblower dispute its own claim once."""
        refs = [ref for ref in list_decided(play, "own") if play.get_claim(ref).is_false != self.is_right]
        for ref in refs[:1]:
            seat = play.get_seat(play.get_claim(ref).owner)
            if seat is not None and not any(one.statement == ref for one in play.now.disputes.values()):
                yield "own whistleblower 0", make_dispute(play, ref, seat.number)


@dataclass(frozen=True)
class Steals(Strategy):
    """Brings proofs that must fail. `how` is `copied`: somebody else's proof, without a commitment of its
    own; `sealed`: after its commitment has expired; `false`: against a right claim."""

    how: str = "copied"

    def plan(self, play: Play) -> Sends:
        """Proves against the first claim that can be disputed."""
        for ref in list_decided(play)[:1]:
            digest = make_word("proof", self.how)
            if self.how == "false":
                digest = play.table.make_digest(STRANGER, ref, ProofKind.DELTA_LEAF)
            sealed = play.table.state.seals.get((play.table.get_address(STRANGER), digest))
            if self.how != "copied" and sealed is None:
                yield STRANGER, calls.CommitProof(digest)
            late = {"copied": 0, "sealed": play.table.state.bounds.proof_commit_blocks + 1, "false": 1}
            if self.how == "copied" or (sealed is not None and play.block >= sealed + late[self.how]):
                is_valid = self.how != "false"
                yield STRANGER, calls.ConvictSeat(ref, ProofKind.DELTA_LEAF, digest, is_valid=is_valid)


@dataclass(frozen=True)
class ManyAccounts(Strategy):
    """Joins with new accounts. `why` is `push`: each with one wei more than a solver, leaving before the pool
    is frozen; `fill`: in auditor seats, so that freeing an epoch must read them all; `delay`: whenever a task
    is about to end."""

    why: str = "push"

    def plan(self, play: Play) -> Sends:
        """Lets up to five accounts join."""
        amounts, state = play.table.state.terms.amounts, play.table.state
        names = [f"own extra {i}" for i in range(5)]
        is_ending = state.next_round == state.terms.rounds or is_over(play.now, play.block)
        if self.why == "delay" and not is_ending:
            return
        role = SeatRole.SOLVER if self.why == "push" else SeatRole.VERIFIER
        wei = amounts.solver_stake + 1 if self.why == "push" else amounts.auditor_stake
        for name in names:
            seat = play.get_seat(name)
            if seat is None and state.next_round >= 2:
                yield name, calls.JoinSeat(role, wei)
            elif seat is not None and self.why == "push":
                yield name, calls.LeaveSeat(seat.number)
                yield name, calls.PayOut(seat.number)

    def plan_claim(self, play: Play, game_round: GameRound, name: str) -> Claim | None:
        """Plans no claim: none of them trains."""
        return None

    def choose_verdict(self, play: Play, audit: Audit) -> VoteWord | None:
        """Returns None: none of them audits."""
        return None


def _make(
    name: str, play: str, strategy: Strategy, seats: tuple[int, int, int] = (0, 0, 0), **more: object
) -> Agent:
    return Agent(name, play, strategy, seats, **more)  # type: ignore[arg-type]


AGENTS = (
    _make("disputer of right claims", "opens a dispute and says nothing more", Harasses("disputes")),
    _make(
        "flood of disputes",
        "five at once on one honest seat, at one to five bonds",
        Harasses("disputes", FLOOD),
    ),
    _make("flood of queries", "asks five honest votes", Harasses("queries", FLOOD)),
    _make("asker", "asks one honest vote", Harasses("queries")),
    _make("locker of stakes", "disputes in the last block", Harasses("disputes", is_last=True)),
    _make("contester of right roots", "opens a contest and says nothing more", Contests()),
    _make("flood of contests", "five at once, all led to their leaf", Contests(FLOOD, "leaf")),
    _make(
        "idler behind contests",
        "skips every second round while it contests a right root",
        IdlesBehindContests(),
        (1, 0, 0),
    ),
    _make("contester that brings the leaf", "takes back half of its own bond", Contests(1, "itself")),
    _make(
        "contester of its own wrong root",
        "three signers, two contests: one falls, one is moot",
        MootContests(),
        (3, 0, 0),
    ),
    _make(
        "shielded cheat",
        "a friend's slow dispute of the false claim",
        Shields(frozenset(range(SEGMENTS))),
        (1, 0, 1),
    ),
    _make(
        "acquitted cheat",
        "loses a dispute of its right claim, then cheats",
        Shields(frozenset(range(SEGMENTS)), since=2, is_right=True),
        (1, 0, 1),
    ),
    _make("thief of proofs", "sends a proof that it saw in the pool", Steals("copied")),
    _make("hoarder of seals", "seals a digest for ever", Steals("sealed")),
    _make("false proof", "proves a fault that is none", Steals("false")),
    _make("accounts that push out", "fresh accounts with a wei more than each solver", ManyAccounts("push")),
    _make("accounts of auditors", "joins so that an epoch cannot be freed", ManyAccounts("fill")),
    _make("accounts at the end", "joins when the task is over", ManyAccounts("delay")),
)
