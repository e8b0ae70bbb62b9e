"""Other data than was dealt: less of it, out of order, relabelled, picked, or meant to poison.

What is not here: rows of one batch in another order. Their mean is the same number, so that is no cheat.
"""

import torch

from tests.attacks.frame import Attack, every, fed, first, last, share, take_step
from tests.task_models import get_model
from tests.training_setting import compute_heldout_loss
from touchstone.protocol.compute.program.training_state import Batch, GetBatch, TrainingState
from touchstone.protocol.spec.task_spec import TrainingSpec

FAR = 10_000
"""Added to a step's number: data that another step, shard or beacon was dealt, as far as anybody can tell."""
SEEDS = 4


def halve_rows(batches: GetBatch, inner_step: int) -> Batch:
    """The first half of the rows."""
    tokens, labels = batches(inner_step)
    half = len(tokens) // 2
    return Batch(tokens[:half], labels[:half])


def drop_row(batches: GetBatch, inner_step: int) -> Batch:
    """All rows but the last."""
    tokens, labels = batches(inner_step)
    return Batch(tokens[:-1], labels[:-1])


def halve_length(batches: GetBatch, inner_step: int) -> Batch:
    """The first half of each row."""
    tokens, labels = batches(inner_step)
    half = tokens.shape[1] // 2
    return Batch(tokens[:, :half].contiguous(), labels[:, :half].contiguous())


def drop_token(batches: GetBatch, inner_step: int) -> Batch:
    """Each row without its last token."""
    tokens, labels = batches(inner_step)
    return Batch(tokens[:, :-1].contiguous(), labels[:, :-1].contiguous())


def swap(batches: GetBatch, inner_step: int) -> Batch:
    """The data of the neighbouring step: steps 0 and 1, 2 and 3, ... change places."""
    return batches(inner_step ^ 1)


def flip_label(batches: GetBatch, inner_step: int) -> Batch:
    """One label of the batch is another."""
    tokens, labels = batches(inner_step)
    changed = labels.clone()
    changed[-1, -1] = (changed[-1, -1] + 1) % 64
    return Batch(tokens, changed)


def relabel(batches: GetBatch, inner_step: int) -> Batch:
    """The labels of the rows go around by one row."""
    tokens, labels = batches(inner_step)
    return Batch(tokens, labels.roll(1, dims=0))


def replace_row(batches: GetBatch, inner_step: int) -> Batch:
    """One row from elsewhere."""
    (tokens, labels), other = batches(inner_step), batches(inner_step + FAR)
    return Batch(
        torch.cat((tokens[:-1], other.tokens_BT[-1:])), torch.cat((labels[:-1], other.labels_BT[-1:]))
    )


def repeat_row(batches: GetBatch, inner_step: int) -> Batch:
    """The first row again and again."""
    tokens, labels = batches(inner_step)
    return Batch(tokens[:1].expand_as(tokens).contiguous(), labels[:1].expand_as(labels).contiguous())


def repeat_batch(batches: GetBatch, inner_step: int) -> Batch:
    """The data of the round's first step in every step."""
    return batches(0)


def poison(batches: GetBatch, inner_step: int) -> Batch:
    """One row is a sentence that the model shall learn."""
    tokens, labels = (tensor.clone() for tensor in batches(inner_step))
    statement_key = torch.arange(tokens.shape[1] + 1) * 7 % 64
    tokens[0], labels[0] = statement_key[:-1], statement_key[1:]
    return Batch(tokens, labels)


def choose_seed(
    state: TrainingState, spec: TrainingSpec, batches: GetBatch, inner_step: int
) -> TrainingState:
    """The best of several seeds: of so many batches the one with the least loss."""
    offers = [batches(inner_step + FAR * (1 + seed)) for seed in range(SEEDS)]
    losses = [compute_heldout_loss(state.weights, offer, get_model(spec)) for offer in offers]
    return take_step(state, spec, offers[losses.index(min(losses))])


ATTACKS = (
    Attack("6", "half of the batch", every(fed(halve_rows)), share(0.5)),
    Attack("6", "one row less", every(fed(drop_row)), lambda spec, steps: 1 / spec.sequences_per_step),
    Attack("6", "half of the sequence", every(fed(halve_length)), share(0.5)),
    Attack("6", "one token less", every(fed(drop_token)), lambda spec, steps: 1 / spec.sequence_tokens),
    Attack("7", "steps swapped", every(fed(swap))),
    Attack("7", "one label flipped, last step", last(fed(flip_label))),
    Attack("7", "one label flipped, first step", first(fed(flip_label))),
    Attack("7", "labels of other rows", every(fed(relabel))),
    Attack("7", "one row replaced, last step", last(fed(replace_row))),
    Attack("7", "one row repeated", every(fed(repeat_row)), lambda s, steps: 1 - 1 / s.sequences_per_step),
    Attack("7", "one batch repeated", every(fed(repeat_batch))),
    Attack("7", "last step on another batch", last(fed(lambda batches, step: batches(step + FAR)))),
    Attack("8", "best of several seeds", every(choose_seed)),
    Attack("22", "poisoned row", every(fed(poison))),
    Attack("22", "poisoned row, last step", last(fed(poison))),
)
