"""Plays what each party does in a block: honest ones follow the protocol, agents their strategy.

Honest whistleblowers also query at random, as nodes do (`node/kit/known_statements.py`): together they ask
one in SPOT_QUERIES opened ACCEPTs for a leaf of its end, although nothing speaks against it. `play_task`
goes on until nothing is left to do.
"""

from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from itertools import count

from lab.benchmarks.economy import pursuing
from lab.benchmarks.economy.parameters import FIGURES, SEGMENTS, make_word
from lab.benchmarks.economy.play import KEEPER, Play, SpotChecks
from lab.benchmarks.economy.pursuing import make_ask
from lab.benchmarks.economy.strategy import Agent, AnyTable, Audit, Claim
from touchstone.node.kit.known_statements import count_askers
from touchstone.protocol.spec.audit_draws import RANKS
from touchstone.protocol.spec.game import calls
from touchstone.protocol.spec.game.assignments import list_draws
from touchstone.protocol.spec.game.calls import GameCall, HandedOpening, SignedVote
from touchstone.protocol.spec.game.claim_status import get_votes, has_undecided, is_unserved, list_mergeable
from touchstone.protocol.spec.game.enums import OPENED_WORDS, RoundPhase, SeatRole, SeatStatus
from touchstone.protocol.spec.game.next_block import get_next_block
from touchstone.protocol.spec.game.root_posting import get_post_window, get_waiting_round
from touchstone.protocol.spec.game.state import GameRound, StatementRef
from touchstone.protocol.spec.game.timing import (
    compute_reserve_block,
    get_live_round,
    get_votes_from,
    is_late_draw,
)
from touchstone.protocol.spec.game.upkeep import list_upkeep
from touchstone.protocol.spec.game.vote_judging import get_opening_flaw, get_vote_flaw
from touchstone.protocol.spec.params import SPOT_QUERIES
from touchstone.protocol.spec.statements import COMPARED, VoteWord


def list_asks(play: Play) -> Iterator[tuple[str, GameCall]]:
    """Yields queries about votes that were opened since the last look, one at a time, because the price
    depends on the queries that are open by then."""
    for ref in [ref for ref, word in play.words.items() if word == VoteWord.ACCEPT]:
        if ref in play.spot_checks.passed or not _is_opened(play, ref):
            continue
        play.spot_checks.passed.add(ref)
        audit = play.get_audit(ref)
        assert audit is not None
        seat = play.get_seat(audit.auditor)
        asker = _find_asker(play, audit)
        if asker is not None and seat is not None and seat.status != SeatStatus.CONVICTED:
            yield asker, make_ask(play, ref, VoteWord.ACCEPT, seat.number)
            return


def _is_opened(play: Play, ref: StatementRef) -> bool:
    counted = get_votes(play.table.state.rounds[ref.round], ref.slot, ref.draw or 0).get(ref.rank)
    return counted is not None and counted.is_opened


def _find_asker(play: Play, audit: Audit) -> str | None:
    """Returns the auditor that queries this vote, or None."""
    if play.get_strategy(audit.auditor).is_end_shared(play, audit):
        return None
    names = play.list_honest(SeatRole.WHISTLEBLOWER) or play.list_honest(SeatRole.VERIFIER)
    names = [name for name in names if name != audit.auditor]
    if play.spot_checks.only is not None and audit.auditor.startswith("own"):
        play.spot_checks.own += 1
        return names[0] if names and play.spot_checks.own == play.spot_checks.only else None
    return next((name for name in names if _is_hit(play, name, audit.ref)), None)


def _is_hit(play: Play, name: str, ref: StatementRef) -> bool:
    """Returns whether the party's dice pick this vote. A party without a share in the queries never
    queries."""
    askers = count_askers(play.table.state, play.table.get_address(name))
    thrown = make_word("dice", play.spot_checks.seed, name, ref)
    return askers > 0 and int.from_bytes(thrown[:8]) % (SPOT_QUERIES * askers) == 0


def compute_chance(askers: int, honest: int) -> Fraction:
    """Returns the chance that one of the honest parties queries an opened ACCEPT."""
    return 1 - (1 - Fraction(1, SPOT_QUERIES * askers)) ** honest


def list_chances(chance: Fraction, votes: int) -> list[Fraction]:
    """Returns the chances that none of `votes` votes is queried, that the first is, that the second is the
    first one, and so on."""
    return [(1 - chance) ** votes, *(chance * (1 - chance) ** n for n in range(votes))]


Sends = Iterator[tuple[str, GameCall]]
PASSES_MAX = 600
"""The passes after which a play counts as endless; no play takes as many."""


