"""Machine and contracts, on a real chain, give the same answers: the short form of `campaign.py`."""

from collections import Counter
from collections.abc import Iterator

import pytest

from protocol.spec.game.calls import CommitRound, Deposit
from protocol.spec.game.purse import credit_of
from protocol.spec.game.terms import LIMITS_LOCAL
from tests.rounds.campaign import make_player, play
from tests.rounds.chain import RoundChain, Sent, open_round_chain
from tests.rounds.twin import Disagreement

STEPS = 160


@pytest.fixture(scope="module")
def chain(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RoundChain]:
    """The contracts on an Anvil of their own."""
    with open_round_chain(tmp_path_factory.mktemp("rounds"), LIMITS_LOCAL) as opened:
        yield opened


@pytest.mark.parametrize("seed", [1, 2])
def test_random_plays_agree(chain: RoundChain, seed: int) -> None:
    """Every call passes in both or is refused by both by one name, and money, seats and rounds are equal."""
    counts = play(chain, seed, STEPS)
    passed = Counter(kind for (kind, refused), n in counts.items() if refused is None for _ in range(n))
    assert passed["CommitRound"] >= 3 and passed["JudgeVotes"] >= 3, passed
    assert len(passed) >= 8 and sum(passed.values()) > STEPS / 2, passed


def test_a_difference_is_seen(chain: RoundChain, monkeypatch: pytest.MonkeyPatch) -> None:
    """A credit that only the chain has, or a call that only the machine takes, ends the play."""
    player = make_player(chain, 3)
    player.join_all()
    stranger = player.twin.parties["stranger"]
    chain.send(stranger.address, "Purse", "deposit", 5)
    with pytest.raises(Disagreement, match="credit of stranger"):
        player.do(Deposit(1))
    assert player.twin.state.purse.get_wei(credit_of(stranger.address)) == 100_001
    player = make_player(chain, 4)
    words = (bytes(32), bytes(32), bytes(32))
    assert player.do(CommitRound(7, *words, 1)) == "RoundUnknown"
    monkeypatch.setattr(chain, "send", lambda *_: Sent(0, 0, 0))
    with pytest.raises(Disagreement, match="RoundUnknown"):
        player.do(CommitRound(7, *words, 1))
