"""Where the money of a conviction goes: finder, submitter, who lost its pay, and what is burned."""

from typing import Any

from tests.kit.contract_calls import ContractCall
from tests.kit.plays.collection import Plays
from tests.kit.plays.contests import fells
from tests.kit.plays.rounds import make_running
from tests.kit.plays.settlement import accept_rest
from tests.kit.plays.votes import make_drawn, require_words
from tests.kit.world import World, make_place
from touchstone.protocol.spec.game.enums import ProofKind
from touchstone.protocol.spec.game.vault import BURNED, ESCROW, RESTITUTION
from touchstone.protocol.spec.statements import VoteWord

PLAYS = Plays("convictions")
ACCEPT, REJECT_STATE, REJECT_DELTA, REJECT_START, UNSERVED, ABSTAIN = VoteWord
LATE: dict[str, Any] = {"late_chance": 1 << 16}


def convicts_auditor(world: World, index: int, claimant: str, draw: int = 0, rank: int = 0) -> None:
    """Two votes of its draw take an auditor's seat."""
    ref = make_place(world, index, claimant, draw, rank)
    world.anybody("zoe").convicts(ref, ProofKind.TWO_STATEMENTS)


def make_signed(name: str, *signers: str, **changes: Any) -> World:
    """Returns a task whose first root is signed by these alone; round 1 is drawn."""
    world = make_drawn(name, **changes)
    world.all_accept()
    world.posts(signers=signers)
    world.all_commit()
    world.draws()
    return world


@PLAYS.add
def a_claim_costs_its_stake() -> World:
    """The finder gets a capped part, the submitter a quarter, the rest is held until the task closes."""
    world = make_running("a claim costs its stake")
    world.plays_round()
    world.anybody("ann").commits(fault="delta")
    world.anybody("bob").commits()
    world.anybody("cid").commits()
    world.draws()
    world.all_accept()
    zoe = world.anybody("zoe")
    zoe.convicts(make_place(world, 1, "ann", draw=None), ProofKind.DELTA_LEAF)
    assert (world.get_credit("zoe"), world.get_credit("submitter")) == (150, 500)
    assert (world.get_stake("ann"), world.get_held()) == (0, 1_350)
    world.posts()
    world.winds_down()
    world.passes_duties()
    world.all_settle()
    assert world.get_credit("ann") == 0, "nor does it get the pay of round 0"
    world.ends()
    assert world.state.vault.get_wei(BURNED) >= 1_350
    return world


@PLAYS.add
def every_fault_of_a_claim_is_proven() -> World:
    """Another start, other steps, another pseudo-gradient, a scale that is none, other moments handed on."""
    faults = {
        "start": ProofKind.BOUNDARY_ZERO,
        "steps": ProofKind.BOUNDARY_ZERO,
        "delta": ProofKind.DELTA_LEAF,
    }
    faults |= {"scale": ProofKind.DELTA_LEAF, "carried": ProofKind.CARRIED_ROOT}
    world = World("every fault of a claim is proven", solver_seats=6)
    names = [f"solver of {fault}" for fault in faults]
    world.solvers(*names, "ann")
    world.verifiers("vic", "wil", "xia")
    world.starts()
    for name, fault in zip(names, faults, strict=True):
        world.anybody(name).commits(fault=fault)
    world.anybody("ann").commits()
    zoe = world.anybody("zoe")
    for name, proof in zip(names, faults.values(), strict=True):
        zoe.convicts(make_place(world, 0, name, draw=None), proof)
    right = make_place(world, 0, "ann", draw=None)
    for proof in (ProofKind.BOUNDARY_ZERO, ProofKind.DELTA_LEAF, ProofKind.CARRIED_ROOT):
        zoe.commits_proof(right, proof)
        world.passes()
        with world.refuses("ProofInvalid"):
            zoe.proves(right, proof, is_valid=False)
    own = world.anybody("ann")
    own.commits_proof(right, ProofKind.BOUNDARY_ZERO)
    world.passes()
    with world.refuses("OwnStatement"):
        own.proves(right, ProofKind.BOUNDARY_ZERO)
    world.comes_to(world.closes() + 201)
    zoe.commits_proof(right, ProofKind.BOUNDARY_ZERO)
    world.passes()
    with world.refuses("OutsideWindow"):
        zoe.proves(right, ProofKind.BOUNDARY_ZERO)
    return world


