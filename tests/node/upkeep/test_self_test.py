"""After an update: the same bits or others, found out before a dispute does."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.kit.nodes import TASK, change_tools, get_lines
from tests.node.merging.stage import DOMAIN
from tests.node.upkeep.test_pruning import list_due, list_here, open_solver
from touchstone.node.kit import config
from touchstone.node.kit.config import describe_machine
from touchstone.node.models.own_openings import open_boundary
from touchstone.node.records.audit_records import SealMade, make_sealed
from touchstone.node.records.claim_records import ClaimBoundaryReached, ClaimSaltsDrawn
from touchstone.node.records.compute import Compute
from touchstone.node.upkeep import self_test
from touchstone.node.upkeep.self_test import WARNING, SelfTest
from touchstone.protocol.adapters.machine.determinism_fingerprint import (
    FILE_NAME,
    DeterminismFingerprint,
    read_bits,
    write_bits,
)
from touchstone.protocol.compute.batches import WholeCorpus
from touchstone.protocol.compute.program.step import train_segment
from touchstone.protocol.spec.errors import EnvironmentFault
from touchstone.protocol.spec.game.drawn_audits import AuditPlace
from touchstone.scripts.roles.role_nodes import Member

NAME = TASK.hex()


def update_machine(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setattr(self_test, "describe_machine", lambda: name)


def differ(node: Member, is_other: Callable[[int], bool]) -> list[int]:
    """Let the machine compute other bits in these inner steps of a round; what it trained."""
    trained: list[int] = []

    def train(state: Any, spec: Any, batches: Any, step: int, steps: int) -> Any:
        trained.append(step)
        end, losses = train_segment(state, spec, batches, step, steps)
        moved = torch.nextafter(end.weights, torch.ones(1))
        return (replace(end, weights=moved) if is_other(step) else end), losses

    node.rooms.tools.cases.compute = Compute(train=train)
    return trained


def test_a_machine_is_described_by_what_decides_its_bits() -> None:
    text, kinds = describe_machine(), ("python", "numpy", "numba", "code", "cpu_capability", "threads")
    assert all(word in text for word in (*kinds, torch.__version__))


def test_another_version_of_the_program_is_another_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its kernels may add in another order. A process keeps to the version that it began with."""
    found: list[str] = []
    for number in (1, 1, 2):
        home = tmp_path / f"{len(found)}"
        for name in ("compute", "spec"):
            (home / name).mkdir(parents=True)
            (home / name / "kernels.py").write_text(f"version = {number}")
        monkeypatch.setattr(config, "CODE", home)
        found.append(describe_machine())
        (home / "spec" / "kernels.py").write_text("updated meanwhile")
        assert describe_machine() == found[-1]
    assert found[0] == found[1] != found[2]


async def test_the_same_machine_is_tested_once(tmp_path: Path) -> None:
    async with open_solver(tmp_path) as (_, node):
        trained = differ(node, lambda step: False)
        before = len(get_lines(node))
        await node.rooms.self_test.check_bits()
        assert trained and node.rooms.tools.pruning_memory.unlike_until == -1
        trained.clear()
        await node.rooms.self_test.check_bits()
        assert not trained and get_lines(node)[before:] == []


@pytest.mark.parametrize("first_other_step", [0, 1])
async def test_other_bits_are_said_and_remembered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, first_other_step: int
) -> None:
    """One step from the task's first weights tells, or the segment of a claim."""
    async with open_solver(tmp_path, is_pruned=False) as (_, node):
        await node.rooms.self_test.check_bits()
        update_machine(monkeypatch, "another torch")
        differ(node, lambda step: step >= first_other_step)
        await node.rooms.self_test.check_bits()
        assert get_lines(node)[-1] == WARNING and node.rooms.tools.pruning_memory.unlike_until == 0
        node.rooms.tools.pruning_memory.unlike_until = -1
        await node.rooms.self_test.check_bits()
        assert node.rooms.tools.pruning_memory.unlike_until == 0, "at the next start as well"
        for prune in list_due(node):
            await prune.perform(node.rooms.pruning)
        assert list_here(node) == [0, 1, 2, 3, 4], "nothing of a round that can be disputed goes"


async def test_an_update_that_keeps_the_bits_is_said_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_solver(tmp_path) as (_, node):
        await node.rooms.self_test.check_bits()
        update_machine(monkeypatch, "another torch")
        await node.rooms.self_test.check_bits()
        assert "same bits" in get_lines(node)[-1] and node.rooms.tools.pruning_memory.unlike_until == -1
        assert read_bits(node.config.home)[NAME].machine == "another torch"


