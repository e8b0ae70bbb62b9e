"""What the pages show of one task, as JSON: its state, its rounds, its seats, its disputes.

Pure: the fold of a task's logs goes in, a document comes out. Hashes and accounts are `0x` strings, amounts
are texts with their unit; whatever a stranger wrote stays text.
"""

import csv
import io
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, TypeAlias

from touchstone.explorer.money_documents import TOTALS
from touchstone.explorer.story import Conviction, Names, make_person, show_wei
from touchstone.protocol.spec.audit_draws import RANKS
from touchstone.protocol.spec.errors import TouchstoneError
from touchstone.protocol.spec.game.assignments import get_drawn_seat, get_drawn_segment, list_draws
from touchstone.protocol.spec.game.claim_status import get_claim_fate, get_votes
from touchstone.protocol.spec.game.dispute_moves import CLAIMANT_MOVES
from touchstone.protocol.spec.game.enums import RoundPhase, SeatRole, SeatStatus
from touchstone.protocol.spec.game.inner_dispute import DisputeStage, InnerDispute
from touchstone.protocol.spec.game.logged_game import LoggedGame
from touchstone.protocol.spec.game.logs import VOTE_BYTES
from touchstone.protocol.spec.game.purse import ESCROW
from touchstone.protocol.spec.game.round_machine import get_state_at
from touchstone.protocol.spec.game.state import GameRound, GameState
from touchstone.protocol.spec.game.timing import get_live_round, is_late_draw, is_over, is_start_alive
from touchstone.protocol.spec.shard_draws import deal_shards
from touchstone.protocol.spec.training_codec import decode_training

SHOWN_TERMS = 16
"""Of a convicted number, where it is not shown by itself."""
FLOPS_PER_WEIGHT_AND_TOKEN = 6
"""Kaplan et al., arXiv 2001.08361, section 2.1: forward and backward, without attention."""


def to_hex(value: bytes | None) -> str | None:
    """A hash as the pages name it."""
    return None if value is None else "0x" + value.hex()


def tell_phase(game: GameState, block: int) -> str:
    """What a task does, in a word or a few. block: the next one."""
    now = get_state_at(game, block)
    if now.is_closed:
        return "closed"
    live = get_live_round(now)
    if live is not None:
        if live.phase == RoundPhase.FALLEN:
            return "its root fell"
        return "training" if live.closed is None else "audits"
    if is_over(now, block):
        return "halted" if now.is_halted else "over"
    if is_start_alive(now, block):
        return "starting"
    return "stands still"


def count_sitting(game: GameState, role: SeatRole) -> int:
    """Open seats of a role."""
    return sum(seat.role == role and seat.status == SeatStatus.OPEN for seat in game.seats.values())


def make_row(task: bytes, game: LoggedGame, block: int, names: Names) -> dict[str, Any]:
    """A task in a table."""
    return {
        "task": to_hex(task),
        "phase": tell_phase(game, block),
        "submitter": make_person(game.terms.submitter, names),
        "rounds_opened": game.next_round,
        "rounds": game.terms.rounds,
        "seats": {role.name.lower(): count_sitting(game, role) for role in SeatRole},
        "open_disputes": len(game.disputes),
        "open_contests": len(game.contests),
        "escrow": show_wei(game.purse.get_wei(ESCROW)),
    }


def make_training(terms: Any, text: bytes) -> dict[str, Any]:
    """What is trained; `error` alone where the text that the submitter posted is no description of it. terms:
    as TaskPosted has them."""
    try:
        training = decode_training(text)
    except TouchstoneError as error:
        return {"error": str(error)}
    tokens = training.sequences_per_step * training.sequence_tokens
    return {
        "program_root": to_hex(training.program_root),
        "vocabulary": training.vocabulary_size,
        "numeric_format": training.numeric_format,
        "parameters": terms.parameter_count,
        "inner_steps": terms.inner_steps,
        "segment_steps": terms.segment_steps,
        "tokens_per_step": tokens,
        "dataset_root": to_hex(training.dataset_root),
        "dataset_tokens": training.token_count,
    }


# --- Rounds -------------------------------------------------------------------------------------------------
def tell_stage(game_round: GameRound) -> str:
    """What a round waits for, or how it ended."""
    if game_round.phase != RoundPhase.RUNNING:
        return game_round.phase.name.lower()
    if game_round.beacon is None:
        return "waits for its beacon"
    if game_round.closed is None:
        return "training"
    return "waits for the draw" if game_round.seed is None else "audits"


def make_round_row(game_round: GameRound) -> dict[str, Any]:
    """A round in a table."""
    return {
        "round": game_round.index,
        "stage": tell_stage(game_round),
        "opened": game_round.opened,
        "closed": game_round.closed,
        "solvers": game_round.counted,
        "claims": len(game_round.claims),
        "votes": sum(map(len, game_round.votes.values())),
        "merged": len(game_round.merged),
        "root": to_hex(game_round.root),
    }


