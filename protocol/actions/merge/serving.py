"""What this room shows to whom: pseudo-gradients of closed rounds, global models, answers of its desks."""

from collections.abc import Awaitable, Callable
from functools import partial

from protocol.actions.merge.global_model import answer_outer, get_initial_header
from protocol.actions.merge.messages import MAX_BYTES, MERGE, OUTER, WORK
from protocol.actions.merge.signing import answer_merge
from protocol.actions.merge.work import answer_work, may_read_delta
from protocol.actions.runtime.party import Party
from protocol.adapters.blobs import BlobKind
from protocol.adapters.messages import Message
from protocol.adapters.wire.desk import Desk
from protocol.spec.game.enums import RoundPhase
from protocol.spec.game.state import GameRound

Answer = Callable[[Party, str, bytes], Awaitable[Message]]


def make_desks(party: Party) -> dict[str, Desk]:
    """Who answers which messages of this room."""
    answers: dict[str, Answer] = {OUTER: answer_outer, WORK: answer_work, MERGE: answer_merge}
    return {name: Desk(MAX_BYTES, partial(answer, party)) for name, answer in answers.items()}


def may_read(party: Party, account: str, kind: BlobKind, root: bytes) -> bool:
    """Whether `account` may have this blob now. The dataset is for anybody who signs, a
    pseudo-gradient for everybody from the close on, a global model for members and the submitter once it is
    posted, for everybody once nothing can replace it."""
    if kind is BlobKind.DATASET:
        return True
    if party.joined is None:
        return False
    if kind is BlobKind.DELTA:
        return may_read_delta(party, root)
    is_member = party.state.is_staked(account) or account == party.game.terms.submitter
    return kind is BlobKind.TENSOR and _is_model(party, root, is_member=is_member)


def _is_model(party: Party, root: bytes, *, is_member: bool) -> bool:
    """Whether a tensor is of a global model that may be shown."""
    initial = get_initial_header(party)
    if root in (initial.weights_root, initial.momentum_root):
        return True
    headers = {name: (h.weights_root, h.momentum_root) for name, h in party.task.claims.outer.items()}
    posted = [r for r in party.game.rounds.values() if r.phase == RoundPhase.POSTED and r.root is not None]
    shown = [r for r in posted if is_member or _is_settled(party, r)]
    return any(root in headers.get(game_round.root or b"", ()) for game_round in shown)


def _is_settled(party: Party, game_round: GameRound) -> bool:
    """Whether nobody can contest the root any more."""
    return party.state.head_block > game_round.root_until
