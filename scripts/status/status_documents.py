"""What `touchstone status --json` writes (docs/schemas/status.json)."""

from typing import Any

from touchstone.explorer.task_documents import count_sitting, tell_phase
from touchstone.protocol.economics.account_money import compute_money
from touchstone.protocol.spec.game.enums import SeatRole
from touchstone.protocol.spec.game.logged_game import LoggedGame
from touchstone.protocol.spec.game.pools import get_required_stake
from touchstone.protocol.spec.game.round_machine import get_state_at
from touchstone.protocol.spec.game.state import GameRound
from touchstone.scripts.account.task_words import is_task_closable, list_open
from touchstone.scripts.command_line.command_results import Document, spell_id
from touchstone.scripts.money.holdings import Holding, find_holding
from touchstone.scripts.money.staking import describe_stake
from touchstone.scripts.status.money_json import describe_money
from touchstone.scripts.status.money_tables import find_money, has_money
from touchstone.scripts.status.sight import Sight, list_seats
from touchstone.scripts.status.status_tables import ROLE_NAMES, get_escrow, tell_lack, tell_round


def describe_status(sight: Sight) -> Document:
    """What `touchstone status --json` writes (docs/schemas/status.json), but for the node."""
    state = sight.state
    return {
        "block": state.head_block,
        "tasks": [_describe_game(sight, task, game) for task, game in state.games.items()],
        "refused": [{"task": spell_id(task), "reason": why} for task, why in state.refused.items()],
        "account": _describe_account(sight),
        "seats": [_describe_seat(task, game, holding) for task, game, holding in list_seats(sight)],
        "money": [
            describe_money(task, money)
            for task, game in state.games.items()
            if has_money(money := find_money(game, sight.account, sight.pace))
        ],
    }


def describe_task_status(sight: Sight, task: bytes, game: LoggedGame) -> Document:
    """The same with one task, all of its rounds and all of its seats."""
    now = get_state_at(game, sight.state.head_block + 1)
    return {
        "block": sight.state.head_block,
        "tasks": [_describe_game(sight, task, game)],
        "refused": [],
        "account": _describe_account(sight),
        "seats": [
            _describe_seat(task, game, find_holding(game, seat, sight.pace)) for seat in now.seats.values()
        ],
        "money": [
            describe_money(task, money)
            for money in compute_money(now, game.money, sight.state.head_block + 1).values()
        ],
        "rounds": [_describe_round(index, one) for index, one in sorted(now.rounds.items())],
    }


def _describe_account(sight: Sight) -> Document:
    money = {"coin_wei": sight.coin_wei, "wallet_wei": sight.token_wei}
    money["credit_wei"] = sight.state.credits[sight.account]
    return {"address": sight.account, **{name: str(wei) for name, wei in money.items()}}


def _describe_game(sight: Sight, task: bytes, game: LoggedGame) -> Document:
    block = sight.state.head_block + 1
    counts = zip(ROLE_NAMES, SeatRole, strict=True)
    return {
        "task": spell_id(task),
        "submitter": game.terms.submitter,
        "status": tell_phase(game, block),
        "rounds_opened": game.next_round,
        "rounds": game.terms.rounds,
        **{name: count_sitting(game, role) for name, role in counts},
        "lacks": tell_lack(game, sight.state.head_block + 1),
        "escrow_wei": str(get_escrow(game)),
        "contests": len(game.contests),
        "disputes": len(game.disputes),
        "asks": len(game.asks),
        "still_open": list(list_open(game, block)),
        "can_be_closed": is_task_closable(game, block),
    }


def _describe_seat(task: bytes, game: LoggedGame, holding: Holding) -> Document:
    seat = holding.seat
    facts: dict[str, Any] = describe_stake(task, seat, holding.stake_wei)
    required_wei = str(get_required_stake(game, seat.role))
    facts |= {"account": seat.account, "state": seat.status.name.lower(), "required_wei": required_wei}
    return facts | {"held_by": list(holding.held_by)}


def _describe_round(index: int, one: GameRound) -> Document:
    return {
        "round": index,
        "state": tell_round(one),
        "opened_block": one.opened,
        "closed_block": one.closed,
        "solvers": len(one.pool.solvers),
        "claims": len(one.claims),
        "votes": sum(map(len, one.votes.values())),
        "merged": len(one.merged),
        "root": None if one.root is None else spell_id(one.root),
    }
