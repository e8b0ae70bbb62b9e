"""All kinds of records that a node's journal holds."""

from touchstone.node.records import audit_records, claim_records, dispute_records
from touchstone.protocol.adapters.journal import JournalBegun

RECORDS = (JournalBegun, *claim_records.RECORDS, *audit_records.RECORDS, *dispute_records.RECORDS)
"""Those of claims and merges, of audits, and of disputes."""
