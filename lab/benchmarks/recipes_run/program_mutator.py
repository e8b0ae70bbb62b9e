"""Changes valid programs in a few places, as a hostile submitter would."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from random import Random

from touchstone.protocol.spec.program import CHUNK_TERMS, Access, Buffer, Node, Outputs, Program, Role
from touchstone.protocol.spec.program_operations import OPERAND_COUNTS, QUANTIZED_LIMITS, Operation

CHANGES = (1, 1, 1, 2, 3)
"""The number of changes in one program is drawn from these."""
NEAR = (-64, -8, -2, -1, 1, 2, 8, 64)


class ProgramMutator:
    """A stream of changed programs; the same seed gives the same ones."""

    def __init__(self, program: Program, seed: str) -> None:
        self._program, self._dice = program, Random(seed)
        self._ways: Sequence[Callable[[Program], Program]] = (
            self._change_node, self._change_node, self._change_node, self._change_node, self._swap_nodes,
            self._repeat_node, self._drop_node, self._change_buffer, self._change_outputs,
            self._change_chunk,
        )  # fmt: skip

    def make(self) -> Program:
        """Returns the next changed program."""
        program = self._program
        for _ in range(self._dice.choice(CHANGES)):
            program = self._dice.choice(self._ways)(program)
        return program

    # Nodes
    def _change_node(self, program: Program) -> Program:
        number = self._dice.randrange(len(program.nodes))
        node = program.nodes[number]
        way = self._dice.choice((
            self._change_operation, self._change_size, self._change_reduced, self._change_selected,
            self._swap_loops, self._swap_operands, self._change_output, self._change_operand,
            self._change_operand, self._change_operand,
        ))  # fmt: skip
        nodes = list(program.nodes)
        nodes[number] = way(program, node)
        return replace(program, nodes=tuple(nodes))

    def _change_operation(self, program: Program, node: Node) -> Node:
        alike = [one for one in Operation if OPERAND_COUNTS[one] == len(node.operands)]
        return replace(node, operation=self._dice.choice(alike))

    def _change_size(self, program: Program, node: Node) -> Node:
        if not node.sizes:
            return node
        sizes = list(node.sizes)
        place = self._dice.randrange(len(sizes))
        sizes[place] = max(0, sizes[place] + self._dice.choice(NEAR))
        return replace(node, sizes=tuple(sizes))

    def _change_reduced(self, program: Program, node: Node) -> Node:
        return replace(node, reduced=max(0, node.reduced + self._dice.choice((-1, 1))))

    def _change_selected(self, program: Program, node: Node) -> Node:
        return replace(node, selected=self._dice.choice((0, 1, node.selected + 1, *QUANTIZED_LIMITS)))

    def _swap_loops(self, program: Program, node: Node) -> Node:
        """Exchanges two loops of the output everywhere: the same elements in another order."""
        count = len(node.output_sizes)
        if count < 2:
            return node
        one, other = self._dice.sample(range(count), 2)

        def swap(items: tuple[int, ...]) -> tuple[int, ...]:
            found = list(items)
            found[one], found[other] = found[other], found[one]
            return tuple(found)

        def turn(access: Access) -> Access:
            return replace(access, strides=swap(access.strides))

        operands = tuple(map(turn, node.operands))
        return replace(node, sizes=swap(node.sizes), output=turn(node.output), operands=operands)

    def _swap_operands(self, program: Program, node: Node) -> Node:
        operands = list(node.operands)
        self._dice.shuffle(operands)
        return replace(node, operands=tuple(operands))

    def _change_output(self, program: Program, node: Node) -> Node:
        return replace(node, output=self._change_access(program, node.output))

    def _change_operand(self, program: Program, node: Node) -> Node:
        operands = list(node.operands)
        place = self._dice.randrange(len(operands))
        operands[place] = self._change_access(program, operands[place])
        return replace(node, operands=tuple(operands))

    def _change_access(self, program: Program, access: Access) -> Access:
        way = self._dice.randrange(5)
        if way == 0:
            return replace(access, offset=access.offset + self._dice.choice(NEAR))
        if way == 1 and access.strides:
            strides = list(access.strides)
            place = self._dice.randrange(len(strides))
            strides[place] = self._dice.choice((0, 1, strides[place] + self._dice.choice(NEAR)))
            return replace(access, strides=tuple(strides))
        if way == 2:
            return replace(access, buffer=self._dice.randrange(len(program.buffers)))
        # Another buffer of the same kind and length: most often a valid program.
        own = program.buffers[access.buffer]
        alike = [n for n, one in enumerate(program.buffers) if (one.role, one.size) == (own.role, own.size)]
        return replace(access, buffer=self._dice.choice(alike))

    # Programs
    def _swap_nodes(self, program: Program) -> Program:
        nodes = list(program.nodes)
        place = self._dice.randrange(len(nodes) - 1)
        nodes[place], nodes[place + 1] = nodes[place + 1], nodes[place]
        return replace(program, nodes=tuple(nodes))

    def _repeat_node(self, program: Program) -> Program:
        nodes = list(program.nodes)
        nodes.insert(self._dice.randrange(len(nodes)), self._dice.choice(nodes))
        return replace(program, nodes=tuple(nodes))

    def _drop_node(self, program: Program) -> Program:
        place = self._dice.randrange(len(program.nodes))
        return replace(program, nodes=program.nodes[:place] + program.nodes[place + 1 :])

    def _change_buffer(self, program: Program) -> Program:
        buffers = list(program.buffers)
        place = self._dice.randrange(len(buffers))
        own = buffers[place]
        if self._dice.random() < 0.5:
            buffers[place] = replace(own, size=max(0, own.size + self._dice.choice(NEAR)))
        else:
            role = self._dice.choice(list(Role))
            buffers[place] = Buffer(role, own.size, own.constant_root)
        return replace(program, buffers=tuple(buffers))

    def _change_outputs(self, program: Program) -> Program:
        found = program.outputs
        results = [found.loss, found.weights, found.first_moment, found.second_moment]
        results[self._dice.randrange(4)] = self._dice.randrange(len(program.buffers))
        return replace(program, outputs=Outputs(*results))

    def _change_chunk(self, program: Program) -> Program:
        return replace(program, chunk_terms=self._dice.choice((*CHUNK_TERMS, 64, 1024)))
