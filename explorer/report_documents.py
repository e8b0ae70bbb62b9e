"""Shows what nodes report of a round.

Reports are not on the chain, because nodes may vanish. Each names its claim's root, and is shown only beside
a claim with that root.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from math import inf, isfinite
from typing import Any

from touchstone.protocol.adapters.reports.model_progress import read_model_loss
from touchstone.protocol.adapters.reports.round_reports import AnyReport, list_measured
from touchstone.protocol.spec.game.assignments import get_drawn_segment, list_draws
from touchstone.protocol.spec.game.claim_status import get_claim_status, get_votes
from touchstone.protocol.spec.game.drawn_audits import COMPARED_ENDS, get_drawn
from touchstone.protocol.spec.game.enums import ClaimStatus
from touchstone.protocol.spec.game.logged_game import LoggedGame
from touchstone.protocol.spec.game.public_boundaries import is_segment_public
from touchstone.protocol.spec.game.state import GameRound, GameState
from touchstone.protocol.spec.shard_draws import assign_shards
from touchstone.protocol.spec.signed_reports import Comparison, HeldoutReport, LossReport
from touchstone.protocol.spec.statements import VoteWord

SHOWN_DIGITS = 4
"""Decimals of a loss in a table of rounds."""
LOSS = -1
"""Stands for a draw if the report is about a claim's losses."""
HELDOUT = -2
"""Stands for a draw if the report is about a model's held-out loss. Then the slot is the reporter's
(SUBMITTER for the submitter), the rank is 1 for the model of the round's root and 0 for the one before it,
and the claim root is the model's outer root."""
SUBMITTER = -1
DRAWS_MAX = 1 << 32


@dataclass(frozen=True)
class Reported:
    """An account's signed report about a claim, an audit of it, or a model. `draw` is LOSS for losses and
    HELDOUT for held-out losses; `said` are the figures as the pages show them."""

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
) -> Iterator[tuple[str, tuple[int, int, int], bytes]]:
    """Yields the reports that may be public at `block`: the account, (slot, draw, rank), and the root of the
    claim or the model. Only the submitter and accounts with a claim or a vote on chain have one."""
    if game_round.closed is None:
        return
    yield from list_heldout_reporters(game, game_round)
    for slot, claim in game_round.claims.items():
        yield claim.account, (slot, LOSS, 0), claim.claim_root
    for slot, draw in list_draws(game, game_round):
        votes, segment = get_votes(game_round, slot, draw), get_drawn_segment(game, game_round, slot, draw)
        if segment is None or not is_segment_public(game, game_round, slot, segment, block):
            continue
        for rank in (rank for rank, vote in votes.items() if vote.word in COMPARED_ENDS):
            drawn = get_drawn(game, game_round.index, slot, draw, rank)
            if drawn is not None:
                yield drawn.seat.account, (slot, draw, rank), game_round.claims[slot].claim_root


def list_heldout_reporters(
    game: GameState, game_round: GameRound
) -> Iterator[tuple[str, tuple[int, int, int], bytes]]:
    """Yields the held-out losses that may be reported of a round's models, as `list_reporters` does."""
    reporters = {SUBMITTER: game.terms.submitter}
    reporters |= {slot: claim.account for slot, claim in sorted(game_round.claims.items())}
    for rounds_done, root in list_measured(game, game_round.index):
        for slot, account in reporters.items():
            yield account, (slot, HELDOUT, rounds_done - game_round.index), root


