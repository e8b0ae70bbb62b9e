"""What the rooms of a node offer to its peers and keep in its journal, put together."""

from collections.abc import Callable, Iterator, Mapping

from protocol.actions.audit import opening as audits
from protocol.actions.audit import records as audit_records
from protocol.actions.dispute import records as dispute_records
from protocol.actions.dispute import serving as disputes
from protocol.actions.merge import records as merge_records
from protocol.actions.merge import serving as merge_serving
from protocol.actions.runtime.party import Party
from protocol.adapters.blobs import BlobKind
from protocol.adapters.records import JournalBegun
from protocol.adapters.wire.desk import Desk

RECORDS = (JournalBegun, *merge_records.RECORDS, *audit_records.RECORDS, *dispute_records.RECORDS)
"""All kinds of the journal."""


MAY_READ: tuple[Callable[[Party, str, BlobKind, bytes], bool], ...] = (
    merge_serving.may_read,
    audits.may_read,
    disputes.may_read,
)
"""(party, account, kind, root): whether a room shows a blob to an account now."""


def list_desks(party: Party) -> Iterator[Mapping[str, Desk]]:
    """Who answers which messages."""
    yield merge_serving.make_desks(party)
    yield audits.make_desks(party)
    yield disputes.make_desks(party)
