"""Reports of the losses of this node's own claims."""

from collections.abc import Iterator
from dataclasses import dataclass

from touchstone.node.kit.duty import Duty
from touchstone.node.kit.signer import Signer
from touchstone.node.kit.view import GetView, View
from touchstone.node.records.claim_records import ClaimBook, ClaimWork, LossReported
from touchstone.node.records.round_seats import find_own_slot
from touchstone.protocol.adapters.reports.round_reports import LossSaid, format_loss
from touchstone.protocol.spec.game.round_machine import get_state_at
from touchstone.protocol.spec.game.state import GameState
from touchstone.protocol.spec.signed_reports import LossReport


def find_loss(view: View, index: int) -> LossSaid | None:
    """Returns this node's report of the losses of its claim on round `index`, once the round is closed."""
    key = _find_closed_claim(view, get_state_at(view.game, view.head_block + 1), index)
    made = None if key is None else view.claims.reports.get(key)
    return None if made is None else format_loss(made.report, made.signature)


def _find_closed_claim(view: View, state: GameState, index: int) -> tuple[int, bytes] | None:
    """Returns round and root of this node's claim on chain; None before the round has closed."""
    game_round = state.rounds.get(index)
    if game_round is None or game_round.closed is None:
        return None
    own = (claim for claim in game_round.claims.values() if claim.account == view.account)
    return next(((index, claim.claim_root) for claim in own), None)


@dataclass(frozen=True)
class ReportLoss:
    """Write down the losses of this node's own claim, signed."""

    round: int

    async def perform(self, room: "LossReports") -> None:
        """Writes the losses down, signed; does nothing if a reorg has removed the claim."""
        view = room.get_view()
        report = _make_loss_report(view, get_state_at(view.game, view.head_block + 1), self.round)
        if report is not None:
            signature = await room.signer.sign(report)
            room.claims.write(LossReported(room.get_view().task, report, signature))


def _make_loss_report(view: View, state: GameState, index: int) -> LossReport | None:
    """Returns the report that is missing; None if it was made, or there is nothing to report."""
    key = _find_closed_claim(view, state, index)
    if key is None or key in view.claims.reports:
        return None
    game_round, work = state.rounds[index], view.claims.find(state.rounds[index])
    slot = find_own_slot(state, game_round, view.account)
    is_it = work.finished is not None and work.finished.claim_root == key[1]
    figures = _sum_losses(work) if is_it and slot is not None else None
    if slot is None or figures is None:
        return None
    return LossReport(view.domain, index, slot, key[1], *figures)


def _sum_losses(work: ClaimWork) -> tuple[int, int, int, int] | None:
    """Returns steps, first, last and mean loss of a claim, in millionths of a nat. None if the losses of a
    segment are unknown, because an earlier version trained it, or one is not a number."""
    segments = 0 if work.finished is None else work.finished.segments
    trained = [work.trained[one] for one in range(segments) if one in work.trained]
    if not trained or len(trained) < segments:
        return None
    steps = sum(one.steps for one in trained)
    mean = sum(one.total_micronats for one in trained) // steps
    return steps, trained[0].first_micronats, trained[-1].last_micronats, mean


@dataclass(frozen=True)
class LossReports:
    """Signs reports of the losses of this node's own claims."""

    get_view: GetView
    claims: ClaimBook
    signer: Signer


def list_duties(view: View, block: int) -> Iterator[Duty[LossReports]]:
    """Lists the loss reports that this node still has to write down."""
    state = get_state_at(view.game, block)
    for index in state.rounds:
        if _make_loss_report(view, state, index) is not None:
            yield ReportLoss(index)
