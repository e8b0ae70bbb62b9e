"""The datum that is shown beside a claimed one is what the task deals out."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from tests.kit.nodes import get_corpus, make_view, open_joined
from tests.node.specs import get_spec
from tests.protocol.spec.game.simulation import make_world
from touchstone.node.records.round_seats import get_shards
from touchstone.protocol.compute.batches import get_batch
from touchstone.protocol.compute.program.step import compute_scalars
from touchstone.protocol.spec.float32 import unpack_bits
from touchstone.protocol.spec.game.inner_dispute import InnerDispute
from touchstone.protocol.spec.game.state import GameRound, Pool, StatementRef
from touchstone.protocol.spec.merkle import hash_leaf, is_valid_path
from touchstone.protocol.spec.params import LEAF_BYTES
from touchstone.protocol.spec.schedule import compute_scalar_leaves, compute_scalar_levels
from touchstone.protocol.spec.shard_draws import draw_sample_start
from touchstone.protocol.spec.state_headers import StateHeader
from touchstone.whistleblower import prosecuting

SLOT, SEGMENT, STEP = 2, 1, 1
DISPUTE = InnerDispute(b"d" * 32, 1 << 16, StatementRef(0, SLOT), SEGMENT, "opener", 9, step=STEP)
ROUND = GameRound(0, Pool(solvers=(65536, 65537, 65538)), b"r" * 32, 1, 3, beacon=b"b" * 32)


@pytest.mark.parametrize("is_label", [False, True])
async def test_open_token_shows_what_was_dealt_to_the_slot(tmp_path: Path, is_label: bool) -> None:
    training, shard = get_spec().training, get_shards(ROUND)[SLOT]
    step = SEGMENT * get_spec().terms.segment_steps + STEP
    batch = get_batch(get_corpus(), training, ROUND.beacon or b"", shard, step)
    rows = batch.labels_BT if is_label else batch.tokens_BT
    count = -(-(training.token_count + training.heldout_tokens) // LEAF_BYTES)
    game = replace(make_world().state, rounds={0: ROUND})
    for row, column in ((0, 0), (rows.shape[0] - 1, 3)):
        with open_joined(tmp_path, game) as node:
            prosecuting = node.list_challenges().prosecuting
            proof = await prosecuting.open_token(DISPUTE, row * training.sequence_tokens + column, is_label)
        place = (shard, step, row, training.token_count, training.sequence_tokens)
        start = draw_sample_start(ROUND.beacon or b"", *place)
        index, offset = divmod(start + column + is_label, LEAF_BYTES)
        assert is_valid_path(training.dataset_root, hash_leaf(proof.data), index, count, proof.path)
        assert proof.data[offset] == int(rows[row, column])


@pytest.mark.parametrize("which", [0, 1, 2])
def test_open_scalars_goes_by_the_global_and_the_local_step(which: int) -> None:
    view, header = make_view(), StateHeader(b"w" * 32, b"m" * 32, b"v" * 32, 3, 11)
    proof = prosecuting.open_scalars(view, header, which)
    leaves = compute_scalar_leaves(view.spec)
    root, place = compute_scalar_levels(leaves)[-1][0], 3 if which else 11
    assert is_valid_path(root, hash_leaf(proof.data), place, len(leaves), proof.path)
    expected = compute_scalars(view.spec.training, 3, 11)[which]
    assert unpack_bits(proof.data)[which] == int(expected.view(torch.int32)) & 0xFFFFFFFF
