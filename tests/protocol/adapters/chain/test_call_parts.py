"""How many items of a call fit into one transaction, by what the chain's node says."""

from dataclasses import dataclass, field
from typing import cast

import pytest

from touchstone.protocol.adapters.chain.call_parts import MOST_DATA_BYTES, count_fitting
from touchstone.protocol.adapters.chain.contract import Contract
from touchstone.protocol.adapters.chain.refusals import ContractRefused
from touchstone.protocol.adapters.chain.transactions import MOST_GAS, limit_gas
from touchstone.protocol.spec.errors import EnvironmentFault

WORDS = {"what": "", "expected": "", "actual": "", "remedy": ""}


@dataclass
class Paged:
    """A contract whose call takes so much gas and data for each item. failure: from so many items on a
    call's estimate fails with this error. asked: sizes whose estimate was asked for."""

    gas: int = 0
    size: int = 0
    most: int = 1 << 62
    failure: Exception | None = None
    asked: list[int] = field(default_factory=list)

    def encode(self, name: str, items: list[int]) -> bytes:
        return bytes(self.size * len(items))

    async def estimate_gas(self, name: str, items: list[int]) -> int:
        self.asked.append(len(items))
        if self.failure is not None and len(items) > self.most:
            raise self.failure
        return self.gas * len(items)


async def count(contract: Paged, items: int) -> int:
    return await count_fitting(cast(Contract, contract), "call", range(items), lambda some: (list(some),))


@pytest.mark.parametrize(
    ("contract", "items", "fitting"),
    [
        (Paged(gas=30_000), 370, 370),
        # 370 votes of 30,000 gas fit with the margin that they are sent with, 371 do not.
        (Paged(gas=30_000), 371, 186),
        (Paged(gas=30_000), 2_560, 320),
        (Paged(size=256), 2_560, 320),
        # A single item goes in as it is: the chain says what is wrong with it.
        (Paged(gas=1 << 30), 5, 1),
    ],
)
async def test_items_fit_below_the_gas_and_the_data_of_a_transaction(
    contract: Paged, items: int, fitting: int
) -> None:
    assert await count(contract, items) == fitting
    if fitting > 1:
        assert limit_gas(contract.gas * fitting) < MOST_GAS
        assert contract.size * fitting <= MOST_DATA_BYTES


async def test_what_is_too_large_by_its_data_is_not_estimated() -> None:
    contract = Paged(size=256)
    await count(contract, 2_560)
    assert contract.asked == [320]


@pytest.mark.parametrize(
    "failure",
    [
        # As a node that caps a call's gas says it, and as a call between contracts does.
        EnvironmentFault(**WORDS, retryable=False),
        ContractRefused(name="Unknown", values={}, **WORDS),
    ],
)
async def test_a_call_that_runs_out_of_gas_is_halved(failure: Exception) -> None:
    assert await count(Paged(most=100, failure=failure), 500) == 63


@pytest.mark.parametrize(
    "failure",
    [EnvironmentFault(**WORDS, retryable=True), ContractRefused(name="OutsideWindow", values={}, **WORDS)],
)
async def test_what_halving_does_not_mend_is_raised_at_once(failure: Exception) -> None:
    contract = Paged(most=100, failure=failure)
    with pytest.raises(type(failure)):
        await count(contract, 500)
    assert contract.asked == [500]


@pytest.mark.parametrize("estimate", [0, 21_000, 11_000_000, 11_200_000, MOST_GAS, MOST_GAS + 1])
def test_no_transaction_asks_for_more_gas_than_the_chain_takes(estimate: int) -> None:
    """But for a call that needs more: the chain refuses it."""
    assert estimate <= limit_gas(estimate) <= max(MOST_GAS, estimate)
    assert limit_gas(estimate) >= min(MOST_GAS, estimate * 3 // 2)
