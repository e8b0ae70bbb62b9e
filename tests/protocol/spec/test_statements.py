"""Statements of the new round: what stands behind a vote, and which two statements contradict."""

from dataclasses import fields, replace
from hashlib import sha256
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from touchstone.protocol.spec import statement_checks, statements
from touchstone.protocol.spec.commitments import compute_boundary_leaf
from touchstone.protocol.spec.statements import Sealed, Vote, VoteOpening, VoteWord

SOLVER, AUDITOR, OTHER = ("0x" + digit * 40 for digit in "abc")
ZERO = bytes(32)
DRAW_KEY = ("domain", "round", "base_root", "seed", "slot", "claim_root", "draw", "rank")
"""What two statements must share to be of one draw and rank."""


def word(label: str) -> bytes:
    return sha256(label.encode()).digest()


def make_vote(**changed: Any) -> Vote:
    """A vote on segment 4 whose opening is `make_opening`."""
    place = (word("domain"), 7, 3, 1, 0)
    start = compute_boundary_leaf(word("domain"), 7, SOLVER, 4, word("salt 4"), word("state 4"))
    vote = Vote(
        domain=word("domain"),
        round=7,
        base_root=word("base"),
        seed=word("seed"),
        slot=3,
        claim_root=word("claim"),
        draw=1,
        rank=0,
        segment=4,
        start_leaf=start,
        seal=statements.compute_seal(*place, AUDITOR, start, word("state 5"), word("seal salt")),
        end_leaf=compute_boundary_leaf(word("domain"), 7, SOLVER, 5, word("salt 5"), word("state 5")),
        word=VoteWord.ACCEPT,
        named_leaf=0,
    )
    return replace(vote, **changed)


def make_opening(vote: Vote, **changed: Any) -> VoteOpening:
    opening = VoteOpening(vote, word("state 5"), word("salt 5"), word("state 5"), word("seal salt"))
    return replace(opening, **changed)


def seal_of(vote: Vote) -> Sealed:
    return Sealed(**{field.name: getattr(vote, field.name) for field in fields(Sealed)})


def change(statement: Any, name: str) -> Any:
    """The same statement but for one field."""
    value = getattr(statement, name)
    other: Any = word(f"another {name}") if isinstance(value, bytes) else int(value) + 1
    return replace(statement, **{name: VoteWord(other) if name == "word" else other})


# Hashes
def test_a_seal_is_the_hash_by_hand() -> None:
    numbers = b"".join(n.to_bytes(32, "big") for n in (7, 3, 1, 2))
    account = bytes(12) + bytes.fromhex(AUDITOR[2:])
    parts = [
        b"touchstone.sealed".ljust(32, b"\0"),
        word("d"),
        numbers,
        account,
        word("l"),
        word("r"),
        word("s"),
    ]
    seal = statements.compute_seal(word("d"), 7, 3, 1, 2, AUDITOR, word("l"), word("r"), word("s"))
    assert seal == sha256(b"".join(parts)).digest()


def test_each_part_of_a_seal_counts() -> None:
    parts: tuple[Any, ...] = (word("d"), 7, 3, 1, 2, AUDITOR, word("l"), word("r"), word("s"))
    others: tuple[Any, ...] = (word("x"), 8, 4, 2, 1, OTHER, word("x"), word("x"), word("x"))
    seals = {
        statements.compute_seal(*parts[:i], others[i], *parts[i + 1 :])  # type: ignore[call-arg]
        for i in range(len(parts))
    }
    assert len(seals | {statements.compute_seal(*parts)}) == len(parts) + 1


def test_the_merged_claims_are_a_list_in_order() -> None:
    a, b = word("a"), word("b")
    by_hand = sha256(b"touchstone.merged".ljust(32, b"\0") + a + b).digest()
    assert statements.compute_merged_hash([a, b]) == by_hand
    others = [[b, a], [a], [a, b, b], []]
    assert len({statements.compute_merged_hash(roots) for roots in others} | {by_hand}) == 5