@PLAYS.add
def false_words_are_proven() -> World:
    """A REJECT_START of a right start, a REJECT_DELTA of a leaf that is not there; of others nothing is."""
    world = make_drawn("false words are proven")
    zoe = world.anybody("zoe")
    world.votes("ann", REJECT_START, is_opened=False)
    world.votes("bob", REJECT_DELTA, is_opened=False)
    world.votes("cid", ACCEPT, is_opened=False)
    for claimant in ("ann", "bob"):
        zoe.convicts(make_place(world, 0, claimant), ProofKind.FALSE_WORD)
    ref = make_place(world, 0, "cid")
    zoe.commits_proof(ref, ProofKind.FALSE_WORD)
    world.passes()
    with world.refuses("ProofInvalid"):
        zoe.proves(ref, ProofKind.FALSE_WORD, is_valid=False)
    return world


@PLAYS.add
def an_undecided_claim_is_void() -> World:
    """Claims of a convicted seat that nobody decided yet are void, their pay is burned, auditors are paid."""
    world = make_running("an undecided claim is void")
    world.anybody("ann").commits(fault="start")
    world.anybody("bob").commits()
    world.anybody("cid").commits()
    world.draws()
    zoe = world.anybody("zoe")
    zoe.convicts(make_place(world, 0, "ann", draw=None), ProofKind.BOUNDARY_ZERO)
    convicts_auditor(world, 0, "bob")
    world.all_accept()
    world.posts_late()
    assert world.state.rounds[0].merged == (world.get_slot("cid", 0),)
    world.winds_down()
    world.ends()
    return world


@PLAYS.add
def an_auditor_costs_its_stake() -> World:
    """Of a small stake the finder gets a quarter, and so does the submitter; its vote was no REJECT."""
    world = make_running("an auditor costs its stake")
    world.plays_round()
    convicts_auditor(world, 0, "ann")
    assert (world.get_credit("zoe"), world.get_credit("submitter")) == (125, 125)
    world.winds_down()
    world.ends()
    return world


@PLAYS.add
def a_reject_that_decided_nothing_restores_nothing() -> World:
    """The claim was not void; beside an ABSTAIN only the REJECT restores."""
    world = make_drawn("a reject that decided nothing restores nothing")
    world.votes("ann", REJECT_STATE, is_opened=False)
    convicts_auditor(world, 0, "ann")
    assert world.get_credit("ann") == 0
    world.votes("bob", REJECT_STATE, is_opened=False)
    world.votes("bob", ABSTAIN, rank=1, is_opened=False)
    convicts_auditor(world, 0, "bob", rank=1)
    assert world.get_credit("bob") == 0, "an ABSTAIN"
    convicts_auditor(world, 0, "bob")
    assert world.get_credit("bob") == 100
    return world


@PLAYS.add
def the_first_of_two_false_rejects_pays() -> World:
    """The second one pays for nothing: the claim is restored."""
    world = make_drawn("the first of two false rejects pays")
    world.votes("ann", REJECT_STATE, is_opened=False)
    world.votes("ann", REJECT_DELTA, rank=1, is_opened=False)
    accept_rest(world, 0, "bob", "cid")
    for rank in (0, 1):
        convicts_auditor(world, 0, "ann", rank=rank)
        assert world.get_credit("ann") == 100
    world.posts()
    world.winds_down()
    world.ends()
    return world


@PLAYS.add
def a_false_late_reject_restores_pay() -> World:
    """Two late REJECTs took the pay; one beside an ABSTAIN took nothing."""
    world = make_drawn("a false late reject restores pay", **LATE)
    world.all_accept()
    world.posts()
    world.all_commit()
    world.draws()
    for rank in (0, 1):
        world.votes("ann", REJECT_STATE, index=0, draw=2, rank=rank, is_opened=False)
    world.votes("bob", REJECT_STATE, index=0, draw=2, is_opened=False)
    world.votes("bob", ABSTAIN, index=0, draw=2, rank=1, is_opened=False)
    convicts_auditor(world, 0, "ann", draw=2)
    assert world.get_credit("ann") == 100, "at once"
    convicts_auditor(world, 0, "bob", draw=2)
    assert world.get_credit("bob") == 0, "nothing was lost"
    return world


