"""Spot asks, as nodes make them (`actions/dispute/known_statements.py`): honest whistleblowers together ask
one of SPOT_ASKS opened ACCEPTs for a leaf of its end, although nothing speaks against it."""

from collections.abc import Iterator
from fractions import Fraction

from benchmarks.economy.conduct import Audit
from benchmarks.economy.ground import make_word
from benchmarks.economy.play import Play
from benchmarks.economy.pursuing import make_ask
from protocol.actions.dispute.known_statements import count_askers
from protocol.spec.game.calls import GameCall
from protocol.spec.game.fates import get_votes
from protocol.spec.game.state import SeatRole, SeatStatus, StatementRef
from protocol.spec.params import SPOT_ASKS
from protocol.spec.statements import VoteWord


def list_asks(play: Play) -> Iterator[tuple[str, GameCall]]:
    """Of votes that were opened since the last look; one at a time, as each costs what is open by then."""
    for ref in [ref for ref, word in play.words.items() if word == VoteWord.ACCEPT]:
        if ref in play.spots.passed or not _is_opened(play, ref):
            continue
        play.spots.passed.add(ref)
        audit = play.get_audit(ref)
        assert audit is not None
        seat = play.get_seat(audit.auditor)
        asker = _find_asker(play, audit)
        if asker is not None and seat is not None and seat.status != SeatStatus.CLOSED:
            yield asker, make_ask(play, ref, VoteWord.ACCEPT, seat.number)
            return


def _is_opened(play: Play, ref: StatementRef) -> bool:
    counted = get_votes(play.table.state.rounds[ref.round], ref.slot, ref.draw or 0).get(ref.rank)
    return counted is not None and counted.is_opened


def _find_asker(play: Play, audit: Audit) -> str | None:
    """Who asks; None where nobody does."""
    if play.get_conduct(audit.auditor).is_end_shared(play, audit):
        return None
    names = play.list_honest(SeatRole.WHISTLEBLOWER) or play.list_honest(SeatRole.VERIFIER)
    names = [name for name in names if name != audit.auditor]
    if play.spots.only is not None and audit.auditor.startswith("own"):
        play.spots.own += 1
        return names[0] if names and play.spots.own == play.spots.only else None
    return next((name for name in names if _is_hit(play, name, audit.ref)), None)


def _is_hit(play: Play, name: str, ref: StatementRef) -> bool:
    """Whether its dice say that it asks. Who has no share in the asking never does."""
    askers = count_askers(play.table.state, play.table.get_address(name))
    thrown = make_word("dice", play.spots.seed, name, ref)
    return askers > 0 and int.from_bytes(thrown[:8]) % (SPOT_ASKS * askers) == 0


def compute_chance(askers: int, honest: int) -> Fraction:
    """That an opened ACCEPT is asked about by one of the honest askers."""
    return 1 - (1 - Fraction(1, SPOT_ASKS * askers)) ** honest


def list_chances(chance: Fraction, votes: int) -> list[Fraction]:
    """That none of so many votes is asked about, that the first is, that the second is the first, ..."""
    return [(1 - chance) ** votes, *(chance * (1 - chance) ** n for n in range(votes))]
