"""Is a claimant of an exact task convicted for each kind of fault, what is fetched for it, and what gas?"""

import asyncio
import re
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from lab.benchmarks.exactness.training import MODELS
from node.submit import RoundPlan
from tests.e2e.cheating import allow_cheating
from tests.e2e.faults import Ending, convict_all, list_faults
from tests.e2e.world import TINY_PLAN

AT_ONCE = 6
"""Solvers with a fault each, in one process."""
ROWS = 8
FETCHED = re.compile(r"fetched (\d+) of (\d+) bytes of the trace")


def build_plan(numeric_format: str, size: str | None) -> RoundPlan:
    """A round of a model of this size, None: a tiny one."""
    plan = replace(TINY_PLAN, numeric_format=numeric_format)
    if size is None:
        return plan
    model = MODELS[size]
    return replace(plan, model=model, sequences_per_step=ROWS, sequence_tokens=model.context_tokens)


def convict_faults(numeric_format: str, size: str | None, faults: Sequence[str] = ()) -> dict[str, Any]:
    """How many claimants were convicted of so many faults, which were not; the largest share of a trace that
    was fetched; gas of the dearest dispute, all its transactions together."""
    names, endings, shares = list(faults or list_faults(numeric_format)), list[Ending](), list[float]()
    for first in range(0, len(names), AT_ONCE):
        with (
            tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name,
            pytest.MonkeyPatch.context() as patch,
        ):
            allow_cheating(patch)
            plan, some = build_plan(numeric_format, size), names[first : first + AT_ONCE]
            endings += asyncio.run(convict_all(Path(name), some, base=plan))
            shares += _read_shares((Path(name) / "said.txt").read_text())
    return {
        "faults": len(names),
        "convicted": sum(one.is_right for one in endings),
        "left": [one.fault for one in endings if not one.is_right],
        "fetched_share": max(shares, default=0.0),
        "gas": max((one.gas for one in endings), default=0),
    }


def _read_shares(said: str) -> Iterator[float]:
    return (int(found) / int(size) for found, size in FETCHED.findall(said))