@PLAYS.add
def an_undecided_late_draw_restores_nothing() -> World:
    """One late REJECT alone has taken no pay."""
    world = make_drawn("an undecided late draw restores nothing", **LATE)
    world.all_accept()
    world.posts()
    world.all_commit()
    world.draws()
    world.votes("ann", REJECT_STATE, index=0, draw=2, is_opened=False)
    convicts_auditor(world, 0, "ann", draw=2)
    assert world.get_credit("ann") == 0
    return world


@PLAYS.add
def an_unserved_claim_is_not_restored() -> World:
    """Two UNSERVED in one draw took the pay; a false REJECT in the other took none."""
    world = make_drawn("an unserved claim is not restored")
    for rank in (0, 1):
        world.votes("ann", REJECT_STATE, rank=rank, is_opened=False)
        world.votes("ann", UNSERVED, draw=1, rank=rank, is_opened=False)
    convicts_auditor(world, 0, "ann")
    assert world.get_credit("ann") == 0
    return world


@PLAYS.add
def a_convicted_solver_is_not_paid_back() -> World:
    """It was convicted itself before the false REJECT was."""
    world = World("a convicted solver is not paid back")
    ann, bob, cid = world.solvers("ann", "bob", "cid")
    world.verifiers("vic", "wil", "xia")
    world.starts()
    ann.commits(fault="start")
    bob.commits()
    cid.commits()
    world.draws()
    for rank in (0, 1):
        world.votes("ann", REJECT_STATE, rank=rank, is_opened=False)
    world.anybody("zoe").convicts(make_place(world, 0, "ann", draw=None), ProofKind.BOUNDARY_ZERO)
    convicts_auditor(world, 0, "ann")
    assert world.get_credit("ann") == 0
    return world


@PLAYS.add
def an_empty_escrow_refunds_nothing() -> World:
    """A submitter that owes nothing more gets nothing of a slash."""
    amounts = {"solver_pay": 0, "audit_pay": 0, "late_pay": 0}
    world = make_running("an empty escrow refunds nothing", amounts=amounts)
    world.anybody("ann").commits(fault="delta")
    world.anybody("zoe").convicts(make_place(world, 0, "ann", draw=None), ProofKind.DELTA_LEAF)
    assert (world.get_credit("submitter"), world.get_held()) == (0, 1_850)
    return world


@PLAYS.add
def later_rounds_are_undone_and_made_good() -> World:
    """Round 0 falls after rounds 1 and 2 were posted; who did not sign is made good for both."""
    world = make_signed("later rounds are undone and made good", "ann", "bob")
    world.all_accept()
    world.posts()
    world.plays_round()
    fells(world, 0)
    assert world.state.vault.get_wei(RESTITUTION) == 200
    with world.refuses("NoMajority"):
        world.posts(signers=["ann", "bob"])
    with world.refuses("NotLate"):
        world.stands()
    world.stands_after_fall()
    world.ends()
    return world


@PLAYS.add
def signers_that_were_convicted_first_still_pay() -> World:
    """A friend convicts both before their root falls. What is left of their stakes pays for the undone work;
    finder and submitter have no second share of it."""
    world = make_drawn("signers that were convicted first still pay")
    world.all_accept()
    world.posts(signers=["ann", "bob"])
    for name, fault in (("ann", "delta"), ("bob", "delta"), ("cid", "")):
        world.anybody(name).commits(fault=fault)
    world.draws()
    world.all_accept()
    world.posts()
    for name in ("ann", "bob"):
        world.anybody("zoe").convicts(make_place(world, 1, name, draw=None), ProofKind.DELTA_LEAF)
    before = world.get_credit("submitter")
    fells(world, 0, "fay")
    assert world.state.vault.get_wei(RESTITUTION) == 100, "cid's"
    assert (world.get_credit("fay"), world.get_credit("submitter")) == (300, before), "the bond alone"
    world.stands_after_fall()
    world.ends()
    return world