def show_report(report: AnyReport) -> dict[str, Any]:
    """Returns the figures of a report: losses in nats, distances in limits of the task."""
    if isinstance(report, HeldoutReport):
        loss = read_model_loss(report)
        is_finite = isfinite(loss.loss)
        shown = {"loss": loss.loss if is_finite else None, "error": loss.error if is_finite else None}
        return shown | {"rounds_done": report.rounds_done, "batches": report.batches}
    if isinstance(report, LossReport):
        losses = (report.first_micronats, report.last_micronats, report.mean_micronats)
        first, last, mean = (one / 1e6 for one in losses)
        return {"steps": report.steps, "first": first, "last": last, "mean": mean}
    far = (report.weights_microlimits, report.first_moment_microlimits, report.second_moment_microlimits)
    names = ("weights", "first_moment", "second_moment")
    words = {"word": VoteWord(report.word).name, "ends": Comparison(report.comparison).name}
    return words | {name: one / 1e6 for name, one in zip(names, far, strict=True)}


def make_losses(
    game: LoggedGame, game_round: GameRound, reported: list[Reported], block: int
) -> dict[str, Any]:
    """Returns the losses that nodes report of a round, as of `block`: those of the models on held-out tokens,
    and those of the solvers' shards."""
    heldout = make_heldout(game, game_round.index, reported)
    return {"heldout": heldout, "losses": _make_shard_losses(game, game_round, reported, block)}


def make_heldout(game: GameState, index: int, reported: list[Reported]) -> list[dict[str, Any]]:
    """Returns the held-out losses of a round's models, in the order of the rounds. The submitter's report
    counts first, because the model is for it; without one, the median of the solvers' reports. `lowest` and
    `highest` are over all reports. A loss is None if it is not finite."""
    shown = []
    for rounds_done, root in list_measured(game, index):
        found = [one for one in reported if one.draw == HELDOUT and one.claim_root == root]
        ordered = sorted(found, key=lambda one: _to_number(one.said["loss"]))
        if not ordered:
            continue
        chosen = next((one for one in ordered if one.slot == SUBMITTER), ordered[len(ordered) // 2])
        shown.append({
            "rounds_done": rounds_done,
            "loss": chosen.said["loss"],
            "error": chosen.said["error"],
            "is_submitters": chosen.slot == SUBMITTER,
            "reports": len(ordered),
            "lowest": ordered[0].said["loss"],
            "highest": ordered[-1].said["loss"],
        })  # fmt: skip
    return shown


def _to_number(loss: float | None) -> float:
    return inf if loss is None else loss


def _make_shard_losses(
    game: LoggedGame, game_round: GameRound, reported: list[Reported], block: int
) -> dict[str, Any] | None:
    """Returns the mean losses that the solvers report, in nats; None without any. `by_shard` is in the order
    of the shards, None without a report; `void` are the shards whose claim does not count, because it was
    rejected, or its solver was convicted. `mean` is over all claims that count, weighted by their segments,
    because a report could claim any number of steps; None if none counts."""
    known = {one.slot: one for one in reported if one.draw == LOSS}
    right = {
        slot: known[slot].said["mean"]
        for slot, claim in game_round.claims.items()
        if slot in known and known[slot].claim_root == claim.claim_root
    }
    if not right or game_round.beacon is None:
        return None
    shards = assign_shards(game_round.beacon, len(game_round.pool.solvers))
    slots = {shard: slot for slot, shard in enumerate(shards)}
    void = [
        shard
        for shard in range(len(shards))
        if slots[shard] in game_round.claims and is_void(game, game_round, slots[shard], block)
    ]
    weights = {slot: max(1, game_round.claims[slot].segments) for slot in right if shards[slot] not in void}
    mean = sum(right[slot] * weight for slot, weight in weights.items()) / max(1, sum(weights.values()))
    found = [right.get(slots[shard]) for shard in range(len(shards))]
    by_shard = [None if loss is None else round(loss, SHOWN_DIGITS) for loss in found]
    return {
        "mean": mean if weights else None, "by_shard": by_shard, "void": void, "claims": len(weights),
    }  # fmt: skip


def is_void(game: LoggedGame, game_round: GameRound, slot: int, block: int) -> bool:
    """Returns whether a claim does not count, as of `block`."""
    if game_round.claims[slot].is_convicted:
        return True
    return get_claim_status(game, game_round, slot, block) is ClaimStatus.VOID


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
