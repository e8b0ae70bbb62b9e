"""What a solver shows, to whom, and in which order: nobody sees an end before its own seal."""

import asyncio
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.protocol.spec.game.simulation import make_word
from tests.verifier.stage import (
    STRANGER,
    TASK,
    VERIFIERS,
    Node,
    Stage,
    Twist,
    get_account,
    list_keys,
    make_solver,
    make_stage,
    refer_claimed_delta,
)
from touchstone.node.records.audit_records import make_sealed
from touchstone.node.serving import audit_serving
from touchstone.node.serving.audit_messages import (
    PUBLIC,
    SEAL,
    START,
    AskStart,
    EndShown,
    PlaceSaid,
    SealHanded,
    SegmentAsked,
    SegmentShown,
    StartShown,
    format_sealed,
    make_form,
)
from touchstone.protocol.adapters.store.blobs import BlobKind, BlobRef, refer_state
from touchstone.protocol.spec.errors import EnvironmentFault
from touchstone.protocol.spec.game.audit_deadlines import get_heard_until
from touchstone.protocol.spec.game.drawn_audits import AuditPlace, DrawnAudit
from touchstone.protocol.spec.game.enums import RoundPhase
from touchstone.protocol.spec.game.timing import REORG_BLOCKS, compute_draw_window
from touchstone.protocol.spec.params import ZERO_WORD
from touchstone.protocol.spec.statements import Sealed
from touchstone.verifier.replaying import audit


async def ask_start(node: Node, solver: Node, place: AuditPlace) -> StartShown:
    asked = AskStart(PlaceSaid(**vars(place)))
    peer = node.stage.find_peer(solver.account)
    return await node.client.ask(peer, START, asked, make_form(StartShown))


async def hand_seal(node: Node, solver: Node, sealed: Sealed, signature: bytes | None = None) -> EndShown:
    handed = SealHanded(format_sealed(sealed), signature or await node.room.sign(sealed))
    return await node.client.ask(node.stage.find_peer(solver.account), SEAL, handed, make_form(EndShown))


def make_seal(stage: Stage, drawn: DrawnAudit, seal: bytes = make_word("seal"), **changes: Any) -> Sealed:
    leaf = stage.claim.levels[0][drawn.segment]
    return replace(make_sealed(drawn.place, drawn.segment, leaf, seal), **changes)


async def can_read(node: Node, solver: Node, ref: BlobRef) -> bool:
    try:
        await node.client.fetch(node.stage.find_peer(solver.account), ref)
    except EnvironmentFault:
        return False
    node.store.delete(ref.key)
    return True


async def list_readable(node: Node, solver: Node) -> set[int]:
    """Boundaries of which a node may fetch a state; 9 stands for the final weights."""
    claim = node.stage.claim
    found = {b for b in range(5) if await can_read(node, solver, list(list_keys(claim, b))[1])}
    return found | ({9} if await can_read(node, solver, list(list_keys(claim, 4))[0]) else set())


async def test_the_start_then_the_seal_then_the_end(tmp_path: Path) -> None:
    stage = make_stage()
    drawn = stage.get_drawn()
    auditor = Node(stage, stage.find_auditor(), tmp_path / "auditor")
    async with make_solver(stage, tmp_path).run() as solver, auditor.run():
        assert await list_readable(auditor, solver) == set()
        shown = await ask_start(auditor, solver, drawn.place)
        assert shown.start.read().header == stage.claim.headers[drawn.segment]
        assert await list_readable(auditor, solver) == {drawn.segment} - {0} | (
            {0} if drawn.segment == 0 else set()
        )
        ends = await hand_seal(auditor, solver, make_seal(stage, drawn))
        assert ends.last.read().header == stage.claim.headers[4]
        assert await list_readable(auditor, solver) == {drawn.segment, drawn.segment + 1, 9}
        assert solver.room.book.taken_seals[drawn.place].sealed == make_seal(stage, drawn)


async def test_another_auditors_seal_opens_nothing_for_this_one(tmp_path: Path) -> None:
    stage = make_stage()
    primary, reserve = stage.get_drawn(0), stage.get_drawn(1)
    one = Node(stage, stage.find_auditor(0), tmp_path / "one")
    two = Node(stage, stage.find_auditor(1), tmp_path / "two")
    async with make_solver(stage, tmp_path).run() as solver, one.run(), two.run():
        await ask_start(one, solver, primary.place)
        await ask_start(two, solver, reserve.place)
        await hand_seal(one, solver, make_seal(stage, primary))
        assert await list_readable(one, solver) >= {primary.segment + 1}
        assert await list_readable(two, solver) == {reserve.segment}
        # Nor does the primary's seal, handed in by the reserve as its own.
        for sealed in (make_seal(stage, primary), make_seal(stage, reserve)):
            with pytest.raises(EnvironmentFault):
                await hand_seal(two, solver, sealed, await one.room.sign(sealed))
        assert await list_readable(two, solver) == {reserve.segment}


