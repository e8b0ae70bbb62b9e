"""Tests the referee on chain: what do its verdicts cost, and are they always right?

It measures the gas of whole transactions that prove one element of a product sum of each chunk length, in a
real step. Every kind of fault is planted in training and convicted by whole nodes over a real Anvil. Honest
parties are attacked with disputes, demands, silence, proofs against right statements, floods, last-second
moves and contests. Both referees, the contract and Python, judge the same cases. Writes
build/referee/report.json.
"""

import argparse
import asyncio
import statistics
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
import torch
from eth_account import Account

from lab.benchmarks.program import SCALARS, make_setting
from lab.benchmarks.referee_vectors import compare_verdicts, generate_cases
from lab.benchmarks.reports import BUILD, write_report
from tests.e2e.attacks import ATTACKS, QUICK_ATTACKS, attack
from tests.e2e.cheating import allow_cheating
from tests.e2e.faults import FAULTS, Ending, convict_all
from tests.training_setting import build_trace_tree
from touchstone.protocol.adapters.chain.abi import find_function, load_abi, load_bytecode
from touchstone.protocol.adapters.chain.abi_values import encode_call
from touchstone.protocol.adapters.chain.connection import Connection
from touchstone.protocol.adapters.chain.transactions import ResendPolicy, Sender
from touchstone.protocol.adapters.keys.account_key import AccountKey
from touchstone.protocol.compute.bounds.fault_proof import OperationFault, prove_operation
from touchstone.protocol.compute.bounds.trace_tree import TraceTree
from touchstone.protocol.compute.determinism import pin_kernels
from touchstone.protocol.compute.program.interpreter import Interpreter
from touchstone.protocol.spec.params import FORMAT_NUMBERS, ZERO_WORD
from touchstone.protocol.spec.program import CHUNK_TERMS, ELEMENT_BYTES, Program
from touchstone.protocol.spec.program_codec import compute_program_root
from touchstone.protocol.spec.program_operations import Operation
from touchstone.protocol.spec.state_headers import StateHeader
from touchstone.protocol.spec.task_spec import StepContext, StepFacts
from touchstone.scripts.network.devnet import CHAIN_ID, GRANT_COIN_WEI, give_coin, run_anvil
from touchstone.step.plain_decoder import DecoderConfig

MODEL = DecoderConfig(256, 128, 416, 4, 4, 4, 128)
"""The demo's model; sums over its tokens are as long as the longest chunk."""
SEQUENCES, TOKENS = 32, 128
SAMPLES = 12
PRODUCT_SUMS = (Operation.PRODUCT_SUM, Operation.QUANTIZED_PRODUCT_SUM)
VECTORS, QUICK_VECTORS = 100_000, 5_000
FAULTS_AT_ONCE = 6
"""The solvers of one round, each with one fault. They share a process with their auditors and the chain."""
QUICK_FAULTS = ("PRODUCT_SUM", "EXPONENTIAL", "GATHER", "COPY", "TOKENS", "SCALARS")


# Gas of one proof
def measure_sums(
    numeric_format: str = "float32", lengths: Sequence[int] = CHUNK_TERMS, hardfork: str = ""
) -> dict[str, dict[str, int]]:
    """Returns the gas of a whole transaction that proves one element of a product sum: median and largest
    over sums of each of `lengths`, and the largest by the bytes that a factor has in trees. `hardfork` names
    the rules; empty means the test network's, in which calldata has no price floor."""
    return asyncio.run(_measure_sums(numeric_format, lengths, hardfork))


async def _measure_sums(
    numeric_format: str, lengths: Sequence[int], hardfork: str
) -> dict[str, dict[str, int]]:
    gas = {}
    async with run_anvil(0, BUILD / "referee" / "anvil.log", hardfork=hardfork) as rpc_url:
        connection = Connection(rpc_url)
        account = AccountKey(Account.create())
        await give_coin(connection, account.address, GRANT_COIN_WEI)
        sender = Sender(connection, account, CHAIN_ID, ResendPolicy())
        try:
            receipt = await sender.send("", load_bytecode("Referee"), "Referee")
            address = receipt.contract_address
            for chunk_terms in lengths:
                used = [
                    (width, (await sender.send(address, data, "Referee.judge")).gas_used)
                    for width, data in list_calls(chunk_terms, numeric_format)
                ]
                gas[f"sum{chunk_terms}"] = _summarize_gas(used)
        finally:
            await connection.close()
    return gas


def _summarize_gas(used: Sequence[tuple[int, int]]) -> dict[str, int]:
    gas, widths = [one for _, one in used], sorted({width for width, _ in used})
    largest = {f"largest of {width} bytes": max(one for own, one in used if own == width) for width in widths}
    return {"median": int(statistics.median(gas)), "largest": max(gas), **largest}


