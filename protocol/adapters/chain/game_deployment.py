"""Where the contracts of the round live: the only file that a stranger must be given to play."""

from pathlib import Path

from msgspec import structs

from protocol.adapters.chain.deployment import REMEDY, AnyAddress, format_file, write_whole
from protocol.adapters.messages import Count, Form, Message

GAME_CONTRACTS = {
    "referee": "Referee",
    "randomness": "BlockRandomness",
    "purse": "Purse",
    "tasks": "Tasks",
    "rounds": "Rounds",
    "votes": "Votes",
    "settlement": "Settlement",
    "asks": "Asks",
    "disputes": "Disputes",
    "evidence": "Evidence",
    "contests": "Contests",
}
"""Field of GameDeployment -> name of the contract, in the order in which they are created."""


class GameDeployment(Message, frozen=True, rename="camel"):
    """Addresses are lower-case `0x` strings; `deploy_block` is where reading of events starts."""

    chain_id: Count
    token: AnyAddress
    referee: AnyAddress
    randomness: AnyAddress
    purse: AnyAddress
    tasks: AnyAddress
    rounds: AnyAddress
    votes: AnyAddress
    settlement: AnyAddress
    asks: AnyAddress
    disputes: AnyAddress
    evidence: AnyAddress
    contests: AnyAddress
    deploy_block: Count

    def __post_init__(self) -> None:
        for name in ("token", *GAME_CONTRACTS):
            structs.force_setattr(self, name, getattr(self, name).lower())

    def contracts(self) -> dict[str, str]:
        """Contract name -> address, of all eleven."""
        return {name: str(getattr(self, field)) for field, name in GAME_CONTRACTS.items()}

    def to_json(self) -> str:
        """The file's text: keys in camel case, as in Solidity."""
        return format_file(self)


FORM = Form(GameDeployment, 64 * 1024, "there is no usable deployment file")


def read_game_deployment(path: Path) -> GameDeployment:
    """Read a deployment file. Raises InvalidInput when it is missing, not JSON, or a field is missing or
    misshapen."""
    return FORM.read_file(path, REMEDY)


def write_game_deployment(path: Path, deployment: GameDeployment) -> None:
    """Write the file whole or not at all: a node may be reading it."""
    write_whole(path, deployment.to_json())