def play_task(agent: Agent, table: AnyTable, spot_checks: SpotChecks | None = None) -> Play:
    """Plays a task from the first seat to the last payout."""
    play = Play(agent, table, spot_checks=spot_checks or SpotChecks())
    play.seat_all()
    for _ in count():
        while _play_pass(play):
            play.passes += 1
            assert play.passes < PASSES_MAX, ("a play without end", play.block, play.last[-3:])
        later = [get_next_block(table.state, table.block), *_list_wakes(play)]
        blocks = [block for block in later if block is not None and block > table.block]
        if table.state.is_closed or not blocks:
            return play
        table.go_to(min(blocks))
    raise AssertionError


def _play_pass(play: Play) -> bool:
    """Performs all duties of one block, and returns whether anything was done. Each call that an agent
    invents is sent once."""
    passed = 0
    for list_duties in (_list_commits, _list_votes, _list_posts, pursuing.list_duties, list_asks):
        passed += sum(play.send(call, name) is None for name, call in list(list_duties(play)))
    for strategy in {play.agent.strategy, play.agent.foes}:
        passed += sum([play.send_once(call, name) for name, call in strategy.plan(play)])
    passed += sum(play.send(call, KEEPER) is None for call in list_upkeep(play.table.state, play.block))
    return passed > 0


def _list_wakes(play: Play) -> Iterator[int]:
    live = get_live_round(play.table.state)
    if live is not None and live.closed is None and live.trained_from is not None:
        names = {play.get_name(number) for number in live.pool.solvers}
        yield from (play.get_strategy(name).get_commit_block(play, live, name) for name in names)
    yield from (one.clock for one in play.table.state.disputes.values())
    yield from (one.clock for one in play.table.state.queries.values())
    windows = play.table.state.terms.windows
    waits = (60, windows.dispute, 2 * windows.audit_max + windows.query)
    closes = [one.closed for one in play.table.state.rounds.values() if one.closed is not None]
    yield from (close + wait for close in closes for wait in waits)


# Committing
def _list_commits(play: Play) -> Sends:
    live = get_live_round(play.now)
    if live is None or live.closed is not None or live.beacon is None or live.trained_from is None:
        return
    for slot, number in enumerate(live.pool.solvers):
        name, seat = play.get_name(number), play.table.state.seats[number]
        strategy = play.get_strategy(name)
        is_due = play.block >= strategy.get_commit_block(play, live, name) and play.is_up(name)
        is_blind = play.is_honest(name) and not play.is_base_right(live)
        if slot in live.claims or seat.status == SeatStatus.CONVICTED or not is_due or is_blind:
            continue
        claim = strategy.plan_claim(play, live, name)
        if claim is not None:
            yield name, make_commit(play, live, slot, replace(claim, owner=name))


def make_commit(play: Play, live: GameRound, slot: int, claim: Claim) -> calls.CommitRound:
    """Returns the commitment of a claim, and charges what it cost to compute."""
    play.claims[live.index, slot] = claim
    computed = claim.segments - len(claim.spoiled)
    play.spent[claim.owner] += FIGURES.cost * computed // SEGMENTS
    root = play.table.make_claim_root(live.index, claim)
    return calls.CommitRound(live.index, live.base_root, live.beacon or b"", root, claim.segments)


# Auditing
def _list_votes(play: Play) -> Sends:
    """Yields the votes that the keeper hands in: primaries first, then reserves, an agent's before
    others'."""
    now = play.now
    for game_round in now.rounds.values():
        is_over = game_round.closed is None or play.block > game_round.closed + 200
        if game_round.phase == RoundPhase.UNDONE or is_over:
            continue
        votes, openings = list[SignedVote](), list[HandedOpening]()
        for slot, draw in list_draws(now, game_round):
            ready = list(_list_ready(play, game_round, slot, draw))
            votes += ready
            openings += [one for vote in ready for one in _open_at_once(play, game_round, vote)]
            openings += _list_openings(play, game_round, slot, draw)
        if votes or openings:
            yield KEEPER, calls.JudgeVotes(game_round.index, tuple(votes), tuple(openings))


def _list_ready(play: Play, game_round: GameRound, slot: int, draw: int) -> Iterator[SignedVote]:
    counted = get_votes(game_round, slot, draw)
    start = get_votes_from(play.table.state, game_round, draw) or 0
    is_late = play.block >= compute_reserve_block(play.table.state, start)
    if 0 in counted and counted[0].word == VoteWord.ACCEPT:
        return
    reserves = [StatementRef(game_round.index, slot, draw, rank) for rank in (1, 2)]
    reserves.sort(key=lambda ref: not _is_own(play, ref))
    first = [StatementRef(game_round.index, slot, draw)]
    for ref in first * (0 not in counted) + reserves * (0 in counted or is_late):
        if ref.rank not in counted and not is_unserved(counted):
            yield from _list_vote(play, game_round, ref)


