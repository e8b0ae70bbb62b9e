"""Watches the chain: tells each event as it comes, and keeps it for the report."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from touchstone.explorer.convicted_number import ConvictedNumber, find_number
from touchstone.explorer.names import Names
from touchstone.explorer.story import Teller
from touchstone.node.kit.chain_state import ChainState
from touchstone.protocol.adapters.chain.chain_client import GameChain
from touchstone.protocol.adapters.chain.contract_events import Event
from touchstone.protocol.adapters.chain.follower import LogBatch
from touchstone.protocol.spec.game.logged_game import LoggedGame
from touchstone.protocol.spec.game.state import GameRound, Pool
from touchstone.protocol.spec.training_codec import decode_training

Notify = Callable[[str, str], None]
"""Takes (who or where, line)."""


@dataclass
class Watch:
    """Tells a task's events. `numbers` are those that convicted somebody, by account. `seated` is when a seat
    was taken, by the demo's clock `seconds`. `rounds` and `pools` are as last seen, also of freed epochs.
    `take_event` gets each event of the task after it was told."""

    chain: GameChain
    names: Names
    notify: Notify
    state: ChainState
    seconds: Callable[[], float]
    seated: dict[str, float] = field(default_factory=dict)
    numbers: dict[str, ConvictedNumber] = field(default_factory=dict)
    rounds: dict[int, GameRound] = field(default_factory=dict)
    pools: dict[int, Pool] = field(default_factory=dict)
    take_event: Callable[[Event], None] = lambda event: None

    @property
    def task(self) -> bytes:
        """Returns the id of the one task, once it is posted."""
        return next(iter(self.state.games))

    @property
    def game(self) -> LoggedGame:
        """Returns the state of the task on the chain."""
        return self.state.games[self.task]

    @property
    def history(self) -> LoggedGame:
        """Returns the same with all rounds that there were: the chain forgets an epoch that is freed."""
        return replace(self.game, rounds=dict(self.rounds), pools=dict(self.pools))

    async def run(self) -> None:
        """Follows the chain until the task is closed."""
        async for batch in self.chain.follow():
            await self.take(batch)
            if self.state.games and self.game.is_closed:
                return

    async def take(self, batch: LogBatch) -> None:
        """Takes a batch of events, and tells them."""
        self.state.take(batch)
        if not self.state.games:
            return
        self.rounds.update(self.game.rounds)
        self.pools.update(self.game.pools)
        teller, beside = Teller(self.names, self.state, self.task), dict[bytes, set[str]]()
        for event in batch.events:
            beside.setdefault(event.transaction_hash, set()).add(event.name)
        for event in batch.events:
            for line in teller.describe_event(event, beside[event.transaction_hash]):
                self.notify(f"block {event.block_number}", line)
            if event.name == "SeatJoined":
                self.seated[event.arguments["account"]] = self.seconds()
            elif event.name == "SeatConvicted":
                await self._show_conviction(event)
            self.take_event(event)

    async def _show_conviction(self, event: Event) -> None:
        numeric_format = decode_training(self.state.texts[self.task]).numeric_format
        game = self.chain.deployment.game
        found = await find_number(self.chain.connection, game, event, numeric_format)
        if found is None:
            return
        seat = int(event.arguments["seat"])
        account = {**self.game.former, **self.game.seats}[seat].account
        self.numbers[account] = found
        for line in show_number(found):
            self.notify("", line)


def show_number(found: ConvictedNumber) -> list[str]:
    """Returns the number of a conviction in a few lines."""
    judgement, distance = found.judgement, found.distance_shown
    away = f", it is {distance} away" if distance else ""
    verdict = "outside: a fault" if judgement.is_fault else "inside"
    return [
        f"    the number: element {found.element} of node {found.node} ({found.operation.name})",
        f"    operands:   {found.formula}",
        f"    claimed:    {found.to_json()['claimed']}",
        f"    exact:      {found.exact_shown}",
        f"    bound:      {float(judgement.bound):.3g}{away}: {verdict}",
    ]
