"""Where the contracts of one chain live: `deployments/<chainId>.json`, the only thing a stranger must be
given."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Protocol

from msgspec import Meta, json, structs

from protocol.adapters.messages import Count, Form, Message, encode_message

AnyAddress = Annotated[str, Meta(pattern=r"\A0x[0-9a-fA-F]{40}\Z")]
"""As people write it, in any case."""
REMEDY = "Copy the file from whoever deployed the contracts, or run `touchstone devnet`."
CONTRACT_NAMES = {
    "vault": "StakeVault",
    "registry": "TaskRegistry",
    "ledger": "RoundLedger",
    "audit_book": "AuditBook",
    "dispute_game": "DisputeGame",
    "outer_contest": "OuterContest",
    "referee": "Referee",
    "randomness": "Randomness",
}
"""Field of Deployment -> name of the contract, whose interface is `I` and that name."""


class Addresses(Protocol):
    """What reading a deployment takes: its chain, its token, and its contracts' addresses by their names."""

    @property
    def chain_id(self) -> int:
        """The chain's id (EIP-155)."""

    @property
    def token(self) -> str:
        """Address of the ERC-20 token."""

    @property
    def deploy_block(self) -> int:
        """Where reading of events starts."""

    def contracts(self) -> Mapping[str, str]:
        """Contract name -> address."""


class Deployment(Message, frozen=True, rename="camel"):
    """Addresses are lower-case `0x` strings; `deploy_block` is where reading of events starts."""

    chain_id: Count
    token: AnyAddress
    vault: AnyAddress
    registry: AnyAddress
    ledger: AnyAddress
    audit_book: AnyAddress
    dispute_game: AnyAddress
    outer_contest: AnyAddress
    referee: AnyAddress
    randomness: AnyAddress
    deploy_block: Count

    def __post_init__(self) -> None:
        for name in ("token", *CONTRACT_NAMES):
            structs.force_setattr(self, name, getattr(self, name).lower())

    def address_of(self, contract: str) -> str:
        """Address of a contract by its Solidity name, for example `StakeVault`. Raises KeyError."""
        fields = {name: field for field, name in CONTRACT_NAMES.items()}
        return str(getattr(self, fields[contract]))

    def contracts(self) -> dict[str, str]:
        """Contract name -> address, of all eight."""
        return {name: self.address_of(name) for name in CONTRACT_NAMES.values()}

    def to_json(self) -> str:
        """The file's text: keys in camel case, as in Solidity."""
        return format_file(self)


def format_file(deployment: Message) -> str:
    """The text of a deployment file."""
    return json.format(encode_message(deployment), indent=2).decode() + "\n"


FORM = Form(Deployment, 64 * 1024, "there is no usable deployment file")


def read_deployment(path: Path) -> Deployment:
    """Read a deployment file. Raises InvalidInput when it is missing, not JSON, or a field is missing or
    misshapen."""
    return FORM.read_file(path, REMEDY)


def write_deployment(path: Path, deployment: Deployment) -> None:
    """Write the file whole or not at all: a node may be reading it."""
    write_whole(path, deployment.to_json())


def write_whole(path: Path, text: str) -> None:
    """Write a file so that whoever reads it finds all of it, the old one or the new one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_suffix(".partial")
    partial.write_text(text)
    partial.replace(path)
