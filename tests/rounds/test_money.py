"""The account of money beside real contracts: at each block of a task with mishaps it explains all tokens."""

from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest

from tests.protocol.spec.game.faulty_simulation import PARTIES
from tests.protocol.spec.game.mishaps import ROUNDS, MishapSimulation, list_disputes
from tests.protocol.spec.game.simulation import list_other_duties
from tests.rounds.chain import RoundChain, open_round_chain
from tests.rounds.chain_simulation import ChainSimulation, open_world
from tests.rounds.twin import WEALTH_WEI
from touchstone.protocol.economics.account_money import AccountMoney
from touchstone.protocol.spec.game.calls import GameCall
from touchstone.protocol.spec.game.money_reasons import MoneyReason
from touchstone.protocol.spec.game.presets import BOUNDS_LOCAL
from touchstone.protocol.spec.game.state import GameState
from touchstone.protocol.spec.game.upkeep import list_upkeep
from touchstone.protocol.spec.game.vault import PotKind

Reason = MoneyReason


@dataclass
class ChainMishaps(MishapSimulation, ChainSimulation):
    """blocks: in which the money was looked at; seen: the reasons of all accounts so far."""

    blocks: set[int] = field(default_factory=set)
    seen: set[MoneyReason] = field(default_factory=set)
    roles = {
        "missing": "forger0", "unaudited": "forger1", "rejected": "cheat", "unserving": "forger1",
        "convicted": "forger2", "late": "solver0", "honest": "solver1",
    }  # fmt: skip

    def is_signing(self, account: str, index: int) -> bool:
        return True

    def _list_all(self) -> Iterator[tuple[str, GameCall]]:
        now = self.get_now()
        yield from list_disputes(self)
        yield from self._list_votes(now)
        for seat in list(now.seats.values()):
            yield from list_other_duties(self, now, seat)
        for call in list_upkeep(self.state, self.block):
            yield from ((party, self.seal(call)) for party in PARTIES if self._has_turn(now, party, call))

    def _send_one(self, call: GameCall, sender: str) -> None:
        super()._send_one(call, sender)
        self.check_tokens()

    def check_tokens(self) -> None:
        """Every token of a party is in its wallet, its credit or locked, or the account says where it went.
        All that lies in the contract is some party's, is held for some, or is burned."""
        chain, found = self.twin.chain, self.twin.logged.compute_money()
        self.blocks.add(chain.get_block())
        parties, held = self.twin.parties, get_held(self.twin.state)
        views = [("DevToken", "balanceOf", party.address) for party in parties.values()]
        views += [("Vault", "creditOf", party.address) for party in parties.values()]
        views += [("DevToken", "balanceOf", chain.addresses["Vault"])]
        *seen, in_vault = chain.read_many(views)
        wallets = dict(zip(parties, seen, strict=False))
        credits = dict(zip(parties, seen[len(parties) :], strict=True))
        for name, party in parties.items():
            money = found.get(party.address, AccountMoney(party.address))
            assert wallets[name] + credits[name] == WEALTH_WEI + money.change, (name, money)
            self.seen |= {*money.sums, *(reason for one in money.rounds for reason in one.sums)}
        locked = sum(money.locked for money in found.values())
        assert in_vault == sum(credits.values()) + locked + held


def get_held(state: GameState) -> int:
    """wei that are nobody's: to be burned, or held for undone rounds."""
    kinds = (PotKind.HELD, PotKind.RESTITUTION, PotKind.BURNED)
    return sum(wei for pot, wei in state.vault.wei.items() if pot.kind in kinds)


@pytest.fixture(scope="module")
def chain(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RoundChain]:
    """The contracts on an Anvil of their own."""
    with open_round_chain(tmp_path_factory.mktemp("money"), BOUNDS_LOCAL) as opened:
        yield opened


def test_every_token_is_accounted_for_at_each_block_of_a_task_with_mishaps(chain: RoundChain) -> None:
    world = open_world(chain, 0, ChainMishaps, ROUNDS)
    world.begin()
    world.play()
    assert world.state.is_closed and world.state.next_round == ROUNDS and len(world.blocks) > 150
    assert {
        Reason.ACCEPTED_CLAIM, Reason.AUDIT, Reason.LATE_AUDIT, Reason.SLASH_SHARE, Reason.BOND_SHARE,
        Reason.REJECTED_CLAIM, Reason.LATE_REJECTED_CLAIM, Reason.UNDECIDED_CLAIM, Reason.MISSED_DRAW,
        Reason.UNSERVED_CLAIM, Reason.CONVICTED_SEAT, Reason.MISSED_ROUND, Reason.UNSERVED_FEE,
        Reason.UNSERVED_VOTE, Reason.CONVICTION, Reason.LOST_DISPUTE, Reason.PAID_MEMBERS,
        Reason.BURNED_ESCROW,
    } <= world.seen  # fmt: skip
    assert not any(money.locked for money in world.twin.logged.compute_money().values())
