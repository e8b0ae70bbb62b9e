"""Which model an account may export, and what it is told where it may have none."""

import asyncio
import json
import os
from contextlib import nullcontext
from dataclasses import replace
from errno import ENOSPC
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor

from tests.kit.nodes import TASK
from tests.node.merging.stage import Stage, open_stage
from tests.node.models.test_global_model import COUNT, merge_model
from tests.node.specs import get_spec
from tests.protocol.compute.program.hand_written import HandWritten, M, V, W
from tests.protocol.spec.game.simulation import SUBMITTER, Simulation, make_word, post
from tests.protocol.spec.game.test_posting import make_judged
from tests.task_models import draw_first, make_step
from touchstone.node.exports import export, tensor_file, written_model
from touchstone.node.exports.byte_tokenizer import make_byte_tokenizer
from touchstone.node.exports.export import find_own_header, load_weights
from touchstone.node.exports.model_folder import SAFETENSORS_NAME
from touchstone.node.exports.model_note import BYTE_VOCABULARY
from touchstone.node.models.model_choice import (
    Choice,
    choose,
    choose_newest,
    choose_settled,
    explain_refusal,
)
from touchstone.node.records.claim_records import OuterShown
from touchstone.node.upkeep.last_model import KeepModel, list_duties
from touchstone.protocol.adapters.store.blob_store import BlobStore
from touchstone.protocol.adapters.store.blobs import BlobRef, refer_tensor
from touchstone.protocol.compute.digest import tensor_bytes, tensor_root
from touchstone.protocol.compute.program.built_program import BuiltProgram
from touchstone.protocol.compute.program.known_steps import TaskStep
from touchstone.protocol.spec.errors import EnvironmentFault, InvalidInput
from touchstone.protocol.spec.game import calls
from touchstone.protocol.spec.game.enums import RoundPhase
from touchstone.protocol.spec.params import GIVEN_START
from touchstone.protocol.spec.task_spec import TaskSpec
from touchstone.protocol.spec.weights_layout import FrozenEntry, ParameterEntry, Start, WeightsLayout
from touchstone.scripts.roles.role_nodes import Member
from touchstone.step.plain_decoder import DecoderConfig

STRANGER = "stranger"


def make_posted() -> Simulation:
    """A round with its root."""
    world = make_judged()
    assert post(world, (0, 1), (0, 1, 2)) is None
    return world


def get_until(world: Simulation, index: int = 0) -> int:
    return world.state.rounds[index].root_until


def test_members_and_the_submitter_have_the_newest_model_and_anybody_the_settled_one() -> None:
    world = make_posted()
    root, until = world.state.rounds[0].root, get_until(world)
    for account, is_member in (("alice", True), (SUBMITTER, False)):
        found = choose(world.state, account, is_member=is_member, block=world.block)
        assert found is not None and (found.root, found.after) == (root, 0)
    assert choose(world.state, STRANGER, is_member=False, block=until) is None
    settled = choose(world.state, STRANGER, is_member=False, block=until + 1)
    assert settled is not None and settled.root == root
    assert str(settled) == "the model after round 0"


def test_before_any_root_there_is_the_first_model_for_members_alone() -> None:
    world = make_judged()
    newest = choose_newest(world.state)
    assert (newest.root, str(newest)) == (world.state.terms.root, "the model before any training")
    assert choose(world.state, STRANGER, is_member=False, block=10**6) is None


def test_what_is_contested_is_neither_newest_nor_settled() -> None:
    world = make_posted()
    world.send(calls.OpenContest(0, 300), "watcher")
    assert choose_newest(world.state).after == -1
    assert choose_settled(world.state, get_until(world) + 1) is None


