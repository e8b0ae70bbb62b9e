"""What holds stake, by the chain's events, beside what the vault has locked; and until when."""

import asyncio
from collections.abc import Iterator

import pytest

from protocol.actions.view import View
from protocol.adapters.chain import open_chain
from protocol.spec.exposure import list_exposures
from scripts.holdings import list_holdings
from scripts.pace import Pace
from scripts.tasks import compute_closing, read_view
from tests.e2e.test_twin import DISPUTES, HONEST, ROUNDS
from tests.e2e.twin import STAKED, RoundTwin, Script, make_account, prepare
from tests.e2e.twin_chain import Sending, TwinChain, open_twin_chain
from tests.e2e.twin_dispute import DisputeTwin
from tests.scripts.money import UNBONDING_BLOCKS, play_blocks, play_until, without

AUDITOR, SOLVER = make_account("verifier:0"), make_account("solver:0")
KEEPER, OUTSIDER, OTHER = make_account("keeper"), make_account("outsider"), make_account("other")


@pytest.fixture(scope="module")
def deployed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TwinChain]:
    with open_twin_chain(tmp_path_factory.mktemp("holdings"), UNBONDING_BLOCKS) as chain:
        prepare(chain)
        yield chain


@pytest.fixture
def chain(deployed: TwinChain) -> Iterator[TwinChain]:
    snapshot = deployed.snapshot()
    yield deployed
    deployed.revert(snapshot)


def read(chain: TwinChain) -> View:
    """All events of the chain, folded."""

    async def read_all() -> View:
        async with open_chain(chain.rpc_url, chain.deployment) as connected:
            return await read_view(connected)

    return asyncio.run(read_all())


def tell(chain: TwinChain, account: str) -> str:
    """What holds an account's stake and until when; blocks without their time."""
    found = list_holdings(read(chain), account, Pace(chain.head, None))
    return "; ".join(f"{one.amount_wei // 10**18} {one.what}: {one.until}" for one in found)


def require_all_explained(chain: TwinChain) -> None:
    """Every account's exposures add up to what the vault has locked of it, and each has its event."""
    view = read(chain)
    for account in STAKED:
        found = list_exposures(view.events, account)
        assert sum(one.amount_wei for one in found) == chain.read("StakeVault", "lockedOf", account)
        assert all(one.cause is not None for one in found)


def require_closing(chain: TwinChain, task: bytes) -> bool:
    """Whether the task can be closed in the next block, by the events and by the contract alike."""
    view, block = read(chain), chain.head + 1
    if view.tasks[task].is_closed:
        return True
    expiry_block = chain.read("TaskRegistry", "expiryBlock", task)
    closing = compute_closing(view.tasks[task], expiry_block, UNBONDING_BLOCKS, block)
    snapshot = chain.snapshot()
    (outcome,) = chain.mine([Sending(OUTSIDER, "TaskRegistry", "closeTask", (task,))])
    chain.revert(snapshot)
    assert outcome.error == (None if closing.is_ready else "NotYet")
    if outcome.error and outcome.values["ready_block"]:
        assert closing.ready_block == outcome.values["ready_block"]
    return closing.is_ready


@pytest.mark.parametrize(
    "name",
    [
        "two solvers",
        "primary far, reserves equal",
        "late far",
        "two verifiers",
        "nothing committed",
        "nobody settles the merge",
    ],
)
def test_every_lock_of_a_round_is_explained(chain: TwinChain, name: str) -> None:
    script: Script = ROUNDS[name]
    twin = RoundTwin(chain, without(script, "advance"), rounds=1)
    for block in sorted({int(step["block"]) for step in twin.script["steps"]}):
        play_blocks(twin, block, block + 1)
        require_all_explained(chain)
        require_closing(chain, twin.state.task)
    assert require_closing(chain, twin.state.task) == (name != "nobody settles the merge")


