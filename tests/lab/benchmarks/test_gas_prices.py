"""Answers and proofs on a chain cost no more than the money rules price them at, at the bounds of terms."""

from collections.abc import Iterator

import pytest

from lab.benchmarks.gas import list_contest_prices, list_question_prices, list_vote_prices
from lab.benchmarks.gas_bounds.gas_play import Case
from tests.rounds.chain import RoundChain, open_round_chain
from touchstone.protocol.spec.game.presets import BOUNDS_LOCAL


@pytest.fixture(scope="module")
def chain(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RoundChain]:
    with open_round_chain(tmp_path_factory.mktemp("gas"), BOUNDS_LOCAL) as opened:
        yield opened


def test_answers_and_proofs_are_paid_for(chain: RoundChain) -> None:
    """Half of a bond of four times an answer pays whoever gives it; a finder's share pays who proves."""
    prices = list(list_question_prices(chain))
    assert [one.name for one in prices] == ["answer", "ordinary dispute", "defence", "conviction"]
    assert [one for one in prices if not one.holds] == []


@pytest.mark.parametrize("solvers", [1, 8])
def test_contests_are_paid_for(chain: RoundChain, solvers: int) -> None:
    """A leaf of one claim costs most for each; one of eight has scales that lie far apart."""
    assert [one for one in list_contest_prices(chain, solvers) if not one.holds] == []


def test_votes_alone_are_paid_for(chain: RoundChain, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lab.benchmarks.gas.VOTE_CASES", (Case(4, 24),))
    assert [one for one in list_vote_prices(chain) if not one.holds] == []
