"""What every deployment file has in common: addresses, its text, and how it is written."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Protocol

from msgspec import Meta, json

from protocol.adapters.messages import Message, encode_message

AnyAddress = Annotated[str, Meta(pattern=r"\A0x[0-9a-fA-F]{40}\Z")]
"""As people write it, in any case."""
REMEDY = "Copy the file from whoever deployed the contracts, or run `touchstone devnet`."


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


def format_file(deployment: Message) -> str:
    """The text of a deployment file."""
    return json.format(encode_message(deployment), indent=2).decode() + "\n"


def write_whole(path: Path, text: str) -> None:
    """Write a file so that whoever reads it finds all of it, the old one or the new one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_suffix(".partial")
    partial.write_text(text)
    partial.replace(path)
