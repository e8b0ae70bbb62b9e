"""Held-out losses of models: which are measured, on what, and what a node says of them."""

from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest
from msgspec import structs

from tests.kit.nodes import SIGNING, get_account, get_corpus
from tests.node.merging.stage import Stage, get_base_root, open_stage
from tests.node.specs import get_spec
from touchstone.node.models.expected_merge import get_root, make_key
from touchstone.node.records.claim_records import HeldoutReported
from touchstone.node.serving.heldout_reports import (
    MeasureModel,
    count_batches,
    list_duties,
    list_heldout,
    make_evaluator,
)
from touchstone.protocol.adapters.reports.round_reports import (
    is_signed,
    list_heldout_reporters,
    read_heldout,
)
from touchstone.protocol.compute.batches import list_heldout_starts, read_known_rows
from touchstone.protocol.spec.errors import InvalidInput
from touchstone.protocol.spec.game import calls
from touchstone.scripts.roles.role_nodes import Member

SIGNERS = (1 << 16, (1 << 16) + 1)


def list_due(node: Member) -> list[MeasureModel]:
    return list(list_duties(node.get_view(), node.state.head_block + 1))


async def measure_all(node: Member) -> None:
    for duty in list_due(node):
        await duty.perform(node.rooms.heldout_reports)


async def post_root(stage: Stage, seed: int) -> bytes:
    """The root of round 0, as this node merges it, is on chain."""
    game_round = stage.draw()
    stage.accept(*game_round.claims)
    root = await merge(stage, seed)
    stage.world.send(calls.PostRoot(0, tuple(game_round.claims), root, SIGNERS), "anybody")
    stage.sync()
    return root


async def merge(stage: Stage, seed: int) -> bytes:
    """The root of round 0 as a node computes it."""
    await stage.fetch_all(seed)
    game_round = stage.world.state.rounds[0]
    key = make_key(game_round, tuple(game_round.claims))
    return get_root(await stage.nodes[seed].rooms.outer_steps.merge_claims(key))


async def test_the_start_and_each_root_are_measured_once(tmp_path: Path) -> None:
    """On rows that no step trains on; another node measures the same rows, so its figures are equal."""
    async with open_stage(tmp_path, 1, 2) as stage:
        first, second = stage.nodes[1], stage.nodes[2]
        assert list_due(first) == [MeasureModel(0, get_base_root())]
        assert list_heldout(first.get_view(), 0) == ()
        await measure_all(first)
        (said,) = list_heldout(first.get_view(), 0)
        assert list_due(first) == [] and said.rounds_done == 0
        training = get_spec().training
        rows = count_batches(get_spec().terms.inner_steps) * training.sequences_per_step
        starts = list_heldout_starts(training, rows)
        assert min(starts) >= training.token_count and len(set(starts)) == len(starts)
        tokens = read_known_rows(get_corpus(), training, starts)
        weights = (
            await first.rooms.model.load_outer_state(await first.rooms.model.load_outer(get_base_root()))
        ).weights
        loss = make_evaluator(get_spec()).measure(weights, tokens.unbind())
        assert said.mean_micronats == pytest.approx(1e6 * loss.loss, abs=1) and said.batches == loss.batches
        assert 0 < said.error_micronats < said.mean_micronats
        await stage.commit(1, 2)
        root = await post_root(stage, 1)
        assert list_due(first) == [MeasureModel(1, root)]
        assert list_due(second) == [MeasureModel(0, get_base_root())], "it has not computed the root"
        await merge(stage, 2)
        assert list_due(second) == [MeasureModel(1, root), MeasureModel(0, get_base_root())]
        await measure_all(first)
        await measure_all(second)
        assert list_due(first) == list_due(second) == []
        found = [list_heldout(node.get_view(), 0) for node in (first, second)]
        assert [one.rounds_done for one in found[0]] == [0, 1]
        assert [structs.replace(one, signature=b"") for one in found[0]] == [
            structs.replace(one, signature=b"") for one in found[1]
        ]


async def test_a_report_names_the_root_on_chain_and_its_account(tmp_path: Path) -> None:
    async with open_stage(tmp_path, 1) as stage:
        node = stage.nodes[1]
        await measure_all(node)
        (said,) = list_heldout(node.get_view(), 0)
        report = read_heldout(node.game, 0, said)
        assert report is not None and report.root == get_base_root()
        assert is_signed(report, said.signature, get_account(1), SIGNING)
        for changes in ({"rounds_done": 1}, {"mean_micronats": 0}, {"batches": 9}, {"error_micronats": 1}):
            other = replace(report, **cast(Any, changes))
            assert not is_signed(other, said.signature, get_account(1), SIGNING), changes
        assert read_heldout(node.game, 0, structs.replace(said, rounds_done=1)) is None, "no root is posted"
        assert read_heldout(node.game, 1, said) is None
        await stage.commit(1)
        assert list_heldout_reporters(node.game, 0) == (node.game.terms.submitter, get_account(1))


async def test_of_a_model_there_is_one_report_also_after_a_restart(tmp_path: Path) -> None:
    async with open_stage(tmp_path) as stage:
        async with stage.open(1) as node:
            await measure_all(node)
            said = list_heldout(node.get_view(), 0)
            (made,) = node.rooms.tools.claims.heldout.values()
            other = HeldoutReported(made.task, replace(made.report, mean_micronats=1), made.signature)
            with pytest.raises(InvalidInput, match="has already reported"):
                node.rooms.tools.claims.write(other)
        async with stage.open(1) as node:
            assert list_heldout(node.get_view(), 0) == said and list_due(node) == []


def test_measuring_takes_a_small_share_of_a_round() -> None:
    """A batch costs a third of a step."""
    assert [count_batches(steps) for steps in (1, 64, 500, 10_000)] == [4, 4, 31, 64]
    assert all(count_batches(steps) / 3 <= 0.025 * steps for steps in range(64, 10_000))