def _is_own(play: Play, ref: StatementRef) -> bool:
    audit = play.get_audit(ref)
    return audit is not None and audit.auditor.startswith("own")


def _list_vote(play: Play, game_round: GameRound, ref: StatementRef) -> Iterator[SignedVote]:
    audit, state = play.get_audit(ref), play.table.state
    if audit is None or not play.is_up(audit.auditor):
        return
    seed = game_round.late_seed if is_late_draw(state, ref.draw or 0) else game_round.seed
    place = (ref.slot, ref.draw or 0, ref.rank)
    root = game_round.claims[ref.slot].claim_root
    account = play.table.get_address(audit.auditor)
    vote = SignedVote(*place, root, seed or b"", audit.segment, VoteWord.ABSTAIN, account)
    unserved = replace(vote, word=VoteWord.UNSERVED)
    if all(get_vote_flaw(state, game_round, one, play.block) for one in (vote, unserved)):
        return
    if ref not in play.words:
        play.words[ref] = play.get_strategy(audit.auditor).choose_verdict(play, audit)
        play.note(audit.auditor, "says", audit, play.words[ref])
        is_claiming = play.words[ref] in COMPARED and not play.is_honest(audit.auditor)
        if play.get_strategy(audit.auditor).is_detouring(play, audit):
            play.price_detour(audit)
        if is_claiming and play.words[ref] != play.find_truth(audit):
            play.lies.append(ref)
    word = play.words[ref]
    said = replace(vote, word=word or VoteWord.ABSTAIN)
    if word is not None and get_vote_flaw(state, game_round, said, play.block) is None:
        play.price_vote(audit.auditor)
        yield said


def _open_at_once(play: Play, game_round: GameRound, vote: SignedVote) -> Iterator[HandedOpening]:
    """Yields the opening of a primary's ACCEPT for the same call, because that vote decides its draw."""
    audit = play.get_audit(StatementRef(game_round.index, vote.slot, vote.draw, vote.rank))
    is_deciding = vote.rank == 0 and vote.word == VoteWord.ACCEPT
    if audit is not None and is_deciding and play.get_strategy(audit.auditor).is_opening(play, audit):
        play.note(audit.auditor, "opens", audit)
        yield HandedOpening(vote.slot, vote.draw, vote.rank)


def _list_openings(play: Play, game_round: GameRound, slot: int, draw: int) -> Iterator[HandedOpening]:
    """Yields openings that would be paid now: in the call that decides the draw, or later."""
    for rank in range(RANKS):
        opening = HandedOpening(slot, draw, rank)
        counted = get_votes(game_round, slot, draw).get(rank)
        if counted is None or counted.is_opened or counted.word not in OPENED_WORDS:
            continue
        if get_opening_flaw(play.table.state, game_round, opening, play.block) is None:
            audit = play.get_audit(StatementRef(game_round.index, slot, draw, rank))
            assert audit is not None
            if play.is_up(audit.auditor) and play.get_strategy(audit.auditor).is_opening(play, audit):
                play.note(audit.auditor, "opens", audit)
                yield opening


# Posting
def _list_posts(play: Play) -> Sends:
    """Yields posts of roots. All that would sign the same root post it together; the largest group goes
    first."""
    waiting = get_waiting_round(play.now)
    if waiting is None:
        return
    merged = list_mergeable(play.now, waiting, play.block)
    first, last = get_post_window(play.now, waiting, play.block)
    if not merged or has_undecided(play.now, waiting, play.block) or not first <= play.block <= last:
        return
    parties: dict[tuple[tuple[int, ...], bool], list[int]] = {}
    for number in waiting.pool.solvers:
        name = play.get_name(number)
        strategy = play.get_strategy(name)
        if not play.is_up(name) or (play.is_honest(name) and not play.is_base_right(waiting)):
            continue
        chosen, is_wrong = (
            strategy.choose_merge(play, waiting, merged),
            strategy.is_forging(play, waiting, name),
        )
        play.note(name, "signs", waiting.index, chosen, is_wrong)
        if chosen:
            parties.setdefault((chosen, is_wrong), []).append(number)
    for (chosen, is_wrong), signers in sorted(parties.items(), key=lambda item: -len(item[1])):
        root = play.table.make_root(waiting.index, chosen, is_wrong)
        if is_wrong:
            play.wrong.add(root)
        yield play.get_name(signers[0]), calls.PostRoot(waiting.index, chosen, root, tuple(signers))
        return
