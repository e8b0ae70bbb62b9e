"""Money of this account in the purse: stakes and bonds are taken from its credit."""

from protocol.actions.runtime.party import Party


async def deposit_missing(party: Party, wei: int) -> None:
    """Have so much credit: what is missing comes out of the account's tokens. Raises ContractRefused where it
    has too few."""
    credit = await party.chain.purse.credit_of(party.account)
    if credit < wei:
        await party.chain.token.approve(party.chain.purse.address, wei - credit)
        await party.chain.purse.deposit(wei - credit)