# Whole votes
@pytest.mark.parametrize("said", VoteWord)
@pytest.mark.parametrize("name", ["start_leaf", "end_leaf", "seal"])
def test_who_compared_has_seen_everything(said: VoteWord, name: str) -> None:
    is_lenient = said in (VoteWord.UNSERVED, VoteWord.ABSTAIN)
    assert statement_checks.is_vote_complete(make_vote(word=said))
    assert statement_checks.is_vote_complete(make_vote(word=said, **{name: ZERO})) == is_lenient


@pytest.mark.parametrize("said", VoteWord)
def test_a_leaf_is_named_by_two_words_only(said: VoteWord) -> None:
    names = said in (VoteWord.REJECT_STATE, VoteWord.REJECT_DELTA)
    assert statement_checks.is_vote_complete(make_vote(word=said, named_leaf=9)) == names


@pytest.mark.parametrize("said", [0, 7])
def test_what_is_no_word_is_no_vote(said: int) -> None:
    assert not statement_checks.is_vote_complete(make_vote(word=said))


# Openings
def test_an_opening_fits_its_vote() -> None:
    vote = make_vote()
    assert statement_checks.does_opening_fit(vote, make_opening(vote), SOLVER, AUDITOR)


@pytest.mark.parametrize("name", ["claim_end_root", "boundary_salt", "own_end_root", "seal_salt"])
def test_an_opening_with_another_part_does_not_fit(name: str) -> None:
    vote = make_vote()
    assert not statement_checks.does_opening_fit(vote, change(make_opening(vote), name), SOLVER, AUDITOR)


@pytest.mark.parametrize("name", [field.name for field in fields(Vote)])
def test_an_opening_of_another_vote_does_not_fit(name: str) -> None:
    vote = make_vote()
    other = change(vote, name)
    assert not statement_checks.does_opening_fit(vote, make_opening(other), SOLVER, AUDITOR)
    assert not statement_checks.does_opening_fit(other, make_opening(vote), SOLVER, AUDITOR)


@pytest.mark.parametrize(
    "name", ["domain", "round", "slot", "draw", "rank", "start_leaf", "seal", "end_leaf"]
)
def test_an_opening_for_a_vote_moved_elsewhere_does_not_fit(name: str) -> None:
    """The opening repeats the changed vote; its hashes still belong to the first."""
    other = change(make_vote(), name)
    assert not statement_checks.does_opening_fit(other, make_opening(other), SOLVER, AUDITOR)


def test_a_copied_vote_cannot_be_opened_by_the_copier() -> None:
    vote = make_vote()
    assert not statement_checks.does_opening_fit(vote, make_opening(vote), SOLVER, OTHER)
    assert not statement_checks.does_opening_fit(vote, make_opening(vote), OTHER, AUDITOR)


def test_the_leaf_is_that_after_the_segment() -> None:
    leaf = compute_boundary_leaf(word("domain"), 7, SOLVER, 4, word("salt 5"), word("state 5"))
    vote = make_vote(end_leaf=leaf)
    assert not statement_checks.does_opening_fit(vote, make_opening(vote), SOLVER, AUDITOR)


@pytest.mark.parametrize(
    ("said", "fits_equal", "fits_other"),
    [
        (VoteWord.ACCEPT, True, False),
        (VoteWord.REJECT_STATE, False, True),
        (VoteWord.REJECT_DELTA, True, True),
    ],
)
def test_an_exact_word_must_fit_the_roots(said: VoteWord, fits_equal: bool, fits_other: bool) -> None:
    equal = make_opening(make_vote(word=said))
    assert statement_checks.do_roots_fit_word(equal) == fits_equal
    assert statement_checks.do_roots_fit_word(change(equal, "own_end_root")) == fits_other


# Contradictions
@pytest.mark.parametrize("name", [field.name for field in fields(Vote)])
def test_votes_of_one_draw_contradict_where_they_differ(name: str) -> None:
    """Whatever else they say. A vote of another round, root, claim or seed is one on another fork."""
    a, b = make_vote(), change(make_vote(), name)
    assert (
        statement_checks.do_votes_differ(a, b)
        == statement_checks.do_votes_differ(b, a)
        == (name not in DRAW_KEY)
    )