@PLAYS.add
def one_signer_was_convicted_first() -> World:
    """What was held of it and what is left of the others pay together."""
    world = make_drawn("one signer was convicted first")
    world.all_accept()
    world.posts(signers=["ann", "bob"])
    world.anybody("ann").commits(fault="delta")
    for name in ("bob", "cid"):
        world.anybody(name).commits()
    world.draws()
    world.all_accept()
    world.posts()
    world.anybody("zoe").convicts(make_place(world, 1, "ann", draw=None), ProofKind.DELTA_LEAF)
    fells(world, 0, "fay")
    assert (world.state.vault.get_wei(RESTITUTION), world.get_credit("fay")) == (100, 300 + 150)
    assert world.get_held() == 2 * 1_350 - 100
    world.stands_after_fall()
    world.ends()
    return world


@PLAYS.add
def roots_that_fall_from_the_newest_on_pay_for_what_they_undo() -> World:
    """A friend contests the later of two wrong roots first: nothing is owed for what it undoes. What is left
    of the signers' stakes waits for the fall of the earlier one."""
    world = make_signed("roots that fall from the newest on pay for what they undo", "ann", "bob")
    world.all_accept()
    world.posts(signers=["ann", "bob"])
    fells(world, 1, "fay")
    assert (world.state.falls[0].owed, world.get_held()) == (0, 2 * 2_000 - 150 - 1_000)
    fells(world, 0)
    assert world.state.falls[1].held == world.state.vault.get_wei(RESTITUTION) == 100, "cid's"
    assert world.get_credit("zoe") == 300, "the bond alone"
    world.stands_after_fall()
    world.ends()
    return world


@PLAYS.add
def what_an_auditor_lost_pays_for_undone_work() -> World:
    """The stakes of the signers are not enough for what falls with their root."""
    amounts = {"solver_pay": 3_000}
    world = make_signed("what an auditor lost pays for undone work", "ann", "bob", amounts=amounts)
    world.all_accept()
    convicts_auditor(world, 0, "ann")
    fells(world, 0)
    fall = world.state.falls[0]
    assert (fall.owed, fall.held, world.get_held()) == (3_000, 3_000, 2_850 + 250 - 3_000)
    world.stands_after_fall()
    world.ends()
    return world


@PLAYS.add
def a_claim_of_a_convicted_seat_is_not_merged() -> World:
    """A friend convicts a solver of an older claim, so that no proof of a newer one is taken: that one is not
    merged either."""
    world = make_running("a claim of a convicted seat is not merged", rounds=2)
    world.anybody("ann").commits(fault="delta")
    for name in ("bob", "cid"):
        world.anybody(name).commits()
    world.draws()
    world.all_accept()
    world.posts()
    world.all_commit()
    world.draws()
    world.all_accept()
    world.anybody("zoe").convicts(make_place(world, 0, "ann", draw=None), ProofKind.DELTA_LEAF)
    with world.refuses("NotMergeable"):
        world.posts(merged=["ann", "bob", "cid"])
    world.posts()
    assert len(world.state.rounds[1].merged) == 2
    world.ends()
    return world


@PLAYS.add
def a_conviction_leaves_time_to_sign_again() -> World:
    """Who has signed when a solver is convicted has to sign again without its claim. So the window for the
    root begins anew with the conviction, until auditMax later at most."""
    world = World("a conviction leaves time to sign again", solver_seats=6, least_solvers=1, rounds=2)
    friends = [world.solver(f"friend {number}") for number in range(3)]
    world.solvers("ann", "bob", "cid")
    world.verifiers(*(f"verifier {number}" for number in range(9)))
    world.starts()
    for one in friends:
        one.commits(fault="delta")
    for name in ("ann", "bob", "cid"):
        world.anybody(name).commits()
    world.draws()
    world.all_accept()
    world.posts()
    world.all_commit()
    world.draws()
    accept_rest(world, 1, "ann", "bob", "cid")
    zoe, closed = world.anybody("zoe"), world.state.rounds[1].closed or 0
    proofs = [make_place(world, 0, one.name, draw=None) for one in friends]
    blocks = (closed + 35, closed + 40, closed + 65)
    for at, ref in zip(blocks, proofs, strict=True):
        world.comes_to(at - 1)
        zoe.convicts(ref, ProofKind.DELTA_LEAF)
        world.comes_to(min(at + 5, closed + 65))
        with world.refuses("NotLate"):
            world.stands()
    world.passes()
    with world.refuses("OutsideWindow"):
        world.posts()
    world.stands()
    return world