def test_a_root_on_an_unsettled_one_is_not_settled() -> None:
    world = make_posted()
    first = world.state.rounds[0]
    second = replace(first, index=1, root=make_word("second"), root_until=0)
    state = replace(world.state, rounds={0: first, 1: second})
    assert choose_newest(state).after == 1
    assert choose_settled(state, first.root_until) is None
    found = choose_settled(state, first.root_until + 1)
    assert found is not None and found.after == 1
    undone = replace(second, phase=RoundPhase.UNDONE)
    assert choose_newest(replace(state, rounds={0: first, 1: undone})).after == 0


def test_a_model_stays_known_when_the_chain_forgets_its_epoch() -> None:
    """Anybody frees an epoch that is settled, also the last one of a task."""
    world = make_posted()
    root = make_word("trained")
    freed = replace(world.state, rounds={}, root=root, next_round=16, freed_epochs=1)
    for found in (choose_newest(freed), choose_settled(freed, 0), choose_settled(freed, 10**6)):
        assert found is not None and (found.root, found.after) == (root, 15)
    later = replace(world.state.rounds[0], index=16, base_root=root, root_until=100)
    begun = replace(freed, rounds={16: replace(later, phase=RoundPhase.RUNNING)}, next_round=17)
    assert choose_newest(begun) == choose_settled(begun, 0) == choose_newest(freed)
    posted = replace(freed, rounds={16: later}, next_round=17)
    settled = choose_settled(posted, 100)
    assert choose_newest(posted).after == 16 and settled is not None and settled.after == 15


def test_a_stranger_is_told_what_to_do() -> None:
    world = make_posted()
    until = get_until(world)
    refusal = explain_refusal(world.state, 10)
    assert f"until block {until + 1} (it is 10 now)" in refusal.remedy
    assert "seat" in refusal.remedy and "submitter" in refusal.remedy
    assert "a root is posted" in explain_refusal(make_judged().state, 10).remedy
    closed = replace(make_judged().state, is_closed=True)
    assert "Nothing" in explain_refusal(closed, 10).remedy


def test_who_finds_no_peer_is_told_who_keeps_models(tmp_path: Path) -> None:
    network = SimpleNamespace(peers={})
    reader: Any = SimpleNamespace(state=SimpleNamespace(network=network))
    config: Any = SimpleNamespace(home=tmp_path, threads=1)
    with pytest.raises(EnvironmentFault, match="no peer serves the model after round 0") as error:
        asyncio.run(load_weights(reader, config, bytes(32), cast(Any, None), Choice(bytes(32), 0)))
    assert "a solver or a whistleblower of the task is up" in error.value.remedy
    assert "works on another task now, stop it first" in error.value.remedy


async def test_the_first_model_of_given_weights_is_fetched_the_submitter_asked_first(tmp_path: Path) -> None:
    """It cannot be made here. With a seed it is made, and nobody is asked."""
    weights, asked = draw_first(get_spec().training, 99), list[str]()
    store = BlobStore(tmp_path / "blobs", is_durable=False)

    async def fetch(peers: list[Any], ref: BlobRef) -> None:
        asked.extend(peer.account for peer in peers)
        store.put_tensor(ref.key.root, tensor_bytes(weights))

    spec = get_spec()
    terms = replace(spec.terms, initial_weights_root=tensor_root(weights))
    given = TaskSpec(terms, replace(spec.training, initial_seed=GIVEN_START))
    peers = {name: SimpleNamespace(account=name) for name in ("0xa", terms.submitter, "0xb")}
    state, client = (
        SimpleNamespace(network=SimpleNamespace(peers=peers)),
        SimpleNamespace(fetch_from_any=fetch),
    )
    reader: Any = SimpleNamespace(state=state, store=store, client=client)
    config: Any = SimpleNamespace(home=tmp_path, threads=1)
    first = Choice(bytes(32), -1)
    seeded = await load_weights(reader, config, bytes(32), spec, first)
    assert torch.equal(seeded, draw_first(spec.training)) and not asked
    assert torch.equal(await load_weights(reader, config, bytes(32), given, first), weights)
    assert asked == [terms.submitter, "0xa", "0xb"]


