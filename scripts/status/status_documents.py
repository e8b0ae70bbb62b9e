"""Makes the JSON of `touchstone status --json` (docs/schemas/status.json)."""

from touchstone.explorer.task_documents import count_active, describe_phase
from touchstone.protocol.economics.account_money import compute_money
from touchstone.protocol.spec.game.enums import SeatRole
from touchstone.protocol.spec.game.logged_game import LoggedGame
from touchstone.protocol.spec.game.pools import get_required_stake
from touchstone.protocol.spec.game.round_machine import get_state_at
from touchstone.protocol.spec.game.state import GameRound
from touchstone.scripts.account.task_names import get_number
from touchstone.scripts.account.task_words import is_task_closable, list_open
from touchstone.scripts.documents.document_fields import format_id, spell_role
from touchstone.scripts.documents.overview_documents import (
    AccountFacts,
    NodeFacts,
    RefusedTask,
    RoundFacts,
    RoundState,
    SeatFacts,
    SeatState,
    StatusDocument,
    TaskFacts,
)
from touchstone.scripts.money.holdings import Holding, find_holding
from touchstone.scripts.status.money_json import describe_money
from touchstone.scripts.status.money_tables import find_money, has_money
from touchstone.scripts.status.sight import Sight, list_seats
from touchstone.scripts.status.status_tables import describe_lack, describe_round, get_escrow


def describe_status(sight: Sight, node: NodeFacts | None) -> StatusDocument:
    """Returns all tasks, and what the account has in them. `node` is the node's own note."""
    state = sight.state
    return StatusDocument(
        block=state.head_block,
        tasks=[_describe_game(sight, task, game) for task, game in state.games.items()],
        refused=[RefusedTask(format_id(task), why) for task, why in state.refused.items()],
        account=_describe_account(sight),
        seats=[_describe_seat(task, game, holding) for task, game, holding in list_seats(sight)],
        money=[
            describe_money(task, money)
            for task, game in state.games.items()
            if has_money(money := find_money(game, sight.account, sight.pace))
        ],
        node=node,
    )


def describe_task_status(
    sight: Sight, task: bytes, game: LoggedGame, node: NodeFacts | None
) -> StatusDocument:
    """Returns one task, with all of its rounds and all of its seats."""
    now = get_state_at(game, sight.state.head_block + 1)
    return StatusDocument(
        block=sight.state.head_block,
        tasks=[_describe_game(sight, task, game)],
        refused=[],
        account=_describe_account(sight),
        seats=[
            _describe_seat(task, game, find_holding(game, seat, sight.pace)) for seat in now.seats.values()
        ],
        money=[
            describe_money(task, money)
            for money in compute_money(now, game.money, sight.state.head_block + 1).values()
        ],
        node=node,
        rounds=[_describe_round(index, one) for index, one in sorted(now.rounds.items())],
    )


def _describe_account(sight: Sight) -> AccountFacts:
    credit_wei = sight.state.credits[sight.account]
    return AccountFacts(sight.account, str(sight.coin_wei), str(sight.token_wei), str(credit_wei))


def _describe_game(sight: Sight, task: bytes, game: LoggedGame) -> TaskFacts:
    block = sight.state.head_block + 1
    return TaskFacts(
        task=format_id(task),
        submitter=game.terms.submitter,
        status=describe_phase(game, block),
        rounds_opened=game.next_round,
        rounds=game.terms.rounds,
        solvers=count_active(game, SeatRole.SOLVER),
        verifiers=count_active(game, SeatRole.VERIFIER),
        whistleblowers=count_active(game, SeatRole.WHISTLEBLOWER),
        lacks=describe_lack(game, block),
        escrow_wei=str(get_escrow(game)),
        contests=len(game.contests),
        disputes=len(game.disputes),
        queries=len(game.queries),
        still_open=list(list_open(game, block)),
        can_be_closed=is_task_closable(game, block),
    )


def _describe_seat(task: bytes, game: LoggedGame, holding: Holding) -> SeatFacts:
    seat = holding.seat
    return SeatFacts(
        task=format_id(task),
        role=spell_role(seat.role),
        number=get_number(seat.number),
        stake_wei=str(holding.stake_wei),
        account=seat.account,
        state=SeatState(seat.status.name.lower()),
        required_wei=str(get_required_stake(game, seat.role)),
        held_by=list(holding.held_by),
    )


def _describe_round(index: int, one: GameRound) -> RoundFacts:
    return RoundFacts(
        round=index,
        state=RoundState(describe_round(one)),
        opened_block=one.opened,
        closed_block=one.closed,
        solvers=len(one.pool.solvers),
        claims=len(one.claims),
        votes=sum(map(len, one.votes.values())),
        merged=len(one.merged),
        root=None if one.root is None else format_id(one.root),
    )
