"""Trains the next round speculatively, on the model that this round is expected to give.

While a closed round is audited, its solvers predict which of its claims will be merged. A node predicts from
the chain and its journal, so after a restart it predicts the same.

If the prediction is right, `MakeClaim` finds the claim already trained, in part or whole. If it is wrong, the
node loses only time, because it has not committed to anything, signed or shown anything. It commits once the
round is open.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

from touchstone.node.kit.config import Notify
from touchstone.node.kit.duty import Duty, Wait
from touchstone.node.kit.locks import Locks
from touchstone.node.kit.view import GetView, View
from touchstone.node.models.claim_openings import is_fetched
from touchstone.node.models.expected_merge import (
    find_own_merge,
    foresee,
    get_root,
    list_expected,
    list_open,
    make_key,
)
from touchstone.node.models.outer_step import OuterSteps
from touchstone.node.models.round_judging import judge_round
from touchstone.node.records.claim_records import MergeKey, compute_basis
from touchstone.node.records.round_seats import find_own_slot
from touchstone.node.training.claims import (
    TRAINING,
    Origin,
    Training,
    get_basis,
    is_whole,
    read_origin,
)
from touchstone.protocol.spec.errors import EnvironmentFault
from touchstone.protocol.spec.game.enums import RoundPhase, SeatStatus
from touchstone.protocol.spec.game.pools import find_seat
from touchstone.protocol.spec.game.root_posting import get_waiting_round
from touchstone.protocol.spec.game.round_machine import get_state_at
from touchstone.protocol.spec.game.state import GameRound, GameState

FETCH_DIVISOR = 8
"""A claim is left out if its pseudo-gradient has not come after `audit_max` divided by this."""


@dataclass(frozen=True)
class ExpectedRound:
    """The expected next round. `key` is the expected merge, `beacon` the beacon of the next round, `state`
    the chain's state with all known votes."""

    key: MergeKey
    beacon: bytes
    state: GameState
    slots: tuple[int, ...]
    block: int

    def foresee(self, root: bytes) -> GameState:
        """Returns the state with the next round on this root."""
        return foresee(self.state, self.state.rounds[self.key.round], root, self.slots, self.block)


def find_expected_round(view: View, block: int) -> ExpectedRound | Wait | None:
    """Returns the round that this node can train next. Returns None if there is none, or not more than half
    of the open claims are expected to be merged yet; a Wait while pseudo-gradients are being fetched."""
    state = _judge_waiting_round(view, block)
    seat = None if state is None else find_seat(state, view.account)
    # Even a seat that leaves pays a fee if it misses a round that still holds it.
    if (
        state is None
        or seat is None
        or seat.status == SeatStatus.CONVICTED
        or _is_contradicted(view, state, block)
    ):
        return None
    game_round = get_waiting_round(state)
    assert game_round is not None
    likely = list_expected(state, game_round, find_own_slot(state, game_round, view.account), block)
    slots = tuple(slot for slot in likely if is_fetched(view, game_round, slot))
    until = (game_round.closed or 0) + state.terms.windows.audit_max // FETCH_DIVISOR
    if slots != likely and block <= until:
        return Wait(until + 1)
    possible = list_open(state, game_round, block)
    beacon = _find_next_beacon(view, state, game_round, slots, block)
    if beacon is None or 2 * len(slots) <= len(possible):
        return None
    return ExpectedRound(make_key(game_round, slots), beacon, state, slots, block)


def find_possible(view: View, block: int) -> tuple[int, frozenset[int]] | None:
    """Returns the round that waits for its root, and the slots whose claims can still be merged, by the known
    votes. None if no round waits."""
    state = _judge_waiting_round(view, block)
    game_round = None if state is None else get_waiting_round(state)
    if state is None or game_round is None:
        return None
    return game_round.index, frozenset(list_open(state, game_round, block))


