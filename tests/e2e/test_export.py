"""Exporting without stake on a running network: who gets which model, over HTTPS, from nodes at work."""

import asyncio
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

import pytest
from eth_account import Account
from safetensors.torch import load_file

from protocol.actions.global_model import GlobalModel
from protocol.actions.loop import Due
from protocol.actions.participant import Participant
from protocol.actions.party import Party
from protocol.adapters.chain import open_chain
from protocol.adapters.keys import AccountKey
from protocol.compute.export import SAFETENSORS_NAME, export_tensors
from protocol.spec.calls import Call
from protocol.spec.containers import OuterHeader
from protocol.spec.errors import InvalidInput
from protocol.spec.round import RoundState, get_model
from tests.e2e import first_export as export
from tests.e2e.reading import list_rounds
from tests.e2e.roles import make_solver, make_verifier
from tests.e2e.world import LOOK_S, ONE_ROUND_PLAN, WINDOWS, Build, World, open_world, run_world

# While somebody holds the clock a block takes half a second: no model is settled before all have asked.
PLAN = replace(ONE_ROUND_PLAN, windows=replace(WINDOWS, merge=4_000, dispute=4_000))
CAST: dict[str, Build] = {"solver": make_solver, **{f"verifier-{i}": make_verifier for i in range(3)}}


def list_nothing(state: RoundState, me: str, block: int) -> tuple[Call, ...]:
    return ()


@dataclass(frozen=True)
class Wait:
    """Be at work until the test goes on."""

    stage: int


@dataclass
class Holder(Participant):
    """Takes part in nothing. It is at work at each stage until the test releases it: no block is skipped."""

    released: list[asyncio.Event] = field(default_factory=lambda: [asyncio.Event(), asyncio.Event()])

    def get_stage(self) -> int:
        """How far the round is: 0 its root is posted, 1 its merge is settled; -1 before."""
        [state] = list_rounds(self.party.view)
        return int(state.outer is not None) + int(state.is_merge_settled) - 1

    def decide(self, block: int) -> Due[Hashable]:
        stage = self.get_stage()
        is_held = stage >= 0 and not self.released[stage].is_set()
        due = super().decide(block)
        return Due([*due.actions, Wait(stage)] if is_held else due.actions, due.next_block)

    async def perform(self, action: Hashable) -> None:
        if isinstance(action, Wait):
            await self.released[action.stage].wait()
        else:
            await super().perform(action)


def make_holder(party: Party, made: list[Holder]) -> Participant:
    made.append(Holder(party, list_nothing))
    return made[-1]


async def wait_until(is_so: Callable[[], bool]) -> None:
    while not is_so():
        await asyncio.sleep(LOOK_S)


async def export_as(world: World, name: str, folder: Path) -> Path:
    """What `touchstone export` does, in a home of its own: nothing is in its store."""
    home = folder / f"home of {name} for {len(world.lines)}"
    home.mkdir(mode=0o700)
    config = replace(world.configure(name), home=home)
    await export.run(config, world.task, home / "model")
    return home / "model"


async def require_model(folder: Path, model: GlobalModel, header: OuterHeader) -> None:
    """The folder holds the weights under these roots."""
    found, weights = load_file(folder / SAFETENSORS_NAME), await model.load_weights(header)
    expected = export_tensors(weights, model.spec.training.model)
    assert found.keys() == expected.keys()
    assert all(found[name].equal(expected[name]) for name in expected)


async def try_all(world: World, holders: list[Holder], folder: Path) -> None:
    """Export at each stage of the round."""
    await wait_until(lambda: bool(holders) and holders[0].get_stage() == 0)
    [holder] = holders
    [posted] = list_rounds(holder.party.view)
    model, header = holder.party.model, get_model(posted)
    with pytest.raises(InvalidInput) as refusal:
        await export_as(world, "stranger", folder)
    assert f"round 0 is settled, at about block {posted.ready_block} " in refusal.value.remedy
    await require_model(await export_as(world, "submitter", folder), model, header)
    assert "wrote the model after round 0" in world.lines[-1] and "replace" in world.lines[-1]
    assert holder.get_stage() == 0, "it was not settled meanwhile"

    holder.released[0].set()
    await wait_until(lambda: holder.get_stage() == 1)
    await require_model(await export_as(world, "stranger", folder), model, header)
    assert "wrote the model after round 0" in world.lines[-1] and "replace" not in world.lines[-1]


async def test_an_account_without_coin_or_stake_exports_what_is_settled(tmp_path: Path) -> None:
    holders: list[Holder] = []
    cast: dict[str, Build] = {**CAST, "holder": partial(make_holder, made=holders)}
    async with open_world(tmp_path, list(cast), unbonding_blocks=40_000) as world:
        world.keys["stranger"] = AccountKey(Account.create())  # Nobody gave it anything.
        done = asyncio.Event()
        running = asyncio.create_task(run_world(world, PLAN, cast, lambda view: done.is_set()))
        trying = asyncio.create_task(try_all(world, holders, tmp_path))
        try:
            await asyncio.wait((running, trying), return_when=asyncio.FIRST_COMPLETED)
            if running.done():
                await running
            await trying
        finally:
            done.set()
            trying.cancel()
            await running
        async with open_chain(world.devnet.rpc_url, world.deployment) as chain:
            stranger = world.keys["stranger"].address.lower()
            assert not (await chain.registry.peer_of(stranger)).url, "it announced nothing"