@PLAYS.add
def an_unserved_claim_is_not_made_good() -> World:
    """Both reserves were not served before the primary accepted: a round that stays would not pay it."""
    world = make_running("an unserved claim is not made good", rounds=4)
    world.all_commit()
    world.draws()
    world.all_accept()
    world.posts(signers=["ann", "bob"])
    world.all_commit()
    world.draws()
    world.comes_to((world.state.rounds[1].closed or 0) + 10)
    for rank in (1, 2):
        world.votes("cid", UNSERVED, rank=rank, is_opened=False)
    world.votes("cid", ACCEPT)
    accept_rest(world, 1, "ann", "bob")
    fells(world, 0)
    assert world.state.falls[0].owed == 0
    world.stands_after_fall()
    world.ends()
    return world


@PLAYS.add
def a_false_late_reject_that_is_proven_at_once_counts_no_more() -> World:
    """Its late draw was undecided: a reserve that was not served takes no pay alone. Once a late draw is
    decided, a REJECT stays."""
    world = make_drawn("a false late reject that is proven at once counts no more", **LATE)
    world.all_accept()
    world.posts()
    world.all_commit()
    world.draws()
    world.votes("ann", REJECT_STATE, index=0, draw=2, is_opened=False)
    convicts_auditor(world, 0, "ann", draw=2)
    require_words(world, "ann", 2)
    world.comes_to((world.state.rounds[0].late_from or 0) + 10)
    world.votes("ann", UNSERVED, index=0, draw=2, rank=1, is_opened=False)
    world.all_accept()
    world.posts()
    world.winds_down()
    world.passes_duties()
    world.all_settle()
    assert world.get_credit("ann") == 200, "both rounds"
    world.ends()
    return world


@PLAYS.add
def two_false_rejects_are_made_good_though_each_is_proven_at_once() -> World:
    """Both auditors that took the pay are convicted, so a slash pays for the claim. It does so as well if the
    first proof waits until the draw is decided."""
    world = World("two false rejects are made good though each is proven at once", rounds=3)
    world.solvers("ann", "bob", "cid")
    world.verifiers(*(f"verifier {number}" for number in range(18)))
    world.starts()
    world.all_commit()
    world.draws()
    world.votes("ann", REJECT_STATE, is_opened=False)
    convicts_auditor(world, 0, "ann")
    world.comes_to((world.state.rounds[0].closed or 0) + 10)
    world.votes("ann", REJECT_STATE, rank=1, is_opened=False)
    convicts_auditor(world, 0, "ann", rank=1)
    world.votes("ann", ACCEPT, rank=2)
    accept_rest(world, 0, "bob", "cid")
    world.posts_late()
    world.winds_down()
    world.passes_duties()
    world.all_settle()
    assert world.get_credit("ann") == 100, "an honest solver whom two proven liars robbed"
    world.ends()
    return world


@PLAYS.add
def a_second_fall_owes_nothing_twice() -> World:
    """Posted again, it falls again: the later rounds are undone already."""
    world = make_signed("a second fall owes nothing twice", "ann", "bob")
    world.all_accept()
    world.posts()
    fells(world, 0)
    world.posts(signers=["cid"])
    fells(world, 0)
    assert world.state.falls[1].owed == 0
    world.stands_after_fall()
    world.ends()
    return world


@PLAYS.add
def a_rejected_claim_is_not_made_good() -> World:
    """It gets nothing of what is held for another one, though it settles first."""
    world = make_signed("a rejected claim is not made good", "ann", "bob")
    for rank in (0, 1):
        world.votes("ann", REJECT_STATE, rank=rank, is_opened=False)
    accept_rest(world, 1, "cid")
    fells(world, 0)
    world.stands_after_fall()
    world.ends()
    return world


