"""Finds when the tensors of a program are first written, last written and last used."""

from dataclasses import dataclass, replace

from touchstone.protocol.spec.program import Program


@dataclass(frozen=True)
class Lifetime:
    """The numbers of the nodes that first write, last write and last use a tensor."""

    first: int
    written: int
    last: int


def compute_lifetimes(program: Program) -> dict[int, Lifetime]:
    """Returns the lifetime of every tensor. The outputs live to the end."""
    lifetimes: dict[int, Lifetime] = {}
    for number, node in enumerate(program.nodes):
        for access in node.operands:
            if access.buffer in lifetimes:
                lifetimes[access.buffer] = replace(lifetimes[access.buffer], last=number)
        own = lifetimes.get(node.output.buffer, Lifetime(number, number, number))
        lifetimes[node.output.buffer] = replace(own, written=number, last=number)
    outputs = program.outputs
    results = {outputs.loss, outputs.weights, outputs.first_moment, outputs.second_moment}
    # A program for the loss alone returns W, m and v unchanged, which are inputs.
    for buffer in results & lifetimes.keys():
        lifetimes[buffer] = replace(lifetimes[buffer], last=len(program.nodes))
    return lifetimes


def list_written(program: Program) -> dict[int, list[int]]:
    """Returns, for each node, the tensors that are complete once it is computed."""
    written: dict[int, list[int]] = {}
    for buffer, lifetime in compute_lifetimes(program).items():
        written.setdefault(lifetime.written, []).append(buffer)
    return written


def join_lifetimes(program: Program, other: Program) -> dict[int, Lifetime]:
    """Returns the lifetimes of a program's tensors if each node may also read what the node of the same
    number in another program reads."""
    lifetimes = compute_lifetimes(program)
    for buffer, life in compute_lifetimes(other).items():
        lifetimes[buffer] = replace(lifetimes[buffer], last=max(lifetimes[buffer].last, life.last))
    return lifetimes
