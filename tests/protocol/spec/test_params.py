"""Constants that must fit each other: what is packed into bytes and words, what must not overflow."""

from fractions import Fraction
from importlib import import_module
from pathlib import Path

import pytest

from tests.architecture.sources import ROOT
from touchstone.protocol.spec import float32, outer_update, params, pseudo_gradient
from touchstone.protocol.spec.audit_draws import RANKS
from touchstone.protocol.spec.calibration_rules import LEAST_MAXIMUM, MARGIN
from touchstone.protocol.spec.game.enums import SeatRole
from touchstone.protocol.spec.game.log_values import NO_DRAW
from touchstone.protocol.spec.game.state import compute_seat_id
from touchstone.protocol.spec.game.terms import AUDITOR_SEATS_MAX, EPOCH_ROUNDS, NUMBER_MAX, SOLVER_SEATS_MAX
from touchstone.protocol.spec.hashing import WORD_BYTES, sha256_of, tag_word
from touchstone.protocol.spec.merkle import hash_leaf, hash_node
from touchstone.protocol.spec.statements import VoteWord
from touchstone.protocol.spec.tolerance import (
    LARGE_ROOT_SHIFT,
    RATE_TO_UNITS_SHIFT,
    ROOT_TO_UNITS_SHIFT,
    compute_root_up,
)

WORD = 1 << 256
TAU_MAX = (1 << params.TAU_FRACTION_BITS) - 1


