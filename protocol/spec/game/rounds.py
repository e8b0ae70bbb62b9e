"""A round's life: START, OPEN, COMMIT, the close, the seals, then JUDGE and POST.

JUDGE and POST: which votes count, which root stands, and what stands without one. A vote that does not count
is skipped, never refused: who hands in one vote of a batch first must not make the batch fail.

A root needs those who merged it: more than half of the round's solver seats that are not convicted (findings,
C1).
"""

from collections.abc import Callable

from touchstone.protocol.spec.game.assignments import get_drawn_seat, get_drawn_segment
from touchstone.protocol.spec.game.calls import (
    CommitRound,
    HaltTask,
    HandedOpening,
    JudgeVotes,
    LetStand,
    PostRoot,
    SealAudits,
    SealClosing,
    SealRound,
    SealStart,
    SignedVote,
    StartRounds,
)
from touchstone.protocol.spec.game.claim_status import (
    get_votes,
    has_undecided,
    is_draw_over,
    is_taking_unserved,
    list_mergeable,
)
from touchstone.protocol.spec.game.draft import Draft
from touchstone.protocol.spec.game.enums import OPENED_WORDS, RoundPhase, SeatStatus
from touchstone.protocol.spec.game.epochs import has_place
from touchstone.protocol.spec.game.events import (
    AuditsDrawn,
    ClaimTaken,
    ClosingDrawn,
    RootPosted,
    RootStood,
    RoundClosed,
    RoundDealt,
    RoundOpened,
    StartAsked,
    StartSealed,
    TaskHalted,
    TaskStood,
    VoteCounted,
    VoteOpened,
)
from touchstone.protocol.spec.game.pools import find_seat, freeze_pool, is_enough, list_unclosed
from touchstone.protocol.spec.game.rule_refusals import require, require_window
from touchstone.protocol.spec.game.state import GameRound, GameState
from touchstone.protocol.spec.game.terms import compute_least_segments
from touchstone.protocol.spec.game.timing import (
    compute_closing_block,
    compute_draw_window,
    compute_reserve_block,
    get_closing_from,
    get_live_round,
    get_votes_from,
    is_late_draw,
    is_start_alive,
)
from touchstone.protocol.spec.round_seeds import compute_grid_block
from touchstone.protocol.spec.statements import VoteWord


# --- Until the draw -----------------------------------------------------------------------------------------
def sync(draft: Draft) -> None:
    """Before every call: a round whose closing block is past is closed, and the pool after next is frozen as
    it was then. So nothing that a later block changes can get into that pool."""
    game_round = get_live_round(draft.state)
    if game_round is None or game_round.closed is not None:
        return
    closing = compute_closing_block(draft.state, game_round)
    if closing < draft.block:
        draft.emit(RoundClosed(game_round.index, closing))


def get_round(state: GameState, index: int) -> GameRound:
    """An opened round. Refuses RoundUnknown."""
    require(index in state.rounds, "RoundUnknown", actual=index)
    return state.rounds[index]


# --- Starting -----------------------------------------------------------------------------------------------
def get_start_flaw(state: GameState, block: int) -> str | None:
    """Why rounds cannot be started at `block`, None where they can."""
    flaws: dict[str, Callable[[], bool]] = {
        "TaskHalted": lambda: state.is_halted,
        "TaskOver": lambda: state.next_round >= state.terms.rounds,
        "NotStanding": lambda: get_live_round(state) is not None,
        "StartPending": lambda: is_start_alive(state, block),
        "RingFull": lambda: not has_place(state, state.next_round),
        "PoolTooSmall": lambda: not is_enough(state, freeze_pool(state)),
    }
    return next((name for name, is_there in flaws.items() if is_there()), None)