def test_a_vote_handed_in_twice_is_no_contradiction() -> None:
    assert not statement_checks.do_votes_differ(make_vote(), make_vote())
    assert not statement_checks.do_seals_differ(seal_of(make_vote()), make_vote())


@pytest.mark.parametrize("name", [field.name for field in fields(Sealed)])
def test_a_vote_that_does_not_repeat_its_seal_contradicts_it(name: str) -> None:
    """Sealed at random, then voted with the end that the solver showed."""
    sealed, vote = seal_of(make_vote()), change(make_vote(), name)
    assert statement_checks.do_seals_differ(sealed, vote) == statement_checks.do_seals_differ(vote, sealed)
    assert statement_checks.do_seals_differ(sealed, vote) == (name not in DRAW_KEY)


@pytest.mark.parametrize("name", DRAW_KEY)
def test_statements_on_two_forks_never_contradict(name: str) -> None:
    """After a reorganisation an auditor replays and seals anew, and may find something else."""
    vote = make_vote()
    anew = replace(
        change(vote, name), seal=word("new seal"), end_leaf=word("new end"), word=VoteWord.REJECT_DELTA
    )
    assert not statement_checks.do_votes_differ(vote, anew)
    assert not statement_checks.do_seals_differ(seal_of(vote), anew)


@pytest.mark.parametrize("name", ["end_leaf", "word", "named_leaf"])
def test_a_vote_may_say_anything_about_what_was_sealed(name: str) -> None:
    assert not statement_checks.do_seals_differ(seal_of(make_vote()), change(make_vote(), name))


def test_two_seals_of_one_draw_contradict() -> None:
    sealed = seal_of(make_vote())
    assert statement_checks.do_seals_differ(sealed, change(sealed, "seal"))
    assert not statement_checks.do_seals_differ(sealed, sealed)


def test_a_zero_in_place_of_a_seal_contradicts_nothing() -> None:
    """An auditor says so that it was not served so far, then it is served and seals."""
    sealed = seal_of(make_vote())
    early = replace(sealed, start_leaf=ZERO, seal=ZERO)
    silent = make_vote(word=VoteWord.UNSERVED, seal=ZERO, end_leaf=ZERO)
    assert not statement_checks.do_seals_differ(early, sealed) and not statement_checks.do_seals_differ(
        sealed, early
    )
    assert not statement_checks.do_seals_differ(early, make_vote())
    assert not statement_checks.do_seals_differ(sealed, silent), "it cannot say any more what it sealed"


@given(st.data())
def test_contradiction_is_symmetric_and_never_with_itself(data: st.DataObject) -> None:
    names = data.draw(st.sets(st.sampled_from([field.name for field in fields(Vote)])))
    a = b = make_vote()
    for name in names:
        b = change(b, name)
    assert statement_checks.do_votes_differ(a, b) == statement_checks.do_votes_differ(b, a)
    assert statement_checks.do_votes_differ(a, b) == (bool(names) and not names & set(DRAW_KEY))
    assert not statement_checks.do_votes_differ(b, b) and not statement_checks.do_seals_differ(b, b)


@pytest.mark.parametrize(("boundary", "name"), [(4, "start_leaf"), (5, "end_leaf")])
def test_a_leaf_that_is_not_the_claims_is_a_fault(boundary: int, name: str) -> None:
    vote = make_vote()
    assert not statement_checks.does_vote_misname(vote, boundary, getattr(vote, name))
    assert statement_checks.does_vote_misname(vote, boundary, word("the claim's"))
    unserved = make_vote(word=VoteWord.UNSERVED, **{name: ZERO})
    assert not statement_checks.does_vote_misname(unserved, boundary, word("the claim's"))


@pytest.mark.parametrize("boundary", [0, 3, 6])
def test_leaves_of_other_boundaries_prove_nothing(boundary: int) -> None:
    assert not statement_checks.does_vote_misname(make_vote(), boundary, word("the claim's"))
