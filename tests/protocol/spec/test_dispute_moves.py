"""What each side of a dispute may and must do."""

import re
from dataclasses import replace
from hashlib import sha256
from pathlib import Path

import pytest

from protocol.spec.dispute import DisputeState
from protocol.spec.dispute_moves import (
    MAX_DEMANDS_OTHERS,
    MAX_QUEUE,
    AnswerDemand,
    NameStep,
    PostStepRoots,
    PostTrace,
    Timeout,
    check_move,
    check_opening,
    compute_opening_seal,
    find_first_difference,
    get_claimant_actions,
    get_next_dispute_deadline,
    get_opener_actions,
    get_timeout_actions,
)
from protocol.spec.statuses import AuditRef, ClaimRef
from tests.protocol.spec.dispute_play import (
    CLAIMANT,
    FIRST_BLOCK,
    OPENER,
    OTHER,
    A,
    Turn,
    play_dispute,
)
from tests.protocol.spec.dispute_scripts import (
    NAMED,
    OPENED,
    ROOTED,
    SCRIPTS,
    TRACED,
    answer,
    demand,
    opening,
    operation,
)
from tests.protocol.spec.simulator import make_word
from tests.protocol.spec.test_dispute import play

INTERFACES = Path(__file__).parents[3] / "contracts" / "interfaces"


def state_after(turns: tuple[Turn, ...]) -> DisputeState:
    return play(turns).book.disputes[A]


def test_scripts_meet_only_errors_of_the_contracts_and_most_of_them() -> None:
    text = "\n".join(path.read_text() for path in INTERFACES.glob("*.sol"))
    errors = set(re.findall(r"^\s*error (\w+)\(", text, re.MULTILINE))
    met = {step["error"] for script in SCRIPTS for step in play_dispute(script)["steps"]} - {None}
    assert met <= errors and len(met) >= 26


@pytest.mark.parametrize(
    ("name", "end"),
    [
        ("claimant silent", "CONVICTED"),
        ("auditor silent", "CONVICTED"),
        ("opener silent", "CLOSED"),
        ("nothing proven", "CLOSED"),
        ("no trace", "CONVICTED"),
        ("no trace of an auditor", "CONVICTED"),
        ("demand unanswered", "CONVICTED"),
        ("demand answered", "CLOSED"),
        ("operation proven", "CONVICTED"),
        ("operation proven after the close", "CONVICTED"),
        ("token proven", "CONVICTED"),
        ("label proven after the close", "CONVICTED"),
        ("scalar proven", "CONVICTED"),
        ("trace of an auditor", "CONVICTED"),
    ],
)
def test_silence_and_faults_convict_and_nothing_else(name: str, end: str) -> None:
    (script,) = (script for script in SCRIPTS if script.name == name)
    assert play_dispute(script)["steps"][-1]["stages"]["a"] == end


def test_a_window_that_closed_and_a_full_queue_refuse_openings() -> None:
    sim = play(((0, "opener", OPENED[0][2]),))
    late = opening(closes_block=FIRST_BLOCK + 1)
    refusal = check_opening(sim.book, late, OPENER, FIRST_BLOCK + 1)
    assert refusal is not None and refusal.name == "DisputeWindowClosed"
    state = state_after(OPENED)
    crowd = {bytes([i]) * 32: replace(state, dispute=bytes([i]) * 32) for i in range(MAX_QUEUE)}
    refusal = check_opening(replace(sim.book, disputes=crowd), opening(), OPENER, FIRST_BLOCK + 1)
    assert refusal is not None and refusal.name == "QueueFull"


def test_strangers_cannot_stretch_a_dispute_without_end_nor_crowd_out_the_opener() -> None:
    state = state_after((*TRACED, (5, "other", demand())))
    crowded = replace(
        state, demands=tuple(replace(state.demands[0], challenger=str(i)) for i in range(MAX_DEMANDS_OTHERS))
    )
    refusal = check_move(crowded, demand(), OTHER, FIRST_BLOCK + 6)
    assert refusal is not None and refusal.name == "TooManyDemands"
    assert check_move(crowded, demand(), OPENER, FIRST_BLOCK + 6) is None


