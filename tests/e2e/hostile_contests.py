"""Harassment of the outer step: roots contested for nothing, and false proofs about pseudo-gradients."""

import asyncio
from collections.abc import Hashable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from protocol.actions.global_model import GlobalModel, get_start
from protocol.actions.loop import Due
from protocol.actions.participant import CheckOuter
from protocol.actions.party import Party
from protocol.adapters.blobs import refer_delta, refer_tensor
from protocol.adapters.chain import Chain
from protocol.adapters.chain.contract import Receipt
from protocol.compute.outer import OuterState
from protocol.spec.containers import OuterHeader
from protocol.spec.events import EndOpened, Event
from protocol.spec.round import get_opening
from tests.e2e.false_moves import FalseMove, spoil
from tests.e2e.hostile import Hostile

WRONG_ELEMENT = 3_000


class WrongModel(GlobalModel):
    """An outer step with one element off: what this party posts or contests with, and plays for."""

    async def compute_next(self, index: int) -> tuple[OuterHeader, OuterState]:
        _, after = await super().compute_next(index)
        after.weights[WRONG_ELEMENT] += 1.0
        return await asyncio.to_thread(self._keep, after), after


def mislead(party: Party) -> None:
    """Have the party compute wrong outer steps."""
    joined = party.joined
    party._joined = replace(joined, model=WrongModel(**vars(joined.model)))


@dataclass(frozen=True)
class Slander:
    """Send false proofs about a pseudo-gradient."""

    round: int
    slot: int
    draw: int


@dataclass
class Contester(Hostile):
    """Contests the posted outer root with a wrong one, plays to the leaf, and slanders a pseudo-gradient."""

    opened: list[Slander] = field(default_factory=list)

    async def run(self) -> None:
        mislead(self.party)
        await super().run()

    def react(self, event: Event) -> None:
        """Remember whose last state is open."""
        if isinstance(event, EndOpened):
            self.opened.append(Slander(event.round, event.slot, event.draw))

    def decide(self, block: int) -> Due[Hashable]:
        due = super().decide(block)
        posted = [
            CheckOuter(state.index, state.outer)
            for state in self.party.view.tasks[self.party.task].rounds
            if state.outer is not None
        ]
        wanted = [one for one in (*posted, *self.opened[:1]) if one not in self.done]
        return replace(due, actions=[*due.actions, *wanted, *self.list_contest_moves(block)])

    def list_contest_moves(self, block: int) -> Iterator[Hashable]:
        """What is due in its contests."""
        yield from self._list_contest_actions(block)

    async def perform(self, action: Hashable) -> None:
        if not isinstance(action, Slander):
            await super().perform(action)
            return
        await self.send_all(await list_false_gradients(self.party, action))
        self.done.add(action)


class SilentContester(Contester):
    """Contests, and plays no further."""

    def list_contest_moves(self, block: int) -> Iterator[Hashable]:
        return iter(())


async def list_false_gradients(party: Party, about: Slander) -> list[FalseMove]:
    """Proofs about the first leaf of a claim's pseudo-gradient."""
    state, count = party.round(about.round), party.spec.terms.parameter_count
    last, delta_root = get_opening(state, about.slot, about.draw).last, state.claims[about.slot].delta_root
    assert last is not None
    weights_ref, delta_ref = refer_tensor(last.weights_root, count), refer_delta(delta_root, count)
    for ref in (weights_ref, delta_ref):
        await party.client.fetch(party.view.network.find(state.solvers[about.slot]), ref)
    await party.model.load_start(about.round)
    start_ref = refer_tensor(get_start(state).weights_root, count)
    refs = (start_ref, weights_ref, delta_ref)
    base, end, delta = (proof for ref in refs for proof in party.store.open_leaves(ref, [0]))
    spoiled = [replace(one, data=spoil(one.data)) for one in (base, end, delta)]
    place = (party.task, about.round, about.slot)
    cases: tuple[tuple[str, str, tuple[Any, ...]], ...] = (
        ("an honest leaf", "NoFault", (about.draw, 0, base, end, delta)),
        ("another place", "LeafMismatch", (about.draw, 1, base, end, delta)),
        ("a spoiled beginning", "LeafMismatch", (about.draw, 0, spoiled[0], end, delta)),
        ("a spoiled end", "LeafMismatch", (about.draw, 0, base, spoiled[1], delta)),
        ("a spoiled pseudo-gradient", "LeafMismatch", (about.draw, 0, base, end, spoiled[2])),
        ("the beginning as the end", "LeafMismatch", (about.draw, 0, base, base, delta)),
        ("a draw that never was", "LastStateUnknown", (99, 0, base, end, delta)),
    )
    return [
        FalseMove(f"pseudo-gradient: {name}", error, partial(_prove, (*place, *rest)))
        for name, error, rest in cases
    ]


async def _prove(about: tuple[Any, ...], chain: Chain) -> Receipt:
    receipt: Receipt = await chain.outer_contest.prove_pseudo_gradient(*about)
    return receipt
