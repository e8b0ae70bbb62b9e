"""Lists all types of records in a node's journal."""

from touchstone.node.records import audit_records, claim_records, dispute_records
from touchstone.protocol.adapters.journal import JournalBegun

RECORDS = (JournalBegun, *claim_records.RECORDS, *audit_records.RECORDS, *dispute_records.RECORDS)
"""The types of claims and merges, of audits, and of disputes."""