def make_round(game: LoggedGame, game_round: GameRound, block: int, names: Names) -> dict[str, Any]:
    """A round in full, as it is at `block`: who trained, what became of it, who audited what."""
    shards = deal_shards(game_round.beacon, len(game_round.pool.solvers)) if game_round.beacon else ()
    return {
        **make_round_row(game_round),
        "base_root": to_hex(game_round.base_root),
        "contests_until": game_round.root_until or None,
        "signers": [names.of_seat(game, seat) for seat in game_round.signers],
        "slots": [
            _make_slot(game, game_round, slot, block, names) | {"shard": shards[slot] if shards else None}
            for slot in range(len(game_round.pool.solvers))
        ],
    }


def _make_slot(
    game: LoggedGame, game_round: GameRound, slot: int, block: int, names: Names
) -> dict[str, Any]:
    claim, seat = game_round.claims.get(slot), game_round.pool.solvers[slot]
    if claim is None:
        return {
            "slot": slot,
            "seat": seat,
            "name": names.of_slot(game, game_round.index, slot),
            "claim": None,
        }
    return {
        "slot": slot,
        "seat": seat,
        **make_person(claim.account, names),
        "claim": to_hex(claim.claim_root),
        "segments": claim.segments,
        "fate": _tell_fate(game, game_round, slot, block),
        "is_merged": slot in game_round.merged,
        "draws": [
            _make_draw(game, game_round, *place, names) for place in _list_draws(game, game_round, slot)
        ],
    }


def _tell_fate(game: LoggedGame, game_round: GameRound, slot: int, block: int) -> str:
    if game_round.claims[slot].is_convicted:
        return "convicted"
    return get_claim_fate(game, game_round, slot, block).name.lower().replace("_", " ")


def _list_draws(game: LoggedGame, game_round: GameRound, slot: int) -> Iterator[tuple[int, int]]:
    return (place for place in list_draws(game, game_round) if place[0] == slot)


def _make_draw(game: LoggedGame, game_round: GameRound, slot: int, draw: int, names: Names) -> dict[str, Any]:
    votes, ranks = get_votes(game_round, slot, draw), []
    for rank in range(RANKS):
        seat, vote = get_drawn_seat(game, game_round, slot, draw, rank), votes.get(rank)
        ranks.append({
            "name": "" if seat is None else names.of_seat(game, seat),
            "word": None if vote is None else vote.word.name,
            "block": None if vote is None else vote.block,
            "is_opened": vote is not None and vote.is_opened,
        })  # fmt: skip
    return {
        "draw": draw,
        "is_late": is_late_draw(game, draw),
        "segment": get_drawn_segment(game, game_round, slot, draw),
        "ranks": ranks,
    }


# --- Disputes -----------------------------------------------------------------------------------------------
def make_dispute_row(game: LoggedGame, dispute: InnerDispute, names: Names) -> dict[str, Any]:
    """A dispute in a table, and at the head of its board. turn: who has to move."""
    claimant = names.of_seat(game, dispute.seat)
    is_claimants = dispute.stage in CLAIMANT_MOVES
    return {
        "dispute": to_hex(dispute.name),
        "about": names.of_statement(game, dispute.statement),
        "round": dispute.statement.round,
        "segment": dispute.segment,
        "opener": names.of(dispute.opener),
        "claimant": claimant,
        "stage": dispute.stage.name,
        "turn": (claimant if is_claimants else names.of(dispute.opener)) if dispute.is_open else None,
        "until_block": dispute.clock if dispute.is_open else None,
        "step": dispute.step,
        "states": [to_hex(root) for root in dispute.roots],
        "trace": None if dispute.trace is None else to_hex(dispute.trace.root),
        "leaves_demanded": len(dispute.demands),
        "leaves_shown": len(dispute.shown),
        "is_convicted": dispute.stage is DisputeStage.CONVICTED,
    }


def make_conviction(one: Conviction, number: dict[str, Any] | None, names: Names) -> dict[str, Any]:
    """A seat that was closed. The number comes without the operands of a long sum: a dispute's board has
    all."""
    if number is not None:
        number = number | {"operands": number.get("operands", [])[:SHOWN_TERMS]}
    return {
        "block": one.block,
        "transaction": to_hex(one.transaction_hash),
        "seat": one.seat,
        **make_person(one.account, names),
        "finder": names.of(one.finder),
        "proof": one.proof.name,
        "stake": show_wei(one.stake_wei),
        "dispute": to_hex(one.dispute),
        "number": number,
    }