async def test_without_a_claim_on_disk_the_step_of_the_last_run_tells(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_solver(tmp_path) as (_, node):
        await node.rooms.self_test.check_bits()
        node.rooms.tools.claims.works.clear()
        assert node.rooms.self_test.compute_known_segment() is None
        update_machine(monkeypatch, "another torch")
        differ(node, lambda step: True)
        await node.rooms.self_test.check_bits()
        assert get_lines(node)[-1] == WARNING


async def test_a_home_without_the_file_is_tested_by_its_claim(tmp_path: Path) -> None:
    async with open_solver(tmp_path) as (_, node):
        (node.config.home / FILE_NAME).write_text("{damaged")
        differ(node, lambda step: True)
        await node.rooms.self_test.check_bits()
        assert get_lines(node)[-1] == WARNING and node.rooms.tools.pruning_memory.unlike_until == 0


async def test_tasks_of_one_home_are_remembered_apart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_solver(tmp_path) as (_, node):
        home = node.config.home
        await node.rooms.self_test.check_bits()
        mine = read_bits(home)[NAME]
        other = DeterminismFingerprint("old", mine.step_root, 7)
        write_bits(home, {"other": other, NAME: mine})
        update_machine(monkeypatch, "another torch")
        await node.rooms.self_test.check_bits()
        assert read_bits(home) == {
            "other": other,
            NAME: DeterminismFingerprint("another torch", mine.step_root),
        }


async def test_who_brings_the_earlier_versions_back_is_not_warned_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_solver(tmp_path, is_pruned=False) as (_, node):
        await node.rooms.self_test.check_bits()
        update_machine(monkeypatch, "another torch")
        differ(node, lambda step: True)
        await node.rooms.self_test.check_bits()
        assert get_lines(node)[-1] == WARNING
        # The operator does what the warning says, before anything else was trained.
        monkeypatch.undo()
        node.rooms.tools.cases.compute = Compute()
        count = get_lines(node).count(WARNING)
        await node.rooms.self_test.check_bits()
        assert get_lines(node).count(WARNING) == count, "these are the bits of all statements"


async def test_what_was_stated_between_two_updates_is_kept_once_the_earlier_bits_are_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An operator tries a graphics card for some rounds. Back on the processor their claims cannot be
    computed again. Nothing of them is on disk by which a segment would tell."""
    async with open_solver(tmp_path, is_pruned=False) as (_, node):
        works = dict(node.rooms.tools.claims.works)
        node.rooms.tools.claims.works.clear()
        await node.rooms.self_test.check_bits()
        update_machine(monkeypatch, "a card")
        differ(node, lambda step: True)
        await node.rooms.self_test.check_bits()
        assert node.rooms.tools.pruning_memory.unlike_until == -1
        node.rooms.tools.claims.works.update(works)
        monkeypatch.setattr(SelfTest, "compute_known_segment", lambda room: None)
        update_machine(monkeypatch, describe_machine())
        node.rooms.tools.cases.compute = Compute()
        await node.rooms.self_test.check_bits()
        assert get_lines(node)[-1] == WARNING and node.rooms.tools.pruning_memory.unlike_until == 0


@pytest.mark.parametrize("is_data_served", [True, False])
async def test_a_claim_that_nobody_knows_is_trained_anew_with_other_bits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_data_served: bool
) -> None:
    """An update in the middle of a round: no machine comes to segments of which some have other bits, so a
    dispute about one would take the stake. What is on chain, or on its way there, stays as it is."""
    async with open_solver(tmp_path, is_pruned=False) as (_, node):
        await node.rooms.self_test.check_bits()
        claims, told = (
            node.rooms.tools.claims,
            node.rooms.tools.claims.works[next(iter(node.rooms.tools.claims.works))],
        )
        assert told.finished is not None
        kept, ahead = dict(told.boundaries), node.game.next_round
        for index, is_finished in ((0, False), (ahead, True), (ahead, False)):
            place = (TASK, index, bytes([index, is_finished] * 16))
            claims.write(ClaimSaltsDrawn(*place, told.salts))
            header = told.boundaries[0]
            roots = (header.weights_root, header.first_moment_root, header.second_moment_root)
            claims.write(ClaimBoundaryReached(*place, 0, *roots, header.local_step, header.global_step))
            if is_finished:
                claims.write(replace(told.finished, round=index, basis=place[2]))
        await node.rooms.self_test.check_bits()
        assert sum(bool(work.boundaries) for work in claims.works.values()) == 4, "the machine is the same"
        update_machine(monkeypatch, "another torch")
        if is_data_served:
            differ(node, lambda step: True)
        else:
            served = node.rooms.tools.corpus
            assert isinstance(served, WholeCorpus)
            change_tools(node, corpus=UnservedCorpus(served.tokens))
        await node.rooms.self_test.check_bits()
        assert [work.boundaries for work in claims.works.values() if work.boundaries] == [kept]
        again = [work for work in claims.works.values() if not work.boundaries and work.salts]
        assert len(again) == 3 and all(work.salts != told.salts and not work.finished for work in again)
        assert node.rooms.tools.pruning_memory.unlike_until == 0


async def test_a_claim_of_a_round_that_the_provider_does_not_show_yet_stays_as_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An update, a restart, and a provider that is behind. The claim seemed not to be told, so it got new
    salts: then nobody could open it, which costs the stake."""
    async with open_solver(tmp_path, is_pruned=False) as (stage, node):
        await node.rooms.self_test.check_bits()
        now, claims = stage.world.state, node.rooms.tools.claims
        (told,) = [work for work in claims.works.values() if work.finished]
        finished, salts = told.finished, told.salts

        async def catch_up() -> None:
            stage.world.state = now
            stage.sync()

        stage.world.state = replace(now, rounds={}, next_round=0)
        stage.sync()
        change_tools(node, catch_up=catch_up)
        update_machine(monkeypatch, "another torch")
        differ(node, lambda step: True)
        await node.rooms.self_test.check_bits()
        (told,) = [work for work in claims.works.values() if work.salts]
        assert (told.finished, told.salts) == (finished, salts)


async def test_an_auditor_is_tested_by_its_replay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A node without claims: its replay has moments that are not zero, the one known step has none."""
    async with open_solver(tmp_path, is_pruned=False) as (stage, node):
        start, end = open_boundary(node.get_view(), 0, 1), open_boundary(node.get_view(), 0, 2)
        one, slot = node.game.rounds[0], stage.get_slot(1)
        claim_root = one.claims[slot].claim_root
        place = AuditPlace(DOMAIN, 0, one.base_root, one.seed or b"", slot, claim_root, 0, 0)
        made = make_sealed(place, 1, b"l" * 32, b"h" * 32)
        book: Any = node.task.audits.room.book
        book._index(SealMade(TASK, made, b"s" * 32, open_boundary(node.get_view(), 0, 0), start, end.header))
        assert node.rooms.tools.states.has(start.header) and node.rooms.tools.states.has(end.header)
        node.rooms.tools.claims.works.clear()
        await node.rooms.self_test.check_bits()
        update_machine(monkeypatch, "another torch")
        differ(node, lambda step: step >= 1)
        await node.rooms.self_test.check_bits()
        assert get_lines(node)[-1] == WARNING, get_lines(node)[-1]


async def test_another_model_of_processor_is_another_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of the same kind of instructions: its caches decide how kernels cut up a product."""
    async with open_solver(tmp_path, is_pruned=False) as (_, node):
        await node.rooms.self_test.check_bits()
        count = len(get_lines(node))
        monkeypatch.setattr(config, "read_processor_model", lambda: "another model")
        await node.rooms.self_test.check_bits()
        assert len(get_lines(node)) == count + 1


@dataclass(frozen=True)
class UnservedCorpus(WholeCorpus):
    """A dataset that nobody serves any more."""

    async def prepare(self, starts: Sequence[int], length: int) -> None:
        raise EnvironmentFault(
            what="no peer serves a part of the dataset", expected="a peer", actual="none", remedy="Wait."
        )


async def test_data_that_nobody_serves_any_more_stops_no_seated_node(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The submitter is away, this node restarts on another torch: it must answer disputes all the same."""
    async with open_solver(tmp_path, is_pruned=False) as (_, node):
        await node.rooms.self_test.check_bits()
        update_machine(monkeypatch, "another torch")
        served = node.rooms.tools.corpus
        assert isinstance(served, WholeCorpus)
        change_tools(node, corpus=UnservedCorpus(served.tokens))
        await node.rooms.self_test.check_bits()
        assert "no peer serves" in get_lines(node)[-1]
        assert node.rooms.tools.pruning_memory.unlike_until == 0, (
            "until it is tested nothing is taken for computable"
        )
        # It is tested as soon as the data is there again.
        change_tools(node, corpus=served)
        await node.rooms.self_test.check_bits()
        assert "same bits" in get_lines(node)[-1] and node.rooms.tools.pruning_memory.unlike_until == -1


async def test_who_has_no_seat_yet_waits_for_the_data(tmp_path: Path) -> None:
    async with open_solver(tmp_path) as (_, node):
        served = node.rooms.tools.corpus
        assert isinstance(served, WholeCorpus)
        change_tools(node, corpus=UnservedCorpus(served.tokens))
        node.state.games[TASK] = replace(node.state.games[TASK], seats={})
        with pytest.raises(EnvironmentFault, match="no peer serves"):
            await node.rooms.self_test.check_bits()
