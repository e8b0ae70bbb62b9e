"""Every draw of a claim's segments with its chance, by making all choices in the real draw."""

from collections.abc import Iterator
from fractions import Fraction
from unittest.mock import patch

from touchstone.protocol.spec import audit_draws


class _Open(Exception):
    """The script ended before the draw did. sizes: among how many the next choice is."""

    def __init__(self, size: int) -> None:
        self.size = size


def list_real_draws(segment_count: int, draws: int) -> Iterator[tuple[tuple[int, ...], Fraction]]:
    """Each sequence that `draw_circle_segments` can give, with its chance."""
    scripts: list[tuple[tuple[int, ...], Fraction]] = [((), Fraction(1))]
    while scripts:
        script, chance = scripts.pop()
        try:
            yield _run(script, draws, segment_count), chance
        except _Open as more:
            scripts += [((*script, choice), chance / more.size) for choice in range(more.size)]


def _run(script: tuple[int, ...], draws: int, segment_count: int) -> tuple[int, ...]:
    def choose(_: bytes, counter: int, size: int) -> int:
        if counter >= len(script):
            raise _Open(size)
        return script[counter]

    with patch.object(audit_draws, "draw_uniform", choose):
        return audit_draws.draw_circle_segments(bytes(32), 0, draws, segment_count)