@PLAYS.add
def a_restored_claim_is_not_made_good_again() -> World:
    """A late REJECT took its pay, its slash paid it; the round is undone afterwards and owes it nothing."""
    world = make_signed("a restored claim is not made good again", "ann", "bob", **LATE)
    world.all_accept()
    world.posts()
    world.all_commit()
    world.draws()
    for rank in (0, 1):
        world.votes("cid", REJECT_STATE, index=1, draw=2, rank=rank, is_opened=False)
    convicts_auditor(world, 1, "cid", draw=2)
    assert world.get_credit("cid") == 100
    fells(world, 0)
    assert world.state.vault.get_wei(RESTITUTION) == 0
    world.stands_after_fall()
    world.ends()
    return world


@PLAYS.add
def an_undone_round_pays_its_auditors() -> World:
    """There auditors keep pay and fees, solvers have neither."""
    world = make_signed("an undone round pays its auditors", "ann", "bob")
    for rank in (0, 1):
        world.votes("cid", UNSERVED, rank=rank, is_opened=False)
    world.votes("ann", ACCEPT)
    fells(world, 0)
    world.stands_after_fall()
    world.ends()
    return world


@PLAYS.add
def an_earlier_fall_owes_what_is_left() -> World:
    """Round 1 falls and undoes round 2; then round 0 falls, and owes for round 1 alone."""
    world = make_signed("an earlier fall owes what is left", "ann", "bob")
    world.all_accept()
    world.posts(signers=["ann", "bob"])
    world.plays_round()
    zoe = world.anybody("zoe")
    first, second = zoe.contests(1), zoe.contests(0)
    world.passes(11)
    zoe.ends_contest(first)
    zoe.ends_contest(second)
    assert [(fall.owed, fall.held) for fall in world.state.falls] == [(100, 100), (100, 100)], "cid's rounds"
    world.stands_after_fall()
    world.ends()
    return world


@PLAYS.add
def slots_are_not_numbers() -> World:
    """A seat left, so that slots and seat numbers part: who is made good is found by its number."""
    world = World("slots are not numbers", rounds=6, solver_seats=6)
    world.solvers("ann", "bob", "cid", "dan", "eve")
    world.verifiers("vic", "wil", "xia")
    world.starts()
    world.anybody("ann").leaves()
    world.plays_round()
    world.plays_round()
    world.all_commit()
    world.draws()
    world.all_accept()
    world.posts(signers=["bob", "cid", "dan"])
    world.plays_round()
    fells(world, 2)
    world.stands_after_fall()
    world.ends()
    return world


@PLAYS.add
def a_false_reject_of_an_undone_round() -> World:
    """What a slash pays there the escrow loses at once: settlement would burn nothing of a void claim."""
    world = make_signed("a false reject of an undone round", "ann", "bob")
    for rank in (0, 1):
        world.votes("cid", REJECT_STATE, rank=rank, is_opened=False)
    fells(world, 0)
    world.stands_after_fall()
    convicts_auditor(world, 1, "cid")
    assert world.get_credit("cid") == 100
    world.ends()
    return world


# Of seats that are gone, and of votes of others
LONG = {"respond": 100, "dispute": 800}


def make_lost(name: str, fault: str = "", **changes: Any) -> World:
    """Returns a task in which two false REJECTs took ann's pay, with long windows."""
    world = World(name, **{"windows": LONG, **changes})
    world.solvers("ann", "bob", "cid")
    world.verifiers("vic", "wil", "xia")
    world.starts()
    world.anybody("ann").commits(fault=fault)
    for other in ("bob", "cid"):
        world.anybody(other).commits()
    world.draws()
    for rank in (0, 1):
        world.votes("ann", REJECT_STATE, rank=rank, is_opened=False)
    accept_rest(world, 0, "bob", "cid")
    return world


def convicts_late(world: World, claimant: str, index: int, *leaving: str) -> None:
    """An auditor of a claim is disputed in the last block, and silent. Meanwhile these solvers settle and are
    paid out."""
    world.comes_to((world.state.rounds[index].closed or 0) + 800)
    zoe = world.anybody("zoe")
    dispute = zoe.disputes(make_place(world, index, claimant))
    world.passes_duties()
    for name in leaving:
        world.settles(name, world.state.next_round - 1)
        zoe.pays_out(name)
    world.comes_to(world.disputes[dispute].clock + 1)
    zoe.ends_dispute(dispute)


