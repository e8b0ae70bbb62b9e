"""One chain with two tasks for all tests of the explorer that only read."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from tests.explorer.many_accounts import CHEAT, DEPLOYMENT, make_address, make_chain
from tests.explorer.many_accounts_files import CHEATED_ROUNDS, CHEATED_SOLVERS, make_files, report
from tests.explorer.plays import play_task
from tests.rounds.chain import RoundChain, open_round_chain
from tests.rounds.player import Player
from touchstone.explorer.chain_view import ChainView
from touchstone.explorer.event_index import EventIndex
from touchstone.explorer.names import Names
from touchstone.protocol.spec.game.presets import BOUNDS_LOCAL


@pytest.fixture(scope="session")
def chain(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RoundChain]:
    """The contracts on an Anvil of their own."""
    with open_round_chain(tmp_path_factory.mktemp("explorer"), BOUNDS_LOCAL) as opened:
        yield opened


@pytest.fixture(scope="session")
def players(chain: RoundChain) -> list[Player]:
    """Three tasks, played one after the other. The last one goes on, so seats of it are active."""
    return [play_task(chain, 14), play_task(chain, 15), play_task(chain, 16, steps=60)]


@pytest.fixture
def own_chain(tmp_path: Path) -> Iterator[RoundChain]:
    """A chain that a test may take back."""
    with open_round_chain(tmp_path / "chain", BOUNDS_LOCAL) as opened:
        yield opened


@pytest.fixture
async def cheated(tmp_path: Path) -> AsyncIterator[ChainView]:
    """A task in which a solver was convicted in the last round that has ended; one more runs."""
    make_files(tmp_path, CHEATED_ROUNDS, CHEATED_SOLVERS, 0, cheat_round=CHEATED_ROUNDS - 1)
    report(tmp_path / "stored.sqlite", range(CHEATED_ROUNDS), CHEATED_SOLVERS)
    index = EventIndex(tmp_path / "stored.sqlite", DEPLOYMENT)
    shown = ChainView(make_chain(), index, Names({make_address("SOLVER", CHEAT): "cheat"}))
    await shown.refold()
    yield shown
    index.close()
