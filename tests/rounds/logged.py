"""A task as its logs tell it, beside the machine's state: after every call they are equal, field by field."""

from collections import Counter
from dataclasses import fields
from typing import Any

from tests.rounds.chain import RoundChain
from touchstone.protocol.adapters.chain.answers import read_logs
from touchstone.protocol.adapters.chain.contract_events import DecodedEvent, decode_log, make_registry
from touchstone.protocol.adapters.chain.deployment import GAME_CONTRACTS
from touchstone.protocol.adapters.chain.pots import BONDS, name_pot
from touchstone.protocol.economics.account_money import AccountMoney, compute_money
from touchstone.protocol.spec.game.logged_game import LoggedGame, start_game
from touchstone.protocol.spec.game.logs import apply_log
from touchstone.protocol.spec.game.round_machine import get_state_at
from touchstone.protocol.spec.game.state import GameState
from touchstone.protocol.spec.game.vault import PotKind, Vault
from touchstone.protocol.spec.typed_data import SigningDomain

LEFT_OUT = frozenset({"seals"})
"""seals: `ProofCommitted` names no task, and no call of these plays seals a proof. Of `vault` the credits are
compared by themselves: the contracts keep them for all tasks together."""
_COINS = {"Deposited": 1, "Given": 1, "Withdrawn": -1, "Taken": -1}


class LoggedTask:
    """game: the fold of the task's logs; credits: that of the vault's, by account; brought: wei that an
    account deposited less what it withdrew; counts: logs by name."""

    def __init__(self, chain: RoundChain, task: bytes, signing: SigningDomain, from_block: int) -> None:
        self._chain, self._task, self._signing, self._next = chain, task, signing, from_block
        names = {chain.addresses[name]: name for name in GAME_CONTRACTS.values()}
        self._registry = make_registry(names)
        self.credits: Counter[str] = Counter()
        self.brought: Counter[str] = Counter()
        self.counts: Counter[str] = Counter()
        self.game: LoggedGame
        self.catch_up()

    def catch_up(self) -> None:
        """Takes the logs up to the latest block."""
        latest = self._chain.get_block()
        if latest < self._next:
            return
        query = {
            "address": list(self._registry.contracts),
            "fromBlock": hex(self._next),
            "toBlock": hex(latest),
        }
        for log in self._chain.ask(("eth_getLogs", [query]))[0]:
            event = decode_log(self._registry, read_logs([log])[0])
            if event is not None:
                self._take(event, int(log["blockNumber"], 16))
        self._next = latest + 1

    def _take(self, event: DecodedEvent, block: int) -> None:
        values = event.arguments
        if event.name in _COINS:
            self.credits[values["account"]] += _COINS[event.name] * values["wei_"]
        if event.name in ("Deposited", "Withdrawn"):
            self.brought[values["account"]] += _COINS[event.name] * values["wei_"]
        if values.get("task") != self._task and values.get("pot") != name_pot(BONDS, self._task):
            return
        self.counts[event.name] += 1
        if event.name == "TaskPosted":
            self.game = start_game(values, block, self._chain.bounds, self._signing)
        else:
            self.game = apply_log(self.game, event.name, values, block)

    def compute_money(self) -> dict[str, AccountMoney]:
        """What each account has in the task, by the logs alone."""
        block = self._chain.get_block() + 1
        return compute_money(get_state_at(self.game, block), self.game.money, block)

    def list_differences(self, state: GameState) -> list[str]:
        """What the logs tell otherwise than the machine. The clock closes a round in the contracts only when
        somebody calls them, so both are looked at as a call of this block would find them."""
        block = self._chain.get_block()
        told, expected = get_state_at(self.game, block), get_state_at(state, block)
        found = []
        for one in fields(GameState):
            mine, right = getattr(told, one.name), getattr(expected, one.name)
            if one.name == "vault":
                mine, right = _without_credits(mine), _without_credits(right)
            if one.name not in LEFT_OUT and mine != right:
                found.append(f"{one.name}: {_differ(mine, right)}")
        return found


def _without_credits(vault: Vault) -> dict[Any, int]:
    return {pot: wei for pot, wei in vault.wei.items() if pot.kind != PotKind.CREDIT}


def _differ(mine: Any, right: Any) -> str:
    if not isinstance(mine, dict) or not isinstance(right, dict):
        return f"the logs say {mine}, the machine {right}"
    keys = [key for key in {**mine, **right} if mine.get(key) != right.get(key)]
    return "; ".join(f"{key}: the logs say {mine.get(key)}, the machine {right.get(key)}" for key in keys)
