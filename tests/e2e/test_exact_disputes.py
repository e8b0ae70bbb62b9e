"""Disputes of an exact task on the real contracts: found by hashes, proven by one element."""

import re
from dataclasses import replace
from pathlib import Path

import pytest

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
