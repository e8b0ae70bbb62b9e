"""The exact chances of what can become of one false segment: who is drawn for it, and who late."""

from fractions import Fraction
from itertools import product

from lab.benchmarks.economy.conduct import Outcome
from lab.benchmarks.economy.ground import DRAWS, SEGMENTS, VERIFIERS, WHISTLEBLOWERS
from protocol.spec.drawing import RANKS

LATE = Fraction(1, 2)
"""Chance of a late audit of a claim."""
Hand = tuple[tuple[bool, ...] | None, Fraction]


def list_hands(own: int, pool: int) -> list[tuple[tuple[bool, ...], Fraction]]:
    """Whether each of three auditors is the agent's, without replacement."""
    hands = []
    for hand in product((True, False), repeat=RANKS):
        chance = Fraction(1)
        for place, is_own in enumerate(hand):
            held = own - sum(hand[:place])
            left = pool - place
            chance *= Fraction(max(0, held) if is_own else left - max(0, held), left)
        if chance:
            hands.append((hand, chance))
    return hands


def list_outcomes(own: tuple[int, int], foresight: int = 1) -> tuple[Outcome, ...]:
    """All of them. own: verifiers and whistleblowers of the agent; foresight: among how many draws of the
    round it takes the best: one that spares its segment, then one that its own decide."""
    drawn = Fraction(DRAWS, SEGMENTS)
    first: list[Hand] = [(None, 1 - drawn)]
    first += [(hand, drawn * chance) for hand, chance in list_hands(own[0], VERIFIERS)]
    first = _choose(first, foresight)
    late = LATE * Fraction(1, SEGMENTS - DRAWS)
    second: list[Hand] = [(None, 1 - late)]
    second += [(hand, late * chance) for hand, chance in list_hands(own[1], WHISTLEBLOWERS)]
    found = [Outcome(chance, hand, None) for hand, chance in first if hand is not None]
    return (*found, *(Outcome(first[0][1] * chance, None, hand) for hand, chance in second))


def _choose(hands: list[Hand], draws: int) -> list[Hand]:
    """With the best of several draws: nobody is drawn unless every draw draws somebody."""
    spared = 1 - (1 - hands[0][1]) ** draws
    rest = 1 - hands[0][1]
    return [(None, spared), *((hand, chance / rest * (1 - spared)) for hand, chance in hands[1:])]
