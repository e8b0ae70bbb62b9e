"""A solver shows its pseudo-gradient to its auditors and to nobody else: its claim is accepted, and no other
solver could merge it. The round is posted all the same."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from tests.e2e.roles import SOLVER, make_cast
from tests.e2e.world import TINY_PLAN, open_world, run_world
from touchstone.node.kit.party import Party
from touchstone.node.serving import served_data
from touchstone.protocol.adapters.store.blobs import BlobKind
from touchstone.protocol.spec.game.enums import RoundPhase, SeatRole
from touchstone.protocol.spec.game.pools import find_seat

SCHEDULE = replace(TINY_PLAN.schedule, total_steps=TINY_PLAN.inner_steps)
PLAN = replace(TINY_PLAN, rounds=1, schedule=SCHEDULE, late_chance=0, least_whistleblowers=0)
MayRead = Callable[[Party, str, BlobKind, bytes], bool]


def withhold(monkeypatch: pytest.MonkeyPatch, is_cheat: Callable[[Party], bool]) -> None:
    """A cheat shows pseudo-gradients to verifiers alone."""

    def spoil(may_read: MayRead) -> MayRead:
        def may(party: Party, account: str, kind: BlobKind, root: bytes) -> bool:
            seat = find_seat(party.game, account) if kind is BlobKind.DELTA and is_cheat(party) else None
            is_refused = seat is not None and seat.role != SeatRole.VERIFIER
            return not is_refused and may_read(party, account, kind, root)

        return may

    monkeypatch.setattr(served_data, "MAY_READ", tuple(map(spoil, served_data.MAY_READ)))


async def test_a_withheld_pseudo_gradient_is_had_from_its_auditors(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cast = {**make_cast(solvers=2, verifiers=3, watchers=0), "cheat": SOLVER}
    async with open_world(tmp_path, tuple(cast)) as world:
        cheat = world.keys["cheat"].address.lower()
        withhold(monkeypatch, lambda party: party.account == cheat)
        game, _ = await run_world(world, PLAN, cast)
        (game_round,) = game.rounds.values()
        assert game_round.phase == RoundPhase.POSTED
        assert len(game_round.merged) == 3


async def test_a_round_is_posted_without_what_nobody_shows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its auditors do not show it either: they are the cheat's own."""
    cast = {**make_cast(solvers=2, verifiers=3, watchers=0), "cheat": SOLVER}
    async with open_world(tmp_path, tuple(cast)) as world:
        accounts = {name: world.keys[name].address.lower() for name in cast}
        cheats = {one for name, one in accounts.items() if name == "cheat" or name.startswith("verifier")}
        withhold(monkeypatch, lambda party: party.account in cheats)
        game, _ = await run_world(world, PLAN, cast)
        (game_round,) = game.rounds.values()
        assert game_round.phase == RoundPhase.POSTED
        assert len(game_round.merged) == 2
