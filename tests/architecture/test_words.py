"""Names of our own that gave way to the field's standard terms do not come back."""

import ast
import re
from collections.abc import Iterator

from tests.architecture.solidity import list_files
from tests.architecture.sources import ROOT, find_in_files, list_sources, walk

OLD = {
    "ask_bond": "query_bond",
    "askBond": "queryBond",
    "AskEnding": "QueryEnding",
    "AskOpened": "QueryOpened",
    "Asks": "Queries",
    "AskSigner": "QueryVote",
    "beyond_leaf": "excess_leaf",
    "CaseBook": "DisputeRecords",
    "casebook": "dispute records",
    "CaseMade": "DisputePlanned",
    "ClaimFate": "ClaimStatus",
    "closedSeats": "convictedSeats",
    "CloseGame": "CloseTask",
    "compute_draw_fate": "compute_draw_status",
    "Conduct": "Strategy",
    "conduct": "strategy",
    "crowd": "accounts",
    "Crowds": "ManyAccounts",
    "deal_leaves": "assign_leaves",
    "deal_shards": "assign_shards",
    "dealt": "assigned",
    "dealtTo": "assignedTo",
    "DeploymentLimits": "DeploymentBounds",
    "Desk": "RequestHandler",
    "doubt": "open query",
    "DrawFate": "DrawStatus",
    "EndAsk": "EndQuery",
    "EvidenceDesk": "EvidenceRequests",
    "fate": "status",
    "Fates": "MinedNonces",
    "fates": "statuses",
    "fatesOf": "statusesOf",
    "GameClosed": "TaskClosed",
    "GameOver": "TaskIsClosed",
    "get_claim_fate": "get_claim_status",
    "GiveUpSeat": "LeaveWhenBusy",
    "Guess": "ExpectedRound",
    "guess": "speculation",
    "guesses": "speculations",
    "is_beyond": "exceeds_limits",
    "is_crowded_out": "is_outbid",
    "is_just_dealt": "is_just_assigned",
    "is_vote_whole": "is_vote_complete",
    "isSealed": "isDrawn",
    "knock": "probe",
    "lent": "idle mode",
    "Lookout": "ReachabilityProbe",
    "lookout": "probe",
    "make_desks": "list_answers",
    "menagerie": "attack suite",
    "MiningPatience": "ResendPolicy",
    "NothingToSeal": "NoDrawDue",
    "NotStanding": "NotPaused",
    "offers": "served data",
    "Party": "Node",
    "party": "node, or what it is looked at for",
    "PartyConfig": "NodeConfig",
    "Patience": "RetryPolicy",
    "patience": "retry_policy",
    "patience_s": "grace_s",
    "Purse": "Vault",
    "purse": "vault",
    "raid": "attack",
    "Refusal": "Withholding",
    "refused_gain": "withholding_gain",
    "retraining": "recompute_queue",
    "say": "notify",
    "seal_blocks": "header_blocks",
    "SealAudits": "DrawAudits",
    "sealAudits": "drawAudits",
    "sealBlocks": "headerBlocks",
    "sealClosing": "drawClosing",
    "SealMissing": "ProofNotCommitted",
    "SealProof": "CommitProof",
    "sealProof": "commitProof",
    "sealRound": "drawRound",
    "sealStart": "drawStart",
    "SeatClosed": "SeatIsConvicted, or SeatNotActive",
    "SeatWish": "SeatRequest",
    "SeenTrouble": "SeenHealthIssue",
    "Sentence": "StatementKey",
    "sentence": "statement_key",
    "shelf": "states",
    "Sitting": "SeatSession",
    "sitting": "session",
    "slander": "false_rejection",
    "spell_id": "format_id",
    "STANDS": "HOLDS",
    "stands_since": "paused_since",
    "standsSince": "pausedSince",
    "StateShelf": "StateStore",
    "StepDesk": "StepRequests",
    "Suspicion": "SuspectedFault",
    "tap": "faucet",
    "TaskBits": "DeterminismFingerprint",
    "TaskStood": "TaskPaused",
    "TrainAhead": "TrainSpeculatively",
    "Trouble": "HealthIssue",
    "trouble": "health issue, or fault",
    "TroubledWorld": "FaultySimulation",
    "troubles": "health_issues",
    "Wake": "NotifyLoop",
    "wake": "notify_loop",
    "Wakes": "OncePerBlock",
    "wakes": "notices",
    "weighting": "aggregation",
    "wish": "request",
    "woken": "changed",
    "zoo": "attacks",
}
"""Name of the past -> what it is called now."""
PRODUCT = ("protocol", "node", "verifier", "whistleblower", "explorer", "scripts", "demo")
VERB = re.compile(r"_?tell_")
"""Functions describe, format or notify: each says which."""
GONE = re.compile(
    r"\b([Zz]oo|[Rr]aids?|[Cc]rowds?|[Ff]ates?|[Dd]ealt|[Ss]lander|[Ll]ookout|[Mm]enagerie|[Cc]asebook|"
    r"[Rr]etraining|[Ww]oken|[Tt]roubles?|[Mm]isshapen|[Pp]urses?|[Aa]n ask|stands? still)\b"
)
"""Words of the past that have no plain use in this project's sentences."""