def test_a_full_disk_is_an_error_of_the_disk_and_leaves_no_weights(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(piece: Tensor) -> memoryview:
        raise OSError(ENOSPC, "No space left on device")

    monkeypatch.setattr(tensor_file, "tensor_bytes", fail)
    step = make_step(DecoderConfig(256, 16, 32, 1, 2, 2, 8))
    with pytest.raises(OSError, match="No space left") as error:
        written_model.write_model(tmp_path / "model", torch.zeros(step.parameters), step)
    assert error.value.errno == ENOSPC and not list((tmp_path / "model").iterdir())
    assert error.value.filename == str(tmp_path / "model" / SAFETENSORS_NAME)


def test_an_export_leaves_the_older_one_whole_until_its_own_file_is_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where there is no room, and where the process is killed while it writes."""
    step, folder = make_step(DecoderConfig(256, 16, 32, 1, 2, 2, 8)), tmp_path / "model"
    count = step.parameters
    written_model.write_model(folder, torch.zeros(count), step)
    names, older = sorted(folder.iterdir()), (folder / SAFETENSORS_NAME).read_bytes()
    seen: list[bytes] = []

    def fail(piece: Tensor) -> memoryview:
        seen.append((folder / SAFETENSORS_NAME).read_bytes())
        if len(seen) > 1:
            raise OSError(ENOSPC, "No space left on device")
        return tensor_bytes(piece)

    with monkeypatch.context() as full:
        full.setattr(tensor_file, "tensor_bytes", fail)
        with pytest.raises(OSError, match="No space left"):
            written_model.write_model(folder, torch.ones(count), step)
    assert seen == [older, older] and sorted(folder.iterdir()) == names
    assert (folder / SAFETENSORS_NAME).read_bytes() == older
    written_model.write_model(folder, torch.ones(count), step)
    assert (folder / SAFETENSORS_NAME).read_bytes() != older and sorted(folder.iterdir()) == names


def make_foreign(names: tuple[str, ...] = ("w",), config: str = "", frozen: int = 0) -> TaskStep:
    """A step of 8 parameters as a stranger may post it. frozen: elements that are one number everywhere."""
    written = HandWritten(8)
    program = written.finish(*written.copies(W, M, V))
    each = tuple(ParameterEntry(name, (8 // len(names),), Start.ONES) for name in names)
    entries = (FrozenEntry("base", (frozen,), number=0.5),) if frozen else ()
    return TaskStep(BuiltProgram(program, written.constants), WeightsLayout(each, entries, config))


def test_an_export_that_the_disk_has_no_room_for_writes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a layout as small as its text, whose frozen numbers take 32 GB."""
    monkeypatch.setattr(
        "touchstone.node.exports.written_model.shutil.disk_usage", lambda path: SimpleNamespace(free=1 << 35)
    )
    with pytest.raises(InvalidInput, match="too little room for the model") as error:
        written_model.write_model(tmp_path / "new" / "model", torch.ones(8), make_foreign(frozen=1 << 33))
    assert int(str(error.value.expected).split()[0]) > 1 << 35 and f"{1 << 35} bytes" in str(
        error.value.actual
    )
    assert not list(tmp_path.iterdir())


def test_frozen_numbers_take_no_memory_before_they_are_written(tmp_path: Path) -> None:
    tensors = written_model.list_tensors(torch.ones(8), make_foreign(frozen=1 << 33))
    assert tensors["base"].shape == (1 << 33,) and tensors["base"].untyped_storage().nbytes() == 4
    written_model.write_model(tmp_path, torch.ones(8), make_foreign(frozen=3))
    assert torch.equal(load_file(tmp_path / SAFETENSORS_NAME)["base"], torch.full((3,), 0.5))


def test_a_folder_with_the_model_of_another_task_is_left_as_it_is(tmp_path: Path) -> None:
    """A config.json or an adapter that the new model does not have would be read as its own."""
    written_model.write_model(tmp_path, torch.ones(8), make_foreign(config='{"model_type": "gpt2"}'))
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    with pytest.raises(InvalidInput, match="model of another task"):
        written_model.write_model(tmp_path, torch.zeros(8), make_foreign())
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before
    written_model.write_model(tmp_path, torch.zeros(8), make_foreign(config='{"model_type": "gpt2"}'))
    assert not load_file(tmp_path / SAFETENSORS_NAME)["w"].any()


def test_a_parameter_is_not_renamed_to_a_name_that_is_taken(tmp_path: Path) -> None:
    config = '{"model_type":"gpt_neox"}'
    for names in (("lm_head.weight", "embed_out.weight"), ("embed_out.weight", "lm_head.weight")):
        folder = tmp_path / names[0]
        written_model.write_model(folder, torch.arange(8.0), make_foreign(names, config))
        found = load_file(folder / SAFETENSORS_NAME)
        assert torch.equal(torch.cat([found[name] for name in names]), torch.arange(8.0))
    written_model.write_model(tmp_path, torch.ones(8), make_foreign(("lm_head.weight",), config))
    assert set(load_file(tmp_path / SAFETENSORS_NAME)) == {"embed_out.weight"}


@pytest.mark.parametrize(
    ("config", "written"),
    [
        ('{"model_type": "gpt2", "auto_map": {"AutoModel": "a--b.C"}}', {"model_type": "gpt2"}),
        ('{"a": {"auto_\\u006dap": 1, "b": 2}, "quantization_config": {}}', {"a": {"b": 2}}),
        ('{"_attn_implementation": "a/b", "attn_implementation": "a/b", "custom_pipelines": {}}', {}),
        ("code", None), ("[1]", None), ("[" * 100_000, None), ('{"a":' * 50_000, None),
        ('"auto_map"', None), ("", None),
    ],
)  # fmt: skip
def test_a_config_is_written_without_what_loads_code(
    config: str, written: dict[str, Any] | None, tmp_path: Path
) -> None:
    written_model.write_model(tmp_path, torch.ones(8), make_foreign(config=config))
    file = tmp_path / "config.json"
    assert file.exists() == (written is not None)
    assert written is None or json.loads(file.read_text()) == written


@pytest.mark.parametrize(("config", "is_said"), [("code", True), ('{"a": 1}', False), ("", False)])
async def test_a_config_that_is_none_is_said(
    config: str, is_said: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    step, spec, said = make_foreign(config=config), get_spec(), list[str]()
    game = make_posted().state
    state = SimpleNamespace(games={TASK: game}, head_block=1)
    choice = choose_newest(game)

    async def load(*_: object) -> tuple[TaskSpec, Choice, Tensor]:
        return spec, choice, torch.ones(8)

    monkeypatch.setattr(export, "open_reader", lambda _: nullcontext(SimpleNamespace(state=state)))
    monkeypatch.setattr(export, "read_spec", lambda *_: spec)
    monkeypatch.setattr(export, "load_newest", load)
    monkeypatch.setattr(export, "get_step", lambda _: step)
    await export.run(cast(Any, SimpleNamespace(notify=said.append)), TASK, tmp_path / "out")
    assert any("no config.json" in one for one in said) == is_said
    assert spec.training.vocabulary_size == BYTE_VOCABULARY and not any(spec.training.tokenizer_sha256)
    assert (tmp_path / "out" / "tokenizer.json").read_bytes() == make_byte_tokenizer()


def post_model(stage: Stage, peer: Member, *, is_running: bool) -> bytes:
    """A peer has merged round 0, and its root is posted; the root. is_running: round 1 has begun."""
    root, _ = merge_model(peer)
    posted = replace(stage.world.state.rounds[0], phase=RoundPhase.POSTED, root=root)
    running = replace(posted, index=1, phase=RoundPhase.RUNNING, root=None)
    rounds = {0: posted, 1: running} if is_running else {0: posted}
    stage.world.state = replace(stage.world.state, rounds=rounds)
    stage.sync()
    members: Any = peer.state
    members.is_staked = lambda account: True
    return root


async def test_the_model_of_a_task_that_stands_is_fetched_once_and_stays_in_the_home(tmp_path: Path) -> None:
    async with open_stage(tmp_path, 1, 2) as stage:
        submitter, peer = stage.nodes[1], stage.nodes[2]
        root = post_model(stage, peer, is_running=True)
        assert not list(list_duties(submitter.get_view(), stage.world.block)), "a newer one comes"
        post_model(stage, peer, is_running=False)
        [duty] = list_duties(submitter.get_view(), stage.world.block)
        assert isinstance(duty, KeepModel) and duty.choice.root == root
        await duty.perform(submitter.rooms.last_model)
        assert not list(list_duties(submitter.get_view(), stage.world.block))
        home, store = submitter.config.home, submitter.store
    header = find_own_header(home, TASK, root)
    assert header is not None and store.has(refer_tensor(header.weights_root, COUNT))


async def test_a_kept_model_is_in_the_journal_though_it_could_not_be_written_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else export finds nothing in the home, which says that it keeps the model."""
    async with open_stage(tmp_path, 1, 2) as stage:
        submitter, peer = stage.nodes[1], stage.nodes[2]
        root = post_model(stage, peer, is_running=False)

        def refuse(record: Any) -> None:
            raise EnvironmentFault(what="the journal cannot be written", expected="", actual="", remedy="")

        (duty,) = list_duties(submitter.get_view(), stage.world.block)
        with monkeypatch.context() as full:
            full.setattr(submitter.journal, "append", refuse)
            with pytest.raises(EnvironmentFault, match="cannot be written"):
                await duty.perform(submitter.rooms.last_model)
        (again,) = list_duties(submitter.get_view(), stage.world.block)
        await again.perform(submitter.rooms.last_model)
        await again.perform(submitter.rooms.last_model)
        assert not list(list_duties(submitter.get_view(), stage.world.block))
        assert len([one for one in submitter.journal.replay() if isinstance(one, OuterShown)]) == 1
        home = submitter.config.home
    assert find_own_header(home, TASK, root) is not None


async def test_a_model_is_kept_once_it_survives_a_power_cut(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file and its name are flushed before the journal says that it is kept."""
    async with open_stage(tmp_path, 1, 2) as stage:
        submitter, peer = stage.nodes[1], stage.nodes[2]
        post_model(stage, peer, is_running=False)
        (duty,) = list_duties(submitter.get_view(), stage.world.block)
        flushed: list[int] = []
        sync, store = os.fsync, submitter.store

        def refuse(handle: int) -> None:
            raise OSError(5, "Input/output error")

        def note(handle: int) -> None:
            flushed.append(os.fstat(handle).st_ino)
            sync(handle)

        monkeypatch.setattr(os, "fsync", refuse)
        with pytest.raises(EnvironmentFault, match="blob store cannot be written"):
            await duty.perform(submitter.rooms.last_model)
        assert list(list_duties(submitter.get_view(), stage.world.block)) == [duty]
        monkeypatch.setattr(os, "fsync", note)
        await duty.perform(submitter.rooms.last_model)
        header = submitter.rooms.tools.claims.outer[duty.choice.root]
        path = store.get_path(refer_tensor(header.weights_root, COUNT).key)
        files = {path, *path.parent.glob(f"{path.name}*"), path.parent}
        assert {one.stat().st_ino for one in files} <= set(flushed)


async def test_a_task_without_a_posted_root_has_no_model_to_keep(tmp_path: Path) -> None:
    async with open_stage(tmp_path, 1) as stage:
        stage.world.state = replace(stage.world.state, rounds={}, is_halted=True)
        assert stage.world.state.root == stage.world.state.terms.root
        stage.sync()
        assert not list(list_duties(stage.nodes[1].get_view(), stage.world.block))
