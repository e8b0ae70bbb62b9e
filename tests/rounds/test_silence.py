"""Somebody silent somewhere, on the real contracts: all ends, all is paid, and the machine says the same.

A sample, chosen by a seed; `lab/benchmarks/silence.py` plays more.
"""

from collections.abc import Iterator

import pytest

from tests.protocol.spec.game.silences import list_flaws
from tests.rounds.chain import RoundChain, open_round_chain
from tests.rounds.chain_simulation import ChainSimulation, choose_silences, open_faulty
from touchstone.protocol.spec.game.enums import ProofKind
from touchstone.protocol.spec.game.events import RootFell, RootStood, SeatConvicted
from touchstone.protocol.spec.game.presets import BOUNDS_LOCAL

SEED = 4
SAMPLE = 2


@pytest.fixture(scope="module")
def chain(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RoundChain]:
    """The contracts on an Anvil of their own."""
    with open_round_chain(tmp_path_factory.mktemp("silence"), BOUNDS_LOCAL) as opened:
        yield opened


@pytest.fixture(scope="module")
def undisturbed(chain: RoundChain) -> ChainSimulation:
    """The play in which nobody is silent."""
    world = open_faulty(chain, 0)
    world.play()
    return world


def test_the_play_on_the_contracts_has_trouble_in_it(undisturbed: ChainSimulation) -> None:
    assert not list_flaws(undisturbed, None)
    log = [event for _, event in undisturbed.log]
    assert {RootFell, RootStood} <= {type(event) for event in log}
    proofs = {event.proof for event in log if isinstance(event, SeatConvicted)}
    assert {ProofKind.DISPUTED, ProofKind.WRONG_MERGE} <= proofs


def test_whoever_is_silent_the_contracts_end_and_pay(chain: RoundChain, undisturbed: ChainSimulation) -> None:
    for salt, silent in enumerate(choose_silences(undisturbed, SEED, SAMPLE), start=1):
        world = open_faulty(chain, salt, silent)
        world.play()
        assert not list_flaws(world, silent.party), silent
