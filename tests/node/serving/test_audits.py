"""What the other rooms are told of audits."""

from dataclasses import replace
from pathlib import Path

from tests.verifier.stage import Node, Twist, make_solver, make_stage
from touchstone.protocol.spec.game.enums import RoundPhase
from touchstone.protocol.spec.game.state import StatementRef
from touchstone.verifier.replaying import audit


async def test_a_dispute_is_told_what_a_replay_found_and_what_was_shown(tmp_path: Path) -> None:
    segment = make_stage().get_drawn().segment
    stage = make_stage(Twist(boundary=segment + 1, element=700))
    claim, auditor = stage.claim, Node(stage, stage.find_auditor(), tmp_path / "auditor")
    async with make_solver(stage, tmp_path).run() as solver, auditor.run():
        assert list(auditor.audits.known.list_replays(0)) == []
        vote = await audit(auditor.room, stage.get_drawn())
        seals = list(solver.audits.known.list_seals(0))
    [replay] = auditor.audits.known.list_replays(0)
    made = auditor.room.book.seals[stage.get_drawn().place]
    assert replay.ref == StatementRef(0, stage.slot, 0, 0) and replay.segment == segment
    assert (replay.start, replay.claimed_end) == tuple(
        claim.open_boundary(0, boundary) for boundary in (segment, segment + 1)
    )
    assert (replay.own_end, replay.excess_leaf, replay.seal_salt) == (made.own_end, 700 // 256, made.salt)
    assert [(known.said, known.auditor) for known in seals] == [(made.sealed, auditor.account)]
    [known] = auditor.audits.known.list_votes(0)
    assert (known.vote, known.auditor) == (vote, auditor.account) and known.opening is not None
    works = auditor.audits.known.list_works()
    assert {root: vars(work) for root, work in works.items()} == {claim.root: vars(claim.open_work(0))}
    assert auditor.audits.known.list_works() is works, "any account's request asks for it: it is made once"
    shown = auditor.audits.known.get_openings(0, stage.slot)
    assert shown.boundaries == {b: claim.open_boundary(0, b) for b in (0, segment, segment + 1)}
    assert vars(shown.work) == vars(claim.open_work(0)) and shown.last == claim.open_boundary(0, 4)
    assert auditor.audits.known.get_openings(0, 1 - stage.slot).work is None
    assert not list(auditor.audits.known.list_replays(1)) and not list(auditor.audits.known.list_votes(1))
    state = stage.world.state
    solver_seat = state.rounds[0].claims[stage.slot].seat
    paid_out = {number: seat for number, seat in state.seats.items() if number != solver_seat}
    undone = {0: replace(state.rounds[0], phase=RoundPhase.UNDONE)}
    for later in (replace(state, seats=paid_out), replace(state, rounds=undone)):
        stage.world.state = later
        assert list(auditor.audits.known.list_replays(0)) == [replay], (
            "it can be disputed still, and answered"
        )
        assert list(auditor.audits.known.list_votes(0)) == [known]