# --- Work ---------------------------------------------------------------------------------------------------
WORK_COLUMNS = (
    "task", "round", "account", "slot", "shard", "segments", "steps", "tokens", "flops", "fate",
    "is_merged", "claim",
)  # fmt: skip


def list_work(
    task: bytes, number: int, document: dict[str, Any], training: dict[str, Any]
) -> Iterator[tuple[Any, ...]]:
    """Who trained what in a round: a row for each claim, by WORK_COLUMNS. document: of `make_round`;
    training: of `make_training`. flops: an estimate, 6 for each weight and token."""
    for one in document["slots"]:
        if one["claim"] is None:
            continue
        figures = count_work(one["segments"], training)
        yield (
            to_hex(task), number, one["account"], one["slot"], one["shard"], one["segments"], *figures,
            one["fate"], int(one["is_merged"]), one["claim"],
        )  # fmt: skip


def count_work(segments: int, training: dict[str, Any]) -> tuple[int, int, int]:
    """Steps, tokens and FLOPs of so many segments; nothing where the task has no description."""
    steps = segments * training.get("segment_steps", 0)
    tokens = steps * training.get("tokens_per_step", 0)
    return steps, tokens, FLOPS_PER_WEIGHT_AND_TOKEN * training.get("parameters", 0) * tokens


# --- Accounts -----------------------------------------------------------------------------------------------
TRAINED = ("steps", "tokens", "flops")
DONE = (
    "rounds_trained", "rounds_accepted", "rounds_merged", *TRAINED, "audits_voted", *TOTALS, "convictions",
)  # fmt: skip
"""What is added up of an account: figures of the ledger of work, counted votes, money."""
ACCOUNT_COLUMNS = ("account", "task", *DONE)
Totals: TypeAlias = dict[str, Counter[str]]
"""By account: DONE."""


def add_round(
    totals: Totals, game: LoggedGame, game_round: GameRound, block: int, training: dict[str, Any]
) -> None:
    """Add what each account trained in a round, as it is at `block`. training: of `make_training`."""
    for slot, claim in game_round.claims.items():
        found = totals.setdefault(claim.account, Counter())
        found["rounds_trained"] += 1
        found["rounds_accepted"] += _tell_fate(game, game_round, slot, block) == "accepted"
        found["rounds_merged"] += slot in game_round.merged
        found.update(dict(zip(TRAINED, count_work(claim.segments, training), strict=True)))


def add_votes(totals: Totals, game: LoggedGame, name: str, values: Mapping[str, Any]) -> None:
    """Add the votes that an event counts. game: after it, so the seats are still those that the event means:
    a number may be another account's later."""
    if name != "VotesCounted":
        return
    said, game_round = bytes(values["votes"]), game.rounds[values["round"]]
    for at in range(0, len(said), VOTE_BYTES):
        slot, draw, rank, _ = said[at : at + VOTE_BYTES]
        seat = game.seats.get(get_drawn_seat(game, game_round, slot, draw, rank) or 0)
        if seat is not None:
            totals.setdefault(seat.account, Counter())["audits_voted"] += 1


def list_accounts(
    found: Mapping[tuple[str, bytes], Counter[str]], names: Names, account: str = ""
) -> list[dict[str, Any]]:
    """A row for each account over all its tasks, or of one account a row for each task; who has trained most
    comes first, then who has voted most. found: by account and task."""
    rows = dict[str | bytes, Counter[str]]()
    people, tasks = dict[str | bytes, str](), Counter[str | bytes]()
    for (who, task), done in found.items():
        if account in ("", who):
            key = task if account else who
            rows.setdefault(key, Counter()).update(done)
            people[key], tasks[key] = who, tasks[key] + 1
    return [
        {**_make_account(people[key], done, names), "tasks": tasks[key]}
        | ({"task": to_hex(key)} if isinstance(key, bytes) else {})
        for key, done in sorted(rows.items(), key=lambda row: (-row[1]["flops"], -row[1]["audits_voted"]))
    ]


def _make_account(account: str, done: Counter[str], names: Names) -> dict[str, Any]:
    amounts = {name.removesuffix("_wei"): show_wei(done[name]) for name in DONE if name.endswith("_wei")}
    counts = {name: done[name] for name in DONE if not name.endswith("_wei")}
    return make_person(account, names) | counts | amounts


def format_accounts(found: Mapping[tuple[str, bytes], Counter[str]]) -> bytes:
    """A row of ACCOUNT_COLUMNS for each account and task, as CSV."""
    rows = ((who, to_hex(task), *(done[name] for name in DONE)) for (who, task), done in found.items())
    return format_csv([ACCOUNT_COLUMNS, *rows])


def format_csv(rows: Iterable[Iterable[Any]]) -> bytes:
    """Rows as RFC 4180 has them."""
    text = io.StringIO()
    csv.writer(text).writerows(rows)
    return text.getvalue().encode()
