"""The contracts of the round as a role sees them."""

from protocol.adapters.chain.contract import Contract
from protocol.spec.typed_data import SigningDomain


class GameChain:
    """One deployment of the round's contracts. Without a signer it only reads."""

    signing: SigningDomain
    purse: Contract
    tasks: Contract
    rounds: Contract
    votes: Contract
    settlement: Contract
    asks: Contract
    disputes: Contract
    evidence: Contract
    contests: Contract

    @property
    def address(self) -> str:
        """The signing account in lower case; empty when reading only."""
        raise NotImplementedError
