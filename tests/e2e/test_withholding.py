"""A solver shows its pseudo-gradient to its auditors and to nobody else: its claim is accepted, and no other
solver could merge it. The round is posted all the same."""

from dataclasses import replace
from pathlib import Path

import pytest

from tests.e2e.roles import SOLVER, make_cast
from tests.e2e.world import TINY_PLAN, open_world, run_world
from touchstone.node.kit.view import FindView, GetView
from touchstone.node.loop.joined import Joined
from touchstone.node.loop.served_data import MayRead, ServedRooms
from touchstone.protocol.adapters.store.blobs import BlobKind
from touchstone.protocol.spec.game.enums import RoundPhase, SeatRole
from touchstone.protocol.spec.game.pools import find_seat

SCHEDULE = replace(TINY_PLAN.schedule, total_steps=TINY_PLAN.inner_steps)
PLAN = replace(TINY_PLAN, rounds=1, schedule=SCHEDULE, late_chance=0, least_whistleblowers=0)


def withhold(monkeypatch: pytest.MonkeyPatch, cheats: set[str]) -> None:
    """Cheats, by their accounts, show pseudo-gradients to verifiers alone."""

    def spoil(get_view: GetView, may_read: MayRead) -> MayRead:
        def may(account: str, kind: BlobKind, root: bytes) -> bool:
            seat = find_seat(get_view().game, account) if kind is BlobKind.DELTA else None
            is_refused = seat is not None and seat.role != SeatRole.VERIFIER
            return not is_refused and may_read(account, kind, root)

        return may

    list_usually = Joined.list_served

    def list_served(joined: Joined, find_view: FindView) -> ServedRooms:
        served, get_view = list_usually(joined, find_view), joined.rooms.tools.get_view
        if get_view().account not in cheats:
            return served
        return replace(served, may_read=spoil(get_view, served.may_read))

    monkeypatch.setattr(Joined, "list_served", list_served)


async def test_a_withheld_pseudo_gradient_is_had_from_its_auditors(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cast = {**make_cast(solvers=2, verifiers=3, watchers=0), "cheat": SOLVER}
    async with open_world(tmp_path, tuple(cast)) as world:
        cheat = world.keys["cheat"].address.lower()
        withhold(monkeypatch, {cheat})
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
        withhold(monkeypatch, cheats)
        game, _ = await run_world(world, PLAN, cast)
        (game_round,) = game.rounds.values()
        assert game_round.phase == RoundPhase.POSTED
        assert len(game_round.merged) == 2