def apply_start(draft: Draft, call: StartRounds, sender: str) -> None:
    """Freezes the pools of the next two rounds, or of one where no second follows, and asks for a beacon."""
    flaw = get_start_flaw(draft.state, draft.block)
    require(flaw is None, flaw or "")
    windows = draft.state.terms.windows
    beacon_block = compute_grid_block(draft.block + windows.delay, windows.draw_grid)
    draft.emit(StartAsked(draft.state.next_round, beacon_block))


def apply_seal_start(draft: Draft, call: SealStart, sender: str) -> None:
    """Deals the frozen rounds and opens the first."""
    start = draft.state.start
    require(start is not None, "NothingToSeal")
    assert start is not None
    require(not draft.state.is_halted, "TaskHalted")
    require_window(start.beacon_block + 1, start.beacon_block + draft.state.limits.seal_blocks, draft.block)
    require(is_enough(draft.state, draft.state.pools[start.first_round]), "PoolTooSmall")
    draft.emit(StartSealed(call.randomness))
    draft.emit(RoundOpened(start.first_round, draft.state.root))


def open_next(draft: Draft) -> None:
    """After a round got its root: the next one opens, or the task stands still until it is started."""
    state = draft.state
    pool = state.pools.get(state.next_round)
    if pool is not None and not state.is_halted and is_enough(state, pool):
        draft.emit(RoundOpened(state.next_round, state.root))
    else:
        draft.emit(TaskStood())


SHARES = "shares"
"""The account under which the machine knows the contract that halts a task for the majority of its shares."""


def apply_halt(draft: Draft, call: HaltTask, sender: str) -> None:
    """The submitter, or the majority of the shares, wants no later round."""
    may_halt = sender in (draft.state.terms.submitter, SHARES)
    require(may_halt, "NotSubmitter", draft.state.terms.submitter, sender)
    require(not draft.state.is_halted, "TaskHalted")
    draft.emit(TaskHalted())


# --- Committing ---------------------------------------------------------------------------------------------
def apply_commit(draft: Draft, call: CommitRound, sender: str) -> None:
    """One claim a seat and round, on the chain's root and beacon, up to and with the closing block."""
    game_round, seat = get_round(draft.state, call.round), find_seat(draft.state, sender)
    require(game_round.phase == RoundPhase.RUNNING, "RoundUndone", actual=call.round)
    require(game_round.beacon is not None, "WrongBeacon", "a sealed beacon", "none yet")
    require_window(game_round.opened, compute_closing_block(draft.state, game_round), draft.block)
    is_in_pool = seat is not None and seat.number in game_round.pool.solvers
    require(is_in_pool, "NotCommitter", actual=sender)
    assert seat is not None
    require(seat.status != SeatStatus.CLOSED, "SeatClosed", actual=seat.number)
    slot = game_round.pool.solvers.index(seat.number)
    require(slot not in game_round.claims, "AlreadyCommitted", actual=slot)
    require(call.base_root == game_round.base_root, "WrongBase", game_round.base_root, call.base_root)
    require(call.beacon == game_round.beacon, "WrongBeacon", game_round.beacon, call.beacon)
    count, least = draft.state.terms.segment_count, compute_least_segments(draft.state.terms)
    require(least <= call.segments <= count, "WrongSegments", f"{least} to {count}", call.segments)
    draft.emit(ClaimTaken(call.round, slot, call.claim_root, call.segments))


# --- Sealing ------------------------------------------------------------------------------------------------
def get_seal_round_window(state: GameState, game_round: GameRound) -> tuple[int, int] | None:
    """When the beacon of a round that was not dealt can be sealed; None where it has one or is over."""
    if game_round.beacon is not None or game_round.beacon_block is None:
        return None
    if game_round.phase != RoundPhase.RUNNING:
        return None
    return game_round.beacon_block + 1, game_round.beacon_block + state.limits.seal_blocks


def apply_seal_round(draft: Draft, call: SealRound, sender: str) -> None:
    """Training begins: train_min and train_max count from here."""
    window = get_seal_round_window(draft.state, get_round(draft.state, call.round))
    require(window is not None, "NothingToSeal", actual=call.round)
    assert window is not None
    require_window(*window, draft.block)
    draft.emit(RoundDealt(call.round, call.randomness))


