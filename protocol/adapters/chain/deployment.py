"""Where the contracts of one chain live: `deployments/<chainId>.json`, the only thing a stranger must be
given."""

import json
import re
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from protocol.adapters.chain.abi import to_snake_case
from protocol.spec.errors import InvalidInput

_ADDRESS = re.compile(r"0x[0-9a-fA-F]{40}")
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


@dataclass(frozen=True)
class Deployment:
    """Addresses are lower-case `0x` strings; `deploy_block` is where reading of events starts."""

    chain_id: int
    token: str
    vault: str
    registry: str
    ledger: str
    audit_book: str
    dispute_game: str
    outer_contest: str
    referee: str
    randomness: str
    deploy_block: int

    def address_of(self, contract: str) -> str:
        """Address of a contract by its Solidity name, for example `StakeVault`. Raises KeyError."""
        fields = {name: field for field, name in CONTRACT_NAMES.items()}
        return str(getattr(self, fields[contract]))

    def contracts(self) -> dict[str, str]:
        """Contract name -> address, of all eight."""
        return {name: self.address_of(name) for name in CONTRACT_NAMES.values()}

    def to_json(self) -> str:
        """The file's text: keys in camel case, as in Solidity."""
        document = {to_camel_case(name): value for name, value in asdict(self).items()}
        return json.dumps(document, indent=2) + "\n"


def to_camel_case(name: str) -> str:
    """`deploy_block` -> `deployBlock`."""
    head, *tail = name.split("_")
    return head + "".join(part.title() for part in tail)


def read_deployment(path: Path) -> Deployment:
    """Read a deployment file. Raises InvalidInput when it is missing, not JSON, or a field is missing or
    misshapen."""
    try:
        document = json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise InvalidInput(
            what="there is no readable deployment file",
            expected=f"{path} with the addresses of the contracts",
            actual=f"{type(error).__name__}: {error}",
            remedy=_REMEDY,
        ) from error
    return parse_deployment(document, str(path))


def parse_deployment(document: Any, where: str) -> Deployment:
    """A Deployment from parsed JSON. Raises InvalidInput naming the first bad field."""
    found = (
        {to_snake_case(key): value for key, value in document.items()} if isinstance(document, dict) else {}
    )
    fields: dict[str, Any] = {}
    for name, kind in Deployment.__annotations__.items():
        value = found.get(name)
        is_right = isinstance(value, int) if kind is int else bool(_ADDRESS.fullmatch(str(value)))
        if not is_right:
            raise InvalidInput(
                what="the deployment file is malformed",
                expected="a number" if kind is int else "0x and 40 hexadecimal digits",
                actual=repr(value),
                where=f"{where}, {to_camel_case(name)}",
                remedy=_REMEDY,
            )
        fields[name] = value if kind is int else str(value).lower()
    return Deployment(**fields)


def write_deployment(path: Path, deployment: Deployment) -> None:
    """Write the file whole or not at all: a node may be reading it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_suffix(".partial")
    partial.write_text(deployment.to_json())
    partial.replace(path)