@pytest.mark.parametrize("who", ["stranger", "member"])
async def test_who_is_not_drawn_gets_nothing(tmp_path: Path, who: str) -> None:
    stage = make_stage()
    drawn = [stage.get_drawn(rank).seat.account for rank in range(3)]
    members = [seed for seed in VERIFIERS if get_account(seed) not in drawn]
    node = Node(stage, STRANGER if who == "stranger" else members[0], tmp_path / "node")
    async with make_solver(stage, tmp_path).run() as solver, node.run():
        for rank in range(3):
            audit = stage.get_drawn(rank)
            with pytest.raises(EnvironmentFault, match="not served to you"):
                await ask_start(node, solver, audit.place)
            with pytest.raises(EnvironmentFault, match="not served to you"):
                await hand_seal(node, solver, make_seal(stage, audit))
        assert await list_readable(node, solver) == set()
        assert await can_read(node, solver, refer_claimed_delta(stage.claim)), "it is for everybody"
        assert not solver.room.book.taken_seals


async def test_a_seal_must_be_signed_first_and_of_the_segment(tmp_path: Path) -> None:
    stage = make_stage()
    drawn = stage.get_drawn()
    auditor = Node(stage, stage.find_auditor(), tmp_path / "auditor")
    other = Node(stage, STRANGER, tmp_path / "other")
    right = make_seal(stage, drawn)
    wrong = [
        make_seal(stage, drawn, segment=(drawn.segment + 1) % 4),
        make_seal(stage, drawn, start_leaf=make_word("leaf")),
        make_seal(stage, drawn, seal=ZERO_WORD),
    ]
    async with make_solver(stage, tmp_path).run() as solver, auditor.run():
        for sealed in wrong:
            with pytest.raises(EnvironmentFault, match="not of this segment"):
                await hand_seal(auditor, solver, sealed)
        for signature in (await other.room.sign(right), bytes(64)):
            with pytest.raises(EnvironmentFault, match="400"):
                await hand_seal(auditor, solver, right, signature)
        assert not solver.room.book.taken_seals and await list_readable(auditor, solver) == set()
    other.journal.close()


async def test_a_second_seal_is_refused_and_kept_once_as_evidence(tmp_path: Path) -> None:
    stage = make_stage()
    drawn = stage.get_drawn()
    auditor = Node(stage, stage.find_auditor(), tmp_path / "auditor")
    async with make_solver(stage, tmp_path).run() as solver, auditor.run():
        await hand_seal(auditor, solver, make_seal(stage, drawn))
        for number in range(3):
            with pytest.raises(EnvironmentFault, match="another seal of the same draw"):
                await hand_seal(auditor, solver, make_seal(stage, drawn, seal=make_word("other", number)))
        await hand_seal(auditor, solver, make_seal(stage, drawn))
        seals = [known.said.seal for known in solver.audits.known.list_seals(0)]
        assert seals == [make_word("seal"), make_word("other", 0)]
        assert len(list(solver.journal.replay())) == 2


async def test_another_chain_is_not_served(tmp_path: Path) -> None:
    stage = make_stage()
    place = stage.get_drawn().place
    auditor = Node(stage, stage.find_auditor(), tmp_path / "auditor")
    others = {"domain": make_word("d"), "seed": make_word("s"), "claim_root": make_word("c")}
    async with make_solver(stage, tmp_path).run() as solver, auditor.run():
        for name, value in {**others, "base_root": make_word("b"), "rank": 1, "draw": 1}.items():
            change: dict[str, Any] = {name: value}
            with pytest.raises(EnvironmentFault, match="not served to you"):
                await ask_start(auditor, solver, replace(place, **change))
        stage.world.jump(get_heard_until(stage.game, place) + 1)
        with pytest.raises(EnvironmentFault, match="can still be voted on"):
            await ask_start(auditor, solver, place)


async def test_one_exchange_at_a_time(tmp_path: Path) -> None:
    stage = make_stage()
    drawn = stage.get_drawn()
    auditor = Node(stage, stage.find_auditor(), tmp_path / "auditor")
    async with make_solver(stage, tmp_path).run() as solver, auditor.run():
        async with solver.room.locks[drawn.place]:
            with pytest.raises(EnvironmentFault, match="one request for an audit"):
                await ask_start(auditor, solver, drawn.place)
        await asyncio.gather(ask_start(auditor, solver, drawn.place))


