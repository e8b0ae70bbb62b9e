"""Describes a module's weights before training, and how a seed can draw them again."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from touchstone.protocol.compute.digest import tensor_root
from touchstone.protocol.spec.float32 import nearest
from touchstone.protocol.spec.weights_layout import FrozenEntry, ParameterEntry, Start, WeightsLayout
from touchstone.step.optimizers import Parameter

DIGITS = 2
"""Digits of a deviation after the first one. It is measured from what a module drew by chance."""


def flatten(module: nn.Module, parameters: Sequence[Parameter]) -> Tensor:
    """Returns W of a module, flat float32."""
    named = dict(module.named_parameters())
    return torch.cat([named[parameter.name].detach().reshape(-1) for parameter in parameters])


def describe_weights(module: nn.Module, parameters: Sequence[Parameter], config: str = "") -> WeightsLayout:
    """Returns the layout of a module's W. Parameters that are all ones or all zeros start so; others are
    drawn with the deviation of the module's own values. A frozen parameter is a constant of the program, or
    one number everywhere."""
    trained = {parameter.name for parameter in parameters}
    named = dict(module.named_parameters())
    entries = tuple(_describe(parameter, named[parameter.name]) for parameter in parameters)
    frozen = tuple(_freeze(name, values.detach()) for name, values in named.items() if name not in trained)
    return WeightsLayout(entries, frozen, config)


def is_even(values: Tensor) -> bool:
    """Returns whether all elements are one number."""
    flat = values.detach().reshape(-1)
    return bool((flat == flat[0]).all())


def _freeze(name: str, values: Tensor) -> FrozenEntry:
    shape = tuple(values.shape)
    if is_even(values):
        return FrozenEntry(name, shape, number=float(values.reshape(-1)[0]))
    return FrozenEntry(name, shape, tensor_root(values.reshape(-1)))


def _describe(parameter: Parameter, values: Tensor) -> ParameterEntry:
    for start, number in ((Start.ZEROS, 0.0), (Start.ONES, 1.0)):
        if bool((values == number).all()):
            return ParameterEntry(parameter.name, parameter.shape, start)
    deviation = float(values.detach().double().square().mean().sqrt())
    return ParameterEntry(
        parameter.name, parameter.shape, Start.UNIFORM, nearest(float(f"{deviation:.{DIGITS}e}"))
    )
