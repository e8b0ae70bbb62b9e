"""What is rare in random plays: after each call of these the fold of the logs is the machine's state too
(`twin.py` compares them)."""

from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

from tests.rounds.campaign import make_player
from tests.rounds.chain import RoundChain, open_round_chain
from tests.rounds.player import Player
from touchstone.protocol.spec.game import calls
from touchstone.protocol.spec.game.calls import GameCall
from touchstone.protocol.spec.game.claim_status import compute_draw_status, list_mergeable
from touchstone.protocol.spec.game.enums import DrawStatus, RoundPhase
from touchstone.protocol.spec.game.presets import BOUNDS_LOCAL, WINDOWS_LOCAL
from touchstone.protocol.spec.game.state import GameState, StatementRef
from touchstone.protocol.spec.game.terms import GameWindows
from touchstone.protocol.spec.game.vault import RESTITUTION
from touchstone.protocol.spec.statements import VoteWord

MOST_STEPS = 500
SHORT = GameWindows(
    delay=1, draw_grid=1, train_min=16, train_max=16, audit_max=12, post=2, respond=4, dispute=76, query=180
)
"""The shortest that the deployment allows: sixteen rounds are over soon."""


@pytest.fixture(scope="module")
def chain(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RoundChain]:
    """The contracts on an Anvil of their own."""
    with open_round_chain(tmp_path_factory.mktemp("logs"), BOUNDS_LOCAL) as opened:
        yield opened


def start(chain: RoundChain, seed: int, windows: GameWindows = WINDOWS_LOCAL) -> Player:
    player = make_player(chain, seed, windows)
    player.is_quiet = True
    player.join_all()
    return player


def play_until(player: Player, is_there: Callable[[GameState], bool]) -> None:
    for _ in range(MOST_STEPS):
        if is_there(player.twin.state):
            return
        player.step()
    raise AssertionError(f"not within {MOST_STEPS} steps: {player.counts}")


def must(player: Player, call: GameCall, sender: str = "stranger") -> None:
    refused = player.do(call, sender)
    assert refused is None, (call, refused)


def find_owing(state: GameState, block: int) -> int | None:
    """A posted round with an accepted claim behind it of a seat that has not signed its root."""
    for index, one in state.rounds.items():
        if one.phase == RoundPhase.POSTED and block < one.root_until and not state.contests:
            for later in (state.rounds[i] for i in range(index + 1, state.next_round)):
                seats = {later.claims[slot].seat for slot in list_mergeable(state, later, block)}
                if seats - set(one.signers):
                    return index
    return None


def wait_out(player: Player, clock: int) -> None:
    player.twin.chain.mine_to(max(clock, player.twin.chain.get_block()))


def test_contests(chain: RoundChain) -> None:
    """One stands because the contester is silent, one falls at its leaf, with the rounds behind it, and what
    a third contests has gone. Who lost accepted work is paid out of the slash."""
    player = start(chain, 41, replace(SHORT, respond=12))
    bond = player.twin.state.terms.amounts.contest_bond

    def state() -> GameState:
        return player.twin.state

    play_until(player, lambda state: find_owing(state, player.twin.get_block()) is not None)
    first, index = state().next_number, find_owing(state(), player.twin.get_block())
    assert index is not None
    for _ in range(3):
        must(player, calls.OpenContest(index, bond * (1 + len(state().contests))))
    for number in (first, first + 1):
        must(player, calls.AnswerContest(number), player.solvers[0])
    must(player, calls.NameChild(first + 1, 0))
    wait_out(player, max(one.clock for one in state().contests.values()))
    must(player, calls.EndRootContest(first))
    must(player, calls.EndRootContest(first + 1))
    must(player, calls.EndRootContest(first + 2))
    assert state().rounds[index].phase == RoundPhase.FALLEN and state().falls[0].held
    pot, held = RESTITUTION, state().falls[0].held
    must(player, calls.HaltTask(), "submitter")
    while state().vault.get_wei(pot) == held:
        assert not state().is_closed
        player.keep()
    told = player.twin.logged.counts
    names = ("Contested", "NodesPosted", "ChildNamed", "RootFell", "RestitutionHeld", "SeatSettled")
    assert all(told[name] for name in names) and told["ContestEnded"] == 3, told


def test_convictions(chain: RoundChain) -> None:
    """A REJECT that its signer does not explain is convicted, and the claim that it made void is paid."""
    player = start(chain, 44)

    def find_reject(state: GameState) -> StatementRef | None:
        for index, game_round in state.rounds.items():
            for (slot, draw), votes in game_round.votes.items():
                rejects = [rank for rank, vote in votes.items() if vote.word == VoteWord.REJECT_STATE]
                is_first = draw < state.terms.draws and compute_draw_status(votes) == DrawStatus.FAILED
                if rejects and is_first:
                    return StatementRef(index, slot, draw, rejects[0])
        return None

    play_until(player, lambda state: find_reject(state) is not None)
    ref = find_reject(player.twin.state)
    assert ref is not None
    game_round = player.twin.state.rounds[ref.round]
    word = game_round.votes[ref.slot, ref.draw or 0][ref.rank].word
    amounts, number = player.twin.state.terms.amounts, player.twin.state.next_number
    must(player, calls.QueryVote(ref, word, 0, amounts.query_bond))
    wait_out(player, player.twin.state.queries[number].clock)
    must(player, calls.EndQuery(number))
    assert player.twin.state.rounds[ref.round].restored == {ref.slot}
    told = player.twin.logged.counts
    assert told["QueryEnded"] == told["StatementConvicted"] == told["PayRestored"] == 1


def test_an_epoch_is_freed(chain: RoundChain) -> None:
    """Rounds that all have settled are forgotten, and the same number opens the next ones."""
    player = start(chain, 48, SHORT)
    for _ in range(4 * MOST_STEPS):
        if player.twin.state.freed_epochs or player.twin.state.is_closed:
            break
        player.step()
    assert player.twin.logged.counts["EpochFreed"] == 1, player.counts
    assert min(player.twin.logged.game.rounds) >= 16


def test_rounds_that_nobody_draws(chain: RoundChain) -> None:
    """Without draws claims are void, the third round opens without a beacon, and is dealt one of its own."""
    player = start(chain, 50)
    player.left_out = (calls.DrawAudits,)
    play_until(player, lambda state: 2 in state.rounds and state.rounds[2].beacon is not None)
    told = player.twin.logged.counts
    assert told["RoundAssigned"] == 1 and told["RootStood"] >= 2 and not told["AuditsDrawn"]
    player.left_out = ()
    play_until(player, lambda state: any(one.seed is not None for one in state.rounds.values()))
