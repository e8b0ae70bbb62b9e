"""Adds up what each account did in all tasks, as rows and as CSV."""

import csv
import io
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias

from touchstone.explorer.money_documents import TOTALS
from touchstone.explorer.names import Names, make_person, show_wei
from touchstone.explorer.round_documents import describe_claim
from touchstone.explorer.task_documents import to_hex
from touchstone.explorer.work_documents import count_work
from touchstone.protocol.spec.game.assignments import get_drawn_seat
from touchstone.protocol.spec.game.logged_game import LoggedGame
from touchstone.protocol.spec.game.logs import VOTE_BYTES
from touchstone.protocol.spec.game.state import GameRound

TRAINED = ("steps", "tokens", "flops")
DONE = (
    "rounds_trained", "rounds_accepted", "rounds_merged", *TRAINED, "audits_voted", *TOTALS, "convictions",
)  # fmt: skip
"""The figures that are added up for each account: of the ledger of work, counted votes, money."""
ACCOUNT_COLUMNS = ("account", "task", *DONE)
Totals: TypeAlias = dict[str, Counter[str]]
"""Figures by account."""


def add_round(
    totals: Totals, game: LoggedGame, game_round: GameRound, block: int, training: dict[str, Any]
) -> None:
    """Adds what each account trained in a round, as of `block`. `training` is from `make_training`."""
    for slot, claim in game_round.claims.items():
        found = totals.setdefault(claim.account, Counter())
        found["rounds_trained"] += 1
        found["rounds_accepted"] += describe_claim(game, game_round, slot, block) == "accepted"
        found["rounds_merged"] += slot in game_round.merged
        found.update(dict(zip(TRAINED, count_work(claim.segments, training), strict=True)))


def add_votes(totals: Totals, game: LoggedGame, name: str, values: Mapping[str, Any]) -> None:
    """Adds the votes that an event counts. `game` is the game right after the event, because a seat number
    may belong to another account later."""
    if name != "VotesCounted":
        return
    said, game_round = bytes(values["votes"]), game.rounds[values["round"]]
    for at in range(0, len(said), VOTE_BYTES):
        slot, draw, rank, _ = said[at : at + VOTE_BYTES]
        seat = game.seats.get(get_drawn_seat(game, game_round, slot, draw, rank) or 0)
        if seat is not None:
            totals.setdefault(seat.account, Counter())["audits_voted"] += 1


def list_accounts(
    found: Mapping[tuple[str, bytes], Counter[str]], names: Names, account: str = ""
) -> list[dict[str, Any]]:
    """Returns a row for each account over all its tasks, or a row for each task of one account. The account
    that trained most comes first, then the one that voted most. `found` is by account and task."""
    rows = dict[str | bytes, Counter[str]]()
    people, tasks = dict[str | bytes, str](), Counter[str | bytes]()
    for (who, task), done in found.items():
        if account in ("", who):
            key = task if account else who
            rows.setdefault(key, Counter()).update(done)
            people[key], tasks[key] = who, tasks[key] + 1
    return [
        {**_make_account(people[key], done, names), "tasks": tasks[key]}
        | ({"task": to_hex(key)} if isinstance(key, bytes) else {})
        for key, done in sorted(rows.items(), key=lambda row: (-row[1]["flops"], -row[1]["audits_voted"]))
    ]


def _make_account(account: str, done: Counter[str], names: Names) -> dict[str, Any]:
    amounts = {name.removesuffix("_wei"): show_wei(done[name]) for name in DONE if name.endswith("_wei")}
    counts = {name: done[name] for name in DONE if not name.endswith("_wei")}
    return make_person(account, names) | counts | amounts


def format_accounts(found: Mapping[tuple[str, bytes], Counter[str]]) -> bytes:
    """Returns a row of ACCOUNT_COLUMNS for each account and task, as CSV."""
    rows = ((who, to_hex(task), *(done[name] for name in DONE)) for (who, task), done in found.items())
    return format_csv([ACCOUNT_COLUMNS, *rows])


def format_csv(rows: Iterable[Iterable[Any]]) -> bytes:
    """Returns rows as CSV (RFC 4180)."""
    text = io.StringIO()
    csv.writer(text).writerows(rows)
    return text.getvalue().encode()
