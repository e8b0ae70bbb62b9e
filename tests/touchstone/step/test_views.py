"""Views: whatever is done to one, its elements are those that PyTorch's tensor has after the same."""

from collections.abc import Callable
from math import prod

import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st
from torch import Tensor

from tests.protocol.compute.programs import read_view
from touchstone.step.views import (
    LayoutError,
    View,
    count,
    divide,
    expand,
    insert,
    join,
    make_contiguous,
    narrow,
    permute,
    refine,
    remove,
    reshape,
    simplify,
    split,
)

OFFSET = 3
Pair = tuple[View, Tensor]
"""A view of a buffer of consecutive numbers, and the tensor that it should look like."""


def start(shape: list[int]) -> Pair:
    size = prod(shape)
    return make_contiguous(0, OFFSET, shape), torch.arange(OFFSET, OFFSET + size).reshape(shape)


def draw_factors(data: st.DataObject, total: int) -> list[int]:
    """Sizes whose product is `total`."""
    sizes: list[int] = []
    while total > 1 and len(sizes) < 3:
        sizes.append(data.draw(st.sampled_from([d for d in range(1, total + 1) if total % d == 0])))
        total //= sizes[-1]
    return [*sizes, total]


def draw_dimension(data: st.DataObject, tensor: Tensor) -> int:
    return data.draw(st.integers(0, tensor.dim() - 1))


def do_permute(data: st.DataObject, view: View, tensor: Tensor) -> Pair:
    order = data.draw(st.permutations(range(tensor.dim())))
    return permute(view, order), tensor.permute(order)


def do_reshape(data: st.DataObject, view: View, tensor: Tensor) -> Pair:
    shape = draw_factors(data, tensor.numel())
    return reshape(view, shape), tensor.reshape(shape)


def do_expand(data: st.DataObject, view: View, tensor: Tensor) -> Pair:
    shape = [data.draw(st.integers(1, 3)) if size == 1 else size for size in tensor.shape]
    shape = data.draw(st.lists(st.integers(1, 2), max_size=1)) + shape
    return expand(view, shape), tensor.expand(shape)


def do_narrow(data: st.DataObject, view: View, tensor: Tensor) -> Pair:
    dimension = draw_dimension(data, tensor)
    first = data.draw(st.integers(0, tensor.shape[dimension] - 1))
    length = data.draw(st.integers(1, tensor.shape[dimension] - first))
    return narrow(view, dimension, first, length), tensor.narrow(dimension, first, length)


def do_insert(data: st.DataObject, view: View, tensor: Tensor) -> Pair:
    dimension = data.draw(st.integers(0, tensor.dim()))
    return insert(view, dimension), tensor.unsqueeze(dimension)


def do_divide(data: st.DataObject, view: View, tensor: Tensor) -> Pair:
    dimension = draw_dimension(data, tensor)
    sizes = draw_factors(data, tensor.shape[dimension])
    return divide(view, dimension, sizes), tensor.reshape(
        *tensor.shape[:dimension], *sizes, *tensor.shape[dimension + 1 :]
    )


def do_join(data: st.DataObject, view: View, tensor: Tensor) -> Pair:
    first, last = sorted((draw_dimension(data, tensor), draw_dimension(data, tensor)))
    return join(view, first, last), tensor.flatten(first, last)


STEPS: list[Callable[[st.DataObject, View, Tensor], Pair]] = [
    do_permute, do_reshape, do_expand, do_narrow, do_insert, do_divide, do_join,
]  # fmt: skip


@given(st.lists(st.integers(1, 6), min_size=1, max_size=4), st.data())
def test_a_view_looks_like_the_tensor(shape: list[int], data: st.DataObject) -> None:
    buffer = torch.arange(OFFSET + prod(shape))
    view, tensor = start(shape)
    for step in data.draw(st.lists(st.sampled_from(STEPS), max_size=6)):
        assume(tensor.numel() < 2000 and tensor.dim() < 7)
        try:
            view, tensor = step(data, view, tensor)
        except LayoutError:  # no strides describe it
            continue
        assert view.shape == tuple(tensor.shape)
        assert torch.equal(read_view(view, buffer), tensor)


