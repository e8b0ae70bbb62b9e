"""Anybody audits without a seat, by the same rules: what a stranger finds, and what it says no to."""

from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tests.verifier.stage import (
    HONEST,
    STRANGER,
    Node,
    Stage,
    Twist,
    get_base,
    get_task,
    make_solver,
    make_stage,
)
from tests.verifier.stage import TASK as AUDITED
from touchstone.node.kit.config import hold_folder
from touchstone.node.kit.states import StateStore
from touchstone.node.models.global_model import AskWork, WorkSaid
from touchstone.protocol.adapters.reports.node_state import SPARE_DISK_BYTES
from touchstone.protocol.adapters.store.blob_store import BlobStore
from touchstone.protocol.adapters.store.blobs import BlobKind
from touchstone.protocol.adapters.wire.peer import Peer
from touchstone.protocol.spec.commitments import compute_outer_root
from touchstone.protocol.spec.errors import EnvironmentFault, InvalidInput, ProtocolFault
from touchstone.protocol.spec.game.drawn_audits import AuditPlace
from touchstone.protocol.spec.game.enums import RoundPhase
from touchstone.protocol.spec.params import FORMAT_NUMBERS
from touchstone.protocol.spec.statements import VoteWord
from touchstone.protocol.spec.training_codec import encode_training
from touchstone.verifier import seatless_audit
from touchstone.verifier.judging import carry_nothing, find_carried
from touchstone.verifier.seatless_audit import Place, Replayed, SeatlessAudit, require_public


def begin(stage: Stage, node: Node, segment: int, initial: bytes | None = None) -> SeatlessAudit:
    """A stranger's audit on what the stage has. initial: the weights that the task says to begin with."""
    base, about = get_base(stage.spec), get_task(stage.spec)
    terms = SimpleNamespace(initial_weights_root=initial or base.weights_root, zero_root=base.momentum_root)
    state = SimpleNamespace(task_terms={AUDITED: terms}, head_block=stage.head)
    reader = SimpleNamespace(account=node.account, store=node.store, client=node.client, state=state)
    place = Place(AUDITED, 0, stage.slot, segment)
    states, peers = StateStore(node.store, about.parameter_count), list(stage.peers.values())
    game = stage.game
    return SeatlessAudit(
        cast(Any, reader), about, states, game, game.rounds[0], place, peers, node.lines.append
    )


async def get_view(
    tmp_path: Path, twist: Twist, segment: int, *, is_exact: bool = False
) -> tuple[Replayed, Node]:
    """What a stranger finds in a segment of a claim, and the stranger."""
    stage = make_stage(twist, is_exact=is_exact)
    stranger = Node(stage, STRANGER, tmp_path / "stranger")
    async with make_solver(stage, tmp_path).run(), stranger.run():
        stage.peers.pop(stranger.account)
        stage.settle()
        stage.world.jump(stage.head + 1)
        return await seatless_audit.compare(begin(stage, stranger, segment)), stranger


@pytest.mark.parametrize("segment", range(4))
@pytest.mark.parametrize("is_exact", [False, True])
async def test_a_stranger_accepts_what_was_trained(tmp_path: Path, segment: int, is_exact: bool) -> None:
    """This machine is the solver's: the ends are equal."""
    found, stranger = await get_view(tmp_path, HONEST, segment, is_exact=is_exact)
    assert (found.word, found.distances, found.own_end) == (VoteWord.ACCEPT, (), found.claimed_end)
    assert [line for line in stranger.lines if "replaying: step 2 of 2" in line], "it says how far it is"


async def test_a_stranger_measures_what_lies_inside_the_limits(tmp_path: Path) -> None:
    found, _ = await get_view(tmp_path, Twist(boundary=2, amount=4e-7), 1)
    assert found.word == VoteWord.ACCEPT and found.own_end != found.claimed_end
    quantity, distance, limit = found.distances[2]
    assert quantity == "weights" and 0 < distance < limit
    assert [one[1] for one in found.distances[:2]] == [0.0, 0.0], "the weights alone were changed"