def get_seal_audits_window(state: GameState, game_round: GameRound) -> tuple[int, int] | None:
    """When the draw of a round can be sealed; None while it runs, once it is sealed or undone."""
    if game_round.closed is None or game_round.seed is not None or game_round.phase == RoundPhase.UNDONE:
        return None
    return compute_draw_window(state, game_round.closed)


def apply_seal_audits(draft: Draft, call: SealAudits, sender: str) -> None:
    """One seed: the audits of this round, late audits of rounds before it, shards of rounds to come."""
    window = get_seal_audits_window(draft.state, get_round(draft.state, call.round))
    require(window is not None, "NothingToSeal", actual=call.round)
    assert window is not None
    require_window(*window, draft.block)
    draft.emit(AuditsDrawn(call.round, call.randomness))


def apply_seal_closing(draft: Draft, call: SealClosing, sender: str) -> None:
    """The late audits that no later round draws."""
    from_block = get_closing_from(draft.state, draft.block)
    require(from_block is not None, "NothingToSeal")
    assert from_block is not None
    require_window(*compute_draw_window(draft.state, from_block), draft.block)
    draft.emit(ClosingDrawn(from_block, call.randomness))


# --- Votes and the posted root ------------------------------------------------------------------------------
def get_vote_flaw(state: GameState, game_round: GameRound, vote: SignedVote, block: int) -> str | None:
    """Why a vote does not count at `block`, None where it counts."""
    seat_number = get_drawn_seat(state, game_round, vote.slot, vote.draw, vote.rank)
    start = get_votes_from(state, game_round, vote.draw)
    if seat_number is None or start is None:
        return "NotDrawn"
    seat, votes = state.seats.get(seat_number), get_votes(game_round, vote.slot, vote.draw)
    flaws = {
        "RoundUndone": game_round.phase == RoundPhase.UNDONE,
        "WrongSigner": seat is None or vote.signer != seat.account,
        "SeatClosed": seat is not None and seat.status == SeatStatus.CLOSED,
        "NotWhole": not vote.is_whole,
        "OtherStatement": not is_about(state, game_round, vote),
        "AlreadyCounted": vote.rank in votes,
        "DrawOver": is_too_late(state, game_round, vote, block),
        "TooEarly": vote.rank > 0 and 0 not in votes and block < compute_reserve_block(state, start),
    }
    return next((name for name, is_there in flaws.items() if is_there), None)


def is_too_late(state: GameState, game_round: GameRound, vote: SignedVote, block: int) -> bool:
    """Whether the draw of a vote takes no word like it any more."""
    if not is_draw_over(state, game_round, vote.slot, vote.draw, block):
        return False
    is_unserved = vote.word == VoteWord.UNSERVED
    return not is_unserved or not is_taking_unserved(state, game_round, vote.slot, vote.draw, block)


def is_about(state: GameState, game_round: GameRound, vote: SignedVote) -> bool:
    """Whether a vote names the claim, the seed and the segment of its draw."""
    seed = game_round.late_seed if is_late_draw(state, vote.draw) else game_round.seed
    segment = get_drawn_segment(state, game_round, vote.slot, vote.draw)
    claim_root = game_round.claims[vote.slot].claim_root
    return (vote.claim_root, vote.seed, vote.segment) == (claim_root, seed, segment)