@given(st.lists(st.integers(1, 6), min_size=1, max_size=4), st.data())
def test_a_row_major_tensor_can_be_reshaped_and_permuted_in_any_way(
    shape: list[int], data: st.DataObject
) -> None:
    """Of a row-major tensor nothing is refused, and what a permutation and a merge lead to is not either."""
    view, tensor = do_permute(data, *do_reshape(data, *start(shape)))
    merged = reshape(view, (tensor.numel(),))
    assert torch.equal(read_view(merged, torch.arange(OFFSET + prod(shape))), tensor.reshape(-1))


def test_simplify_drops_single_steps_and_joins_what_follows() -> None:
    assert simplify([(2, 12), (1, 99), (3, 4), (4, 1)]) == ((24, 1),)
    assert simplify([(2, 0), (3, 0)]) == ((6, 0),)
    assert simplify([(2, 1), (3, 2)]) == ((2, 1), (3, 2))
    assert simplify([(1, 5)]) == ()


def test_a_dimension_is_split_from_the_inside() -> None:
    assert split(((6, 10), (4, 1)), (3, 2, 4)) == (((3, 20),), ((2, 10),), ((4, 1),))
    assert split(((6, 10), (4, 1)), (2, 12)) == (((2, 30),), ((3, 10), (4, 1)))


@pytest.mark.parametrize("sizes", [(6, 4), (23,), (12,), (5, 5), (48,)])
def test_an_uneven_split_is_refused(sizes: tuple[int, ...]) -> None:
    with pytest.raises(LayoutError):
        split(((4, 7), (6, 1)), sizes)


def test_narrow_takes_whole_outer_steps_only() -> None:
    view = View(0, 0, (((3, 100), (4, 7)),))
    assert narrow(view, 0, 4, 8) == View(0, 100, (((2, 100), (4, 7)),))
    for first, length in ((2, 4), (4, 6)):
        with pytest.raises(LayoutError, match="cuts through"):
            narrow(view, 0, first, length)


@pytest.mark.parametrize("first, length", [(-1, 2), (2, 2), (0, 4)])
def test_narrow_stays_inside(first: int, length: int) -> None:
    with pytest.raises(LayoutError):
        narrow(make_contiguous(0, 0, (3,)), 0, first, length)


def test_only_dimensions_of_one_element_are_removed_or_repeated() -> None:
    view = make_contiguous(0, 0, (2, 1))
    assert remove(view, 1).shape == (2,) and expand(view, (2, 5)).shape == (2, 5)
    with pytest.raises(LayoutError):
        remove(view, 0)
    with pytest.raises(LayoutError):
        expand(view, (4, 1))


def test_refinement_cuts_all_views_at_the_same_places() -> None:
    sizes, strides = refine([((24, 1),), ((6, 10), (4, 1)), ((2, 0), (12, 5))])
    assert sizes == (2, 3, 4)
    assert strides == [(12, 4, 1), (30, 10, 1), (0, 20, 5)]
    assert refine([(), ()]) == ((), [(), ()])


def test_refinement_is_refused_where_there_is_none() -> None:
    with pytest.raises(LayoutError, match="do not match"):
        refine([((4, 1),), ((6, 1),)])
    with pytest.raises(LayoutError, match="no common refinement"):
        refine([((2, 3), (3, 1)), ((3, 2), (2, 1))])


@given(st.data())
def test_refined_loops_reach_the_same_elements(data: st.DataObject) -> None:
    total = data.draw(st.sampled_from([1, 8, 12, 24]))
    dimensions = []
    for _ in range(3):
        sizes = draw_factors(data, total)
        dimensions.append(simplify([(size, data.draw(st.integers(0, 50))) for size in sizes]))
    try:
        loops, strides = refine(dimensions)
    except LayoutError:
        return
    buffer = torch.arange(50 * total * 4)
    for dimension, own in zip(dimensions, strides, strict=True):
        reached = buffer.as_strided(loops, own).reshape(-1)
        assert count(dimension) == total
        assert torch.equal(reached, read_view(View(0, 0, (dimension,)), buffer))
