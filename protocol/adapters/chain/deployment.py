"""Where the contracts of one chain live: `deployments/<chainId>.json`, the only thing a stranger must be
given."""

from pathlib import Path
from typing import Annotated

from msgspec import Meta, json, structs

from protocol.adapters.messages import Count, Form, Message, encode_message

AnyAddress = Annotated[str, Meta(pattern=r"\A0x[0-9a-fA-F]{40}\Z")]
"""As people write it, in any case."""
_REMEDY = "Copy the file from whoever deployed the contracts, or run `touchstone devnet`."
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
        return json.format(encode_message(self), indent=2).decode() + "\n"


FORM = Form(Deployment, 64 * 1024, "there is no usable deployment file")


def read_deployment(path: Path) -> Deployment:
    """Read a deployment file. Raises InvalidInput when it is missing, not JSON, or a field is missing or
    misshapen."""
    return FORM.read_file(path, _REMEDY)


def write_deployment(path: Path, deployment: Deployment) -> None:
    """Write the file whole or not at all: a node may be reading it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_suffix(".partial")
    partial.write_text(deployment.to_json())
    partial.replace(path)
