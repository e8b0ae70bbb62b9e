"""What does a round of the second design cost on the chain, by how its contracts lay out their storage?

    .venv/bin/python -m benchmarks.prototypes.round_gas.measure

Ten minutes; `--quick`, ten solvers only, two. Whole transactions on Anvil with the newest rules that it has
(calldata floor of EIP-7623, limit of EIP-7825), real keys and signatures; who is paid is checked. Writes
build/round_gas/report.json; what follows from it stands in docs/decisions/0027-round-storage.md.
"""

import argparse
import asyncio
import math
import random
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from hashlib import sha256
from typing import Any

from benchmarks.prototypes.round_gas.play import FIRST_ROUND, TASK, Case, Chain, Play, Sent
from benchmarks.prototypes.round_gas.twin import deal
from benchmarks.setting import BUILD, write_report
from scripts.devnet import run_anvil
from tests.e2e.twin_chain import JsonRpc

HARDFORK = "osaka"
LAYOUTS, CHOSEN = ("OwnWords", "Lanes", "Derived"), "Lanes"
EPOCH = 64
"""Rounds that are settled together."""
LAPS = {"first_lap": 3, "later": 11}
"""Rounds that are read: storage written for the first time, and used again (a ring of eight)."""
LAST = LAPS["later"]
SETTLED = 4
"""The round behind which everybody has been paid once."""
POOLS, BIASED, BIAS_SEEDS = (8, 30, 64, 128, 192, 500), (8, 30), 200_000


# --- Rounds -------------------------------------------------------------------------------------------------
def measure_case(chain: Chain, case: Case) -> dict[str, Any]:
    """Gas for each solver by call, in the ring's first lap and later; the dearest and the largest call."""
    play, sent = Play(chain, case), {}
    for number in range(FIRST_ROUND, LAST + 1):
        sent[number] = play.play(number)
        if number == SETTLED and case.layout != "Derived":
            play.settle(FIRST_ROUND - 1, SETTLED + 1)
    settled = settle_derived(play) if case.layout == "Derived" else play.settle(SETTLED, LAST + 1) / EPOCH
    empty = play.send("judge", TASK, LAST, False, b"", play.bring(LAST)).gas
    calls = [call for one in sent.values() for some in one.values() for call in some]
    laps = {name: count_lap(sent[number], case, settled) for name, number in LAPS.items()}
    most_gas, most_bytes = max(call.gas for call in calls), max(call.size for call in calls)
    bound = max(call.floor / call.gas for call in calls)
    most = {"dearest_call_gas": most_gas, "largest_call_bytes": most_bytes, "nearest_floor": bound}
    return {**asdict(case), **laps, **most, "page_without_votes": empty}


def settle_derived(play: Play) -> float:
    """Gas for a round where pay is derived: of one round more, and a share of what credits take."""
    play.settle(LAST - 4, LAST)  # the first credit of an account
    three, four = (play.derive_pay(LAST - 4, behind) for behind in (LAST - 1, LAST))
    return (four - three) + (4 * three - 3 * four) / EPOCH


def count_lap(sent: dict[str, list[Sent]], case: Case, settled: float) -> dict[str, int]:
    """Gas for each solver by call, and in all with judging and posting in one transaction."""
    shares = {name: sum(call.gas for call in calls) / case.solvers for name, calls in sent.items()}
    total = shares["commit"] + shares["seal"] + shares["together"] + settled / case.solvers
    dearest = max(call.gas for call in sent["commit"])
    shares |= {"settle": settled / case.solvers, "total": total, "dearest commit": dearest}
    return {name: round(gas) for name, gas in shares.items()}


def list_cases(sizes: Sequence[int]) -> Iterator[Case]:
    """All layouts, honest and with a third rejecting; Openings a round later; larger pools."""
    for layout in LAYOUTS:
        for size in sizes:
            yield from (Case(layout, size, max(size, 8), is_refusing) for is_refusing in (False, True))
    yield from (Case(CHOSEN, size, max(size, 8), is_later=True) for size in sizes)
    yield from (Case(layout, sizes[-1], 2 * sizes[-1]) for layout in LAYOUTS)
    yield from (Case(CHOSEN, size, 500) for size in sizes)


def measure_votes(chain: Chain, solvers: int) -> dict[str, int]:
    """Gas of a vote with its Opening: handed in by its auditor, or with all others of the round. Checks that
    a vote does not count once a bit of it is another."""
    play = Play(chain, Case(CHOSEN, solvers, max(solvers, 8)))
    for number in range(FIRST_ROUND, LAST):
        play.play(number)
    for slot in range(solvers):
        play.commit(LAST, slot)
    play.seal(LAST)
    votes = play.cast(LAST, False, True)
    for place in (0, 1, 2, 7, 8, 71, 72, 103, 104, 135, 136, 167, 168, 199):
        altered = votes[0][:place] + bytes([votes[0][place] ^ 1]) + votes[0][place + 1 :]
        if play.count_accepted(LAST, [altered, *votes[1:]]) != solvers - 1:
            raise RuntimeError(f"expected a vote with another byte {place} not to count, it did")
    before = chain.ask(("evm_snapshot", []))[0]
    together = play.contract.send(play.sender, play.encode_votes(LAST, False, True)).gas
    chain.ask(("evm_revert", [before]))
    alone = [play.send("judge", TASK, LAST, False, vote, b"").gas for vote in votes]
    return {"alone": round(sum(alone) / len(alone)), "in a page": round(together / len(alone))}