def test_claimant_posts_roots_then_its_trace_then_answers_the_oldest_demand() -> None:
    assert get_claimant_actions(state_after(OPENED), CLAIMANT, FIRST_BLOCK + 2) == (PostStepRoots(A, 3),)
    assert get_claimant_actions(state_after(OPENED), CLAIMANT, FIRST_BLOCK + 6) == ()
    assert get_claimant_actions(state_after(OPENED), OPENER, FIRST_BLOCK + 2) == ()
    assert get_claimant_actions(state_after(NAMED), CLAIMANT, FIRST_BLOCK + 4) == (PostTrace(A),)
    assert get_claimant_actions(state_after(TRACED), CLAIMANT, FIRST_BLOCK + 5) == ()
    demanded: tuple[Turn, ...] = (*TRACED, (5, "opener", demand()), (5, "other", demand(1, 2, 3)))
    assert get_claimant_actions(state_after(demanded), CLAIMANT, FIRST_BLOCK + 6) == (
        AnswerDemand(A, 0, 0, 0, 0),
    )
    answered = state_after((*demanded, (6, "claimant", answer(0))))
    assert get_claimant_actions(answered, CLAIMANT, FIRST_BLOCK + 7) == (AnswerDemand(A, 1, 1, 2, 3),)


def test_opener_names_where_the_roots_part_then_waits() -> None:
    state = state_after(ROOTED)
    own = (state.roots[0], state.roots[1], make_word("mine"))
    assert get_opener_actions(state, OPENER, FIRST_BLOCK + 3, own) == (NameStep(A, 1),)
    assert get_opener_actions(state, OPENER, FIRST_BLOCK + 3, state.roots) == ()
    assert get_opener_actions(state, OTHER, FIRST_BLOCK + 3, own) == ()
    for turns in (NAMED, TRACED):
        assert get_opener_actions(state_after(turns), OPENER, FIRST_BLOCK + 5, own) == ()


def test_a_proof_needs_a_trace_and_a_claim_that_stands() -> None:
    for turns in (OPENED, ROOTED, NAMED):
        refusal = check_move(state_after(turns), operation(), OTHER, FIRST_BLOCK + 4)
        assert refusal is not None and refusal.name == "WrongStage"
    traced = state_after(TRACED)
    assert check_move(traced, operation(), OTHER, FIRST_BLOCK + 5) is None
    # Long after every clock: closed is not acquitted.
    closed = state_after((*TRACED, (12, "other", Timeout(A))))
    assert check_move(closed, operation(), OTHER, FIRST_BLOCK + 500) is None
    refusal = check_move(closed, operation(is_standing=False), OTHER, FIRST_BLOCK + 500)
    assert refusal is not None and refusal.name == "ClaimNotDisputable"


def test_first_difference_is_the_step_before_the_root() -> None:
    roots = [bytes([i]) * 32 for i in range(4)]
    assert find_first_difference(roots, roots) is None
    assert find_first_difference(roots, [*roots[:1], b"x" * 32, *roots[2:]]) == 0
    assert find_first_difference(roots, [*roots[:3], b"x" * 32]) == 2
    assert find_first_difference((), roots) is None


def test_timeout_is_due_when_a_clock_ran_out_or_the_claim_fell() -> None:
    state = state_after(OPENED)
    assert get_timeout_actions(state, FIRST_BLOCK + 5) == ()
    assert get_timeout_actions(state, FIRST_BLOCK + 6) == (Timeout(A),)
    assert get_timeout_actions(state, FIRST_BLOCK + 3, is_claim_convicted=True) != ()
    assert get_next_dispute_deadline(state, FIRST_BLOCK) == FIRST_BLOCK + 6


def test_opening_seal_is_the_hash_of_the_abi_encoding() -> None:
    claim = ClaimRef(AuditRef(b"\1" * 32, 2, 3, 4, 5), 6, by_solver=True)
    words = [b"\1" * 32, *(number.to_bytes(32, "big") for number in (2, 3, 4, 5, 6, 1))]
    words += [bytes.fromhex(OPENER[2:]).rjust(32, b"\0"), b"\2" * 32]
    assert compute_opening_seal(claim, OPENER, b"\2" * 32) == sha256(b"".join(words)).digest()
