"""A task in which each kind of thing happens once: what its parties do besides their duties.

    0  merged; contested, asked about and disputed in vain by a pest; a richer solver comes
    1  a cheat claims falsely and a liar votes falsely: both are convicted, in disputes and by a query
    2  a majority does not sign: the base root stands, accepted work is paid
    3  the same majority posts a wrong root: it falls in a contest, its signers are convicted
    4  undone
    5  started anew
    7  who waited for a place sits again; a verifier signs two votes of one draw
    .. a solver that never commits leaves; the submitter halts

Upkeep is sent by whose turn it is (`upkeep_turns.py`). Nobody is needed for it.
"""

from collections.abc import Iterator
from copy import copy
from dataclasses import dataclass, field, replace

from tests.protocol.spec.game.payday import Bookkeeper
from tests.protocol.spec.game.simulation import (
    KEEPER,
    START_BLOCK,
    SUBMITTER,
    Simulation,
    list_other_duties,
    list_vote,
    make_terms,
    make_word,
)
from touchstone.protocol.spec.game import calls
from touchstone.protocol.spec.game.assignments import get_drawn_seat, list_draws
from touchstone.protocol.spec.game.calls import GameCall
from touchstone.protocol.spec.game.claim_status import (
    get_claim_status,
    get_votes,
    is_draw_over,
    is_taking_unserved,
    list_mergeable,
)
from touchstone.protocol.spec.game.drawn_audits import list_heard
from touchstone.protocol.spec.game.enums import (
    OPENED_WORDS,
    GameOutcome,
    ProofKind,
    RoundPhase,
    SeatRole,
    SeatStatus,
)
from touchstone.protocol.spec.game.events import GameEvent
from touchstone.protocol.spec.game.open_questions import count_open_disputes, count_open_queries
from touchstone.protocol.spec.game.pools import find_seat
from touchstone.protocol.spec.game.presets import BOUNDS_LOCAL
from touchstone.protocol.spec.game.root_posting import get_waiting_round
from touchstone.protocol.spec.game.state import (
    GameRound,
    GameState,
    RunningDispute,
    StatementRef,
    create_game,
)
from touchstone.protocol.spec.game.upkeep import list_upkeep
from touchstone.protocol.spec.game.upkeep_turns import find_turn
from touchstone.protocol.spec.statements import VoteWord

CHEAT, LIAR, DOUBLE, PEST, RICH, SLEEPER = "cheat", "liar", "double", "pest", "rich", "sleeper"
FORGERS = ("forger0", "forger1", "forger2")
SOLVERS = (CHEAT, *FORGERS, "solver0", "solver1")
VERIFIERS = (LIAR, DOUBLE, *(f"verifier{i}" for i in range(6)))
WHISTLES = tuple(f"whistle{i}" for i in range(4))
OUTSIDERS = (SUBMITTER, KEEPER, PEST)
PARTIES = (*SOLVERS, RICH, SLEEPER, *VERIFIERS, *WHISTLES, *OUTSIDERS)
WRONGDOERS = frozenset({CHEAT, LIAR, DOUBLE, PEST, SLEEPER, *FORGERS})
HONEST = tuple(party for party in PARTIES if party not in WRONGDOERS)
WATCHERS = ("solver0", "solver1", RICH, *WHISTLES)
"""Who contests a wrong root, one after the other."""
FALSE_ROUND, REFUSED_ROUND, FORGED_ROUND, DOUBLE_ROUND, LAST_ROUND = 1, 2, 3, 7, 10

Act = tuple[object, ...]
"""What names an act: what it is and what it is about, so that one act alone can be left out."""


def name_act(world: Simulation, call: GameCall) -> Act:
    """Of a vote that is handed in: the vote. Its opening is an act by itself (`name_opening`)."""
    if isinstance(call, calls.JudgeVotes):
        ((slot, draw, rank),) = {(one.slot, one.draw, one.rank) for one in (call.votes or call.openings)}
        return ("vote" if call.votes else "open", call.round, slot, draw, rank)
    if isinstance(call, calls.StartRounds | calls.DrawStart):
        return type(call).__name__, world.state.next_round
    names = ("round", "contest", "query", "dispute", "seat", "statement", "until_round", "role", "digest")
    contest = world.state.contests.get(getattr(call, "contest", -1))
    level = [] if contest is None else [contest.level]
    return (type(call).__name__, *(getattr(call, name) for name in names if hasattr(call, name)), *level)