@pytest.mark.parametrize("is_exact", [False, True])
async def test_a_stranger_rejects_a_false_end_and_accepts_what_follows_it(
    tmp_path: Path, is_exact: bool
) -> None:
    """Of an exact task no end is fetched or measured: its root says all."""
    found, stranger = await get_view(tmp_path, Twist(boundary=2), 1, is_exact=is_exact)
    assert found.word == VoteWord.REJECT_STATE and found.own_end != found.claimed_end
    assert bool(found.distances) != is_exact
    if not is_exact:
        assert found.distances[2][1] > found.distances[2][2]
    after, _ = await get_view(tmp_path / "after", Twist(boundary=2), 2)
    assert after.word == VoteWord.ACCEPT


async def test_a_stranger_rejects_an_end_behind_a_start_from_which_steps_leave_the_numbers(
    tmp_path: Path,
) -> None:
    """The steps end in finite states, by a rule of programs, and these are others than the claimed one."""
    found, _ = await get_view(tmp_path, Twist(untrainable=1), 1)
    assert found.word == VoteWord.REJECT_STATE and found.own_end not in (None, found.claimed_end)


async def test_a_stranger_rejects_step_numbers_of_another_place(tmp_path: Path) -> None:
    found, _ = await get_view(tmp_path, Twist(steps=(1, 0, 1)), 1)
    assert found.word == VoteWord.REJECT_START
    found, _ = await get_view(tmp_path / "end", Twist(steps=(2, 0, 1)), 1)
    assert (found.word, found.distances) == (VoteWord.REJECT_STATE, ())


@pytest.mark.parametrize("segment", [0, 2])
async def test_a_stranger_rejects_a_claim_that_starts_from_moments_of_its_own(
    tmp_path: Path, segment: int
) -> None:
    """All of it was trained from there, and no segment ends elsewhere."""
    found, _ = await get_view(tmp_path, Twist(moment=0.1), segment)
    assert found.word == VoteWord.REJECT_START and found.own_end == found.claimed_end


async def test_a_stranger_rejects_a_claim_that_begins_with_the_number_of_another_round(
    tmp_path: Path,
) -> None:
    """Also where the segment that it looks at has the right numbers."""
    found, _ = await get_view(tmp_path, Twist(steps=(0, 0, 8)), 1)
    assert found.word == VoteWord.REJECT_START and found.own_end == found.claimed_end


async def test_what_a_claim_goes_on_from_is_what_the_one_before_it_hands_on(tmp_path: Path) -> None:
    """A peer proves that by the root of the earlier claim. Who says something else is not believed."""
    stage = make_stage()
    stranger = Node(stage, STRANGER, tmp_path / "stranger")
    async with stranger.run():
        stage.settle()
        audit = begin(stage, stranger, 0)
        first = replace(audit.game_round, merged=(stage.slot,))
        second, about = replace(first, index=1, merged=()), replace(audit.about, carry_moments=True)
        game = replace(audit.game, rounds={0: first, 1: second})
        place = replace(audit.place, round=1)
        audit = replace(audit, about=about, game=game, game_round=second, place=place)
        right = WorkSaid(**vars(stage.claim.open_work(0)))
        asked: list[object] = []

        async def answer(
            said: WorkSaid, peer: Peer, handler: str, question: object, form: object
        ) -> WorkSaid:
            asked.append((handler, question))
            return said

        def tell(said: WorkSaid) -> SeatlessAudit:
            client = SimpleNamespace(ask=partial(answer, said))
            return replace(audit, reader=cast(Any, SimpleNamespace(client=client)))

        async def find(audit: SeatlessAudit) -> bytes | None:
            """The carried root that a claim has to begin with, as peers tell."""
            where = (audit.game.terms.domain, audit.place.round, audit.game_round.base_root, b"")
            named = AuditPlace(*where, audit.place.slot, audit.claim.claim_root, 0, 0)
            ask = partial(seatless_audit._find_handed_on, audit)
            return await find_carried(audit.about, audit.game, named, ask)

        assert await find(tell(right)) == stage.claim.carried_root
        assert asked == [("work", AskWork(AUDITED, 0, stage.slot, stage.claim.root))]
        wrong = WorkSaid(right.delta_root, b"c" * 32, right.path)
        with pytest.raises(ProtocolFault, match="does not hold"):
            await find(tell(wrong))
        nothing = carry_nothing(about)
        alone = replace(tell(right), game=replace(game, rounds={0: replace(first, merged=()), 1: second}))
        assert await find(alone) == nothing != stage.claim.carried_root
        forgotten = replace(tell(right), game=replace(game, rounds={1: second}))
        assert await find(forgotten) is None
        anew = replace(tell(right), about=replace(about, carry_moments=False))
        assert await find(anew) == nothing


