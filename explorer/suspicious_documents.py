"""Lists what of a task an auditor may want to look at: rejected, silent, far off, disputed."""

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

from touchstone.explorer.names import Names, make_person
from touchstone.explorer.report_documents import Reported, is_void
from touchstone.protocol.spec.game.enums import REJECT_WORDS
from touchstone.protocol.spec.game.inner_dispute import InnerBook
from touchstone.protocol.spec.game.logged_game import LoggedGame
from touchstone.protocol.spec.game.round_machine import get_state_at
from touchstone.protocol.spec.game.silence import find_silent_seats
from touchstone.protocol.spec.game.state import GameRound
from touchstone.protocol.spec.statements import VoteWord

LOOKED_ROUNDS = 32
"""The newest rounds of a task that are looked at."""
NEAR_LIMIT = 0.5
"""A reported distance of this share of the task's limit, or more, is listed."""
DISTANCES = ("weights", "first_moment", "second_moment")


def list_suspicious(
    game: LoggedGame,
    inner: InnerBook | None,
    reported: Iterable[tuple[int, Reported]],
    block: int,
    names: Names,
) -> list[dict[str, Any]]:
    """Returns what is suspicious in a task as of `block`, what is open first, then the newest rounds.
    `reported` are reports with the indices of their rounds."""
    indices = sorted(game.rounds, reverse=True)[:LOOKED_ROUNDS]
    rows = [*_list_open(game, inner, names), *_list_silent(game, block, names)]
    of_rounds = [row for index in indices for row in _list_rejected(game, game.rounds[index], block, names)]
    of_rounds += _list_far(game, reported, names)
    return rows + sorted(of_rounds, key=lambda row: -row["round"])


def _list_open(game: LoggedGame, inner: InnerBook | None, names: Names) -> Iterator[dict[str, Any]]:
    for dispute in () if inner is None else inner.disputes.values():
        if dispute.is_open:
            said = f"{names.of(dispute.opener)} disputes {names.of_statement(game, dispute.statement)}"
            about = {"dispute": f"0x{dispute.name.hex()}", "until_block": dispute.clock}
            account = names.find_account(game, dispute.seat)
            yield _make_row("open dispute", said, account, dispute.statement.round, names) | about
    for query in game.queries.values():
        said = f"{names.of(query.asker)} asks for the data behind its vote"
        account = names.find_account(game, query.seat)
        row = _make_row("open query", said, account, query.statement.round, names)
        yield row | {"until_block": query.clock}
    for contest in game.contests.values():
        said = f"{names.of(contest.contester)} contests the root of round {contest.round}"
        yield _make_row("open contest", said, None, contest.round, names) | {"until_block": contest.clock}


def _list_silent(game: LoggedGame, block: int, names: Names) -> Iterator[dict[str, Any]]:
    now = get_state_at(game, block)
    for number, missed in find_silent_seats(now, block).items():
        first = missed[0].round
        said = f"has missed {len(missed)} of its duties since round {first}"
        yield _make_row("silent seat", said, now.seats[number].account, first, names)


def _list_rejected(
    game: LoggedGame, game_round: GameRound, block: int, names: Names
) -> Iterator[dict[str, Any]]:
    for slot, claim in game_round.claims.items():
        words = Counter(
            vote.word
            for place, votes in game_round.votes.items()
            if place[0] == slot
            for vote in votes.values()
        )
        against = sum(words[word] for word in REJECT_WORDS)
        ending = (
            "the claim does not count"
            if is_void(game, game_round, slot, block)
            else "the claim counts so far"
        )
        if claim.is_convicted:
            ending = "its solver was convicted"
        if against:
            said = f"{against} REJECT vote{'s' if against > 1 else ''} on its claim; {ending}"
            yield _make_row("rejected claim", said, claim.account, game_round.index, names)
        if unserved := words[VoteWord.UNSERVED]:
            said = f"{unserved} auditor{'s' if unserved > 1 else ''} got no data of its claim; {ending}"
            yield _make_row("UNSERVED", said, claim.account, game_round.index, names)


def _list_far(
    game: LoggedGame, reported: Iterable[tuple[int, Reported]], names: Names
) -> Iterator[dict[str, Any]]:
    for index, one in reported:
        far = max((one.said.get(name) or 0.0 for name in DISTANCES), default=0.0)
        claim = game.rounds[index].claims.get(one.slot) if index in game.rounds else None
        if far < NEAR_LIMIT or claim is None or claim.claim_root != one.claim_root:
            continue
        kind = "distance beyond the limit" if far > 1 else "distance near the limit"
        said = f"an auditor reports a distance of {far:.3g}, where 1 is the task's limit"
        yield _make_row(kind, said, claim.account, index, names)


def _make_row(kind: str, said: str, account: str | None, index: int, names: Names) -> dict[str, Any]:
    """Returns a row; `account` is whom it is about, None for all signers of a root."""
    person = {"account": None, "name": ""} if account is None else make_person(account, names)
    return {"kind": kind, "what": said, **person, "round": index}
