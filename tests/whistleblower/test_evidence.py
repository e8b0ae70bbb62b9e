"""Statements that one transaction proves false: which a node finds, and that a proof is sealed before it is
shown."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.kit.nodes import TASK, get_told
from tests.node.merging.stage import Stage
from tests.node.specs import get_spec
from tests.node.upkeep.test_pruning import open_solver
from tests.protocol.spec.game.simulation import make_word
from tests.whistleblower.stage import get_solver, make_boundary, make_vote, open_onlooker, play_round
from touchstone.node.kit.known_statements import sign_form
from touchstone.node.models.own_openings import open_boundary
from touchstone.node.records.audit_records import VoteTaken, make_sealed
from touchstone.node.records.heard_statements import ClaimOpenings, KnownSeal, KnownVote
from touchstone.protocol.adapters.chain.abi import find_function, load_own_abi
from touchstone.protocol.adapters.chain.abi_values import encode_call
from touchstone.protocol.spec.claim_tree import verify_in_claim
from touchstone.protocol.spec.commitments import compute_boundary_leaf, compute_state_root
from touchstone.protocol.spec.data_trees import count_tensor_leaves
from touchstone.protocol.spec.game.drawn_audits import get_drawn, get_place
from touchstone.protocol.spec.game.state import GameState
from touchstone.protocol.spec.params import ZERO_WORD
from touchstone.protocol.spec.statement_checks import does_opening_fit
from touchstone.protocol.spec.statements import Vote, VoteOpening, VoteWord, compute_seal
from touchstone.scripts.roles.role_nodes import Member
from touchstone.whistleblower.evidence import ProvableFault, list_provable_faults
from touchstone.whistleblower.proof_calls import EXPIRY_BLOCKS, prove_no_leaf

LEAVES = count_tensor_leaves(get_spec().terms.parameter_count)


class EvidenceRequests:
    """`Evidence` on chain: it says since when a proof is sealed, and notes what is sent."""

    def __init__(self, since: int) -> None:
        self.since, self.sent = since, list[tuple[str, tuple[Any, ...]]]()

    async def digest_of(self, account: str, data: bytes) -> bytes:
        return make_word(account, data)

    async def committed_block(self, account: str, digest: bytes) -> int:
        return self.since

    def __getattr__(self, function: str) -> Any:
        async def send(*words: Any) -> None:
            self.sent.append((function, words))

        return send


# Sending
@pytest.mark.parametrize(
    ("spare_blocks", "is_sealed_anew"), [(None, True), (EXPIRY_BLOCKS, True), (EXPIRY_BLOCKS + 1, False)]
)
async def test_a_proof_is_sealed_before_it_is_shown(
    tmp_path: Path, spare_blocks: int | None, is_sealed_anew: bool
) -> None:
    """Otherwise a copy from the mempool takes the reward. A seal of the same call that is nearly over is made
    anew. spare_blocks: left to it, None where there is no seal."""
    known = make_vote(VoteWord.REJECT_STATE, named_leaf=LEAVES)
    with open_onlooker(tmp_path) as node:
        oldest = node.state.head_block - node.game.bounds.proof_commit_blocks
        since = 0 if spare_blocks is None else oldest + spare_blocks
        handler: Any = EvidenceRequests(since)
        node.chain.game = handler
        await node.list_challenges().proof_calls.send_proof(prove_no_leaf(known))
        form = sign_form(known.vote, known.signature)
        data = encode_call(find_function(load_own_abi("Evidence"), "proveNoLeaf"), (TASK, form))
        sealed = [("commit_proof", (make_word(node.account, data),))] if is_sealed_anew else []
        assert handler.sent == [*sealed, ("prove_no_leaf", (TASK, form))]


# Finding
def list_found(node: Member, *votes: KnownVote, seals: tuple[KnownSeal, ...] = ()) -> list[Any]:
    """The names of what can be proven of these statements; of each, what it is proven by."""
    get_told(node).votes, get_told(node).seals = list(votes), list(seals)
    return [one.name for one in list_faults(node)]


def list_faults(node: Member) -> list[ProvableFault]:
    """What can be proven of round 0 in the next block."""
    return list(list_provable_faults(node.get_view(), node.game.rounds[0], node.state.head_block + 1))


def seal(known: KnownVote, **changes: Any) -> KnownSeal:
    """What the auditor of a vote sealed for it."""
    said, place = known.vote, get_place(known.vote)
    sealed = replace(make_sealed(place, said.segment, said.start_leaf, said.seal), **changes)
    return KnownSeal(sealed, make_word("sealed", sealed) * 2, known.auditor)


def test_two_words_of_one_auditor_on_one_draw_convict_it(tmp_path: Path) -> None:
    """Two auditors may differ, and so may an auditor's votes on two draws or two forks."""
    first, second = make_vote(), make_vote(VoteWord.REJECT_STATE)
    stranger = replace(second, auditor=make_vote(rank=1).auditor)
    elsewhere = replace(make_vote(VoteWord.REJECT_STATE, slot=1), auditor=first.auditor)
    forked = make_vote(VoteWord.REJECT_STATE, seed=make_word("fork"))
    with open_onlooker(tmp_path) as node:
        assert list_found(node, first, stranger, elsewhere, forked) == []
        assert list_found(node, first, second) == [("two votes", first.signature, second.signature)]
    with open_onlooker(tmp_path, first.auditor) as node:
        seals = (seal(first), seal(first, seal=make_word("other")))
        assert list_found(node, first, second, seals=seals) == [], "no node proves its own seat false"