def play_dispute(twin: DisputeTwin, first: int, end: int) -> None:
    """The steps of the blocks [first, end) of the script."""
    for block in sorted({int(step["block"]) for step in twin.script["steps"]}):
        if first <= block < end:
            steps = [step for step in twin.script["steps"] if step["block"] == block]
            twin.play_block(twin.base_block + block, steps)


@pytest.mark.parametrize("name", ["nothing proven", "trace of an auditor", "second dispute waits its turn"])
def test_every_lock_of_a_dispute_is_explained(chain: TwinChain, name: str) -> None:
    twin = DisputeTwin(chain, ROUNDS[HONEST], DISPUTES[name])
    for block in sorted({int(step["block"]) for step in twin.script["steps"]}):
        play_dispute(twin, block, block + 1)
        require_all_explained(chain)


def test_a_seat_is_released_when_its_round_is_settled(chain: TwinChain) -> None:
    twin = RoundTwin(chain, ROUNDS[HONEST])
    task = f"0x{twin.state.task.hex()[:12]}"
    play_until(twin, "judge")
    assert f"200 seat as solver in round 1/2 of {task}: from block" in tell(chain, SOLVER)
    assert "at the latest" in tell(chain, SOLVER)
    play_blocks(twin, 50, 105)
    assert twin.state.outer is not None
    found = tell(chain, SOLVER)
    assert "at the latest" not in found
    settle_block = int(found.split("from block ")[1].split(",")[0])
    chain.mine_to(settle_block - 1)
    assert "from block" in tell(chain, SOLVER)
    chain.mine_to(settle_block)
    assert "now: a running node of the task settles it" in tell(chain, SOLVER)
    assert "settleClaims(TASK, 0, 0, 1)" in tell(chain, SOLVER)
    assert "settleClaims(TASK, 0, 0, 1) and then RoundLedger.settleEnrolments(TASK, 0, 0, 4)" in tell(
        chain, AUDITOR
    )
    # The calls that are named are those that release it.
    name = twin.state.task
    settle = Sending(OUTSIDER, "RoundLedger", "settleClaims", (name, 0, 0, 1))
    release = Sending(OUTSIDER, "RoundLedger", "settleEnrolments", (name, 0, 0, 4))
    assert not any(one.error for one in chain.mine([settle]))
    assert tell(chain, SOLVER) == ""
    assert "settleClaims" not in tell(chain, AUDITOR)
    assert not any(one.error for one in chain.mine([release]))
    assert tell(chain, AUDITOR) == ""


def test_a_round_that_stays_empty_releases_its_seats_at_once(chain: TwinChain) -> None:
    twin = RoundTwin(chain, ROUNDS["no solver"])
    play_until(twin, "sealBeacon")
    assert "seat as verifier" in tell(chain, AUDITOR) and "now" not in tell(chain, AUDITOR)
    chain.mine_to(twin.state.deadlines.beacon_end)
    assert "now: a running node" in tell(chain, AUDITOR)


def test_a_contest_holds_both_roots_until_it_ends(chain: TwinChain) -> None:
    twin = RoundTwin(chain, ROUNDS[HONEST])
    play_until(twin, "sealLate")
    assert "50 outer root that you posted" in tell(chain, KEEPER) and "from block" in tell(chain, KEEPER)
    rival = (twin.state.task, 0, bytes(31) + b"\1", bytes(32), 0)
    (outcome,) = chain.mine([Sending(OUTSIDER, "OuterContest", "contest", rival)])
    assert outcome.error is None
    clock_block = chain.head + twin.terms.windows.respond
    for account, what in ((KEEPER, "that you posted"), (OUTSIDER, "by which you contest another")):
        assert f"50 outer root {what}" in tell(chain, account)
        assert f"when a contest has ended, whose clock ends in block {clock_block}" in tell(chain, account)
    # Another rival contests the same root.
    second = (twin.state.task, 0, bytes(31) + b"\2", bytes(32), 0)
    (outcome,) = chain.mine([Sending(OTHER, "OuterContest", "contest", second)])
    assert outcome.error is None
    require_all_explained(chain)
    # The poster says nothing: the rival's root takes the place, and its bond stays behind it.
    chain.mine_to(clock_block)
    (outcome,) = chain.mine([Sending(OUTSIDER, "OuterContest", "timeout", (twin.state.task, 0, OUTSIDER))])
    assert outcome.error is None
    assert tell(chain, KEEPER) == "" and "that you posted" in tell(chain, OUTSIDER)
    # The root that the other one contests stands no more, so it loses nothing and need not wait.
    assert "OuterContest.timeout(TASK, 0, YOU)" in tell(chain, OTHER)
    require_all_explained(chain)
    (outcome,) = chain.mine([Sending(KEEPER, "OuterContest", "timeout", (twin.state.task, 0, OTHER))])
    assert outcome.error is None and tell(chain, OTHER) == ""


