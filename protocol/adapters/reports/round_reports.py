"""Reads and writes a node's signed reports of a round: losses of its claim, held-out losses, distances.

Reports are not trusted. They must name claims, roots and audits that the chain has. Each counts only with
the signature of the account whose claim or vote it is about, or that may report a held-out loss. Nobody has
proven what they say.
"""

from typing import Annotated

from msgspec import Meta

from touchstone.protocol.adapters.keys.signatures import recover_signer
from touchstone.protocol.adapters.messages import Form, Message, Signature
from touchstone.protocol.adapters.wire import request_paths
from touchstone.protocol.adapters.wire.addresses import is_public
from touchstone.protocol.adapters.wire.peer import Peer
from touchstone.protocol.adapters.wire.peer_faults import read_at_most
from touchstone.protocol.adapters.wire.session import PeerSession, RetryPolicy
from touchstone.protocol.spec.errors import ProtocolFault
from touchstone.protocol.spec.game.drawn_audits import get_drawn
from touchstone.protocol.spec.game.state import GameState
from touchstone.protocol.spec.signed_reports import (
    MILLIONTHS_MAX,
    Comparison,
    DistanceReport,
    HeldoutReport,
    LossReport,
)
from touchstone.protocol.spec.statements import VoteWord
from touchstone.protocol.spec.typed_data import SigningDomain

AUDITS_MAX = 128
"""The most audits of a report: more than one seat can have in a round, three ranks of every third of 64
claims."""
MODELS_MAX = 2
"""The most models whose held-out losses belong to a round: that of its root, and for round 0 the start."""
REPORTS_BYTES = 64 * 1024
RETRY_POLICY = RetryPolicy(attempts=1, connect_s=3.0, silence_s=2.0)
"""A node is asked once, and has nine seconds at most to answer."""
Figure = Annotated[int, Meta(ge=0, le=MILLIONTHS_MAX)]
Number = Annotated[int, Meta(ge=0, lt=1 << 32)]


AnyReport = LossReport | HeldoutReport | DistanceReport


class LossSaid(Message, frozen=True):
    """The fields of a `LossReport` that the chain does not already tell."""

    slot: Number
    steps: Number
    first_micronats: Figure
    last_micronats: Figure
    mean_micronats: Figure
    signature: Signature


class HeldoutSaid(Message, frozen=True):
    """The fields of a `HeldoutReport` that the chain does not already tell."""

    rounds_done: Number
    batches: Number
    mean_micronats: Figure
    error_micronats: Figure
    signature: Signature


class DistancesSaid(Message, frozen=True):
    """The fields of a `DistanceReport` that the chain does not already tell."""

    slot: Number
    draw: Number
    rank: Number
    word: VoteWord
    comparison: Comparison
    weights_microlimits: Figure
    first_moment_microlimits: Figure
    second_moment_microlimits: Figure
    signature: Signature


class ReportsSaid(Message, frozen=True):
    """A node's public reports of its work in a round."""

    loss: LossSaid | None = None
    audits: Annotated[tuple[DistancesSaid, ...], Meta(max_length=AUDITS_MAX)] = ()
    heldout: Annotated[tuple[HeldoutSaid, ...], Meta(max_length=MODELS_MAX)] = ()


REPORTS_FORM = Form(ReportsSaid, REPORTS_BYTES, "the reports of a round are malformed")


def format_loss(report: LossReport, signature: bytes) -> LossSaid:
    """Returns the message of a report."""
    figures = (report.first_micronats, report.last_micronats, report.mean_micronats)
    return LossSaid(report.slot, report.steps, *figures, signature)


def format_heldout(report: HeldoutReport, signature: bytes) -> HeldoutSaid:
    """Returns the message of a report."""
    figures = (report.batches, report.mean_micronats, report.error_micronats)
    return HeldoutSaid(report.rounds_done, *figures, signature)


