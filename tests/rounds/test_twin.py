"""Machine and contracts, on a real chain, give the same answers: the short form of `campaign.py`."""

from collections import Counter
from collections.abc import Iterator

import pytest

from tests.rounds.campaign import AMOUNTS, make_player, play
from tests.rounds.chain import RoundChain, Sent, open_round_chain
from tests.rounds.player import Player
from tests.rounds.twin import Disagreement
from touchstone.protocol.spec.game.calls import (
    CloseTask,
    CommitRound,
    Deposit,
    DisputeStatement,
    DrawAudits,
    DrawClosing,
    DrawRound,
    DrawStart,
    FreeEpoch,
    GameCall,
    HaltTask,
    JoinSeat,
    JudgeVotes,
    LeaveSeat,
    LetStand,
    MarkSilent,
    OpenContest,
    PayOut,
    SettleSeat,
    StartRounds,
    TopUp,
)
from touchstone.protocol.spec.game.enums import RoundPhase, SeatRole
from touchstone.protocol.spec.game.presets import BOUNDS_LOCAL
from touchstone.protocol.spec.game.state import GameRound, StatementRef
from touchstone.protocol.spec.game.timing import get_live_round
from touchstone.protocol.spec.game.vault import credit_of

STEPS = 160


@pytest.fixture(scope="module")
def chain(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RoundChain]:
    """The contracts on an Anvil of their own."""
    with open_round_chain(tmp_path_factory.mktemp("rounds"), BOUNDS_LOCAL) as opened:
        yield opened


@pytest.mark.parametrize("seed", [1, 2])
def test_random_plays_agree(chain: RoundChain, seed: int) -> None:
    """Every call passes in both or is refused by both by one name, and money, seats and rounds are equal."""
    counts = play(chain, seed, STEPS)
    passed = Counter(kind for (kind, refused), n in counts.items() if refused is None for _ in range(n))
    assert passed["CommitRound"] >= 3 and passed["JudgeVotes"] >= 3, passed
    assert len(passed) >= 8 and sum(passed.values()) > STEPS / 2, passed


def play_to_live(player: Player) -> GameRound:
    """A round that takes commitments, after one whose root is posted; no contest runs."""
    for _ in range(400):
        state = player.twin.state
        live = get_live_round(state)
        before = None if live is None else state.rounds.get(live.index - 1)
        is_posted = before is not None and before.phase == RoundPhase.POSTED and not state.contests
        if live is not None and is_posted and live.closed is None and live.beacon is not None:
            return live
        player.step()
    raise AssertionError("no such round")


def test_a_closed_task_answers_alike(chain: RoundChain) -> None:
    """Both refuse by the same names, and what both let pass moves no money."""
    player = make_player(chain, 8)
    player.join_all()
    live = play_to_live(player)
    player.do(HaltTask(), "submitter")
    for _ in range(900):
        if player.twin.state.is_closed:
            break
        player.step()
    before = player.twin.state
    assert before.is_closed and live.index in before.rounds
    claim, solver = StatementRef(0, min(before.rounds[0].claims)), SeatRole.SOLVER << 16
    members = [
        JoinSeat(SeatRole.SOLVER, 5_000), TopUp(solver, 5), LeaveSeat(solver), PayOut(solver), CloseTask(),
    ]  # fmt: skip
    others: list[GameCall] = [
        HaltTask(), StartRounds(), DrawStart(), DrawRound(0), DrawAudits(0), DrawClosing(), LetStand(0),
        OpenContest(0, AMOUNTS.contest_bond), DisputeStatement(claim, AMOUNTS.dispute_bond), FreeEpoch(),
        SettleSeat(solver, 0), MarkSilent(solver, ()),
    ]  # fmt: skip
    assert {player.do(call, "solver 0") for call in members} == {"TaskIsClosed"}
    assert None not in {player.do(call, "submitter") for call in others}
    assert player.do(JudgeVotes(0)) is None and player.twin.state.vault == before.vault


def test_a_difference_is_seen(chain: RoundChain, monkeypatch: pytest.MonkeyPatch) -> None:
    """A credit that only the chain has, or a call that only the machine takes, ends the play."""
    player = make_player(chain, 3)
    player.join_all()
    stranger = player.twin.parties["stranger"]
    chain.send(stranger.address, "Vault", "deposit", 5)
    with pytest.raises(Disagreement, match="credit of stranger"):
        player.do(Deposit(1))
    assert player.twin.state.vault.get_wei(credit_of(stranger.address)) == 100_001
    player = make_player(chain, 4)
    words = (bytes(32), bytes(32), bytes(32))
    assert player.do(CommitRound(7, *words, 1)) == "RoundUnknown"
    monkeypatch.setattr(chain, "send", lambda *_: Sent(0, 0, 0))
    with pytest.raises(Disagreement, match="RoundUnknown"):
        player.do(CommitRound(7, *words, 1))
