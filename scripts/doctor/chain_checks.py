"""Checks a home's chain: its contracts, the named task, its newest block."""

import asyncio

from touchstone.protocol.adapters.chain.answers import Head
from touchstone.protocol.adapters.chain.chain_client import GameChain, open_game_chain
from touchstone.protocol.adapters.chain.gate import BLOCK_S
from touchstone.protocol.adapters.wire.request_signing import MAX_AGE_SECONDS
from touchstone.protocol.spec.errors import EnvironmentFault
from touchstone.scripts.account.task_names import find_game, read_state, show_task
from touchstone.scripts.doctor.patient import NotTested, Patient
from touchstone.scripts.home.home_making import judge_contracts

LATE_BLOCKS = 3
"""The number of blocks in a row that may be missing or late."""
LOOK_S = 1.0
CATCH_UP = 3.0
"""If the chain's time runs this many times as fast as the machine's, the chain's node is catching up."""


async def check_chain(patient: Patient) -> str:
    """Checks that the chain answers, and has the right id, and the contracts of the deployment."""
    config = patient.get_config()
    urls = config.endpoints if patient.sound_urls is None else patient.sound_urls
    if not urls:
        raise NotTested("no endpoint shows the deployment's chain")
    deployment = config.read_deployment()
    patient.chain = await patient.opened.enter_async_context(open_game_chain(urls, deployment))
    patient.state = await read_state(patient.chain, config.account)
    return f"chain id {deployment.chain_id}, block {patient.state.head_block}"


async def check_contracts(patient: Patient) -> str:
    """Checks that all contracts of the deployment are those of this version, and were created by its code."""
    return await judge_contracts(patient.get_chain())


async def check_task(patient: Patient) -> str:
    """Checks that the named task is on the chain."""
    state = patient.get_state()
    if patient.task_name is None:
        raise NotTested("no task was named")
    patient.task, _ = find_game(state, patient.task_name)
    return show_task(patient.task)


async def check_head(patient: Patient) -> str:
    """Checks that the newest block is not old, and that the clocks of chain and machine agree. Peers refuse a
    request that is more than a minute older or younger than their own clock."""
    chain, block_s = patient.get_chain(), BLOCK_S.get(patient.get_config().preset)
    if await chain.connection.request("eth_syncing"):
        raise _lagging(chain, "its node says that it is catching up")
    if block_s is None:
        raise NotTested("the clock of a test network skips")
    head = await chain.head()
    ahead_s = patient.now() - head.timestamp_s
    if -MAX_AGE_SECONDS <= ahead_s <= MAX_AGE_SECONDS + LATE_BLOCKS * block_s:
        return f"block {head.number} is {ahead_s:.0f} s old"
    if ahead_s > 0:
        await _require_growth(patient, chain, head, LATE_BLOCKS * block_s)
    raise _wrong_clock(head, ahead_s)


async def _require_growth(patient: Patient, chain: GameChain, first: Head, within_s: float) -> None:
    """Raises an error about the clock if new blocks are equally late and come at the usual pace."""
    began_s = patient.now()
    while (spent_s := patient.now() - began_s) < within_s:
        await asyncio.sleep(LOOK_S)
        head = await chain.head()
        if head.number > first.number:
            grown_s, took_s = head.timestamp_s - first.timestamp_s, max(patient.now() - began_s, LOOK_S)
            if grown_s > CATCH_UP * took_s + within_s:
                raise _lagging(
                    chain, f"its time advanced {grown_s} s in {took_s:.0f} s: its node is catching up"
                )
            return
    age_s = patient.now() - first.timestamp_s
    raise _lagging(chain, f"block {first.number}, {age_s:.0f} s old, and no other in {spent_s:.0f} s")


def _lagging(chain: GameChain, actual: str) -> EnvironmentFault:
    return EnvironmentFault(
        what="the head of the chain lags behind",
        expected="blocks as they are made",
        actual=actual,
        where=chain.connection.place,
        remedy="Wait until that node has caught up, or set rpc_url in config.toml to another one.",
    )


def _wrong_clock(head: Head, ahead_s: float) -> EnvironmentFault:
    return EnvironmentFault(
        what="the clock of this machine is wrong",
        expected=f"within {MAX_AGE_SECONDS} s of the chain's, or peers refuse its requests",
        actual=f"{abs(ahead_s):.0f} s {'ahead of' if ahead_s > 0 else 'behind'} block {head.number}",
        remedy="Let it be set by NTP: `timedatectl set-ntp true`, then `timedatectl`.",
    )
