"""Measures the loss of each model of a task on its held-out tokens, and reports it, signed.

The submitter and all solvers measure the same rows, so their figures can be compared; in an exact task they
are equal. Nothing hangs on the figures: they tell the submitter whether the model gets better.
"""

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass

from touchstone.node.kit.config import Notify
from touchstone.node.kit.locks import Locks
from touchstone.node.kit.loss_board import LossBoard
from touchstone.node.kit.signer import Signer
from touchstone.node.kit.view import GetView, View
from touchstone.node.models.global_model import GlobalModel
from touchstone.node.records.claim_records import ClaimBook, HeldoutReported
from touchstone.protocol.adapters.reports.model_progress import (
    ModelLoss,
    describe_progress,
    find_warning,
    read_model_loss,
)
from touchstone.protocol.adapters.reports.round_reports import HeldoutSaid, format_heldout, list_measured
from touchstone.protocol.adapters.store.blobs import refer_tensor
from touchstone.protocol.compute.batches import Corpus, list_heldout_starts, read_known_rows
from touchstone.protocol.compute.program.evaluation import Evaluator
from touchstone.protocol.compute.program.known_steps import get_step
from touchstone.protocol.spec.game.enums import RoundPhase
from touchstone.protocol.spec.game.logged_game import LoggedGame
from touchstone.protocol.spec.signed_reports import HeldoutReport, to_millionths
from touchstone.protocol.spec.task_spec import TaskSpec

LEAST_BATCHES, MOST_BATCHES = 4, 64
STEPS_PER_BATCH = 16
"""One batch is measured for this many inner steps of a round, so that measuring takes about 2 % of the time
of training: a batch costs a third of a step."""
RECENT_ROUNDS = 2
"""Models of this many newest rounds are measured."""


def count_batches(inner_steps: int) -> int:
    """Returns how many batches of held-out rows each model is measured on."""
    return min(max(inner_steps // STEPS_PER_BATCH, LEAST_BATCHES), MOST_BATCHES)


def list_heldout(view: View, index: int) -> tuple[HeldoutSaid, ...]:
    """Returns this node's reports of the models of round `index`."""
    found = (view.claims.heldout.get(one) for one in list_measured(view.game, index))
    return tuple(format_heldout(made.report, made.signature) for made in found if made is not None)


@dataclass(frozen=True)
class MeasureModel:
    """Measure a model on held-out tokens. `rounds_done` is the number of rounds behind it, `root` its outer
    root."""

    rounds_done: int
    root: bytes

    async def perform(self, room: "HeldoutReports") -> None:
        """Fetches what is missing, measures, and writes the loss down, signed. Models are measured one after
        the other, because each takes memory. Raises EnvironmentFault or ProtocolFault if the model or the
        tokens are not available now."""
        async with room.locks["held-out loss", None]:
            view = room.get_view()
            if self not in list_duties(view, view.head_block + 1):
                return
            report = await self._measure(room, view)
            signature = await room.signer.sign(report)
            room.claims.write(HeldoutReported(view.task, report, signature))
        for line in list_lines(room.get_view()):
            room.notify(line)
        if room.board is not None:
            step = self.rounds_done * view.spec.terms.inner_steps
            room.board.add_heldout(step, read_model_loss(report).loss)

    async def _measure(self, room: "HeldoutReports", view: View) -> HeldoutReport:
        training = view.spec.training
        rows = count_batches(view.spec.terms.inner_steps) * training.sequences_per_step
        starts = list_heldout_starts(training, rows)
        header = await room.model.load_outer(self.root)
        weights = await room.model.load_weights(header)
        await room.corpus.prepare(starts, training.sequence_tokens + 1)
        tokens = await asyncio.to_thread(read_known_rows, room.corpus, training, starts)
        evaluator = make_evaluator(view.spec)
        found = await asyncio.to_thread(evaluator.measure, weights, tokens.unbind())
        figures = (to_millionths(found.loss), to_millionths(found.standard_error))
        return HeldoutReport(view.domain, self.rounds_done, self.root, found.batches, *figures)


def list_losses(view: View) -> list[ModelLoss]:
    """Returns the held-out losses that this node has measured, one for each model that still counts, in the
    order of the rounds."""
    game, found = view.game, dict[int, ModelLoss]()
    for (rounds_done, root), made in list(view.claims.heldout.items()):
        game_round = game.rounds.get(rounds_done - 1)
        # The chain forgets rounds that are final; of those the last report counts.
        if game_round is None or game_round.root == root:
            found[rounds_done] = read_model_loss(made.report)
    return [found[rounds_done] for rounds_done in sorted(found)]


def list_lines(view: View) -> Iterator[str]:
    """Yields how good the newest model is, and for the submitter a warning if it gets worse."""
    losses = list_losses(view)
    yield f"held-out loss: {describe_progress(losses)}"
    warning = find_warning(losses)
    if warning is not None and view.account == view.game.terms.submitter:
        yield f"WARNING: {warning}"


def make_evaluator(spec: TaskSpec) -> Evaluator:
    """Returns what measures losses with the program of a task."""
    training = spec.training
    return Evaluator(get_step(training).built, training.sequences_per_step, training.numeric_format)


def list_duties(view: View, block: int) -> Iterator[MeasureModel]:
    """Yields the models that this node has not measured, the newest first. Models of older rounds are left
    out, because their weights may be gone. A solver measures those that it has: peers show a new model to the
    submitter alone."""
    is_submitter = view.account == view.game.terms.submitter
    for rounds_done, root in list_models(view.game):
        is_known = (rounds_done, root) in view.claims.heldout
        if not is_known and (is_submitter or rounds_done == 0 or _is_here(view, root)):
            yield MeasureModel(rounds_done, root)


def _is_here(view: View, root: bytes) -> bool:
    """Returns whether the weights under an outer root are on this disk."""
    header, count = view.claims.outer.get(root), view.spec.terms.parameter_count
    return header is not None and view.stored.has_blob(refer_tensor(header.weights_root, count))


def list_models(game: LoggedGame) -> Iterator[tuple[int, bytes]]:
    """Yields the models to measure, the newest first: the number of rounds behind each, and its root. The
    start is among them until round 2 opens."""
    posted = [one for _, one in sorted(game.rounds.items()) if one.phase == RoundPhase.POSTED]
    for game_round in reversed(posted[-RECENT_ROUNDS:]):
        assert game_round.root is not None, "it was posted"
        yield game_round.index + 1, game_round.root
    if game.next_round <= 2:
        yield 0, game.terms.root


@dataclass(frozen=True)
class HeldoutReports:
    """Measures models on held-out tokens, and signs the losses."""

    get_view: GetView
    claims: ClaimBook
    signer: Signer
    locks: Locks
    corpus: Corpus
    model: GlobalModel
    notify: Notify
    board: LossBoard | None