def _judge_waiting_round(view: View, block: int) -> GameState | None:
    """Returns the state at `block` with all known votes on the round that waits for its root. None if no
    round waits."""
    state = get_state_at(view.game, block)
    game_round = get_waiting_round(state)
    if game_round is None or game_round.beacon is None:
        return None
    return judge_round(view, state, game_round.index, block).state


def _find_next_beacon(
    view: View, state: GameState, game_round: GameRound, slots: tuple[int, ...], block: int
) -> bytes | None:
    """Returns the beacon of the round that the next posting opens. None if it is not known, or this node is
    not in that round."""
    opened = foresee(state, game_round, state.root, slots, block).rounds.get(game_round.index + 1)
    is_member = opened is not None and find_own_slot(state, opened, view.account) is not None
    return opened.beacon if opened is not None and is_member else None


def _is_contradicted(view: View, state: GameState, block: int) -> bool:
    """Returns whether a root that can still fall differs from this node's own merge."""
    for game_round in state.rounds.values():
        made = find_own_merge(view, game_round) if game_round.phase == RoundPhase.POSTED else None
        if made is not None and block <= game_round.root_until and get_root(made) != game_round.root:
            return True
    return False


@dataclass(frozen=True)
class TrainSpeculatively:
    """Train the round after the one that is audited. `key` is the expected merge, `beacon` the beacon of the
    trained round."""

    key: MergeKey
    beacon: bytes

    @property
    def index(self) -> int:
        """The round to train."""
        return self.key.round + 1

    async def perform(self, room: "Speculation") -> None:
        """Merges as posting does, and trains until the claim is in the journal. Raises EnvironmentFault at
        the next boundary if other claims are expected by then, or the round opens on another root."""
        root = get_root(await room.outer_steps.merge_claims(self.key))
        async with room.locks[TRAINING]:
            origin = self.require_origin(room, root)
            claims = f"{len(self.key.slots)} claims of round {self.key.round}"
            room.notify(f"round {self.index}: training on the model that {claims} are expected to give")
            await room.training.finish_claim(origin, partial(self.require_origin, room, root))

    def require_origin(self, room: "Speculation", root: bytes) -> Origin:
        """Returns what the round is trained from if the prediction is right. Raises EnvironmentFault if it is
        wrong."""
        view = room.get_view()
        opened = view.game.rounds.get(self.index)
        if opened is not None and get_basis(opened) == compute_basis(root, self.beacon):
            return read_origin(view, view.game, opened)
        expected_round = find_expected_round(view, view.head_block + 1) if opened is None else None
        if not isinstance(expected_round, ExpectedRound) or (expected_round.key, expected_round.beacon) != (
            self.key,
            self.beacon,
        ):
            raise EnvironmentFault(
                what="other claims are expected to be merged now",
                expected=f"{len(self.key.slots)} claims of round {self.key.round}",
                actual="others, or none",
                remedy="Only time is lost: the node trains on the model that it expects now.",
            )
        state = expected_round.foresee(root)
        return read_origin(view, state, state.rounds[self.index])


def _is_trained(view: View, expected_round: ExpectedRound) -> bool:
    made = view.claims.merges.get(expected_round.key)
    if made is None:
        return False
    work = view.claims.works.get(
        (expected_round.key.round + 1, compute_basis(get_root(made), expected_round.beacon))
    )
    return work is not None and is_whole(view, work)


@dataclass(frozen=True)
class Speculation:
    """Trains the next round on the model that the audits will probably lead to."""

    get_view: GetView
    locks: Locks
    notify: Notify
    outer_steps: OuterSteps
    training: Training


def list_duties(view: View, block: int) -> Iterator[Duty[Speculation] | Wait]:
    """Yields the duty to train the round after the one that is audited, until it is trained."""
    expected_round = find_expected_round(view, block)
    if isinstance(expected_round, Wait):
        yield expected_round
    elif expected_round is not None and not _is_trained(view, expected_round):
        yield TrainSpeculatively(expected_round.key, expected_round.beacon)