def list_calls(chunk_terms: int, numeric_format: str) -> Iterator[tuple[int, bytes]]:
    """Yields calls of `judge`, each for an element of a product sum of `chunk_terms` terms in one real step,
    with the bytes of a factor."""
    setting = make_setting(MODEL, SEQUENCES, TOKENS)
    built = setting.build(chunk_terms, numeric_format)
    program = built.program
    interpreter = Interpreter(program, built.constants, keeps_all=True, numeric_format=numeric_format)
    interpreter.run(setting.vectors, *setting.batch, SCALARS)
    tree = build_trace_tree(program, interpreter.tensors.__getitem__)
    facts = describe_facts(program, FORMAT_NUMBERS[numeric_format])
    context = StepContext(facts, StateHeader(tree.roots[0], tree.roots[1], tree.roots[2], 0, 0), tree.root)
    entry = find_function(load_abi("IReferee"), "judge")
    for fault in list_proofs(tree, chunk_terms):
        factor = program.nodes[fault.node.number].operands[0].buffer
        arguments = (context, fault.node, fault.element, fault.openings)
        yield ELEMENT_BYTES[program.buffers[factor].role], encode_call(entry, arguments)


def describe_facts(program: Program, format_number: int) -> StepFacts:
    """Returns what the referee needs of a program; the other facts are about data."""
    root, nodes, buffers = compute_program_root(program), len(program.nodes), len(program.buffers)
    numbers = (nodes, buffers, format_number, SEQUENCES, TOKENS)
    return StepFacts(root, ZERO_WORD, ZERO_WORD, *numbers, 1, 1, 1, 1, 1)


def list_proofs(tree: TraceTree, chunk_terms: int) -> Iterator[OperationFault]:
    """Yields proofs of elements all over the program."""
    numbers = [
        number
        for number, node in enumerate(tree.program.nodes)
        if node.operation in PRODUCT_SUMS and node.terms == chunk_terms
    ]
    for place in range(SAMPLES):
        number = numbers[place * len(numbers) // SAMPLES]
        yield prove_operation(tree, number, (place * 7919) % tree.program.nodes[number].elements)


# Whole disputes
def measure_faults(faults: list[str]) -> dict[str, Any]:
    """Plants each fault, and returns how the dispute about it ends."""
    started, endings = time.monotonic(), list[Ending]()
    for first in range(0, len(faults), FAULTS_AT_ONCE):
        with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as monkeypatch:
            allow_cheating(monkeypatch)
            endings += asyncio.run(convict_all(Path(folder), faults[first : first + FAULTS_AT_ONCE]))
    wrong = [ending.fault for ending in endings if not ending.is_right]
    proven = [ending for ending in endings if ending.gas]
    return {
        "tried": len(endings),
        "convicted": len(endings) - len(wrong),
        "missed": wrong,
        "dispute": {
            "gas": max((ending.gas for ending in proven), default=0),
            "transactions": max((ending.transactions for ending in proven), default=0),
            "wall_s": round((time.monotonic() - started) / len(endings), 1),
        },
        "gas_by_fault": {ending.fault: ending.gas for ending in proven},
    }


def measure_attacks(styles: Sequence[str]) -> dict[str, Any]:
    """Plays a round of honest parties under each attack, one after the other."""
    found = []
    for style in styles:
        with tempfile.TemporaryDirectory() as folder:
            found.append(asyncio.run(attack(Path(folder), style)))
            print(found[-1], flush=True)
    return {
        "disputes": sum(one.disputes for one in found),
        "demands": sum(one.demands for one in found),
        "queries": sum(one.queries for one in found),
        "contests": sum(one.contests for one in found),
        "slashed": sum(len(one.closed) for one in found),
        "unpaid": sum(len(one.unpaid) for one in found),
        "honest_lost_wei": sum(one.honest_lost for one in found),
        "styles": {one.style: asdict(one) for one in found},
    }


def main() -> None:
    """Measures everything; with `--quick` a part of everything, in five minutes."""
    parser = argparse.ArgumentParser(description="Does the chain judge rightly, and what does it cost?")
    parser.add_argument("--quick", action="store_true", help="some faults, some attacks, fewer cases")
    options = parser.parse_args()
    pin_kernels()
    torch.set_num_threads(1)
    gas = measure_sums()
    faults = measure_faults(list(QUICK_FAULTS if options.quick else FAULTS))
    dispute = faults.pop("dispute")
    honest = measure_attacks(QUICK_ATTACKS if options.quick else list(ATTACKS))
    vectors = compare_verdicts(generate_cases(QUICK_VECTORS if options.quick else VECTORS, 1), 1)
    report = {
        "gas": {name: used["largest"] for name, used in gas.items()},
        "gas_median": {name: used["median"] for name, used in gas.items()},
        "dispute": dispute,
        "faults": faults,
        "honest": honest,
        "vectors": vectors,
    }
    print(write_report("referee", report))


if __name__ == "__main__":
    main()
