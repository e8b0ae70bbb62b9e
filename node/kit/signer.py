"""Signs statements in the name of a node's account."""

from dataclasses import dataclass

from touchstone.protocol.adapters.chain.gate import Gate
from touchstone.protocol.adapters.keys.account_key import AccountKey
from touchstone.protocol.adapters.keys.signatures import Signed, sign_statement
from touchstone.protocol.spec.typed_data import SigningDomain


@dataclass(frozen=True)
class Signer:
    """Signs with an account's key, if the gate allows it. `domain` is where its signatures are valid."""

    key: AccountKey
    gate: Gate
    domain: SigningDomain

    async def sign(self, statement: Signed) -> bytes:
        """Returns this account's signature of a statement. Raises GateShut while this node may not sign."""
        await self.gate.pass_through()
        return sign_statement(self.key, statement, self.domain)
