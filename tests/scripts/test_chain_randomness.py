"""Contracts are put on no chain whose prevrandao somebody knows or chooses; the refusal says what to do."""

from dataclasses import dataclass, field
from typing import Any, cast

import pytest

from tools.vectors.fixed_values import word
from touchstone.protocol.adapters.chain.answers import Head
from touchstone.protocol.adapters.chain.connection import Connection
from touchstone.protocol.spec.errors import EnvironmentFault
from touchstone.scripts.network.randomness_choice import (
    SAMPLE_BLOCKS,
    Sample,
    choose_contract,
    find_weakness,
)

RANDOM = tuple(int.from_bytes(word(f"block {number}"), "big") for number in range(40))


@dataclass
class Chain:
    """Blocks from 1 on with these values; block 0 has none. `has_bls`: the precompiles answer."""

    values: tuple[int, ...]
    number: int = 31_337
    has_bls: bool = False
    asked: list[int] = field(default_factory=list)

    async def chain_id(self) -> int:
        return self.number

    async def head(self) -> Head:
        return Head(len(self.values), bytes(32), bytes(32), 0, 0)

    async def raw_block(self, number: int) -> dict[str, Any]:
        self.asked.append(number)
        return {"mixHash": hex(self.values[number - 1])}

    async def call(self, to: str, data: bytes, where: str) -> bytes:
        assert len(data) == 256
        return bytes(128) if self.has_bls else b""


def choose(chain: Chain, *, with_drand: bool = False) -> Any:
    return choose_contract(cast(Connection, chain), with_drand=with_drand)


@pytest.mark.parametrize(
    ("chain_id", "values", "said"),
    [
        (1, RANDOM, ""),
        (1, (), ""),
        (1, (0, 0), "block 5 has 0x0"),
        (1, (*RANDOM[:3], 2_500_000_000_000_000), "block 8 has"),
        (1, (*RANDOM[:3], RANDOM[1]), "blocks 6 and 8 both have"),
        (42_161, RANDOM, "chain 42161: it is a constant"),
        (10, RANDOM, "its sequencer chooses"),
    ],
)
def test_a_weakness_is_named(chain_id: int, values: tuple[int, ...], said: str) -> None:
    found = find_weakness(chain_id, Sample(5, values))
    assert said in found and bool(said) == bool(found)


async def test_a_random_chain_gets_the_plain_contract_and_only_its_newest_blocks_are_asked() -> None:
    chain = Chain(RANDOM)
    assert await choose(chain) == "BlockRandomness"
    assert chain.asked == list(range(len(RANDOM) - SAMPLE_BLOCKS + 1, len(RANDOM) + 1))
    assert await choose(Chain(())) == "BlockRandomness"


async def test_a_chain_whose_blocks_repeat_is_refused_or_takes_drand() -> None:
    repeating = tuple(value for value in RANDOM for _ in range(6))
    with pytest.raises(EnvironmentFault, match="not random.*blocks .* both have.*Use another chain"):
        await choose(Chain(repeating))
    with pytest.raises(EnvironmentFault, match="Deploy with --drand"):
        await choose(Chain(repeating, has_bls=True))
    assert await choose(Chain(repeating, has_bls=True), with_drand=True) == "DrandRandomness"


async def test_drand_needs_the_precompiles() -> None:
    with pytest.raises(EnvironmentFault, match="cannot verify drand.*EIP-2537"):
        await choose(Chain(RANDOM), with_drand=True)
    assert await choose(Chain(RANDOM, has_bls=True), with_drand=True) == "DrandRandomness"
