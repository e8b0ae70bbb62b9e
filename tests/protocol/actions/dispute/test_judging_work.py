"""Wrong starts and pseudo-gradients: a node proves what it found itself, by as little as the proof takes."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from protocol.actions.dispute import evidence, judging_work
from protocol.actions.dispute.casebook import ClaimOpenings, KnownVote
from protocol.actions.dispute.evidence import NO_WORK
from protocol.actions.dispute.judging_work import (
    get_openings,
    list_work_cases,
    make_start,
    prove_claim,
)
from protocol.actions.merge.merge_records import WorkProof
from protocol.actions.merge.work import open_boundary, open_work
from protocol.actions.runtime.party import Party
from protocol.compute.digest import build_delta_tree
from protocol.compute.outer.outer_tensors import encode_delta
from protocol.spec.containers import OuterHeader
from protocol.spec.errors import EnvironmentFault
from protocol.spec.game.state import GameRound, SlotClaim, StatementRef
from protocol.spec.game.timing import get_statement_until
from protocol.spec.params import DELTA_LEAF_BYTES, SCALE_BYTE_MAX
from protocol.spec.statements import VoteWord, compute_carried_root
from tests.protocol.actions.audit.stage import begin_model
from tests.protocol.actions.dispute.stage import (
    ONLOOKER,
    get_known,
    get_solver,
    make_boundary,
    make_vote,
    open_party,
    play_round,
)
from tests.protocol.actions.pruning.test_pruning_duties import open_solver
from tests.protocol.spec.game.world import make_word

CLAIM = StatementRef(0, 0)
REJECTS = (VoteWord.REJECT_START, VoteWord.REJECT_DELTA)


def list_found(party: Party, *votes: KnownVote, block: int = 0) -> list[Any]:
    """The names of what the node would prove in a block, by default the next one."""
    get_known(party).votes = list(votes)
    found = list_work_cases(party, party.game.rounds[0], block or party.state.head_block + 1)
    return [one.name for one in found]


@pytest.fixture
def proven(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, tuple[Any, ...]]]:
    """What is proven: the function of Evidence and its arguments."""
    sent: list[tuple[str, tuple[Any, ...]]] = []

    async def note(party: Party, function: str, *arguments: Any) -> None:
        sent.append((function, arguments))

    monkeypatch.setattr(evidence, "prove", note)
    return sent


# --- Finding ------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("word", REJECTS)
def test_an_auditor_proves_what_its_own_vote_says_and_believes_no_other(
    tmp_path: Path, word: VoteWord
) -> None:
    """Where step numbers at boundary 0 are wrong it could compare nothing, and that boundary is the proof."""
    own, other = make_vote(word), make_vote(word, rank=1)
    with open_party(tmp_path, own.auditor) as party:
        assert list_found(party, own) == list_found(party, own, other) == [("claim", own.signature)]
        assert list_found(party, other) == []
        assert list_found(party, make_vote(VoteWord.ABSTAIN), other) == [], "it has compared nothing"
        until = get_statement_until(party.game, CLAIM)
        assert list_found(party, own, block=until) and not list_found(party, own, block=until + 1)
        get_known(party).starts = [(0, make_boundary("steps of another place"))]
        assert list_found(party, make_vote(VoteWord.UNSERVED)) == [("start", CLAIM)]
        assert list_found(party, own) == [("claim", own.signature)], "once is enough"


@pytest.mark.parametrize("word", REJECTS)
def test_who_accepted_a_claim_or_made_it_refutes_a_rejection_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, word: VoteWord
) -> None:
    """A rejection of the end state is not refuted here: that takes a dispute."""
    own, false = make_vote(), make_vote(word, rank=1)
    state = make_vote(VoteWord.REJECT_STATE, rank=2)
    with open_party(tmp_path, own.auditor) as party:
        assert list_found(party, own, false, state) == [("work", false.signature)]
    with open_party(tmp_path, get_solver()) as party:
        assert list_found(party, false) == [], "its journal was lost"
        monkeypatch.setattr(judging_work, "list_own_boundaries", lambda party, index: {0: None})
        assert list_found(party, false, state) == [("work", false.signature)]


# --- Proving ------------------------------------------------------------------------------------------------
async def test_a_wrong_carried_root_is_proven_without_the_pseudo_gradient(
    tmp_path: Path, proven: list[Any]
) -> None:
    """Its solver may withhold that. Here no peer shows anything."""
    last, found = make_boundary("last"), make_vote(VoteWord.REJECT_DELTA)
    work = WorkProof(make_word("delta"), compute_carried_root(make_boundary("other").header), ())
    with open_party(tmp_path, found.auditor) as party:
        get_known(party).openings[0] = ClaimOpenings({}, work, last)
        await prove_claim(party, found)
    assert proven == [("proveCarried", ({"round": 0, "slot": 0}, work, last))]


@pytest.mark.parametrize("scale", [SCALE_BYTE_MAX, SCALE_BYTE_MAX + 1])
async def test_a_scale_that_no_encoding_has_is_proven_by_its_leaf_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, proven: list[Any], scale: int
) -> None:
    """With the largest scale that there is, the proof takes the final weights, which are unknown here."""

    async def have(*arguments: Any) -> bytes:
        return b""

    monkeypatch.setattr(judging_work, "fetch_delta", have)
    weights = begin_model().weights
    delta = bytearray(encode_delta(weights, weights))
    delta[DELTA_LEAF_BYTES] = scale
    found = make_vote(VoteWord.REJECT_DELTA, named_leaf=1)
    root = build_delta_tree(bytes(delta)).root
    work = WorkProof(root, bytes(32), ())
    with open_party(tmp_path, found.auditor) as party:
        party.store.put_delta(root, bytes(delta))
        get_known(party).openings[0] = ClaimOpenings({}, work)
        if scale == SCALE_BYTE_MAX:
            with pytest.raises(EnvironmentFault, match="the last boundary of round 0, slot 0"):
                await prove_claim(party, found)
            assert not proven
        else:
            await prove_claim(party, found)
            ((function, words),) = proven
            assert (function, words[1:3]) == ("proveScale", (1, work)) and words[3].data[0] == scale


@pytest.mark.parametrize("carries", [0, 1])
async def test_a_start_is_shown_with_the_work_that_its_moments_come_from(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, carries: int
) -> None:
    """That of the same seat in the round before. Where moments begin anew the contract wants none. What was
    never shown cannot be proven wrong."""
    asked: list[SlotClaim] = []

    async def find(party: Party, game_round: GameRound, claim: SlotClaim) -> WorkProof:
        asked.append(claim)
        return WorkProof(make_word("delta", game_round.index), make_word("carried"), ())

    async def load(party: Party, root: bytes) -> OuterHeader:
        return OuterHeader(root, root)

    monkeypatch.setattr(judging_work, "find_work", find)
    monkeypatch.setattr(judging_work, "load_outer", load)
    first, game = make_boundary("first"), play_round(1)
    with open_party(tmp_path, ONLOOKER, game) as party:
        spec = party.task.spec
        terms = replace(spec.terms, carry_moments=carries)
        party.joined = replace(party.task, spec=replace(spec, terms=terms))
        form = await make_start(party, 1, 1, ClaimOpenings({0: first}))
        with pytest.raises(EnvironmentFault, match="boundary 0 of round 1, slot 1"):
            await make_start(party, 1, 1, ClaimOpenings({4: first}))
    base = game.rounds[1].base_root
    assert (form["first"], form["base"]) == (first, OuterHeader(base, base))
    assert form["work"].delta_root == (make_word("delta", 0) if carries else NO_WORK.delta_root)
    assert [claim.seat for claim in asked] == [game.rounds[1].claims[1].seat] * carries


async def test_a_solver_opens_its_own_claim_itself(tmp_path: Path) -> None:
    """Its auditors, who have the same openings, may be those that lie."""
    async with open_solver(tmp_path) as (stage, party):
        found, last = get_openings(party, 0, stage.get_slot(1)), 4
        assert found.boundaries == {one: open_boundary(party, 0, one) for one in (0, last)}
        assert (found.work, found.last) == (open_work(party, 0), open_boundary(party, 0, last))
