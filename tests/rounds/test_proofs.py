"""Every proof in one transaction: found among what a node knows, built by it, and taken by the contract."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.kit.members import make_word
from tests.kit.nodes import Told
from tests.rounds.chain import RoundChain, open_round_chain
from tests.rounds.proofs import FAULTS, Proofs, open_proofs
from touchstone.node.models.global_model import GlobalModel
from touchstone.protocol.spec.game.enums import ProofKind, SeatStatus
from touchstone.protocol.spec.game.presets import BOUNDS_LOCAL
from touchstone.protocol.spec.game.state import StatementRef
from touchstone.protocol.spec.statements import VoteWord
from touchstone.whistleblower.challenging import ProveStatement, ProveWork
from touchstone.whistleblower.evidence import list_provable_faults
from touchstone.whistleblower.judging_work import list_work_faults

RIGHT = FAULTS.index("right")


@pytest.fixture(scope="module")
def chain(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RoundChain]:
    """The contracts on an Anvil of their own."""
    with open_round_chain(tmp_path_factory.mktemp("proofs"), BOUNDS_LOCAL) as opened:
        yield opened


@pytest.fixture(scope="module")
def proofs(chain: RoundChain, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Proofs]:
    """A closed round with claims that are wrong in one thing each."""
    with pytest.MonkeyPatch.context() as patch:
        yield open_proofs(chain, tmp_path_factory.mktemp("prover"), patch)


@pytest.fixture(autouse=True)
def know_the_model(monkeypatch: pytest.MonkeyPatch) -> None:
    """The toy model is in the store; it has no program from which to make it."""

    async def load(*_: object) -> None:
        return None

    monkeypatch.setattr(GlobalModel, "load_weights", load)


def prove(proofs: Proofs, told: Told, by: str = "prover") -> tuple[list[str], list[ProofKind]]:
    """What a node finds, and as what the contract takes it; nothing of it stays."""
    block, game_round, kinds = proofs.twin.get_block(), proofs.twin.state.rounds[0], list[ProofKind]()
    with proofs.open_prover(told, by) as (node, sent), proofs.chain.undone():
        if set(told.openings) == {FAULTS.index("scale")}:
            proofs.forget_final(node, FAULTS.index("scale"))
        faults = list(list_provable_faults(node.get_view(), game_round, block))
        works = list(list_work_faults(node.get_view(), game_round, block))
        duties: list[ProveStatement | ProveWork] = [ProveStatement(one.name, 0, one.proof) for one in faults]
        duties += [ProveWork(one.name, 0, one) for one in works]
        for duty in duties:
            asyncio.run(duty.perform(node.list_challenges().challenging))
            assert sent[-1].error is None, (duty, sent[-1].error)
            said = [v for _, name, v in sent[-1].events if name in ("SeatConvicted", "StatementConvicted")]
            kinds += [ProofKind(v["proof"]) for v in said if "proof" in v][:1]
    return [*(str(one.name[0]) for one in faults), *(type(one).__name__ for one in works)], kinds


@pytest.mark.parametrize(
    ("fault", "word", "kind"),
    [
        ("start", VoteWord.REJECT_START, ProofKind.BOUNDARY_ZERO),
        ("delta", VoteWord.REJECT_DELTA, ProofKind.DELTA_LEAF),
        ("scale", VoteWord.REJECT_DELTA, ProofKind.DELTA_LEAF),
        ("carried", VoteWord.REJECT_DELTA, ProofKind.CARRIED_ROOT),
    ],
)
def test_a_wrong_claim_is_proven_wrong(proofs: Proofs, fault: str, word: VoteWord, kind: ProofKind) -> None:
    slot = FAULTS.index(fault)
    own = proofs.make_vote(slot, word, by="prover")
    assert prove(proofs, Told([own], openings={slot: proofs.show(slot)})) == (["FalseClaim"], [kind])


def test_a_start_with_the_step_numbers_of_another_place(proofs: Proofs) -> None:
    """Nobody can replay it, so the node's own vote is UNSERVED, and what it was shown is the proof."""
    slot = FAULTS.index("steps")
    own, shown = proofs.make_vote(slot, VoteWord.UNSERVED, by="prover"), proofs.show(slot)
    told = Told([own], openings={slot: shown}, starts=[(slot, shown.boundaries[0])])
    assert prove(proofs, told) == (["FalseStart"], [ProofKind.BOUNDARY_ZERO])


def test_two_votes_two_seals_and_a_vote_off_its_seal(proofs: Proofs) -> None:
    vote = proofs.make_vote(RIGHT, VoteWord.ACCEPT)
    other = proofs.make_vote(RIGHT, VoteWord.ABSTAIN)
    assert prove(proofs, Told([vote, other])) == (["two votes"], [ProofKind.TWO_STATEMENTS])
    seal, second = proofs.make_seal(vote), proofs.make_seal(vote, seal=make_word("another"))
    assert prove(proofs, Told(seals=[seal, second])) == (["two seals"], [ProofKind.TWO_STATEMENTS])
    assert prove(proofs, Told([vote], [second])) == (["vote and seal"], [ProofKind.TWO_STATEMENTS])
    assert prove(proofs, Told([vote], [seal])) == ([], [])


def test_a_vote_that_names_another_leaf_or_none_that_exists(proofs: Proofs) -> None:
    told = Told(openings={RIGHT: proofs.show(RIGHT)})
    for lie in ("start_leaf", "end_leaf"):
        change: dict[str, Any] = {lie: make_word(lie)}
        told.votes = [proofs.make_vote(RIGHT, VoteWord.ACCEPT, **change)]
        assert prove(proofs, told) == (["vote leaf"], [ProofKind.VOTE_LEAF])
    told.votes = [proofs.make_vote(RIGHT, VoteWord.REJECT_STATE, 1)]
    assert prove(proofs, told) == (["no leaf"], [ProofKind.FALSE_WORD])
    told.votes = [proofs.make_vote(RIGHT, VoteWord.REJECT_STATE, 0)]
    assert prove(proofs, told) == ([], [])


@pytest.mark.parametrize("word", [VoteWord.REJECT_START, VoteWord.REJECT_DELTA])
def test_a_false_rejection_of_what_is_right(proofs: Proofs, word: VoteWord) -> None:
    own = proofs.make_vote(RIGHT, VoteWord.ACCEPT, by="prover")
    false = proofs.make_vote(RIGHT, word)
    told = Told([own, false], openings={RIGHT: proofs.show(RIGHT)})
    assert prove(proofs, told) == (["FalseWorkVote"], [ProofKind.FALSE_WORD])
    assert prove(proofs, Told([false], openings={RIGHT: proofs.show(RIGHT)})) == ([], [])


def test_ends_that_differ_in_an_exact_task(
    chain: RoundChain, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    exact = open_proofs(chain, tmp_path, monkeypatch, is_exact=True)
    false = exact.make_vote(RIGHT, VoteWord.REJECT_STATE, 0)
    assert prove(exact, Told([false])) == (["ends"], [ProofKind.FALSE_WORD])
    assert prove(exact, Told([exact.make_vote(RIGHT, VoteWord.ACCEPT)])) == ([], [])


def test_nobody_proves_against_itself_or_a_closed_seat(proofs: Proofs) -> None:
    vote = proofs.make_vote(RIGHT, VoteWord.REJECT_STATE, 1)
    assert prove(proofs, Told([vote]), by="auditor 0") == ([], [])
    number = proofs.get_accused(vote)
    seat = proofs.twin.state.seats[number]
    assert seat.status == SeatStatus.ACTIVE and proofs.get_accused(StatementRef(0, RIGHT)) != number