@pytest.mark.parametrize("exponent", [params.SCALE_EXPONENT_MIN, 0, params.SCALE_EXPONENT_MAX])
def test_a_block_of_the_largest_quanta_is_written_and_read(exponent: int) -> None:
    """A scale is a byte, a quantum a signed one; a leaf of the state is whole blocks."""
    quanta = [params.QUANTUM_MAX, -params.QUANTUM_MAX] * (params.BLOCK_ELEMENTS // 2)
    data = pseudo_gradient.encode_block(exponent, quanta)
    assert pseudo_gradient.decode_block(data) == (exponent, quanta) and len(data) == params.DELTA_BLOCK_BYTES
    leaf = float32.pack_bits([float32.float_to_bits(1.0)] * params.LEAF_ELEMENTS)
    assert len(leaf) == params.LEAF_BYTES
    assert len(pseudo_gradient.compute_delta_leaf(leaf, leaf)) == params.DELTA_LEAF_BYTES


def test_the_largest_claims_of_all_solvers_overflow_neither_a_word_nor_float32() -> None:
    """In units of the least scale their sum is a signed word of the chain; as float32 their mean is finite,
    whatever bytes were committed."""
    worst = [bytes([params.SCALE_BYTE_MAX]) + b"\x80" * params.BLOCK_ELEMENTS] * params.MAX_SHARDS
    read = [pseudo_gradient.decode_block(block) for block in worst]
    units = sum(-quanta[0] << exponent - params.SCALE_EXPONENT_MIN for exponent, quanta in read)
    assert 0 < units < WORD // 2
    mean = outer_update.compute_mean(
        [pseudo_gradient.dequantise(quanta[0], exponent) for exponent, quanta in read]
    )
    assert float32.to_fraction(mean) == -128 * Fraction(2) ** params.SCALE_EXPONENT_MAX


def test_no_comparison_of_finite_elements_overflows_a_word() -> None:
    """The widest limits a task can name, at the largest weights and moments, which are cut off. Roots and
    rates count whole units: a shift below zero, or by half a bit, would lose what the chain keeps."""
    most, whole = params.MAGNITUDE_LIMIT_UNITS, float32.to_units(float32.INFINITY - 1)
    assert (most - 1) << params.SQRT_SHIFT_BITS < WORD and 2 * most < WORD
    assert whole >> 2 * LARGE_ROOT_SHIFT < most, "a large v' has a root by that of a smaller one"
    assert most >> 2 * LARGE_ROOT_SHIFT << 2 * LARGE_ROOT_SHIFT == most
    root = (compute_root_up(whole) << ROOT_TO_UNITS_SHIFT) + (1 << 160)
    assert TAU_MAX * (root >> params.TAU_FRACTION_BITS) + TAU_MAX < WORD
    rate = TAU_MAX * params.LEARNING_RATE_SUM_MAX << RATE_TO_UNITS_SHIFT
    scale = RATE_TO_UNITS_SHIFT + params.TAU_FRACTION_BITS + params.LEARNING_RATE_FRACTION_BITS
    assert -params.UNIT_EXPONENT == params.SQRT_SHIFT_BITS + 2 * ROOT_TO_UNITS_SHIFT == scale
    assert min(RATE_TO_UNITS_SHIFT, ROOT_TO_UNITS_SHIFT) >= 0
    assert rate + TAU_MAX * (most >> params.TAU_FRACTION_BITS) + TAU_MAX < WORD


def test_what_honest_nodes_have_is_neither_capped_nor_refused() -> None:
    """Rates of at most 1 in each step of a segment; limits as calibration gives them, which leave room for a
    few roundings of float32."""
    assert params.MAX_SEGMENT_STEPS << params.LEARNING_RATE_FRACTION_BITS <= params.LEARNING_RATE_SUM_MAX
    least = LEAST_MAXIMUM * MARGIN * (1 << params.TAU_FRACTION_BITS)
    assert least >= params.MIN_TAU >= 4 * (1 << params.TAU_FRACTION_BITS) // (1 << 24)


def test_places_of_a_round_fit_where_they_are_packed() -> None:
    """A vote in a log has a byte each for slot, draw (the late one is q), rank and word; the contracts mark a
    claim by draw 255. Merged slots and signers are bitmaps of 64 bits. Unserved draws of two epochs are
    counted in 16 bits."""
    late = params.MAX_SEGMENT_DRAWS
    assert max(params.MAX_SHARDS - 1, late, RANKS - 1, *VoteWord) < 0xFF < NO_DRAW
    assert SOLVER_SEATS_MAX == params.MAX_SHARDS <= 64
    assert 2 * EPOCH_ROUNDS * params.MAX_SHARDS * (late + 1) <= 0xFFFF
    assert RANKS * late <= AUDITOR_SEATS_MAX, "a task of the most draws can have its auditors"
    largest = compute_seat_id(SeatRole.WHISTLEBLOWER, AUDITOR_SEATS_MAX - 1)
    assert (largest >> 16, largest & 0xFFFF) == (SeatRole.WHISTLEBLOWER, AUDITOR_SEATS_MAX - 1)


def test_counts_of_a_whole_task_fit_their_types() -> None:
    """Parameters and scalars (one leaf a step) are 32 bits in the contracts, rounds and segments 16."""
    assert params.MAX_PARAMETERS < 1 << 32
    assert params.MAX_TASK_SEGMENTS * params.MAX_SEGMENT_STEPS < 1 << 32
    assert NUMBER_MAX == 0xFFFF and NUMBER_MAX <= params.MAX_TASK_SEGMENTS, "one round may have all segments"


def test_no_hash_stands_for_another() -> None:
    """Every tag of the specification is one word and means one thing; a leaf is no node, and hashes to no
    missing leaf."""
    names: dict[str, set[str]] = {}
    for path in sorted(Path(ROOT, "protocol/spec").rglob("[a-z]*.py")):
        module = import_module(".".join(path.relative_to(ROOT).with_suffix("").parts))
        for name, value in vars(module).items():
            if isinstance(value, str) and value.startswith("touchstone.") and name.isupper():
                names.setdefault(value, set()).add(name)
    assert len(names) >= 20 and all(len(meanings) == 1 for meanings in names.values())
    assert len({tag_word(tag) for tag in names}) == len(names)
    left, right = sha256_of(b"left"), sha256_of(b"right")
    assert hash_node(left, right) != hash_leaf(left + right)
    assert len(params.ZERO_WORD) == WORD_BYTES == len(left) and len(params.LEAF_PREFIX) == len(
        params.NODE_PREFIX
    )


def test_a_format_has_a_number_of_its_own_and_all_exact_ones_have_that_of_exact() -> None:
    """An exact task has no limits: with the number of a format that has bounds it would bind no solver."""
    numbers = {
        params.FORMAT_NUMBERS[name] for name in params.FORMAT_NUMBERS if name not in params.PRODUCT_BITS
    }
    assert sorted(numbers) == list(range(len(numbers)))
    assert {params.FORMAT_NUMBERS[name] for name in params.PRODUCT_BITS} == {params.EXACT_FORMAT}
    assert params.EXACT_FORMAT not in numbers