async def test_where_the_disk_has_too_little_room_nothing_is_fetched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A node of the same home writes its journal and its states to the same disk."""
    monkeypatch.setattr(BlobStore, "compute_free_bytes", lambda store: SPARE_DISK_BYTES)
    stage = make_stage()
    stranger = Node(stage, STRANGER, tmp_path / "stranger")
    async with make_solver(stage, tmp_path).run(), stranger.run():
        stage.settle()
        stage.world.jump(stage.head + 1)
        with pytest.raises(EnvironmentFault, match="the states of a replay"):
            await seatless_audit.compare(begin(stage, stranger, 1))
    assert not list((stranger.store.folder / BlobKind.TENSOR.value).iterdir())


async def test_a_stranger_judges_no_text_in_another_format_than_the_contract_has() -> None:
    stage = make_stage()
    stage.settle()
    stage.world.jump(stage.head + 1)
    terms = SimpleNamespace(**vars(stage.spec.terms), format=FORMAT_NUMBERS["exact15"])
    state = SimpleNamespace(
        games={AUDITED: stage.game}, task_terms={AUDITED: terms}, head_block=stage.head,
        texts={AUDITED: encode_training(stage.spec.training)},
    )  # fmt: skip
    reader, place = cast(Any, SimpleNamespace(state=state)), Place(AUDITED, 0, stage.slot, 0)
    with pytest.raises(InvalidInput, match="another numeric format"):
        await seatless_audit._open_audit(reader, cast(Any, None), place)


def test_what_a_killed_replay_left_is_gone_with_the_next(tmp_path: Path) -> None:
    """Gigabytes that a node of the same home would miss. What another replay still works with stays."""
    left = tmp_path / "replay-killed"
    (left / "blobs").mkdir(parents=True)
    (left / "blobs" / "state").write_bytes(b"x")
    (tmp_path / "journal.sqlite").touch()
    with hold_folder(tmp_path, "replay") as first:
        assert not left.exists() and first.is_dir() and first.parent == tmp_path
        with hold_folder(tmp_path, "replay") as second:
            assert first.is_dir() and second.is_dir() and first != second
        assert first.is_dir() and not second.exists()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["journal.sqlite", "replay.lock"]


async def test_a_stranger_rejects_a_claim_that_starts_from_another_model(tmp_path: Path) -> None:
    stage = make_stage()
    stranger = Node(stage, STRANGER, tmp_path / "stranger")
    async with make_solver(stage, tmp_path).run(), stranger.run():
        stage.settle()
        stage.world.jump(stage.head + 1)
        audit = begin(stage, stranger, 0)
        other = replace(get_base(), weights_root=b"w" * 32)
        based = replace(audit.game_round, base_root=compute_outer_root(other))
        audit = replace(begin(stage, stranger, 0, other.weights_root), game_round=based)
        assert (await seatless_audit.compare(audit)).word == VoteWord.REJECT_START


async def test_what_is_not_of_the_claim_is_refused(tmp_path: Path) -> None:
    """Another claim root on chain than the one that the node's answer leads to."""
    stage = make_stage()
    stranger = Node(stage, STRANGER, tmp_path / "stranger")
    async with make_solver(stage, tmp_path).run(), stranger.run():
        stage.settle()
        stage.world.jump(stage.head + 1)
        audit = begin(stage, stranger, 1)
        claim = replace(audit.claim, claim_root=b"c" * 32)
        other = replace(audit.game_round, claims={stage.slot: claim})
        with pytest.raises((EnvironmentFault, ProtocolFault), match="does not hold|not served"):
            await seatless_audit.compare(replace(audit, game_round=other))


def test_what_may_not_be_read_is_not_asked_for() -> None:
    stage = make_stage()
    place = Place(AUDITED, 0, stage.slot, 1)
    stage.settle()
    with pytest.raises(InvalidInput, match="not every account may read"):
        require_public(stage.game, place, stage.head + 1)
    assert require_public(stage.game, place, stage.head + 2).phase == RoundPhase.POSTED
    for changes in ({"round": 5}, {"slot": 7}, {"segment": 4}, {"segment": -1}):
        other: dict[str, Any] = changes
        with pytest.raises(InvalidInput, match="no segment of this number"):
            require_public(stage.game, replace(place, **other), stage.head + 2)
