"""Reads and writes deployment files: the contracts' addresses, all that a stranger needs to take part.

Every deployment file has addresses in one text form.
"""

from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path
from typing import Annotated, Protocol

from msgspec import Meta, json, structs

from touchstone.protocol.adapters.files.durable_files import replace_file
from touchstone.protocol.adapters.messages import Count, Form, Message, encode_message
from touchstone.protocol.spec.errors import InvalidInput

AnyAddress = Annotated[str, Meta(pattern=r"\A0x[0-9a-fA-F]{40}\Z")]
"""An address as people write it, in any case."""
REMEDY = (
    "Get the file from the account that deployed the contracts. Pass it to `touchstone init` as "
    "--deployment, or set `deployment` in an existing home's config.toml. `touchstone devnet` makes one "
    "for a test network."
)


class Addresses(Protocol):
    """What is needed to read a deployment: its chain, its token, and its contracts' addresses by name."""

    @property
    def chain_id(self) -> int:
        """The chain's id (EIP-155)."""

    @property
    def token(self) -> str:
        """The address of the ERC-20 token."""

    @property
    def deploy_block(self) -> int:
        """The block from which events are read."""

    def contracts(self) -> Mapping[str, str]:
        """The contracts' addresses by name."""


def format_file(deployment: Message) -> str:
    """Returns the text of a deployment file."""
    return json.format(encode_message(deployment), indent=2).decode() + "\n"


GAME_CONTRACTS = {
    "referee": "Referee",
    "randomness": "BlockRandomness",
    "vault": "Vault",
    "game": "Game",
    "tasks": "Tasks",
    "seats": "Seats",
    "rounds": "Rounds",
    "votes": "Votes",
    "settlement": "Settlement",
    "queries": "Queries",
    "disputes": "Disputes",
    "steps": "Steps",
    "evidence": "Evidence",
    "contests": "Contests",
    "shares": "Shares",
}
"""Maps each field of GameDeployment to the name of its contract, in the order of creation."""
PARTS = (
    "Tasks", "Seats", "Rounds", "Votes", "Settlement", "Queries", "Disputes", "Steps", "Evidence", "Contests",
)  # fmt: skip
"""The contracts that only have code of Game: calls go to Game, and its events come from there."""


def find_receiver(contract: str) -> str:
    """Returns the name of the contract that takes the calls of `contract`: of a part it is Game."""
    return "Game" if contract in PARTS else contract


class GameDeployment(Message, frozen=True, rename="camel"):
    """A deployment. Addresses are lower-case `0x` strings; events are read from `deploy_block` on."""

    chain_id: Count
    token: AnyAddress
    referee: AnyAddress
    randomness: AnyAddress
    vault: AnyAddress
    game: AnyAddress
    tasks: AnyAddress
    seats: AnyAddress
    rounds: AnyAddress
    votes: AnyAddress
    settlement: AnyAddress
    queries: AnyAddress
    disputes: AnyAddress
    steps: AnyAddress
    evidence: AnyAddress
    contests: AnyAddress
    shares: AnyAddress
    deploy_block: Count

    def __post_init__(self) -> None:
        for name in ("token", *GAME_CONTRACTS):
            structs.force_setattr(self, name, getattr(self, name).lower())

    def contracts(self) -> dict[str, str]:
        """The addresses of all fifteen contracts by name."""
        return {name: str(getattr(self, field)) for field, name in GAME_CONTRACTS.items()}

    def to_json(self) -> str:
        """Returns the file's text: keys in camel case, as in Solidity."""
        return format_file(self)

    def compute_digest(self) -> str:
        """Returns the SHA-256 of all values in hex. The layout of the file does not matter."""
        return sha256(encode_message(self)).hexdigest()


class KnownDeployment(GameDeployment, frozen=True):
    """The deployment that a home was made for. When the home was made, the contracts and the transactions
    that created them were checked."""


FORM = Form(GameDeployment, 64 * 1024, "there is no usable deployment file")


def read_game_deployment(path: Path, digest: str = "") -> GameDeployment:
    """Reads a deployment file. `digest` identifies the deployment that the home was made for; empty if there
    is no home. Raises InvalidInput if the file is missing, not JSON, or of another deployment, or if a field
    is missing or malformed."""
    found = FORM.read_file(path, REMEDY)
    if not digest:
        return found
    actual = found.compute_digest()
    if actual != digest:
        raise InvalidInput(
            what="the deployment file belongs to another deployment than this home",
            expected=f"deployment_sha256 = {digest} (config.toml)",
            actual=f"{actual}, with the vault {found.vault}",
            where=str(path),
            remedy="No token was moved, and nothing was signed. Put the former file back, or ask its "
            "publisher why it changed. To use the other deployment, make a new home: "
            "`touchstone init` checks the contracts.",
        )
    return KnownDeployment(**structs.asdict(found))


def write_game_deployment(path: Path, deployment: GameDeployment) -> None:
    """Writes the file whole or not at all, because a node may be reading it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    replace_file(path, deployment.to_json().encode())
