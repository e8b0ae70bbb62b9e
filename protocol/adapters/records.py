"""The record that every journal begins with. All others are the rooms' own (`records.py` of each).

Whoever changes a record raises `journal.FORMAT`: journals written before are then refused, never misread.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class JournalBegun:
    """First of all: whose journal it is, an address in lower case."""

    account: str