async def test_only_tensors_are_shown_in_an_audit(tmp_path: Path) -> None:
    stage = make_stage()
    solver = make_solver(stage, tmp_path)
    account, root = stage.get_drawn().seat.account, stage.claim.headers[1].weights_root
    solver.room.grants[0] = {(account, root)}
    assert solver.audits.may_read(account, BlobKind.TENSOR, root)
    assert not solver.audits.may_read(account, BlobKind.TRACE_1024, root)
    assert not solver.audits.may_read(get_account(STRANGER), BlobKind.TENSOR, root)
    solver.journal.close()


# Once the audits are over
async def ask_segment(node: Node, peer: Node, segment: int, **changes: Any) -> SegmentShown:
    asked = SegmentAsked(**{"task": TASK, "round": 0, "slot": node.stage.slot, "segment": segment, **changes})
    address = node.stage.find_peer(peer.account)
    return await node.client.ask(address, PUBLIC, asked, make_form(SegmentShown))


async def test_any_account_reads_both_ends_once_no_vote_counts_any_more(tmp_path: Path) -> None:
    """In the last block that votes may still come into it reads none of it, whatever the round has come
    to."""
    stage = make_stage()
    segment = stage.get_drawn().segment
    stranger = Node(stage, STRANGER, tmp_path / "stranger")
    async with make_solver(stage, tmp_path).run() as solver, stranger.run():
        stage.settle()
        with pytest.raises(EnvironmentFault, match="no vote counts any more"):
            await ask_segment(stranger, solver, segment)
        assert await list_readable(stranger, solver) == set()
        stage.world.jump(stage.head + 1)
        shown = await ask_segment(stranger, solver, segment)
        found = [one.read().header for one in (shown.first, shown.start, shown.end)]
        assert found == [stage.claim.headers[one] for one in (0, segment, segment + 1)]
        assert await list_readable(stranger, solver) == {0, 1, 2, 3, 4, 9}


@pytest.mark.parametrize("phase", [phase for phase in RoundPhase if phase != RoundPhase.POSTED])
async def test_of_a_round_without_a_standing_root_nothing_is_read(tmp_path: Path, phase: RoundPhase) -> None:
    stage = make_stage()
    stranger = Node(stage, STRANGER, tmp_path / "stranger")
    async with make_solver(stage, tmp_path).run() as solver, stranger.run():
        stage.settle(phase)
        stage.world.block += 1_000
        for segment in range(4):
            with pytest.raises(EnvironmentFault, match="a posted round"):
                await ask_segment(stranger, solver, segment)
        assert await list_readable(stranger, solver) == set()


async def test_what_is_audited_late_is_secret_for_longer(tmp_path: Path) -> None:
    """So is the segment behind it, which starts where it ends. A whistleblower's other account would read
    there what it has to seal."""
    stage = make_stage(is_late=True)
    stranger = Node(stage, STRANGER, tmp_path / "stranger")
    async with make_solver(stage, tmp_path).run() as solver, stranger.run():
        stage.settle()
        stage.world.jump(stage.head + 1)
        state, drawn = stage.world.state, stage.get_drawn().segment
        assert await list_readable(stranger, solver) == {0, drawn + 1} | ({9} if drawn == 3 else set())
        late_from = stage.head
        seeded = replace(
            state.rounds[0], late_seed=make_word("l"), late_slots=frozenset({stage.slot}), late_from=late_from
        )
        stage.world.state = replace(state, rounds={0: seeded})
        # Another block may come in place of the one that decided the draw.
        known = compute_draw_window(state, late_from)[0] + REORG_BLOCKS
        stage.world.jump(known - 1)
        assert await list_readable(stranger, solver) == {0, drawn + 1} | ({9} if drawn == 3 else set())
        stage.world.jump(known)
        late = stage.get_drawn(draw=state.terms.draws).segment
        secret = {late + 1} | ({9} if late == 3 else set())
        assert await list_readable(stranger, solver) == {0, 1, 2, 3, 4, 9} - secret
        for segment in (late, late + 1):
            with pytest.raises(EnvironmentFault, match="no vote counts any more"):
                await ask_segment(stranger, solver, segment)
        stage.world.jump(late_from + 2 * state.terms.windows.audit_max + REORG_BLOCKS - 1)
        assert await list_readable(stranger, solver) == {0, 1, 2, 3, 4, 9} - secret
        stage.world.jump(stage.head + 1)
        assert await list_readable(stranger, solver) == {0, 1, 2, 3, 4, 9}


