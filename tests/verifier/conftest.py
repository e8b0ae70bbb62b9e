"""Kernels pinned as a node pins them."""

from collections.abc import Iterator

import pytest

from touchstone.protocol.compute.determinism import pin_kernels


@pytest.fixture(autouse=True)
def _pinned() -> Iterator[None]:
    pin_kernels(1)
    yield
    pin_kernels(1)
