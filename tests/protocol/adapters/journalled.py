"""Records of the shapes that nodes keep: words, lists of words, numbers and flags."""

from dataclasses import dataclass

from touchstone.protocol.adapters.messages import Word


@dataclass(frozen=True)
class SaltsDrawn:
    task: Word
    round: int
    salts: tuple[Word, ...]


@dataclass(frozen=True)
class ClaimMade:
    task: Word
    round: int
    claim_root: Word
    delta_root: Word


@dataclass(frozen=True)
class AccusationMade:
    task: Word
    round: int
    slot: int
    draw: int
    rank: int
    segment: int
    by_solver: bool
    salt: Word


RECORDS = (SaltsDrawn, ClaimMade, AccusationMade)