def test_a_dispute_holds_its_bond_and_the_claim(chain: TwinChain) -> None:
    twin = DisputeTwin(chain, ROUNDS[HONEST], DISPUTES["opener silent"])
    play_dispute(twin, 0, 3)
    opener, clock_block = twin.opener_of("a"), chain.head + twin.terms.windows.name
    name = f"dispute 0x{twin.id_of('a').hex()[:8]}"
    assert f"10 your dispute on slot 0 in round 1/2 of 0x{twin.round.state.task.hex()[:12]}: {name} " in tell(
        chain, opener
    )
    assert f"{name} goes on until block {clock_block}" in tell(chain, opener)
    claimed = tell(chain, twin.claimant)
    assert "not before a dispute ends" in claimed and f"block {clock_block}" in claimed
    # An auditor's seat waits for all claims of its round, so for their disputes as well.
    assert "not before a dispute ends" in tell(chain, AUDITOR)
    chain.mine_to(clock_block)
    assert f"{name} has run out of time: a running node" in tell(chain, opener)
    (outcome,) = chain.mine([Sending(OUTSIDER, "DisputeGame", "timeout", (twin.id_of("a"),))])
    assert outcome.error is None
    assert tell(chain, opener) == "" and "dispute" not in tell(chain, twin.claimant)


def test_a_dispute_holds_no_other_claim(chain: TwinChain) -> None:
    twin = DisputeTwin(chain, ROUNDS["two solvers"], DISPUTES["opener silent"])
    play_dispute(twin, 0, 3)
    assert "not before a dispute ends" in tell(chain, SOLVER)
    assert "dispute" not in tell(chain, make_account("solver:1"))
    assert "not before a dispute ends" in tell(chain, AUDITOR)


def test_of_a_closed_task_no_node_settles_anything(chain: TwinChain) -> None:
    twin = RoundTwin(chain, without(ROUNDS[HONEST], "advance"), rounds=1)
    play_blocks(twin, 0, 105)
    assert twin.state.ready_block is not None
    chain.mine_to(twin.state.ready_block + UNBONDING_BLOCKS)
    assert "now: a running node of the task settles it; anybody may call" in tell(chain, SOLVER)
    (outcome,) = chain.mine([Sending(OUTSIDER, "TaskRegistry", "closeTask", (twin.state.task,))])
    assert outcome.error is None
    assert "now: anybody may call RoundLedger.settleClaims(TASK, 0, 0, 1)" in tell(chain, SOLVER)


def test_a_dispute_in_the_queue_waits_for_its_turn(chain: TwinChain) -> None:
    twin = DisputeTwin(chain, ROUNDS[HONEST], DISPUTES["second dispute waits its turn"])
    opened = [int(step["block"]) for step in twin.script["steps"] if step["call"] == "openDispute"]
    play_dispute(twin, 0, max(opened) + 1)
    assert "waits for its turn" in tell(chain, twin.opener_of("b"))