def get_opening_flaw(
    state: GameState, game_round: GameRound, opening: HandedOpening, block: int
) -> str | None:
    """Why an opening does not count at `block`, None where it does. It comes with or after the decision:
    earlier it would give reserves something to copy (findings, M2)."""
    slot, draw = opening.slot, opening.draw
    vote, start = get_votes(game_round, slot, draw).get(opening.rank), get_votes_from(state, game_round, draw)
    if vote is None or start is None:
        return "NotCounted"
    seat = state.seats.get(get_drawn_seat(state, game_round, slot, draw, opening.rank) or 0)
    flaws = {
        "RoundUndone": game_round.phase == RoundPhase.UNDONE,
        "SeatClosed": seat is None or seat.status == SeatStatus.CLOSED,
        "NothingToOpen": vote.word not in OPENED_WORDS,
        "AlreadyOpened": vote.is_opened,
        "DrawUndecided": not is_draw_over(state, game_round, slot, draw, block),
        "TooLate": block > start + 3 * state.terms.windows.audit_max,
        "NotFitting": not opening.is_fitting,
    }
    return next((name for name, is_there in flaws.items() if is_there), None)


def apply_judge(draft: Draft, call: JudgeVotes, sender: str) -> None:
    """Counts votes in their order, then openings."""
    require(call.round in draft.state.rounds, "RoundUnknown", actual=call.round)
    for vote in call.votes:
        if get_vote_flaw(draft.state, draft.state.rounds[call.round], vote, draft.block) is None:
            draft.emit(VoteCounted(call.round, vote.slot, vote.draw, vote.rank, vote.word))
    for opening in call.openings:
        if get_opening_flaw(draft.state, draft.state.rounds[call.round], opening, draft.block) is None:
            draft.emit(VoteOpened(call.round, opening.slot, opening.draw, opening.rank))


def get_waiting_round(state: GameState) -> GameRound | None:
    """The closed round that has no root yet, None where there is none."""
    game_round = get_live_round(state)
    return None if game_round is None or game_round.closed is None else game_round


def get_post_window(state: GameState, game_round: GameRound, block: int) -> tuple[int, int]:
    """First and last block in which a closed round can be posted; the first is now once no claim is
    undecided. A round whose root fell has `post` from then."""
    windows, closed = state.terms.windows, game_round.closed or 0
    if game_round.fallen is not None:
        return game_round.fallen, game_round.fallen + windows.post - 1
    late = closed + windows.audit_max
    first = late if has_undecided(state, game_round, block) else closed
    return first, late + windows.post - 1


def apply_post(draft: Draft, call: PostRoot, sender: str) -> None:
    """The first majority on chain decides, and opens the next round."""
    state, game_round = draft.state, get_waiting_round(draft.state)
    require(game_round is not None and game_round.index == call.round, "NotNewest", actual=call.round)
    assert game_round is not None
    require_window(*get_post_window(state, game_round, draft.block), draft.block)
    mergeable, merged = list_mergeable(state, game_round, draft.block), tuple(sorted(set(call.merged)))
    is_right = bool(merged) and merged == call.merged and set(merged) <= set(mergeable)
    require(is_right, "NotMergeable", mergeable, call.merged)
    unclosed = set(list_unclosed(state, game_round.pool.solvers))
    signers = tuple(sorted(set(call.signers) & unclosed))
    require(2 * len(signers) > len(unclosed), "NoMajority", f"more than half of {len(unclosed)}", signers)
    draft.emit(RootPosted(call.round, call.root, merged, signers))
    open_next(draft)


def is_stand_due(state: GameState, game_round: GameRound, block: int) -> bool:
    """Whether a closed round's base root stands: no claim can be merged, or no merge was posted in time."""
    if block > get_post_window(state, game_round, block)[1]:
        return True
    if has_undecided(state, game_round, block):
        return False
    return not list_mergeable(state, game_round, block)


def apply_stand(draft: Draft, call: LetStand, sender: str) -> None:
    """The round gave nothing to the model; its accepted work is paid all the same."""
    game_round = get_waiting_round(draft.state)
    require(game_round is not None and game_round.index == call.round, "NotNewest", actual=call.round)
    assert game_round is not None
    last = get_post_window(draft.state, game_round, draft.block)[1]
    is_due = is_stand_due(draft.state, game_round, draft.block)
    require(is_due, "NotLate", f"a block from {last + 1}", draft.block)
    draft.emit(RootStood(call.round))
    open_next(draft)