@dataclass
class FaultySimulation(Simulation):
    """left_out: acts that their party never does; done: acts by party; books: checks each settlement."""

    left_out: set[tuple[str, Act]] = field(default_factory=set)
    done: list[tuple[str, Act]] = field(default_factory=list)
    books: Bookkeeper = field(default_factory=Bookkeeper)

    def fork(self) -> "FaultySimulation":
        """The same world, to go on another way."""
        other = copy(self)
        for name, value in vars(self).items():
            if isinstance(value, dict | list | set):
                setattr(other, name, copy(value))
        other.books = replace(self.books, settled=dict(self.books.settled))
        return other

    def _note(self, event: GameEvent) -> None:
        self.books.watch(self, event)
        super()._note(event)

    def is_doing(self, party: str, *act: object) -> bool:
        """Whether a party does a thing that is no call: sign, serve, defend itself."""
        return not self.is_silent(party) and (party, act) not in self.left_out

    def is_served(self, account: str, index: int) -> bool:
        return self.is_doing(account, "serve", index)

    def is_signing(self, account: str, index: int) -> bool:
        refused = (REFUSED_ROUND, FORGED_ROUND) if account in FORGERS else ()
        return index not in refused and account != SLEEPER and self.is_doing(account, "sign", index)

    def choose_word(self, key: tuple[int, int, int, int], account: str) -> VoteWord:
        """The liar says the contrary of what it sees, for one round."""
        true = super().choose_word(key, account)
        if account != LIAR or key[0] != FALSE_ROUND or key[2] == self.state.terms.draws:
            return true
        return VoteWord.REJECT_STATE if true == VoteWord.ACCEPT else VoteWord.ACCEPT

    def _play_pass(self) -> bool:
        before = len(self.acts)
        for sender, call in list(self.list_duties()):
            self._play_call(sender, call)
        return len(self.acts) > before

    def _play_call(self, sender: str, call: GameCall) -> None:
        state, act = self.state, name_act(self, call)
        if self.try_send(call, sender) is None and self.state is not state:
            self.acts.append((self.block, sender, call))
            self.done.append((sender, act))

    # What is due
    def list_duties(self) -> Iterator[tuple[str, GameCall]]:
        for sender, call in self._list_all():
            left = self._leave_out(sender, call)
            if left is not None and not self.is_silent(sender):
                yield sender, left

    def _list_all(self) -> Iterator[tuple[str, GameCall]]:
        now = self.get_now()
        yield from list_plans(self, now)
        yield from self._list_votes(now)
        for seat in list(now.seats.values()):
            if seat.account != SLEEPER:
                yield from list_other_duties(self, now, seat)
        for call in list_upkeep(self.state, self.block):
            yield from ((party, self.seal(call)) for party in PARTIES if self._has_turn(now, party, call))

    def _list_votes(self, now: GameState) -> Iterator[tuple[str, GameCall]]:
        """As `list_votes` of each seat, in one walk over the draws."""
        for index in list_heard(now, self.block - 3 * now.terms.windows.audit_max):
            game_round = now.rounds[index]
            places = () if game_round.phase == RoundPhase.UNDONE else list_draws(now, game_round)
            for slot, draw, rank in ((*place, rank) for place in places for rank in range(3)):
                if not self._is_vote_open(now, game_round, slot, draw, rank):
                    continue
                seat = now.seats.get(get_drawn_seat(now, game_round, slot, draw, rank) or 0)
                if seat is not None and seat.settled <= index:
                    yield from list_vote(self, now, (index, slot, draw, rank), seat.account)

    def _is_vote_open(self, now: GameState, game_round: GameRound, slot: int, draw: int, rank: int) -> bool:
        """Whether something may still come of a rank: a vote, or its opening."""
        vote = get_votes(game_round, slot, draw).get(rank)
        if vote is not None:
            return vote.word in OPENED_WORDS and not vote.is_opened
        is_over = is_draw_over(now, game_round, slot, draw, self.block)
        return not is_over or is_taking_unserved(now, game_round, slot, draw, self.block)

    def _has_turn(self, now: GameState, party: str, call: GameCall) -> bool:
        return find_turn(now, party, call, self.block) == self.block

    def _leave_out(self, sender: str, call: GameCall) -> GameCall | None:
        """The call without what its sender leaves out; None where nothing is left."""
        if not self.left_out:
            return call
        if isinstance(call, calls.JudgeVotes):
            votes, openings = call.votes, call.openings
            if any((sender, ("vote", call.round, o.slot, o.draw, o.rank)) in self.left_out for o in votes):
                votes, openings = (), ()
            if any((sender, ("open", call.round, o.slot, o.draw, o.rank)) in self.left_out for o in openings):
                openings = ()
            call = calls.JudgeVotes(call.round, votes, openings)
            return call if call.votes or call.openings else None
        return None if (sender, name_act(self, call)) in self.left_out else call

    def list_wakes(self) -> Iterator[int]:
        yield from super().list_wakes()
        if list_upkeep(self.state, self.block):
            yield self.block + 1
        respond = self.state.terms.windows.respond
        yield from (one.clock - 5 * respond + 1 for one in self.state.disputes.values())