def list_names(tree: ast.AST) -> set[str]:
    """Every name that a file defines or uses, attributes, parameters and keywords among them."""
    found = set[str]()
    for one in walk(tree):
        for field in ("id", "attr", "arg", "name"):
            value = getattr(one, field, None)
            if isinstance(value, str):
                found.add(value)
    return found


def find_past(names: set[str]) -> list[str]:
    """Names of the past among these."""
    return sorted(name for name in names if name in OLD or VERB.match(name))


def list_texts(tree: ast.AST) -> Iterator[str]:
    """Every message and docstring of a file."""
    for one in walk(tree):
        if isinstance(one, ast.Constant) and isinstance(one.value, str):
            yield one.value


def find_past_names(tree: ast.AST) -> list[str]:
    found = find_past(list_names(tree))
    return [f"{name}: {OLD.get(name, 'describe_, format_ or notify_')}" for name in found]


def find_past_words(tree: ast.AST) -> list[str]:
    return [found for text in list_texts(tree) for found in GONE.findall(text)]


def test_no_name_of_the_past_comes_back() -> None:
    assert not find_in_files(find_past_names, list_sources(*PRODUCT, "tools"))


def test_no_message_says_a_word_of_the_past() -> None:
    assert not find_in_files(find_past_words, list_sources(*PRODUCT, "tools", "lab"))


def test_no_contract_has_a_name_of_the_past() -> None:
    code = {path.name: re.sub(r"//[^\n]*", "", path.read_text()) for path in list_files()}
    found = {name: find_past(set(re.findall(r"\w+", text))) for name, text in code.items()}
    assert not {name: words for name, words in found.items() if words}


def test_a_heading_is_no_banner() -> None:
    """A heading says one thing; a file that needs a line of dashes to part it is two files."""
    files = list_sources(*PRODUCT, "tools", "lab", "tests")
    texts = {str(path): (ROOT / path).read_text() for path in files}
    banner = re.compile(r"^ *# ?[-=*#]{3,}", re.M)
    assert not [path for path, text in texts.items() if banner.search(text)]


def test_names_of_parameters_and_attributes_are_read() -> None:
    text = "def act(party): return party.x.sentence\nact(wish=1)\nclass Desk: ...\n"
    assert find_past(list_names(ast.parse(text))) == ["Desk", "party", "sentence", "wish"]
    assert find_past(list_names(ast.parse("def _tell_vote(vote): ..."))) == ["_tell_vote"]


def test_messages_in_braces_are_read() -> None:
    text = 'notify(f"{one} has a trouble"); notify("a crowded pool")'
    assert find_past_words(ast.parse(text)) == ["trouble"]


def test_no_page_names_what_is_called_otherwise_now() -> None:
    texts = {page.name: page.read_text() for page in ROOT.glob("docs/*.md")}
    found = {
        name: [*find_past(set(re.findall(r"`([A-Za-z_]+)`", text))), *GONE.findall(text)]
        for name, text in texts.items()
    }
    assert not {name: words for name, words in found.items() if words}
