"""Names of our own that gave way to the field's standard terms do not come back."""

import ast
import re
from pathlib import Path

import pytest

from tests.architecture.sources import ROOT, list_sources, parse

OLD = {
    "Conduct": "Strategy",
    "Desk": "RequestHandler",
    "EvidenceDesk": "EvidenceRequests",
    "GiveUpSeat": "LeaveWhenBusy",
    "Guess": "ExpectedRound",
    "Lookout": "ReachabilityProbe",
    "Party": "Node",
    "PartyConfig": "NodeConfig",
    "SeenTrouble": "SeenHealthIssue",
    "SeatWish": "SeatRequest",
    "Sentence": "StatementKey",
    "Sitting": "SeatSession",
    "StateShelf": "StateStore",
    "StepDesk": "StepRequests",
    "Suspicion": "SuspectedFault",
    "TaskBits": "DeterminismFingerprint",
    "Trouble": "HealthIssue",
    "TroubledWorld": "FaultyWorld",
    "ClaimFate": "ClaimStatus",
    "DrawFate": "DrawStatus",
    "CaseBook": "DisputeRecords",
    "CaseMade": "DisputePlanned",
    "casebook": "dispute records",
    "conduct": "strategy",
    "doubt": "open query",
    "fate": "status",
    "fates": "statuses",
    "knock": "probe",
    "is_crowded_out": "is_outbid",
    "lent": "idle mode",
    "lookout": "probe",
    "make_desks": "list_answers",
    "menagerie": "attack suite",
    "party": "node, or what it is looked at for",
    "retraining": "recompute_queue",
    "say": "notify",
    "sentence": "statement_key",
    "shelf": "states",
    "slander": "false_rejection",
    "spell_id": "format_id",
    "trouble": "health issue, or fault",
    "troubles": "health_issues",
    "wish": "request",
}
"""Name of the past -> what it is called now."""
PRODUCT = ("protocol", "node", "verifier", "whistleblower", "explorer", "scripts")


def list_names(tree: ast.AST) -> set[str]:
    """Every name that a file defines or uses, attributes, parameters and keywords among them."""
    found = set[str]()
    for one in ast.walk(tree):
        for field in ("id", "attr", "arg", "name"):
            value = getattr(one, field, None)
            if isinstance(value, str):
                found.add(value)
    return found


@pytest.mark.parametrize("path", list_sources(*PRODUCT), ids=str)
def test_no_name_of_the_past_comes_back(path: Path) -> None:
    found = list_names(parse(path)) & OLD.keys()
    assert not found, [f"{name}: {OLD[name]}" for name in sorted(found)]


def test_names_of_parameters_and_attributes_are_read() -> None:
    text = "def act(party): return party.x.sentence\nact(wish=1)\nclass Desk: ...\n"
    assert list_names(ast.parse(text)) & OLD.keys() == {"party", "sentence", "wish", "Desk"}


@pytest.mark.parametrize("page", sorted(ROOT.glob("docs/*.md")), ids=lambda page: page.name)
def test_no_page_names_what_is_called_otherwise_now(page: Path) -> None:
    code = re.findall(r"`([A-Za-z_]+)`", page.read_text())
    assert not set(code) & OLD.keys()
