"""Shows what nodes report of a round.

Reports are not on the chain, because nodes may vanish. Each names its claim's root, and is shown only beside
a claim with that root.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from touchstone.protocol.spec.game.assignments import get_drawn_segment, list_draws
from touchstone.protocol.spec.game.claim_status import get_votes
from touchstone.protocol.spec.game.drawn_audits import COMPARED_ENDS, get_drawn
from touchstone.protocol.spec.game.public_boundaries import is_segment_public
from touchstone.protocol.spec.game.state import GameRound, GameState
from touchstone.protocol.spec.shard_draws import assign_shards
from touchstone.protocol.spec.signed_reports import Comparison, DistanceReport, LossReport
from touchstone.protocol.spec.statements import VoteWord

SHOWN_DIGITS = 4
"""Decimals of a loss in a table of rounds."""
LOSS = -1
"""Stands for a draw if the report is about a claim's losses."""
DRAWS_MAX = 1 << 32


@dataclass(frozen=True)
class Reported:
    """An account's signed report about a claim, or about an audit of it. `draw` is LOSS for losses; `said`
    are the figures as the pages show them."""

    slot: int
    draw: int
    rank: int
    claim_root: bytes
    account: str
    said: dict[str, Any]

    @property
    def place(self) -> tuple[int, int, int]:
        """(slot, draw, rank)"""
        return self.slot, self.draw, self.rank


def list_reporters(
    game: GameState, game_round: GameRound, block: int
) -> Iterator[tuple[str, tuple[int, int, int]]]:
    """Yields the reports that may be public at `block`: the account and (slot, draw, rank); the draw is LOSS
    for the losses of a claim. Only accounts with a claim or a vote on chain have one."""
    if game_round.closed is None:
        return
    for slot, claim in game_round.claims.items():
        yield claim.account, (slot, LOSS, 0)
    for slot, draw in list_draws(game, game_round):
        votes, segment = get_votes(game_round, slot, draw), get_drawn_segment(game, game_round, slot, draw)
        if segment is None or not is_segment_public(game, game_round, slot, segment, block):
            continue
        for rank in (rank for rank, vote in votes.items() if vote.word in COMPARED_ENDS):
            drawn = get_drawn(game, game_round.index, slot, draw, rank)
            if drawn is not None:
                yield drawn.seat.account, (slot, draw, rank)


def show_report(report: LossReport | DistanceReport) -> dict[str, Any]:
    """Returns the figures of a report: losses in nats, distances in limits of the task."""
    if isinstance(report, LossReport):
        losses = (report.first_micronats, report.last_micronats, report.mean_micronats)
        first, last, mean = (one / 1e6 for one in losses)
        return {"steps": report.steps, "first": first, "last": last, "mean": mean}
    far = (report.weights_microlimits, report.first_moment_microlimits, report.second_moment_microlimits)
    weights, first_moment, second_moment = (one / 1e6 for one in far)
    shown = {"word": VoteWord(report.word).name, "ends": Comparison(report.comparison).name}
    return shown | {"weights": weights, "first_moment": first_moment, "second_moment": second_moment}


def make_losses(game_round: GameRound, reported: list[Reported]) -> dict[str, Any]:
    """Returns the mean losses that the solvers of a round report, in nats. `by_shard` is in the order of the
    shards, None without a report. `mean` is over all, weighted by the claims' segments, because a report
    could claim any number of steps."""
    known = {one.slot: one for one in reported if one.draw == LOSS}
    right = {
        slot: known[slot].said["mean"]
        for slot, claim in game_round.claims.items()
        if slot in known and known[slot].claim_root == claim.claim_root
    }
    if not right or game_round.beacon is None:
        return {"losses": None}
    weights = {slot: max(1, game_round.claims[slot].segments) for slot in right}
    shards = assign_shards(game_round.beacon, len(game_round.pool.solvers))
    slots = {shard: slot for slot, shard in enumerate(shards)}
    mean = sum(right[slot] * weight for slot, weight in weights.items()) / sum(weights.values())
    found = [right.get(slots[shard]) for shard in range(len(shards))]
    by_shard = [None if loss is None else round(loss, SHOWN_DIGITS) for loss in found]
    return {"losses": {"mean": mean, "by_shard": by_shard, "claims": len(right)}}


def add_reports(document: dict[str, Any], reported: list[Reported]) -> dict[str, Any]:
    """Returns a document of `make_round`, completed with the nodes' reports on its claims and audits."""
    known = {(one.place, f"0x{one.claim_root.hex()}"): one.said for one in reported}
    slots = []
    for one in document["slots"]:
        found = dict(one)
        if found["claim"] is not None:
            claim = found["claim"]
            found["loss"] = known.get(((found["slot"], LOSS, 0), claim))
            found["draws"] = [
                draw
                | {
                    "ranks": [
                        said | {"reported": known.get(((found["slot"], draw["draw"], rank), claim))}
                        for rank, said in enumerate(draw["ranks"])
                    ]
                }
                for draw in found["draws"]
            ]
        slots.append(found)
    return document | {"slots": slots}