async def test_an_auditor_shows_what_the_claim_says_and_nothing_of_its_own(tmp_path: Path) -> None:
    """Its solver may have pruned it."""
    stage = make_stage(Twist(boundary=make_stage().get_drawn().segment + 1))
    drawn = stage.get_drawn()
    auditor = Node(stage, stage.find_auditor(), tmp_path / "auditor")
    stranger = Node(stage, STRANGER, tmp_path / "stranger")
    async with auditor.run(), stranger.run():
        async with make_solver(stage, tmp_path).run():
            await audit(auditor.room, drawn)
        stage.settle()
        assert await list_readable(stranger, auditor) == set()
        stage.world.jump(stage.head + 1)
        shown = await ask_segment(stranger, auditor, drawn.segment)
        assert shown.end.read().header == stage.claim.headers[drawn.segment + 1]
        assert await list_readable(stranger, auditor) == {0, drawn.segment, drawn.segment + 1} - (
            set() if drawn.segment == 0 else {0}
        )
        [made] = auditor.room.book.list_seals(0)
        own = refer_state(made.own_end, auditor.room.about.parameter_count)
        assert made.own_end != shown.end.read().header and not await can_read(stranger, auditor, own[0])
        with pytest.raises(EnvironmentFault, match="a claim of this node, or an audit by it"):
            await ask_segment(stranger, auditor, (drawn.segment + 1) % 4)


async def test_a_segment_that_is_none_is_not_opened(tmp_path: Path) -> None:
    stage = make_stage()
    stranger = Node(stage, STRANGER, tmp_path / "stranger")
    async with make_solver(stage, tmp_path).run() as solver, stranger.run():
        stage.settle()
        stage.world.jump(stage.head + 1)
        wrong: list[dict[str, Any]] = [
            {"task": make_word("other")},
            {"round": 1},
            {"slot": 7},
            {"segment": 4},
        ]
        for changes in wrong:
            with pytest.raises(EnvironmentFault, match="not served to you"):
                await ask_segment(stranger, solver, **{"segment": 0, **changes})
        async with solver.room.showing:
            with pytest.raises(EnvironmentFault, match="one request for a segment"):
                await ask_segment(stranger, solver, 0)
        assert await ask_segment(stranger, solver, 3)


async def test_a_request_looks_at_no_boundary_that_lacks_the_tensor(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Any account may ask fifty times a second, and a request is answered by the thread that serves all
    peers: it does not go through each boundary of a claim and each audit of the node."""
    stage, looks = make_stage(), Counter[str]()
    auditor = Node(stage, stage.find_auditor(), tmp_path / "auditor")
    async with auditor.run(), make_solver(stage, tmp_path).run() as solver:
        await audit(auditor.room, stage.get_drawn())
        stage.settle()
        stage.world.jump(stage.head + 100)
        segment = stage.get_drawn().segment
        for node in (solver, auditor):
            assert node.audits.may_read("", BlobKind.TENSOR, stage.claim.headers[segment].weights_root)
        for name in ("find_stated", "is_boundary_public", "_list_roots"):
            usual = getattr(audit_serving, name)

            def count(*arguments: Any, name: str = name, usual: Any = usual) -> Any:
                looks[name] += 1
                return usual(*arguments)

            monkeypatch.setattr(audit_serving, name, count)
        for number in range(20):
            for node in (solver, auditor):
                assert not node.audits.may_read("", BlobKind.TENSOR, make_word("guess", number))
        assert looks == Counter()
        assert auditor.audits.may_read("", BlobKind.TENSOR, stage.claim.headers[segment].weights_root)
        assert looks == {"find_stated": 1, "is_boundary_public": 1}


async def test_what_is_audited_after_a_stranger_has_asked_is_shown_as_well(tmp_path: Path) -> None:
    stage = make_stage()
    drawn = stage.get_drawn()
    auditor = Node(stage, stage.find_auditor(), tmp_path / "auditor")
    root = stage.claim.headers[drawn.segment + 1].weights_root
    async with auditor.run(), make_solver(stage, tmp_path).run():
        state, head = stage.world.state, stage.head
        stage.settle()
        stage.world.jump(stage.head + 100)
        assert not auditor.audits.may_read("", BlobKind.TENSOR, root), "it has not audited yet"
        stage.world.state, stage.world.block = state, head
        await audit(auditor.room, drawn)
        stage.settle()
        stage.world.jump(stage.head + 100)
        assert auditor.audits.may_read("", BlobKind.TENSOR, root)
        stage.world.state = replace(stage.world.state, rounds={})
        assert not auditor.audits.may_read("", BlobKind.TENSOR, root) and not auditor.room.root_indexes