@PLAYS.add
def a_solver_that_has_gone_is_paid_back() -> World:
    """It has settled, and its stake is paid out; then the auditor is convicted that took its pay."""
    world = make_lost("a solver that has gone is paid back")
    world.posts()
    world.winds_down()
    before = world.get_stake("ann")
    convicts_late(world, "ann", 0, "ann", "bob")
    assert world.find_seat("ann") is None
    assert world.get_credit("ann") == before - 60 + 100, "its stake less a fee of round 1, and the pay"
    world.ends()
    return world


@PLAYS.add
def a_convict_that_has_gone_is_not_paid_back() -> World:
    """It stays convicted as the last holder of its number, and nobody else is paid in its place."""
    world = make_lost("a convict that has gone is not paid back", "start")
    zoe = world.anybody("zoe")
    zoe.convicts(make_place(world, 0, "ann", draw=None), ProofKind.BOUNDARY_ZERO)
    world.posts()
    world.winds_down()
    convicts_late(world, "ann", 0, "ann", "bob")
    assert world.get_credit("ann") == 0
    world.ends()
    return world


@PLAYS.add
def a_slash_after_settlement_burns_the_pay_once() -> World:
    """Settlement has burned the pay of a void claim of a round that stands."""
    world = make_lost("a slash after settlement burns the pay once")
    world.posts()
    world.winds_down()
    convicts_late(world, "ann", 0, "ann")
    assert world.state.vault.get_wei(BURNED) > 0
    world.ends()
    return world


@PLAYS.add
def a_slash_of_an_undone_round_burns_the_pay_too() -> World:
    """There settlement burned nothing of it: the escrow loses at once what the slash pays."""
    world = make_signed("a slash of an undone round burns the pay too", "ann", "bob", windows=LONG)
    for rank in (0, 1):
        world.votes("cid", REJECT_STATE, rank=rank, is_opened=False)
    fells_late(world, 0)
    world.stands_after_fall()
    world.submitter.halts()
    escrow = world.state.vault.get_wei(ESCROW)
    convicts_late(world, "cid", 1, "cid")
    assert world.state.vault.get_wei(ESCROW) < escrow
    world.ends()
    return world


def fells_late(world: World, index: int) -> None:
    """A root falls: nobody answers its contest, in a task of long windows."""
    contest = world.anybody("zoe").contests(index)
    world.passes(101)
    world.anybody("zoe").ends_contest(contest)


@PLAYS.add
def a_false_word_of_another_seat_restores_nothing() -> World:
    """A REJECT counted that another auditor was drawn for; who signed one like it pays nobody back."""
    world = make_lost("a false word of another seat restores nothing")
    zoe, other = world.anybody("zoe"), world.get_auditor(0, "ann", rank=1)
    ref = make_place(world, 0, "ann")
    votes = [world.proofs.vote(ref, word, by=other.name) for word in (ACCEPT, REJECT_STATE)]
    zoe.convicts(ref, ProofKind.TWO_STATEMENTS, world.proofs.pair("proveTwoVotes", *votes), signer=other.seat)
    assert world.get_credit("ann") == 0
    convicts_auditor(world, 0, "ann")
    assert world.get_credit("ann") == 100
    return world


@PLAYS.add
def modules_alone_move_stakes_and_rounds() -> World:
    """Nobody but `Game` convicts, fells a root or undoes a round."""
    world = make_running("modules alone move stakes and rounds")
    seat, zoe = world.get_seat("ann").number, world.get_party("zoe").address
    ref = (0, 0, (1 << 32) - 1, 0)
    punish = ("Settlement", "punish", world.task, seat, zoe, int(ProofKind.DISPUTED), ref)
    moves: tuple[ContractCall, ...] = (
        punish,
        ("Settlement", "fall", world.task, 0, zoe),
        ("Rounds", "fall", world.task, 0, 0),
    )
    for made in moves:
        world.send_refused("NotModule", "zoe", *made)
    wrong = zip(("Contests", "Queries", "Settlement"), moves, strict=True)
    for module, made in wrong:
        world.send_refused("NotModule", module, *made)
    return world
