"""Places in the flat vector, and first values that no library draws."""

import torch

from protocol.compute.model.family import ParameterPart, ParameterSlice, draw_uniform, lay_out


def test_parameters_lie_one_after_the_other() -> None:
    first, second, third = lay_out([("a", (2, 3)), ("b", (4,)), ("c", (1, 1, 5))])
    assert [(one.offset, one.size) for one in (first, second, third)] == [(0, 6), (6, 4), (10, 5)]


def test_a_part_is_a_view_along_its_dimension() -> None:
    whole = torch.arange(12).view(3, 4)
    part = ParameterPart("a", 1, 1, 3).cut(whole)
    assert part.tolist() == [[1, 2], [5, 6], [9, 10]] and part.data_ptr() == whole[0, 1:].data_ptr()


def test_first_values_are_a_function_of_seed_and_name_alone() -> None:
    drawn = draw_uniform(ParameterSlice("a.weight", 0, (200, 50)), 7, 0.02)
    again = draw_uniform(ParameterSlice("a.weight", 99, (50, 200)), 7, 0.02)
    assert torch.equal(drawn.view(-1), again.view(-1)), "the place changes nothing"
    for name, seed in (("b.weight", 7), ("a.weight", 8)):
        assert not torch.equal(drawn, draw_uniform(ParameterSlice(name, 0, (200, 50)), seed, 0.02))
    assert abs(float(drawn.std()) - 0.02) < 0.001 and abs(float(drawn.mean())) < 0.001
    assert float(drawn.abs().max()) <= 0.02 * 3**0.5
