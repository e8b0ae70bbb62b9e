"""Gives a module other parameters for a while, then leaves it as it was, with its buffers.

`torch.func.functional_call` would leave the given tensors in a module that has one submodule under two names.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from torch import Tensor, nn

from touchstone.protocol.spec.errors import InvalidInput


@contextmanager
def borrowed(module: nn.Module, parameters: Mapping[str, Tensor]) -> Iterator[None]:
    """Puts `module` into evaluation mode with these tensors as its parameters, under all their names; other
    parameters need no gradient meanwhile. Raises InvalidInput if the module has put another tensor into a
    buffer, because what it remembers between batches is in no state of a task."""
    given = {id(own): parameters.get(name, own.detach()) for name, own in module.named_parameters()}
    modes = [(one, one.training) for one in module.modules()]
    places = [
        (one, name, own)
        for one in module.modules()
        for name, own in one._parameters.items()
        if own is not None
    ]
    buffers = [(one, name, own) for one in module.modules() for name, own in one._buffers.items()]
    module.eval()
    try:
        for one, name, own in places:
            one._parameters[name] = given[id(own)]  # type: ignore[assignment]
        yield
    finally:
        for one, name, own in places:
            one._parameters[name] = own
        for one, mode in modes:
            one.training = mode
        changed = [name for one, name, own in buffers if one._buffers.get(name) is not own]
        for one, name, buffer in buffers:
            one._buffers[name] = buffer
    if changed:
        raise InvalidInput(
            what="the module remembers something from batch to batch",
            expected="buffers that stay as they are",
            actual=", ".join(changed),
            remedy="Compute it from the batch, or leave it out: a task's state is W and two vectors.",
        )
