"""Whoever is silent, wherever: every round, audit, dispute and task ends, by calls that a stranger may send,
and then everybody takes out what is left to the last wei.

Rounds are made from the duties (`tests/protocol/spec/play.py`) and played against the contracts; the keeper
of those is an account without a role. Disputes are those of the shared sequences in which somebody says
nothing more.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from protocol.spec import calls
from protocol.spec.clock import NEVER
from protocol.spec.dispute import OPEN_STAGES
from protocol.spec.duties import get_next_deadline
from protocol.spec.events import Event
from protocol.spec.keeping import get_keeper_actions
from protocol.spec.round import process_event
from tests.e2e.test_twin import DISPUTES, HONEST, ROUNDS
from tests.e2e.twin import STAKED, SUBMITTER, RoundTwin, make_account, prepare
from tests.e2e.twin_chain import Sending, TwinChain, open_twin_chain
from tests.e2e.twin_dispute import DisputeTwin
from tests.protocol.spec.play import Play, Plot, get_label, to_json
from tests.protocol.spec.strategies import LABELS

STRANGER = make_account("outsider")
UNBONDING_BLOCKS = 1000
"""Longer than all windows of the tiny world together, and soon mined."""
KEEPER_LABELS = frozenset(
    {"sealBeacon", "sealDraw", "sealLate", "judge", "postOuter", "settleMerge", "advance"}
    | {f"sealLeaves.{phase}" for phase in range(3)}
)
"""Anybody may send these."""
SCENES: tuple[dict[tuple[int, int, int], str], ...] = (
    {},
    {(0, 0, 0): "far", (0, 0, 1): "far", (0, 0, 2): "far", (0, 1, 0): "far"},
    {(0, 0, 0): "far", (0, 1, 0): "far"},
)
"""All agree; nobody does; only the first auditor and the late one do not."""


@pytest.fixture
def chain(tmp_path: Path) -> Iterator[TwinChain]:
    with open_twin_chain(tmp_path, UNBONDING_BLOCKS) as chain:
        prepare(chain)
        yield chain


def list_labels(plot: Plot) -> list[str]:
    """What is due in a round where nobody is silent, in its order."""
    play = Play(plot).run()
    return list(dict.fromkeys(get_label(play.sim.state, step.call) for step in play.steps))


def list_plots() -> Iterator[Plot]:
    """One party silent at each point, and from each point on all of them: in the first scene that has it."""
    seen = set[str]()
    for scene in SCENES:
        labels = [label for label in list_labels(Plot("", results=scene)) if label in LABELS]
        for place, label in enumerate(labels):
            if label in seen:
                continue
            seen.add(label)
            yield Plot(f"{label} silent", silent=frozenset({label}), results=scene)
            if label not in KEEPER_LABELS:
                rest = frozenset(labels[place:]) - KEEPER_LABELS
                yield Plot(f"all silent from {label} on", silent=rest, results=scene)


PLOTS = {plot.name: plot for plot in list_plots()}


def test_no_point_is_left_out() -> None:
    assert {name.removesuffix(" silent") for name in PLOTS if name.endswith(" silent")} == set(LABELS)


def test_rounds_end_and_pay_out(chain: TwinChain) -> None:
    """One task after another; then everybody leaves at once."""
    twins = []
    for plot in PLOTS.values():
        twin = RoundTwin(chain, to_json(Play(plot).run()))
        twin.play_steps()
        settle_all(twin)
        twins.append(twin)
    leave(chain, twins)


def test_disputes_end_and_pay_out(chain: TwinChain) -> None:
    """Whatever was said in one last, nobody who takes part says anything more."""
    twins = []
    for script in DISPUTES.values():
        twin = DisputeTwin(chain, ROUNDS[HONEST], script)
        twin.play_steps()
        end_disputes(twin)
        settle_all(twin.round)
        twins.append(twin.round)
    leave(chain, twins)


def end_disputes(twin: DisputeTwin) -> None:
    """A stranger tells each dispute, when its time is over, that it is."""
    while waiting := [one for one in twin.book.disputes.items() if one[1].stage in OPEN_STAGES]:
        block = min(dispute.timeout_block for _, dispute in waiting)
        twin.chain.mine_to(max(block - 1, twin.chain.head))
        sendings = [Sending(STRANGER, "DisputeGame", "timeout", (name,)) for name, _ in waiting]
        outcomes = twin.chain.mine(sendings)
        assert any(outcome.error is None for outcome in outcomes), outcomes
        for outcome in outcomes:
            twin.fold(outcome)


def leave(chain: TwinChain, twins: Sequence[RoundTwin]) -> None:
    """A stranger closes the tasks; all unbond, withdraw and claim. Nothing is left in the vault but what is
    to be burned, and then that is burned."""
    tasks = [twin.state.task for twin in twins]
    chain.mine_to(max(chain.read("TaskRegistry", "expiryBlock", task) for task in tasks))
    send(chain, *(Sending(STRANGER, "TaskRegistry", "closeTask", (task,)) for task in tasks))
    assert not any(chain.read("StakeVault", "escrowOf", task) for task in tasks)
    locked = read_of_all(chain, "lockedOf", STAKED)
    assert not any(locked.values()), locked
    free = {one: wei for one, wei in read_of_all(chain, "freeOf", STAKED).items() if wei}
    send(chain, *(Sending(one, "StakeVault", "requestUnbond", (wei,)) for one, wei in free.items()))
    chain.mine_to(chain.head + chain.read("StakeVault", "unbondingBlocks"))
    send(chain, *(Sending(one, "StakeVault", "withdraw", ()) for one in free))
    credit = read_of_all(chain, "creditOf", [SUBMITTER, *STAKED])
    send(chain, *(Sending(one, "StakeVault", "claim", ()) for one, wei in credit.items() if wei))
    burned, vault = chain.read("StakeVault", "burnPending"), chain.deployment.vault
    assert burned and chain.read("IERC20", "balanceOf", vault) == burned
    send(chain, Sending(STRANGER, "StakeVault", "burn", ()))
    assert chain.read("IERC20", "balanceOf", vault) == 0


def read_of_all(chain: TwinChain, view: str, accounts: Sequence[str]) -> dict[str, int]:
    """What the vault says of each account, in wei."""
    answers = chain.read_all([("StakeVault", view, (one,)) for one in accounts])
    return dict(zip(accounts, answers, strict=True))


def settle_all(twin: RoundTwin) -> None:
    """All that anybody may send for the round, when it is due."""
    chain = twin.chain
    while True:
        block = chain.head + 1
        due = [
            call for call in get_keeper_actions(twin.state, block) if not isinstance(call, calls.PostOuter)
        ]
        if due:
            for event in send(chain, twin.open_maker(STRANGER).make_sending(due[0])):
                twin.state = process_event(twin.state, event)
        elif (deadline := get_next_deadline(twin.state, block)) != NEVER:
            chain.mine_to(deadline - 1)
        else:
            return


def send(chain: TwinChain, *sendings: Sending) -> list[Event]:
    """All in one block; none may be refused."""
    outcomes = chain.mine(sendings)
    assert not [outcome for outcome in outcomes if outcome.error], (sendings, outcomes)
    return [event for outcome in outcomes for event in outcome.events]