def format_distances(report: DistanceReport, signature: bytes) -> DistancesSaid:
    """Returns the message of a report."""
    far = (report.weights_microlimits, report.first_moment_microlimits, report.second_moment_microlimits)
    place = (report.slot, report.draw, report.rank)
    return DistancesSaid(*place, VoteWord(report.word), report.comparison, *far, signature)


def read_loss(game: GameState, index: int, said: LossSaid) -> tuple[str, LossReport] | None:
    """Returns the report and the account that must have signed it: the solver whose claim of round `index` is
    in that slot. None if the slot has no claim."""
    game_round = game.rounds.get(index)
    claim = None if game_round is None else game_round.claims.get(said.slot)
    if claim is None:
        return None
    figures = (said.steps, said.first_micronats, said.last_micronats, said.mean_micronats)
    return claim.account, LossReport(game.terms.domain, index, said.slot, claim.claim_root, *figures)


def list_measured(game: GameState, index: int) -> tuple[tuple[int, bytes], ...]:
    """Returns the models whose held-out losses belong to round `index`, each as the number of rounds behind
    it and its outer root: the model of the round's root, and for round 0 the one before any training."""
    game_round = game.rounds.get(index)
    root = None if game_round is None else game_round.root
    start = ((0, game.terms.root),) if index == 0 else ()
    return start if root is None else (*start, (index + 1, root))


def list_heldout_reporters(game: GameState, index: int) -> tuple[str, ...]:
    """Returns the accounts whose held-out losses of a round's models count: the submitter, and the solvers
    with a claim in the round, by slot."""
    game_round = game.rounds.get(index)
    claims = {} if game_round is None else game_round.claims
    return (game.terms.submitter, *(claims[slot].account for slot in sorted(claims)))


def read_heldout(game: GameState, index: int, said: HeldoutSaid) -> HeldoutReport | None:
    """Returns the report of a model of round `index`. None if the chain has no such model."""
    root = dict(list_measured(game, index)).get(said.rounds_done)
    if root is None:
        return None
    figures = (said.batches, said.mean_micronats, said.error_micronats)
    return HeldoutReport(game.terms.domain, said.rounds_done, root, *figures)


def read_distances(game: GameState, index: int, said: DistancesSaid) -> tuple[str, DistanceReport] | None:
    """Returns the report and the account that must have signed it: the auditor that the chain drew for that
    audit. None if it drew none."""
    drawn = get_drawn(game, index, said.slot, said.draw, said.rank)
    if drawn is None:
        return None
    at = drawn.place
    place = (at.domain, index, at.base_root, at.seed, at.slot, at.claim_root, at.draw, at.rank, drawn.segment)
    far = (said.weights_microlimits, said.first_moment_microlimits, said.second_moment_microlimits)
    return drawn.seat.account, DistanceReport(*place, said.word, said.comparison, *far)


def is_signed(report: AnyReport, signature: bytes, account: str, signing: SigningDomain) -> bool:
    """Returns whether the account has signed the report."""
    try:
        return recover_signer(report, signature, signing, account) == account
    except ProtocolFault:
        return False


class ReportClient:
    """Asks nodes for their reports, with their pinned certificates and without an account. Use it in `async
    with`."""

    def __init__(self, *, are_private_asked: bool = False) -> None:
        """Prepares the client. `are_private_asked` says whether nodes with private addresses are asked. Any
        account can announce any address, so a stranger could make this machine connect inside its own
        network."""
        self._session = PeerSession(RETRY_POLICY, (lambda address: True) if are_private_asked else is_public)

    async def __aenter__(self) -> "ReportClient":
        self._session.open()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._session.close()

    async def ask(self, peer: Peer, task: bytes, index: int) -> ReportsSaid:
        """Returns a node's reports of round `index`, unchecked. Raises ProtocolFault or EnvironmentFault."""
        path = request_paths.format_reports(task, index)
        async with self._session.get(peer, path, {}, REPORTS_BYTES) as response:
            body = await read_at_most(response, REPORTS_BYTES)
        return REPORTS_FORM.decode(body, peer.account, peer.format_url(path))
