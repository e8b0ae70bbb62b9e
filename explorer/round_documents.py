"""Makes the JSON of a round: who trained, what happened to it, who audited what."""

from collections.abc import Iterator, Mapping
from typing import Any

from touchstone.explorer.names import Names, make_person
from touchstone.explorer.task_documents import to_hex
from touchstone.protocol.spec.audit_draws import RANKS
from touchstone.protocol.spec.game.assignments import get_drawn_seat, get_drawn_segment, list_draws
from touchstone.protocol.spec.game.claim_status import compute_draw_status, get_claim_status, get_votes
from touchstone.protocol.spec.game.enums import DrawStatus, RoundPhase
from touchstone.protocol.spec.game.logged_game import LoggedGame
from touchstone.protocol.spec.game.state import CountedVote, GameRound
from touchstone.protocol.spec.game.timing import compute_reserve_block, get_votes_from, is_late_draw
from touchstone.protocol.spec.shard_draws import assign_shards


def describe_stage(game_round: GameRound) -> str:
    """Returns what a round waits for, or how it ended."""
    if game_round.phase != RoundPhase.RUNNING:
        return game_round.phase.name.lower()
    if game_round.beacon is None:
        return "waits for its beacon"
    if game_round.closed is None:
        return "training"
    return "waits for the draw" if game_round.seed is None else "audits"


def make_round_row(game_round: GameRound) -> dict[str, Any]:
    """Returns a round as a row of a table."""
    return {
        "round": game_round.index,
        "stage": describe_stage(game_round),
        "opened": game_round.opened,
        "closed": game_round.closed,
        "solvers": game_round.counted,
        "claims": len(game_round.claims),
        "votes": sum(map(len, game_round.votes.values())),
        "merged": len(game_round.merged),
        "root": to_hex(game_round.root),
    }


def make_round(game: LoggedGame, game_round: GameRound, block: int, names: Names) -> dict[str, Any]:
    """Returns a round in full, as of `block`: who trained, what happened to it, who audited what."""
    shards = assign_shards(game_round.beacon, len(game_round.pool.solvers)) if game_round.beacon else ()
    return {
        **make_round_row(game_round),
        "base_root": to_hex(game_round.base_root),
        "contests_until": game_round.root_until or None,
        "signers": [_make_member(game, seat, names) for seat in game_round.signers],
        "slots": [
            _make_slot(game, game_round, slot, block, names) | {"shard": shards[slot] if shards else None}
            for slot in range(len(game_round.pool.solvers))
        ],
    }


def _make_member(game: LoggedGame, seat: int | None, names: Names) -> dict[str, Any]:
    account = None if seat is None else names.find_account(game, seat)
    return {"account": account, "name": "" if seat is None else names.of_seat(game, seat)}


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
        "status": describe_claim(game, game_round, slot, block),
        "is_merged": slot in game_round.merged,
        "draws": [
            _make_draw(game, game_round, *place, block, names)
            for place in _list_draws(game, game_round, slot)
        ],
    }


def describe_claim(game: LoggedGame, game_round: GameRound, slot: int, block: int) -> str:
    """Describes the status of a claim."""
    if game_round.claims[slot].is_convicted:
        return "convicted"
    return get_claim_status(game, game_round, slot, block).name.lower().replace("_", " ")


def _list_draws(game: LoggedGame, game_round: GameRound, slot: int) -> Iterator[tuple[int, int]]:
    return (place for place in list_draws(game, game_round) if place[0] == slot)


def _make_draw(
    game: LoggedGame, game_round: GameRound, slot: int, draw: int, block: int, names: Names
) -> dict[str, Any]:
    votes, ranks = get_votes(game_round, slot, draw), []
    for rank in range(RANKS):
        seat, vote = get_drawn_seat(game, game_round, slot, draw, rank), votes.get(rank)
        ranks.append({
            **_make_member(game, seat, names),
            "word": None if vote is None else vote.word.name,
            "why_none": _explain_missing(game, game_round, draw, rank, votes, block) if vote is None else "",
            "block": None if vote is None else vote.block,
            "is_opened": vote is not None and vote.is_opened,
        })  # fmt: skip
    return {
        "draw": draw,
        "is_late": is_late_draw(game, draw),
        "segment": get_drawn_segment(game, game_round, slot, draw),
        "ranks": ranks,
    }


def _explain_missing(
    game: LoggedGame,
    game_round: GameRound,
    draw: int,
    rank: int,
    votes: Mapping[int, CountedVote],
    block: int,
) -> str:
    """Returns why a rank has no vote. A reserve is asked once the primary does not accept, or is silent for a
    third of the time."""
    if rank > 0 and compute_draw_status(votes) == DrawStatus.ACCEPTED:
        return "not needed"
    start = get_votes_from(game, game_round, draw)
    if rank > 0 and 0 not in votes and start is not None and block < compute_reserve_block(game, start):
        return "not asked yet"
    return "no vote"
