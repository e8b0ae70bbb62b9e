"""What a play came to, read from the chain when it is over: who fell, what disputes cost, what the honest
lost."""

from collections.abc import AsyncIterator, Iterable, Iterator
from dataclasses import dataclass

from tests.e2e.world import World
from touchstone.protocol.adapters.chain.abi import load_own_abi
from touchstone.protocol.adapters.chain.chain_client import open_game_chain
from touchstone.protocol.adapters.chain.connection import Connection
from touchstone.protocol.adapters.chain.contract_events import Event
from touchstone.protocol.spec.game.claim_status import get_claim_status
from touchstone.protocol.spec.game.enums import SeatStatus
from touchstone.protocol.spec.game.inner_contest import InnerTurn
from touchstone.protocol.spec.game.inner_dispute import DisputeStage, QueryEnding
from touchstone.protocol.spec.game.state import GameState

FUNCTIONS = {
    entry.selector: entry.name
    for part in ("Disputes", "Steps")
    for entry in load_own_abi(part)
    if entry.kind == "function"
}
CONVICTED = "CONVICTED"


@dataclass(frozen=True)
class DisputeTold:
    """A dispute that has ended. accused, opener: accounts; by: the function of the call that ended it; gas:
    of each transaction of it."""

    accused: str
    opener: str
    is_claim: bool
    outcome: DisputeStage
    by: str
    bond_wei: int
    gas: tuple[int, ...]


@dataclass(frozen=True)
class Happened:
    """All events of a world, and its ended disputes."""

    events: tuple[Event, ...]
    disputes: tuple[DisputeTold, ...]
    accounts: dict[int, str]
    """By seat."""

    def list_events(self, name: str) -> list[Event]:
        """Those of one kind."""
        return [event for event in self.events if event.name == name]

    def read_slashed(self) -> dict[str, int]:
        """Stakes that were taken, wei, by account."""
        fallen = self.list_events("SeatConvicted")
        return {self.accounts[one.arguments["seat"]]: one.arguments["stake_wei"] for one in fallen}

    def compute_lost(self, accounts: Iterable[str]) -> int:
        """What these accounts lost by being challenged or by challenging, wei: stakes, bonds of disputes, of
        queries and of contests."""
        names, slashed = set(accounts), self.read_slashed()
        stakes = sum(wei for account, wei in slashed.items() if account in names)
        lost = [one for one in self.disputes if one.outcome == DisputeStage.CLEARED and one.opener in names]
        asked = {bytes(one.arguments["id"]): one.arguments for one in self.list_events("QueryOpened")}
        for ended in self.list_events("QueryEnded"):
            ask = asked[bytes(ended.arguments["id"])]
            is_lost = ended.arguments["ending"] == QueryEnding.CLEARED
            stakes += ask["bond_wei"] if is_lost and ask["asker"].lower() in names else 0
        contests = {bytes(one.arguments["id"]): one.arguments for one in self.list_events("Contested")}
        for ended in self.list_events("ContestEnded"):
            contest = contests[bytes(ended.arguments["id"])]
            is_lost = ended.arguments["outcome"] == InnerTurn.HOLDS
            stakes += contest["bond_wei"] if is_lost and contest["contester"].lower() in names else 0
        return stakes + sum(one.bond_wei for one in lost)


async def read_happened(world: World) -> Happened:
    """Read everything. The chain still runs."""
    async with open_game_chain(world.rpc_url, world.deployment) as chain:
        head = await chain.head()
        events = await chain.read_events(world.deployment.deploy_block, head.number)
        seats = {
            int(one.arguments["seat"]): one.arguments["account"].lower()
            for one in events
            if one.name == "SeatJoined"
        }
        disputes = [one async for one in _iterate_disputes(chain.connection, events, seats)]
    return Happened(tuple(events), tuple(disputes), seats)


async def _iterate_disputes(
    connection: Connection, events: list[Event], seats: dict[int, str]
) -> AsyncIterator[DisputeTold]:
    opened = {bytes(e.arguments["dispute"]): e for e in events if e.name == "DisputeOpened"}
    for ended in (event for event in events if event.name == "DisputeEnded"):
        name = bytes(ended.arguments["dispute"])
        said = opened[name].arguments
        data = await connection.sent_data(ended.transaction_hash)
        gas = [await _read_gas(connection, one) for one in _list_transactions(events, name)]
        yield DisputeTold(
            accused=seats[int(said["seat"])],
            opener=said["opener"].lower(),
            is_claim=said["statement"].draw == (1 << 32) - 1,
            outcome=DisputeStage(int(ended.arguments["outcome"])),
            by=FUNCTIONS.get(bytes(data[:4]), ""),
            bond_wei=int(said["bond_wei"]),
            gas=tuple(gas),
        )


def _list_transactions(events: list[Event], dispute: bytes) -> Iterator[bytes]:
    """Each once, in order."""
    hashes = [e.transaction_hash for e in events if e.arguments.get("dispute") == dispute]
    yield from dict.fromkeys(hashes)


async def _read_gas(connection: Connection, transaction_hash: bytes) -> int:
    receipt = await connection.receipt(transaction_hash)
    assert receipt is not None
    return receipt.gas_used


def list_closed(world: World, game: GameState) -> set[str]:
    """Names of the parties whose seats were convicted."""
    seats = [*game.former.values(), *game.seats.values()]
    closed = {seat.account for seat in seats if seat.status == SeatStatus.CONVICTED}
    return {name for name, key in world.keys.items() if key.address.lower() in closed}


def read_statuses(world: World, game: GameState, index: int, block: int) -> dict[str, str]:
    """What became of each claim of a round, by the name of its solver: a status, or CONVICTED."""
    game_round, names = game.rounds[index], {k.address.lower(): n for n, k in world.keys.items()}
    found = {}
    for slot, claim in game_round.claims.items():
        seat = game.seats.get(claim.seat) or game.former[claim.seat]
        status = get_claim_status(game, game_round, slot, block).name
        is_closed = seat.status == SeatStatus.CONVICTED
        found[names[seat.account]] = CONVICTED if claim.is_convicted or is_closed else status
    return found
