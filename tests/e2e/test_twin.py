"""The contracts and the Python machine, step by step through every committed sequence.

All of them take about half a minute. `TOUCHSTONE_TWIN_RANDOM=200` adds as many random rounds: any calls left
out, any results, any words.
"""

import json
import os
import random
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from protocol.spec import calls
from protocol.spec.round import RoundState
from protocol.spec.settlement import Settlement, settle
from tests.e2e.twin import RoundTwin, prepare
from tests.e2e.twin_chain import TwinChain, open_twin_chain
from tests.e2e.twin_dispute import DisputeTwin
from tests.protocol.spec.play import Play, Plot, to_json
from tests.protocol.spec.strategies import AUDITS, LABELS

VECTORS = Path(__file__).parents[1] / "vectors"
ROUNDS: dict[str, Any] = {
    script["name"]: script for script in json.loads((VECTORS / "round.json").read_text())["scripts"]
}
DISPUTES: dict[str, Any] = {
    script["name"]: script for script in json.loads((VECTORS / "dispute.json").read_text())["scripts"]
}
RANDOM_ROUNDS = int(os.environ.get("TOUCHSTONE_TWIN_RANDOM", "4"))
HONEST = "all honest"


@pytest.fixture(scope="module")
def deployed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TwinChain]:
    with open_twin_chain(tmp_path_factory.mktemp("twin")) as chain:
        prepare(chain)
        yield chain


@pytest.fixture
def chain(deployed: TwinChain) -> Iterator[TwinChain]:
    """The same chain, as it was before any script."""
    snapshot = deployed.snapshot()
    yield deployed
    deployed.revert(snapshot)


@pytest.mark.parametrize("name", ROUNDS)
def test_round(chain: TwinChain, name: str) -> None:
    RoundTwin(chain, ROUNDS[name]).play()


@pytest.mark.parametrize("name", DISPUTES)
def test_dispute(chain: TwinChain, name: str) -> None:
    DisputeTwin(chain, ROUNDS[HONEST], DISPUTES[name]).play()


def make_random_plot(seed: int) -> Plot:
    dice = random.Random(seed)
    unsaid: tuple[type[calls.SayUnserved] | type[calls.Abstain], ...] = (calls.SayUnserved, calls.Abstain)
    words = {f"commitReplay.{rank}": dice.choice(unsaid) for rank in (0, 1, 2)}
    return Plot(
        name=f"random {seed}",
        solvers=dice.randint(1, 2),
        verifiers=dice.randint(3, 5),
        whistleblowers=dice.randint(0, 2),
        silent=frozenset(dice.sample(LABELS, dice.randint(0, 3))),
        words={label: word for label, word in words.items() if dice.random() < 0.2},
        results={key: dice.choice(["equal", "near", "far"]) for key in AUDITS if dice.random() < 0.6},
        is_repeated=dice.random() < 0.3,
        is_probed=dice.random() < 0.5,
    )


@pytest.mark.parametrize("seed", range(RANDOM_ROUNDS))
def test_random_round(chain: TwinChain, seed: int) -> None:
    RoundTwin(chain, json.loads(json.dumps(to_json(Play(make_random_plot(seed)).run())))).play()


@pytest.mark.parametrize("change", ["error", "events", "penalties", "claims"])
def test_another_answer_is_noticed(chain: TwinChain, change: str) -> None:
    script = json.loads(json.dumps(ROUNDS["primary silent"]))
    step = next(step for step in script["steps"] if step.get("penalties"))
    wrong: dict[str, Any] = {"error": "NothingDue", "events": [], "penalties": []}
    (step if change in wrong else script)[change] = wrong.get(change, {"0": "VOID"})
    with pytest.raises(AssertionError):
        RoundTwin(chain, script).play()


def test_other_money_is_noticed(chain: TwinChain, monkeypatch: pytest.MonkeyPatch) -> None:
    def settle_unpaid(state: RoundState, slot: int, block: int) -> Settlement:
        return replace(settle(state, slot, block), is_solver_paid=False)

    monkeypatch.setattr("tests.e2e.twin.settle", settle_unpaid)
    with pytest.raises(AssertionError, match="settleClaim"):
        RoundTwin(chain, ROUNDS[HONEST]).play()
