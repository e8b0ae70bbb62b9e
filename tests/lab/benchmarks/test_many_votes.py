"""All votes of the largest round go in: each call below the gas and the data that a chain takes."""

from collections.abc import Iterator
from typing import Any, cast

import pytest

from lab.benchmarks.gas_bounds.gas_play import Case, Play
from tests.explorer.plays import make_deployment
from tests.kit.nodes import NoJournal, Told, make_view
from tests.rounds.chain import RoundChain, open_round_chain
from tests.rounds.nodes import Watcher, make_watcher
from touchstone.node.kit.view import View
from touchstone.node.merging.posting import HandVotes, Posting
from touchstone.node.records.claim_records import ClaimBook
from touchstone.protocol.adapters.chain.chain_client import open_game_chain
from touchstone.protocol.adapters.chain.transactions import MOST_GAS
from touchstone.protocol.spec.game.presets import BOUNDS_LOCAL
from touchstone.protocol.spec.game.terms import SOLVER_SEATS_MAX
from touchstone.protocol.spec.params import MAX_SEGMENT_DRAWS
from touchstone.protocol.spec.statements import VoteWord

VERIFIERS = 96
DRAWS = SOLVER_SEATS_MAX * MAX_SEGMENT_DRAWS
MOST_BYTES = 128 * 1024


class ManyVotes(Play):
    """As many claims and draws as there may be. Every second primary abstains, and both reserves accept."""

    segments, draws = 64, MAX_SEGMENT_DRAWS

    def list_words(self, slot: int, draw: int, is_late: bool) -> list[VoteWord]:
        """What the ranks of a draw say."""
        return [VoteWord.ABSTAIN, VoteWord.ACCEPT, VoteWord.ACCEPT] if draw % 2 else [VoteWord.ACCEPT]


@pytest.fixture(scope="module")
def chain(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RoundChain]:
    """The contracts on an Anvil of their own, which takes no transaction beyond EIP-7825."""
    with open_round_chain(tmp_path_factory.mktemp("votes"), BOUNDS_LOCAL) as opened:
        yield opened


def play_until_votes(chain: RoundChain) -> tuple[ManyVotes, list[Any]]:
    """A round whose audits are drawn, and all votes about it."""
    play = ManyVotes(chain, Case(SOLVER_SEATS_MAX, VERIFIERS))
    play.start()
    for slot in range(SOLVER_SEATS_MAX):
        play.commit(0, slot)
    play.seal(0)
    return play, play.cast(0, False)


def count_votes(watcher: Watcher, task: bytes) -> int:
    """Votes that the chain has counted."""
    return sum(map(len, watcher.catch_up().games[task].rounds[0].votes.values()))


async def test_all_votes_of_the_largest_round_are_handed_in_by_parts(chain: RoundChain) -> None:
    """In one transaction nobody could: all claims of such a round would be void."""
    play, votes = play_until_votes(chain)
    assert DRAWS == 1_280 and len(votes) == 2 * DRAWS
    watcher, first_block = make_watcher(chain, play.submitter.address, play.signing), chain.get_block()
    chain.ask(("evm_setAutomine", [True]))
    async with open_game_chain(chain.url, make_deployment(chain), play.submitter.key, poll_s=0.02) as client:
        claims, nothing = ClaimBook(cast(Any, NoJournal()), play.task), cast(Any, None)

        def get_view() -> View:
            return make_view(
                account=play.submitter.address, task=play.task, game=watcher.state.games[play.task],
                state=watcher.state, claims=claims, told=Told(handed={0: votes}),
            )  # fmt: skip

        posting = Posting(get_view, client, claims, lambda: None, nothing, nothing)
        while (counted := count_votes(watcher, play.task)) < len(votes):
            await HandVotes(0, len(votes) - counted).perform(posting)
            assert count_votes(watcher, play.task) > counted
    blocks = range(first_block + 1, chain.get_block() + 1)
    answers = chain.ask(*(("eth_getBlockByNumber", [hex(block), True]) for block in blocks))
    sent = [one for answer in answers for one in answer["transactions"]]
    assert len(sent) < 20 and not watcher.state.games[play.task].rounds[0].claims.keys() - range(64)
    assert all(int(one["gas"], 16) < MOST_GAS and len(one["input"]) // 2 < MOST_BYTES for one in sent)
    accepted, _, _ = chain.read("Votes", "resultOf", play.task, 0)
    assert accepted == (1 << SOLVER_SEATS_MAX) - 1, "a claim whose votes are missing is void"
