"""A suspect is named at its own element, whatever tile it stands in; verdicts hold where numbers end."""

from fractions import Fraction
from math import inf, isnan, nan

import pytest
import torch
from torch import Tensor

from protocol.compute.bounds import suspects
from protocol.compute.bounds.suspects import (
    Claim,
    counting_from,
    excuse,
    flush,
    gamma,
    judge,
    judge_choice,
    largest,
    require_index,
    take,
    take_terms,
    unravel,
)
from protocol.spec import program
from protocol.spec.errors import InvalidInput
from protocol.spec.program import Access, Node, Operation, locate
from tests.protocol.compute.bounds.claims import LEAST, TINY, make_claim

SIZES, TERMS = (4, 3, 5), 2
TURNED = Node(Operation.SUM, (*SIZES, TERMS), 1, Access(0, 0, (15, 5, 1)), (Access(1, 0, (1, 20, 4, 60)),))
"""The operand's loops lie in another order than the output's."""


def make_turned_claim() -> Claim:
    return make_claim(TURNED, torch.arange(60.0), torch.arange(120.0))


def list_suspects(claim: Claim) -> list[int]:
    return [number for numbers in claim.suspects for number in numbers.tolist()]


# --- Tiles and names ----------------------------------------------------------------------------------------
@pytest.mark.parametrize("size", [1, 59, 60, 90, 120])
def test_tiles_show_each_element_once_beside_its_own_terms(
    monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    monkeypatch.setattr(suspects, "TILE_ELEMENTS", size)
    claim, count = make_turned_claim(), 0
    seen: list[float] = []
    for start, (operand,), claimed in claim.tiles():
        assert start == len(seen)
        seen += claimed.flatten().tolist()
        for number, terms in enumerate(operand.reshape(-1, TERMS).tolist(), start):
            place = locate(TURNED.operands[0], (*program.unravel(number, SIZES), 0))
            assert terms == [place, place + 60]
        count += 1
    assert seen == list(range(60)) and count == {1: 4, 59: 4, 60: 2, 90: 2, 120: 1}[size]


def test_compare_names_what_differs_and_what_is_no_number() -> None:
    exact = torch.tensor([[1.0, inf, -0.0, nan], [-inf, TINY, 2.0, 1.0]])
    claimed = torch.tensor([[1.0, inf, 0.0, 3.0], [inf, 0.0, 2.0, 1 + 2.0**-23]])
    claim = make_turned_claim()
    claim.compare(exact, claimed, 20)
    assert list_suspects(claim) == [23, 24, 25, 27]
    claim.compare(claimed, claimed, 40)
    assert list_suspects(claim) == [23, 24, 25, 27]


def test_note_suspects_all_above_one_and_keeps_the_worst_of_the_others() -> None:
    claim = make_turned_claim()
    claim.note(torch.tensor([[0.5, -0.75], [0.0, 0.25]]), counting_from(8))
    assert (list_suspects(claim), claim.worst, claim.element) == ([], 0.75, 9)
    claim.note(torch.tensor([[1.0, -1.5, nan], [-0.875, inf, 1 + 2.0**-23]]), lambda places: 50 - places)
    assert (list_suspects(claim), claim.worst, claim.element) == ([49, 48, 46, 45], 1.0, 50)
    claim.note(torch.tensor([2.0, 1.0]), counting_from(0))
    assert (list_suspects(claim), claim.worst, claim.element) == ([49, 48, 46, 45, 0], 1.0, 50)


def test_unravelled_numbers_take_the_elements_and_terms_that_the_program_means() -> None:
    claim, numbers = make_turned_claim(), torch.randperm(60, generator=torch.Generator().manual_seed(1))
    places = unravel(numbers, SIZES)
    assert [tuple(place) for place in torch.stack(places, 1).tolist()] == [
        program.unravel(number, SIZES) for number in numbers.tolist()
    ]
    assert take(claim.output, places).tolist() == numbers.tolist()
    terms = take_terms(claim.operand(0), places)
    assert terms.dtype == torch.float64
    assert terms.tolist() == [
        [read[0] for _, read in program.iterate_terms(TURNED, number)] for number in numbers.tolist()
    ]
    single = Node(Operation.COPY, (), 0, Access(0, 1, ()), (Access(1, 2, ()),))
    claim = make_claim(single, torch.tensor([0.0, 7.0]), torch.tensor([1.0, 2.0, 3.0]))
    ((start, (operand,), claimed),) = claim.tiles()
    assert (start, operand.tolist(), claimed.tolist()) == (0, [3.0], [7.0])
    assert (take(claim.output, ()).tolist(), take_terms(claim.operand(0), ()).tolist()) == ([7.0], [[3.0]])


# --- Verdicts -----------------------------------------------------------------------------------------------
def wide(*values: float) -> Tensor:
    return torch.tensor(values, dtype=torch.float64)


def test_judge_measures_in_bounds_and_excuses_an_infinity_from_half_the_largest_power_on() -> None:
    ratios = judge(wide(3, 3, 3, 3), wide(1, 3, 5, 1), wide(2, 0, 1, 0), wide(9, 9, 9, 9))
    assert ratios.tolist() == [1.0, 0.0, 2.0, inf]
    below, reached = 2.0**127 - 2.0**74, 2.0**127
    for claimed in (inf, -inf, nan):
        ratios = judge(wide(claimed, claimed), wide(1, 1), wide(5, 5), wide(below, reached))
        assert ratios.tolist() == [inf, 0.0]
        assert judge_choice(wide(claimed, claimed), (wide(1, 1),), wide(below, reached)).tolist() == [
            inf,
            0.0,
        ]


def test_a_value_is_one_of_those_accepted_unless_an_operand_of_its_own_is_not_finite() -> None:
    claimed, first, second = wide(1, 2, -0.0, 3, TINY), wide(1, 1, 0.0, 1, 0.0), wide(2, 2, 5, 2, LEAST)
    ratios = judge_choice(claimed, (first, second), first)
    assert ratios.tolist() == [0.0, 0.0, 0.0, inf, inf]
    terms = torch.stack([wide(1, 2), wide(3, 4), wide(5, 6), wide(nan, 1), wide(3, 4)])
    assert excuse(ratios, terms).tolist() == [0.0, 0.0, 0.0, 0.0, inf]
    assert excuse(ratios, terms, wide(1, 1, 1, 1, -inf)).tolist() == [0.0] * 5


def test_the_least_normal_number_is_not_flushed_and_no_number_hides_among_others() -> None:
    below = LEAST - TINY
    values = torch.tensor([LEAST, below, -LEAST, -below, TINY, 0.0])
    assert flush(values).tolist() == [LEAST, 0.0, -LEAST, 0.0, 0.0, 0.0]
    assert largest(torch.tensor([1.0, -3.0, 2.0])) == 3.0 and largest(torch.tensor([1.0, 3.0, -2.0])) == 3.0
    assert isnan(largest(torch.tensor([1.0, nan, 5.0]))) and largest(torch.tensor([-inf, 1.0])) == inf
    unit = Fraction(1, 2**24)
    assert gamma(128, 2.0**-24) == pytest.approx(float(128 * unit / (1 - 128 * unit)), rel=1e-15)


def test_an_index_is_required_to_lie_in_its_table() -> None:
    index = torch.tensor([[0, 8], [3, 1]])
    require_index(index, 9)
    require_index(index.unsqueeze(1).expand(2, 10**9, 2), 9)
    for size, changed in ((8, index), (9, index - 1)):
        with pytest.raises(InvalidInput, match=f"outside its table: expected 0 to {size - 1}"):
            require_index(changed.unsqueeze(1).expand(2, 3, 2), size)
