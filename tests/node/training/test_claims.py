"""Training a claim: what it opens, and what a kill, a reorg and a wrong start leave of it."""

from dataclasses import replace
from pathlib import Path
from threading import Event
from typing import Any

import pytest
from torch import Tensor, nextafter, ones

from tests.node.merging.stage import DOMAIN, deal_anew, finish, open_stage
from tests.node.specs import get_spec
from tests.protocol.compute.program.recording_device import RecordingDevice, use_device
from touchstone.node.models.own_openings import get_finished, open_boundary, open_work
from touchstone.node.training import claims
from touchstone.protocol.adapters.store.blobs import BlobRef, refer_delta
from touchstone.protocol.compute.outer.pseudo_gradients import encode_delta
from touchstone.protocol.compute.program.step import train_segment
from touchstone.protocol.spec.claim_tree import compute_work_leaf, verify_in_claim
from touchstone.protocol.spec.commitments import compute_boundary_leaf, compute_state_root
from touchstone.protocol.spec.errors import EnvironmentFault

SEGMENTS = 4


async def test_everything_that_is_opened_stands_under_the_committed_root(tmp_path: Path) -> None:
    async with open_stage(tmp_path, 1) as stage:
        (made,) = await stage.commit(1)
        node = stage.nodes[1]
        tokens = get_spec().training.sequences_per_step * get_spec().training.sequence_tokens
        assert node.meter.tokens_trained == get_spec().terms.inner_steps * tokens
        assert node.meter.rounds_trained == 1 and 0 < (node.meter.loss or 0) < 10
        place = (DOMAIN, 0, node.account)
        for boundary in range(SEGMENTS + 1):
            proof = open_boundary(node.get_view(), 0, boundary)
            leaf = compute_boundary_leaf(*place, boundary, proof.salt, compute_state_root(proof.header))
            verify_in_claim(made.claim_root, leaf, boundary, SEGMENTS, proof.path)
        work = open_work(node.get_view(), 0)
        leaf = compute_work_leaf(*place, SEGMENTS, work.delta_root, work.carried_root)
        verify_in_claim(made.claim_root, leaf, SEGMENTS + 1, SEGMENTS, work.path)
        first, last = (open_boundary(node.get_view(), 0, b).header for b in (0, SEGMENTS))
        terms = get_spec().terms
        assert (first.weights_root, first.first_moment_root) == (terms.initial_weights_root, terms.zero_root)
        weights = [node.rooms.tools.states.load(header).weights for header in (first, last)]
        assert node.store.get(refer_delta(made.delta_root, terms.parameter_count)) == encode_delta(*weights)


async def test_the_states_between_the_first_and_the_last_are_written_past_the_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The node reads the first and the last one again, soon."""
    async with open_stage(tmp_path, 1) as stage:
        store, ways = stage.nodes[1].store, dict[bytes, bool]()
        put = store.put_hashed

        def note(ref: BlobRef, *rest: Any, is_cached: bool = True) -> BlobRef:
            ways[ref.key.root] = is_cached
            return put(ref, *rest, is_cached=is_cached)

        monkeypatch.setattr(store, "put_hashed", note)
        await stage.commit(1)
        headers = [
            open_boundary(stage.nodes[1].get_view(), 0, boundary).header for boundary in range(SEGMENTS + 1)
        ]
    found = [ways.get(header.weights_root) for header in headers]
    assert found == [None, False, False, False, True]  # The merge before had kept the first one.


async def test_a_killed_solver_goes_on_at_its_last_boundary_and_says_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The pseudo-gradient is the one of an undisturbed node; the salts are those that were drawn first."""
    trained: list[int] = []

    def train(state: Any, spec: Any, batches: Any, step: int, steps: int) -> Any:
        if len(trained) == 2 and step == 4:
            trained.append(-1)
            raise RuntimeError("killed")
        trained.append(step)
        return claim_train(state, spec, batches, step, steps)

    claim_train = train_segment
    monkeypatch.setattr(claims, "train_segment", train)
    async with open_stage(tmp_path) as stage:
        async with stage.open(1) as node:
            with pytest.raises(RuntimeError, match="killed"):
                await finish(node)
            salts = node.rooms.tools.claims.find(node.game.rounds[0]).salts
        async with stage.open(1) as node:
            made = await finish(node)
            assert node.rooms.tools.claims.find(node.game.rounds[0]).salts == salts
            assert (await finish(node)) == made
        monkeypatch.undo()
        async with stage.open(1) as node:
            assert get_finished(node.get_view(), 0).finished == made
    assert trained == [0, 2, -1, 4, 6]
    async with open_stage(tmp_path / "other", 1) as other:
        (undisturbed,) = await other.commit(1)
    assert (undisturbed.delta_root, undisturbed.carried_root) == (made.delta_root, made.carried_root)


async def test_a_finished_claim_that_is_trained_again_with_other_bits_keeps_its_records(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was sent, then killed; an update, and a state is lost. The journal had the other claim: nobody could
    open the one on the chain."""

    def train(*arguments: Any) -> Any:
        state, losses = train_segment(*arguments)
        return replace(state, weights=nextafter(state.weights, ones(1))), losses

    async with open_stage(tmp_path) as stage:
        async with stage.open(1) as node:
            made = await finish(node)
            boundaries = dict(get_finished(node.get_view(), 0).boundaries)
            for ref in node.rooms.tools.states.refer(boundaries[2]):
                node.store.delete(ref.key)
        async with stage.open(1) as node:
            monkeypatch.setattr(claims, "train_segment", train)
            with pytest.raises(EnvironmentFault, match="other bits"):
                await finish(node)
        async with stage.open(1) as node:
            work = get_finished(node.get_view(), 0)
            assert (work.finished, work.boundaries) == (made, boundaries)
            monkeypatch.undo()
            assert await finish(node) == made


async def test_a_claim_trained_on_a_device_is_the_same_and_leaves_it_while_training_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The copy of a boundary to the host begins here only once the next segment is being trained."""
    async with open_stage(tmp_path / "processor", 1) as stage:
        (expected,) = await stage.commit(1)
    begun, ends = [Event() for _ in range(SEGMENTS)], dict[int, int]()
    device = RecordingDevice()

    def train(state: Any, spec: Any, batches: Any, step: int, steps: int) -> Any:
        begun[step // steps].set()
        end, losses = train_segment(state, spec, batches, step, steps)
        ends[end.weights.data_ptr()] = step // steps + 1
        return end, losses

    def fetch(source: Tensor, target: Tensor) -> None:
        boundary = ends.pop(source.data_ptr(), SEGMENTS)
        assert boundary == SEGMENTS or begun[boundary].wait(60)
        target.copy_(source)

    monkeypatch.setattr(claims, "train_segment", train)
    monkeypatch.setattr(device, "fetch", fetch)
    use_device(monkeypatch, device)
    async with open_stage(tmp_path / "device", 1) as stage:
        (made,) = await stage.commit(1)
    assert (made.delta_root, made.carried_root) == (expected.delta_root, expected.carried_root)
    assert device.events.count("wait") == SEGMENTS and not ends


async def test_after_a_reorg_the_round_is_trained_anew_and_back_again_nothing_is(tmp_path: Path) -> None:
    async with open_stage(tmp_path, 1) as stage:
        node, before = stage.nodes[1], stage.world.state
        made = await finish(node)
        stage.world.state = deal_anew(before)
        stage.sync()
        other = await finish(node)
        assert other.delta_root != made.delta_root and other.basis != made.basis
        stage.world.state = before
        stage.sync()
        assert await finish(node) == made
