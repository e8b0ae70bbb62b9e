"""Signs statements in the name of a node's account."""

from dataclasses import dataclass

from touchstone.protocol.adapters.chain.gate import Gate
from touchstone.protocol.adapters.keys.account_key import AccountKey
from touchstone.protocol.adapters.keys.signatures import Signed, sign_statement
from touchstone.protocol.spec.typed_data import SigningDomain


@dataclass(frozen=True)
class Signer:
    """An account's key, behind the gate. domain: where its signatures are valid."""

    key: AccountKey
    gate: Gate
    domain: SigningDomain

    async def sign(self, statement: Signed) -> bytes:
        """Returns this account's signature of a statement. Raises GateShut while nothing may be signed."""
        await self.gate.pass_through()
        return sign_statement(self.key, statement, self.domain)
