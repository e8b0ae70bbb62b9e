"""Parties for the tests of actions, and kernels pinned as a node pins them."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from protocol.compute.determinism import pin_kernels
from protocol.compute.digest import zero_root
from protocol.spec.containers import StateHeader
from tests.protocol.actions.lone import Lone, get_spec, make_lone


@pytest.fixture(autouse=True)
def _pinned() -> Iterator[None]:
    pin_kernels(1)
    yield
    pin_kernels(1)


@pytest.fixture
def solver(tmp_path: Path) -> Lone:
    """The only solver of round 0; the contract expects it to start from the initial model."""
    terms = get_spec().terms
    lone = make_lone(tmp_path / "solver")
    assert terms.zero_root == zero_root(terms.parameter_count)
    start = StateHeader(terms.initial_weights_root, terms.zero_root, terms.zero_root, 0, 0)
    lone.chain.answers["expected_start"] = start
    return lone
