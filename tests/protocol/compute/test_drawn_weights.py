"""First values that no library draws."""

from hashlib import sha256

import torch

from touchstone.protocol.compute.digest import tensor_bytes
from touchstone.protocol.compute.drawn_weights import draw_parameter, draw_weights
from touchstone.protocol.spec.float32 import nearest
from touchstone.protocol.spec.weights_layout import ParameterEntry, Start, WeightsLayout

DRAWN = "60aba54833bf494acb3a5c22e3e4db5cd1971da134147f2cbbd2248818222f70"
"""SHA-256 of a matrix that is drawn with seed 5; a change is another protocol version."""


def make_entry(name: str, *shape: int) -> ParameterEntry:
    return ParameterEntry(name, shape, Start.UNIFORM, nearest(0.02))


def test_first_values_are_a_function_of_seed_and_name_alone() -> None:
    drawn = draw_parameter(make_entry("a.weight", 200, 50), 7)
    assert torch.equal(drawn, draw_parameter(make_entry("a.weight", 50, 200), 7))
    for name, seed in (("b.weight", 7), ("a.weight", 8)):
        assert not torch.equal(drawn, draw_parameter(make_entry(name, 200, 50), seed))
    assert abs(float(drawn.std()) - 0.02) < 0.001 and abs(float(drawn.mean())) < 0.001
    assert float(drawn.abs().max()) <= 0.02 * 3**0.5


def test_first_values_have_golden_bits() -> None:
    drawn = draw_parameter(make_entry("a.weight", 200, 50), 5)
    assert sha256(tensor_bytes(drawn)).hexdigest() == DRAWN


def test_each_parameter_lies_where_the_layout_says() -> None:
    entries = (
        make_entry("a.weight", 3, 2), ParameterEntry("b.bias", (2,), Start.ZEROS),
        ParameterEntry("norm.weight", (3,), Start.ONES),
    )  # fmt: skip
    flat = draw_weights(WeightsLayout(entries), 7)
    assert torch.equal(flat[:6], draw_parameter(entries[0], 7))
    assert flat[6:].tolist() == [0, 0, 1, 1, 1]
