"""Places the constants of a recording in a program."""

import torch
from torch import Tensor

from touchstone.step.builder import Builder
from touchstone.step.pending import Indices
from touchstone.step.views import View, expand, simplify
from touchstone.step.writer import Value

MOST_SPREAD = 4
"""A constant that is a view is copied if it reads less than one in this many elements of the whole tensor."""


def place_constant(builder: Builder, given: Tensor, where: str = "") -> Value:
    """Returns the value of a constant. `where` is the line that reads it. Views of one tensor share its
    elements, equal tensors share one buffer, and a tensor with one value everywhere becomes a number."""
    tensor = given.detach()
    if not tensor.numel() or not tensor.is_floating_point() and tensor.dtype is not torch.bool:
        return Indices(tensor)
    compact = _drop_repeats(tensor)
    first = compact.reshape(-1)[0].item()
    if bool((compact == first).all()):
        return expand(builder.add_number(float(first)), tuple(tensor.shape))
    base = _find_base(tensor) if compact is tensor else None
    if base is None:
        return expand(builder.add_constant(compact, where), tuple(tensor.shape))
    whole = builder.add_constant(base, where)
    dimensions = tuple(
        simplify([(size, stride)]) for size, stride in zip(tensor.shape, tensor.stride(), strict=True)
    )
    return View(whole.buffer, int(tensor.storage_offset()), dimensions)


def _drop_repeats(tensor: Tensor) -> Tensor:
    """Returns one element along each dimension in which all elements are equal."""
    for dimension, size in enumerate(tensor.shape):
        first = tensor.narrow(dimension, 0, 1)
        if size > 1 and (tensor.stride(dimension) == 0 or bool((tensor == first).all())):
            tensor = first
    return tensor


def _find_base(tensor: Tensor) -> Tensor | None:
    """Returns all elements of the storage that the tensor is a view of, flat; None if it reads few of
    them."""
    elements = tensor.untyped_storage().nbytes() // tensor.element_size()
    if tensor.dtype is not torch.float32 or elements > MOST_SPREAD * tensor.numel():
        return None
    return torch.as_strided(tensor, (elements,), (1,), 0)