def make_faulty(salt: int = 0) -> FaultySimulation:
    """The task before its first block, all members seated."""
    terms = make_terms(rounds=12, solver_seats=6, late_chance=1 << 16, domain=make_word("domain", salt))
    world = FaultySimulation(create_game(terms, BOUNDS_LOCAL, START_BLOCK))
    world.false_claims = {(CHEAT, FALSE_ROUND)}
    for role, members in zip(SeatRole, (SOLVERS, VERIFIERS, WHISTLES), strict=True):
        amounts = terms.amounts
        stake = amounts.solver_stake if role == SeatRole.SOLVER else amounts.auditor_stake
        for member in members:
            world.send(calls.JoinSeat(role, stake), member)
    return world


# What parties do besides their duties
def list_plans(world: FaultySimulation, now: GameState) -> Iterator[tuple[str, GameCall]]:
    """Each once, but for moves of what is open."""
    done = set(world.done)
    kinds = (_list_members, _list_pest, _list_accusations, _list_proofs, _list_forging, list_contests)
    for sender, call in (one for kind in kinds for one in kind(world, now)):
        if (sender, name_act(world, call)) not in done:
            yield sender, call
    yield from _list_ends(world, now)


def _list_members(world: FaultySimulation, now: GameState) -> Iterator[tuple[str, GameCall]]:
    """Who comes, who goes, who stakes more, and the submitter that has enough."""
    if now.rounds and now.next_round == 1:
        yield RICH, calls.JoinSeat(SeatRole.SOLVER, 2_500)
        if leaving := find_seat(now, "verifier5"):
            yield "verifier5", calls.LeaveSeat(leaving.number)
    seat = find_seat(now, "solver1")
    if now.next_round >= DOUBLE_ROUND:
        yield SLEEPER, calls.JoinSeat(SeatRole.SOLVER, 2_000)
        if seat is not None and seat.status == SeatStatus.ACTIVE:
            yield "solver1", calls.TopUp(seat.number, 10)
    if now.next_round > LAST_ROUND:
        yield SUBMITTER, calls.HaltTask()


def _list_pest(world: FaultySimulation, now: GameState) -> Iterator[tuple[str, GameCall]]:
    """Questions about honest work of round 0, a contest of its root to the leaf, and one that it gives up."""
    game_round, amounts = now.rounds.get(0), now.terms.amounts
    if game_round is not None and game_round.phase == RoundPhase.POSTED and now.next_round == 2:
        slot = game_round.merged[-1]
        ref = StatementRef(0, slot, 0, 0)
        yield PEST, calls.OpenContest(0, amounts.contest_bond * (1 + len(now.contests)))
        seat = get_drawn_seat(now, game_round, slot, 0, 0) or 0
        for one in (StatementRef(0, slot), ref):
            accused = game_round.claims[slot].seat if one.draw is None else seat
            yield PEST, calls.DisputeStatement(one, _dispute_bond(now, accused))
        yield PEST, calls.QueryVote(ref, VoteWord.ACCEPT, 0, amounts.query_bond)
    last = now.rounds.get(DOUBLE_ROUND)
    if last is not None and last.phase == RoundPhase.POSTED:
        yield PEST, calls.OpenContest(DOUBLE_ROUND, amounts.contest_bond * (1 + len(now.contests)))
    for number, contest in now.contests.items():
        is_played = contest.contester == PEST and contest.round == 0
        if is_played and contest.turn.name == "CONTESTER":
            yield PEST, calls.NameChild(number, 5)


def _dispute_bond(now: GameState, number: int) -> int:
    return now.terms.amounts.dispute_bond * (1 + count_open_disputes(now, number))


