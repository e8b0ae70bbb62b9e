"""Holds the key of a staked account, which signs and is never shown."""

from collections.abc import Mapping
from typing import Any, NoReturn

from eth_account.datastructures import SignedTransaction
from eth_account.signers.local import LocalAccount

from touchstone.protocol.spec.errors import InvalidInput


class AccountKey:
    """A private key that signs. No method, repr or pickle reveals the key."""

    __slots__ = ("_account",)

    def __init__(self, account: LocalAccount) -> None:
        self._account = account

    @property
    def address(self) -> str:
        """The account's address with checksum."""
        return str(self._account.address)

    def sign_transaction(self, transaction: Mapping[str, Any]) -> SignedTransaction:
        """Returns the transaction with its signature and hash, ready for `eth_sendRawTransaction`. It carries
        its nonce and chain id."""
        return self._account.sign_transaction(dict(transaction))

    def sign_typed_data(self, data: Mapping[str, Any]) -> bytes:
        """Returns the 65-byte signature (r, s, v) of an EIP-712 object. Only `signatures.py` calls it."""
        return bytes(self._account.sign_typed_data(full_message=dict(data)).signature)

    def __repr__(self) -> str:
        return f"AccountKey({self.address})"

    def __reduce__(self) -> NoReturn:
        raise InvalidInput(
            what="a key does not leave its process",
            expected="the path of a keystore",
            actual=repr(self),
            remedy="Load the keystore in the other process.",
        )