def test_who_votes_on_another_replay_than_it_sealed_is_convicted(tmp_path: Path) -> None:
    """A zero in place of the seal hides nothing: its auditor was not served so far."""
    vote = make_vote()
    right, zero, other = seal(vote), seal(vote, seal=ZERO_WORD), seal(vote, seal=make_word("other"))
    with open_onlooker(tmp_path) as node:
        assert list_found(node, vote, seals=(right, zero)) == []
        assert list_found(node, vote, seals=(other,)) == [("vote and seal", vote.signature, other.signature)]
        assert ("two seals", right.signature, other.signature) in list_found(node, seals=(right, other))


@pytest.mark.parametrize(
    ("word", "leaf", "is_there"),
    [
        (VoteWord.REJECT_STATE, LEAVES - 1, True),
        (VoteWord.REJECT_STATE, LEAVES, False),
        (VoteWord.REJECT_DELTA, LEAVES, False),
    ],
)
def test_a_rejection_names_a_leaf_that_is_there(
    tmp_path: Path, word: VoteWord, leaf: int, is_there: bool
) -> None:
    vote = make_vote(word, named_leaf=leaf)
    with open_onlooker(tmp_path) as node:
        assert list_found(node, vote) == ([] if is_there else [("no leaf", vote.signature)])


def test_a_vote_on_another_leaf_than_the_solver_showed_is_proven_by_the_opening(tmp_path: Path) -> None:
    shown, segment = make_boundary("shown"), make_vote().vote.segment
    root = compute_state_root(shown.header)
    place = (play_round().terms.domain, 0, get_solver())
    start, end = (compute_boundary_leaf(*place, one, shown.salt, root) for one in (segment, segment + 1))
    right, wrong = make_vote(start_leaf=start, end_leaf=end), make_vote(start_leaf=start)
    with open_onlooker(tmp_path) as node:
        get_told(node).openings[0] = ClaimOpenings({0: shown, segment: shown, segment + 1: shown})
        assert list_found(node, right) == []
        assert list_found(node, wrong) == [("vote leaf", wrong.signature, segment + 1)]


