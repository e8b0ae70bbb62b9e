"""The figures of docs/decisions/0041-data.md: what bounds them from below, and that proofs stay small."""

from lab.benchmarks.fetching import measure


def test_proofs_cost_less_than_a_fifth_of_the_leaves() -> None:
    share = measure(row_tokens=256, rows=1, steps=200)
    assert share.held == 200 * 514
    assert 1.0 < share.fetched / share.touched < 1.2
    assert 2.5 < share.touched / share.held < 3.5, "a row is smaller than a leaf"


def test_long_rows_fetch_little_more_than_they_hold() -> None:
    share = measure(row_tokens=4096, rows=8, steps=10)
    assert share.fetched / share.held < 1.2


def test_the_index_is_a_thousandth_of_the_dataset() -> None:
    assert 0.0009 < measure(256, 1, 1).index / 1_000_000_000 < 0.0011
