"""Who audits what: the draws of `draw.py` applied to a round. Twin of `RoundLedger.drawnOf`."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

from protocol.spec.draw import (
    compute_slot_seed,
    draw_auditors,
    draw_late_audit,
    draw_leaves,
    draw_segments,
)
from protocol.spec.params import LEAF_ELEMENTS
from protocol.spec.round import AuditKey, DrawKey, RoundState, get_claim, get_merge_by


@dataclass(frozen=True)
class Drawn:
    """One audited segment (index in the round) and its auditors; a late audit has no reserves."""

    segment: int
    primary: str
    reserves: tuple[str, ...] = ()

    @property
    def auditors(self) -> tuple[str, ...]:
        """Accounts by rank."""
        return (self.primary, *self.reserves)


def compute_draws(state: RoundState) -> Mapping[DrawKey, Drawn]:
    """The draws of all committed claims by (slot, draw); empty before the draw is sealed."""
    slots = [slot for slot, claim in sorted(state.claims.items()) if claim.claim_root]
    return {(slot, i): drawn for slot in slots for i, drawn in enumerate(compute_slot_draws(state, slot))}


def compute_slot_draws(state: RoundState, slot: int) -> tuple[Drawn, ...]:
    """The q draws of one slot; empty before the draw is sealed."""
    if state.draw_seed is None:
        return ()
    terms = state.terms
    return _deal(state.draw_seed, slot, terms.segment_draws, terms.segment_count, state.verifiers)


# Every question about a round asks for its draws, which never change once they are sealed.
@lru_cache(maxsize=1024)
def _deal(
    draw_seed: bytes, slot: int, draws: int, segment_count: int, verifiers: tuple[str, ...]
) -> tuple[Drawn, ...]:
    seed, dealt = compute_slot_seed(draw_seed, slot), []
    for draw, segment in enumerate(draw_segments(seed, draws, segment_count)):
        primary, *reserves = (verifiers[index] for index in draw_auditors(seed, draw, len(verifiers)))
        dealt.append(Drawn(segment=segment, primary=primary, reserves=tuple(reserves)))
    return tuple(dealt)


def compute_late_draws(state: RoundState) -> Mapping[DrawKey, Drawn]:
    """The late audits by (slot, q); empty before the late draw is sealed."""
    late = ((slot, compute_late_draw(state, slot)) for slot in sorted(state.claims))
    return {(slot, state.late_draw): drawn for slot, drawn in late if drawn is not None}


def compute_late_draw(state: RoundState, slot: int) -> Drawn | None:
    """The late audit of a slot, if there is one: its claim was accepted by the block of the merge."""
    accepted, merge_by = get_claim(state, slot).accepted_block, get_merge_by(state)
    merged = merge_by if state.posted_block is None else min(state.posted_block, merge_by)
    if state.late_seed is None or not 0 < accepted <= merged:
        return None
    found = draw_late_audit(
        state.late_seed,
        slot,
        state.terms.late_rate,
        [drawn.segment for drawn in compute_slot_draws(state, slot)],
        state.terms.segment_count,
        len(state.whistleblowers),
    )
    return None if found is None else Drawn(found.segment, state.whistleblowers[found.whistleblower])


def get_drawn(state: RoundState, slot: int, draw: int) -> Drawn | None:
    """One draw (draw == q: the late audit), None where nothing is drawn."""
    if not 0 <= slot < len(state.solvers):
        return None
    if draw == state.late_draw:
        return compute_late_draw(state, slot)
    draws = compute_slot_draws(state, slot)
    return draws[draw] if 0 <= draw < len(draws) else None


def get_auditor(state: RoundState, key: AuditKey) -> str | None:
    """The account that the draw gave to an audit, None where no such audit is drawn."""
    drawn = get_drawn(state, key[0], key[1])
    return drawn.auditors[key[2]] if drawn is not None and 0 <= key[2] < len(drawn.auditors) else None


def compute_leaf_indices(state: RoundState, slot: int, draw: int, phase: int) -> tuple[int, ...]:
    """Leaves to open in a phase for a draw, in the order drawn; empty before the leaf draw is sealed."""
    seed = state.leaf_seeds.get(phase)
    leaf_count = -(-state.terms.parameter_count // LEAF_ELEMENTS)
    return () if seed is None else tuple(draw_leaves(seed, slot, draw, state.terms.leaf_draws, leaf_count))