def list_false(world: FaultySimulation, now: GameState, index: int) -> Iterator[StatementRef]:
    """False statements of a round that can be disputed now."""
    game_round = now.rounds.get(index)
    if game_round is None:
        return
    for slot, draw in list_draws(now, game_round):
        status = get_claim_status(now, game_round, slot, world.block).name
        refs = (StatementRef(index, slot, draw, rank) for rank in get_votes(game_round, slot, draw))
        for ref in (*refs, StatementRef(index, slot)):
            if status in ("ACCEPTED", "VOID") and world.is_statement_false(ref):
                yield ref


def _get_accused(now: GameState, ref: StatementRef) -> int:
    game_round = now.rounds[ref.round]
    if ref.draw is None:
        return game_round.claims[ref.slot].seat
    return get_drawn_seat(now, game_round, ref.slot, ref.draw, ref.rank) or 0


def _list_accusations(world: FaultySimulation, now: GameState) -> Iterator[tuple[str, GameCall]]:
    """One whistleblower disputes the false claim, one a false ACCEPT; a claimant asks about a false REJECT
    and disputes it too."""
    for ref in list_false(world, now, FALSE_ROUND):
        number = _get_accused(now, ref)
        is_rejected = ref.draw is not None and (world.claimants[ref.round, ref.slot] != CHEAT)
        opener = "whistle0" if ref.draw is None else "whistle1"
        claimant = world.claimants[ref.round, ref.slot]
        yield claimant if is_rejected else opener, calls.DisputeStatement(ref, _dispute_bond(now, number))
        if is_rejected:
            bond = now.terms.amounts.query_bond * (1 + count_open_queries(now, number))
            yield claimant, calls.QueryVote(ref, VoteWord.REJECT_STATE, 0, bond)


def _list_proofs(world: FaultySimulation, now: GameState) -> Iterator[tuple[str, GameCall]]:
    """One verifier signs two votes of a draw: a whistleblower proves it in one call."""
    game_round, digest = now.rounds.get(DOUBLE_ROUND), make_word("digest")
    if game_round is None:
        return
    for slot, draw in list_draws(now, game_round):
        for rank in get_votes(game_round, slot, draw):
            ref = StatementRef(DOUBLE_ROUND, slot, draw, rank)
            if draw != now.terms.draws and world.accounts[_get_accused(now, ref)] == DOUBLE:
                yield "whistle2", calls.CommitProof(digest)
                yield "whistle2", calls.ConvictSeat(ref, ProofKind.TWO_STATEMENTS, digest)
                return


def _list_forging(world: FaultySimulation, now: GameState) -> Iterator[tuple[str, GameCall]]:
    """Enough forgers post a root of their own, and answer for it."""
    waiting = get_waiting_round(now)
    if waiting is not None and waiting.index == FORGED_ROUND and waiting.fallen is None:
        awake = [party for party in FORGERS if world.is_doing(party, "sign", FORGED_ROUND)]
        signers = tuple(n for n in waiting.pool.solvers if now.seats[n].account in awake)
        merged = list_mergeable(now, waiting, world.block)
        for party in awake:
            yield party, calls.PostRoot(FORGED_ROUND, merged, make_word("forged"), signers)
    for number, contest in now.contests.items():
        if contest.round == FORGED_ROUND and not world.is_right(FORGED_ROUND):
            yield from ((party, calls.AnswerContest(number)) for party in FORGERS)


def list_contests(world: FaultySimulation, now: GameState) -> Iterator[tuple[str, GameCall]]:
    """A wrong root is contested by one after the other, until it falls."""
    for index, game_round in now.rounds.items():
        is_open = any(one.round == index for one in now.contests.values())
        if game_round.phase == RoundPhase.POSTED and not is_open and not world.is_right(index):
            bond = now.terms.amounts.contest_bond * (1 + len(now.contests))
            yield from ((party, calls.OpenContest(index, bond)) for party in WATCHERS)
    for number, contest in now.contests.items():
        if contest.contester in WATCHERS and contest.turn.name == "CONTESTER":
            yield contest.contester, calls.NameChild(number, 1)


def _list_ends(world: FaultySimulation, now: GameState) -> Iterator[tuple[str, GameCall]]:
    """Who opened a dispute ends it once its claimant cannot defend itself, or does not."""
    for number, dispute in now.disputes.items():
        account = world.accounts[dispute.seat]
        is_late = not world.is_doing(account, "defend", number) and _has_waited(now, dispute, world.block)
        if is_late or world.is_statement_false(dispute.statement):
            yield dispute.opener, calls.EndDispute(number, outcome=GameOutcome.CONVICTED)


def _has_waited(now: GameState, dispute: RunningDispute, block: int) -> bool:
    return block > dispute.clock - 5 * now.terms.windows.respond
