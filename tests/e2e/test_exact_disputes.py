"""Disputes of an exact task on the real contracts: found by hashes, proven by one element."""

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from protocol.actions.dispute import answering
from protocol.actions.dispute.casebook import TracedStep
from protocol.actions.runtime.party import Party
from protocol.spec.merkle import compute_levels, hash_leaf
from protocol.spec.program import get_constant_roots
from tests.e2e.cheating import allow_cheating
from tests.e2e.faults import convict_all
from tests.e2e.world import TINY_PLAN

FAULTS = ("QUANTIZED_PRODUCT_SUM", "QUANTIZE", "SCALE_OF", "EXPONENTIAL", "SUM", "TOKENS")
FETCHED = re.compile(r"fetched (\d+) of (\d+) bytes of the trace")


async def test_each_kind_of_fault_of_an_exact_task_is_convicted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    allow_cheating(monkeypatch)
    plan = replace(TINY_PLAN, numeric_format="exact15")
    endings = await convict_all(tmp_path, FAULTS, base=plan)
    assert [one.fault for one in endings if not one.is_right] == []
    shares = [int(found) / int(size) for found, size in FETCHED.findall((tmp_path / "said.txt").read_text())]
    assert len(shares) >= len(FAULTS) and max(shares) < 0.1


def lie_about_known_roots(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each claimant lists other roots for W and for a constant than those that everybody knows: no proof
    takes these from the list, but they stand beside what a proof takes from it."""
    trace = answering._trace

    def trace_and_lie(party: Party, *arguments: Any) -> TracedStep:
        traced = trace(party, *arguments)
        roots = list(traced.tree.roots)
        constant = max(get_constant_roots(traced.tree.program))
        roots[0] = roots[constant] = hash_leaf(b"a lie")
        party.store.put_roots(roots)
        return traced._replace(tree=replace(traced.tree, levels=compute_levels(roots)))

    monkeypatch.setattr(answering, "_trace", trace_and_lie)


@pytest.mark.parametrize("numeric_format", ["exact15", "float32"])
async def test_a_false_list_of_roots_that_no_proof_takes_saves_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, numeric_format: str
) -> None:
    allow_cheating(monkeypatch)
    lie_about_known_roots(monkeypatch)
    plan = replace(TINY_PLAN, numeric_format=numeric_format)
    endings = await convict_all(tmp_path, ("SUM", "LABELS"), deadline_s=600, base=plan)
    assert [one.fault for one in endings if not one.is_right] == []
