"""What the contracts log of the machine's events: names as in Solidity, of values in snake case."""

from collections.abc import Iterator, Sequence
from dataclasses import fields
from types import SimpleNamespace
from typing import Any

from tests.protocol.spec.game.simulation import make_word
from touchstone.protocol.spec.game import events
from touchstone.protocol.spec.game.claim_status import get_votes
from touchstone.protocol.spec.game.enums import ContestTurn
from touchstone.protocol.spec.game.events import GameEvent, WeiMoved
from touchstone.protocol.spec.game.inner_contest import InnerTurn
from touchstone.protocol.spec.game.inner_dispute import DisputeStage, QueryEnding
from touchstone.protocol.spec.game.log_values import NO_DRAW
from touchstone.protocol.spec.game.pools import get_stake
from touchstone.protocol.spec.game.state import GameState, RootContest, StatementRef
from touchstone.protocol.spec.game.vault import PotKind
from touchstone.protocol.spec.statements import Vote

Log = tuple[str, dict[str, Any]]


def list_logs(state: GameState, told: Sequence[GameEvent], place: int) -> Iterator[Log]:
    """The logs of one event: that in a place of a block's. state: right before it."""
    event, name = told[place], type(told[place]).__name__
    plain = {one.name: getattr(event, one.name) for one in fields(event)}
    said: dict[str, Any]
    match event:
        case WeiMoved():
            is_stake = (event.source.kind, event.target.kind) == (PotKind.CREDIT, PotKind.STAKE)
            if is_stake and not isinstance(told[place - 1], events.SeatJoined):
                yield "SeatToppedUp", {"seat": event.target.key, "wei_": event.wei}
        case events.SeatJoined():
            yield name, {"seat": event.seat, "account": event.account, "stake_wei": get_next_wei(told, place)}
        case events.SeatSettled() | events.TaskClosed():
            moves = [(one.source.kind, one.target.kind, one.wei) for one in list_moves_before(told, place)]
            paid, burned, fee = (
                sum(wei for *kinds, wei in moves if kinds == [source, target])
                for source, target in (
                    (PotKind.ESCROW, PotKind.CREDIT),
                    (PotKind.ESCROW, PotKind.BURNED),
                    (PotKind.STAKE, PotKind.BURNED),
                )
            )
            said = {"paid_wei": paid, "burned_wei": burned, "fee_wei": fee}
            yield name, {**plain, **said} if plain else {"refund_wei": paid}
        case events.VoteCounted() | events.VoteOpened():
            votes = get_votes(state.rounds[event.round], event.slot, event.draw)
            word = event.word if isinstance(event, events.VoteCounted) else votes[event.rank].word
            said = {"round": event.round, "votes": bytes([event.slot, event.draw, event.rank, word])}
            yield name.replace("Vote", "Votes"), said
        case events.RootPosted():
            numbers = {"merged": event.merged, "signers": [seat & 0xFFFF for seat in event.signers]}
            yield name, {**plain, **{key: sum(1 << one for one in places) for key, places in numbers.items()}}
        case events.SeatConvicted():
            stake = get_stake(state, event.seat)
            said = {"seat": event.seat, "proof": event.proof, "stake_wei": stake}
            yield name, {**said, "finder": find_finder(told, place)}
            if event.statement is not None:
                yield "StatementConvicted", {**plain, "statement": to_logged(event.statement)}
        case events.PayRestored():
            said = {"round": event.round, "slot": event.slot, "account": event.account}
            yield name, {**said, "wei_": event.wei}
        case events.PayHeld():
            said = {"first_round": event.fall.first_round, "last_round": event.fall.last_round}
            wei = {"owed_wei": event.fall.owed, "held_wei": event.fall.held}
            yield "RestitutionHeld", {"fall": event.fall.number, **said, **wei}
        case events.ContestMoved():
            yield tell_contest(event.contest, get_next_wei(told, place))
        case events.ContestOver():
            yield "ContestEnded", {"id": name_of(event.contest), "outcome": InnerTurn[event.outcome.name]}
            for move in list_moves_before(told, place):
                if (move.source.kind, move.target.kind) == (PotKind.BOND, PotKind.CREDIT):
                    yield "Given", {"account": move.target.key}
        case events.QueryOpened():
            one = event.query
            empty = {field.name: b"" for field in fields(Vote)}
            vote = SimpleNamespace(**{**empty, **vars(one.statement), "word": one.word})
            said = {"id": name_of(one.number), "vote": vote, "leaf": one.leaf, "seat": one.seat}
            bond = get_next_wei(told, place)
            yield name, {**said, "asker": one.asker, "bond_wei": bond, "last_block": one.clock}
        case events.QueryOver():
            yield "QueryEnded", {"id": name_of(event.query), "ending": QueryEnding[event.outcome.name]}
        case events.StatementDisputed():
            run = event.dispute
            said = {"dispute": name_of(run.number), "seat": run.seat, "statement": to_logged(run.statement)}
            yield "DisputeOpened", {**said, "opener": run.opener, "bond_wei": get_next_wei(told, place)}
        case events.DisputeOver():
            outcome = DisputeStage[event.outcome.name]
            yield "DisputeEnded", {"dispute": name_of(event.dispute), "outcome": outcome}
        case events.ProofCommitted():
            return
        case _:
            yield name, plain


def tell_contest(contest: RootContest, bond: int) -> Log:
    said = {"id": name_of(contest.number), "clock_block": contest.clock}
    if contest.turn == ContestTurn.CONTESTER:
        return "NodesPosted", {**said, "answerer": contest.answerer}
    if contest.level:
        return "ChildNamed", said
    opened = {"round": contest.round, "root": contest.root, "contester": contest.contester}
    return "Contested", {**said, **opened, "bond_wei": bond}


def name_of(number: int) -> bytes:
    return make_word("id", number)


def to_logged(ref: StatementRef) -> SimpleNamespace:
    return SimpleNamespace(**{**vars(ref), "draw": NO_DRAW if ref.draw is None else ref.draw})


def get_next_wei(told: Sequence[GameEvent], place: int) -> int:
    """What was taken for what has just been opened."""
    behind = told[place + 1] if place + 1 < len(told) else None
    return behind.wei if isinstance(behind, WeiMoved) else 0


def find_finder(told: Sequence[GameEvent], place: int) -> str:
    """Who gets the first share of a slash."""
    shares = (one for one in told[place:] if isinstance(one, WeiMoved) and one.source.kind == PotKind.SLASHED)
    return str(next(one.target.key for one in shares))


def list_moves_before(told: Sequence[GameEvent], place: int) -> list[WeiMoved]:
    """Movements of money since the last other event."""
    moves: list[WeiMoved] = []
    while place and isinstance(move := told[place - 1], WeiMoved):
        moves, place = [move, *moves], place - 1
    return moves