def measure_rings(chain: Chain, rings: Sequence[int]) -> dict[str, list[int]]:
    """Gas of a commitment in the first lap and in the second, four solvers."""
    found = {}
    for ring in rings:
        play = Play(chain, Case(CHOSEN, 4, 8, ring=ring))
        gas = [play.play(number)["commit"][1].gas for number in range(FIRST_ROUND, ring + 4)]
        found[str(ring)] = [gas[1], gas[-1]]
    return found


# --- Pieces -------------------------------------------------------------------------------------------------
def measure_parts(chain: Chain) -> dict[str, Any]:
    """Gas of an order of auditors and of a vote's digest, each way."""
    parts, seed = chain.deploy("Parts"), sha256(b"seed").digest()
    orders: dict[str, Any] = {}
    for pool in POOLS:
        gas, order = parts.read("order", seed, pool, pool)
        if list(order) != deal(seed, pool, range(pool), pool):
            raise RuntimeError(f"expected the same order of {pool} as in Python, got {order}")
        columns = math.isqrt(pool - 1) + 1
        places = [parts.read("feistel", seed, pool, columns, place) for place in range(pool)]
        if sorted(place[2] for place in places) != [*range(pool)]:
            raise RuntimeError(f"expected a permutation of {pool}, got {places}")
        keyed, walks = places[0][0], [place[1] for place in places]
        orders[str(pool)] = {
            "all": gas,
            "24 places": parts.read("order", seed, pool, min(pool, 24))[0],
            "plain": parts.read("orderPlain", seed, pool)[0],
            "feistel keys": keyed,
            "feistel place": round(sum(walks) / pool),
            "feistel bias": measure_bias(pool, columns) if pool in BIASED else None,
        }
    names = ("EIP-712", "Keccak-256", "tagged SHA-256", "ecrecover")
    digests = parts.read("digests", [sha256(b"%d" % i).digest() for i in range(11)])[0]
    return {"orders": orders, "digests": dict(zip(names, digests, strict=True))}


def measure_bias(pool: int, columns: int) -> dict[str, float]:
    """How far the seats of a primary and its first reserve are from uniform over seeds: chi-squared, in
    standard deviations of an exact draw's (below 3: nothing to see in so many seeds), and how often the
    likeliest pair comes, 1 being its share."""
    dice, counts = random.Random(0), Counter[tuple[int, int]]()
    for _ in range(BIAS_SEEDS):
        keys = [dice.getrandbits(256) for _ in range(6)]
        counts[permute(keys, 0, pool, columns), permute(keys, pool // 3, pool, columns)] += 1
    pairs = pool * (pool - 1)
    mean = BIAS_SEEDS / pairs
    squares = sum((count - mean) ** 2 for count in counts.values()) + mean**2 * (pairs - len(counts))
    deviations = (squares / mean - (pairs - 1)) / math.sqrt(2 * (pairs - 1))
    return {"deviations": round(deviations, 1), "likeliest": round(max(counts.values()) / mean, 3)}


def permute(keys: Sequence[int], place: int, pool: int, columns: int) -> int:
    """Twin of `Parts.feistel`."""
    rows = -(-pool // columns)
    while True:
        left, right = divmod(place, columns)
        for even, odd in zip(keys[::2], keys[1::2], strict=True):
            left = (left + mix(even, right)) % rows
            right = (right + mix(odd, left)) % columns
        place = left * columns + right
        if place < pool:
            return place


def mix(key: int, word: int) -> int:
    """A strongly universal function of `word`."""
    return (key * word + (key >> 128)) % (1 << 128) >> 64


# --- The report ---------------------------------------------------------------------------------------------
@contextmanager
def open_chain() -> Iterator[Chain]:
    """An Anvil of its own until the block ends."""
    options = ("--enable-tx-gas-limit", "--gas-limit", "60000000")
    with asyncio.Runner() as runner:
        anvil = run_anvil(0, BUILD / "round_gas" / "anvil.log", options=options, hardfork=HARDFORK)
        rpc = JsonRpc(runner.run(anvil.__aenter__()))
        try:
            yield Chain(rpc)
        finally:
            rpc.close()
            runner.run(anvil.__aexit__(None, None, None))


def main() -> None:
    """Everything; `--quick` ten solvers only."""
    parser = argparse.ArgumentParser(description="What does a round cost, by the layout of its storage?")
    parser.add_argument("--quick", action="store_true", help="ten solvers, one ring")
    is_quick = parser.parse_args().quick
    with open_chain() as chain:
        report: dict[str, Any] = {"hardfork": HARDFORK, "parts": measure_parts(chain), "rounds": []}
        for case in list_cases((10,) if is_quick else (4, 10, 64)):
            report["rounds"].append(measure_case(chain, case))
            print(report["rounds"][-1])
        report["vote"] = measure_votes(chain, 10 if is_quick else 64)
        report["rings"] = measure_rings(chain, (64,) if is_quick else (64, 128, 256))
    print(write_report("round_gas", report))


if __name__ == "__main__":
    main()