def test_a_vote_on_the_last_segment_is_proven_by_the_last_boundary_too(tmp_path: Path) -> None:
    """Each auditor of a claim is shown that boundary, whatever its own segment is."""
    shown, claim = make_boundary("shown"), play_round().rounds[0].claims[0]
    place = (play_round().terms.domain, 0, get_solver(), claim.segments)
    end = compute_boundary_leaf(*place, shown.salt, compute_state_root(shown.header))
    right, wrong = (make_vote(segment=claim.segments - 1, end_leaf=leaf) for leaf in (end, b"e" * 32))
    inner = make_vote(segment=claim.segments - 2)
    with open_onlooker(tmp_path) as node:
        get_told(node).openings[0] = ClaimOpenings(last=shown)
        assert list_found(node, right) == list_found(node, inner) == []
        assert list_found(node, wrong) == [("vote leaf", wrong.signature, claim.segments)]


def make_up_audit(stage: Stage, node: Member, is_start_right: bool) -> tuple[VoteTaken, str]:
    """An ACCEPT of this node's claim with its opening, and who signed it. The auditor has seen nothing but
    the start, if that; the end that it names as the claim's and as its own is of its making."""
    salts, made_up, slot = (b"a" * 32, b"b" * 32), b"e" * 32, stage.get_slot(1)
    drawn = get_drawn(node.game, 0, slot, 0, 0)
    assert drawn is not None
    shown = open_boundary(node.get_view(), 0, drawn.segment)
    root = compute_state_root(shown.header) if is_start_right else made_up
    place = (drawn.place.domain, 0, node.account)
    start = compute_boundary_leaf(*place, drawn.segment, shown.salt, root)
    end = compute_boundary_leaf(*place, drawn.segment + 1, salts[0], made_up)
    seal = compute_seal(place[0], 0, slot, 0, 0, drawn.seat.account, start, made_up, salts[1])
    sealed = make_sealed(drawn.place, drawn.segment, start, seal)
    vote = Vote(**vars(sealed), end_leaf=end, word=VoteWord.ACCEPT, named_leaf=0)
    opening = VoteOpening(vote, made_up, salts[0], made_up, salts[1])
    assert does_opening_fit(vote, opening, node.account, drawn.seat.account), "it is paid"
    return VoteTaken(TASK, vote, b"s" * 64, opening), drawn.seat.account


@pytest.mark.parametrize("is_pruned", [False, True])
@pytest.mark.parametrize("is_start_right", [False, True])
async def test_a_solver_proves_a_vote_that_names_another_leaf_than_its_own_claim_has(
    tmp_path: Path, is_start_right: bool, is_pruned: bool
) -> None:
    """No other node needs to have audited the segment. Leaves need no state, so none is kept for it."""
    async with open_solver(tmp_path, is_pruned) as (stage, node):
        taken, auditor = make_up_audit(stage, node, is_start_right)
        node.task.audits.room.book._index(taken)
        assert auditor != node.account
        faults = list_faults(node)
        first = taken.vote.segment
        named = [first + 1] if is_start_right else [first, first + 1]
        assert [one.name for one in faults] == [
            ("vote leaf", taken.signature, boundary) for boundary in named
        ]
        handler: Any = EvidenceRequests(node.state.head_block)
        node.chain.game = handler
        claim = node.game.rounds[0].claims[taken.vote.slot]
        for fault in faults:
            await node.list_challenges().proof_calls.send_proof(fault.proof)
            _, (_, form, *shown) = handler.sent.pop()
            boundary, leaf, path = shown
            assert form == sign_form(taken.vote, taken.signature)
            verify_in_claim(claim.claim_root, leaf, boundary, claim.segments, path)


@pytest.mark.parametrize("is_exact", [False, True])
def test_in_an_exact_task_an_accept_of_two_ends_is_false(tmp_path: Path, is_exact: bool) -> None:
    """Where noise is allowed, the own end of an honest auditor may have other bits than the claim's."""
    game: GameState = replace(play_round(), terms=replace(play_round().terms, is_exact=is_exact))
    vote = make_vote(end=make_word("own"))
    with open_onlooker(tmp_path, game=game) as node:
        assert list_found(node, vote) == ([("ends", vote.signature)] if is_exact else [])
